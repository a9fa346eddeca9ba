package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/flashctl/internal/load"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

type loadCmd struct {
	Buyers buyersCmd `cmd:"" default:"withargs" help:"Make distinct buyers buy, each from the path to the order."`
	Paths  pathsCmd  `cmd:"" help:"Call the path route at a fixed rate, whatever the responses, to measure its limits."`
	Storm  stormCmd  `cmd:"" help:"Begin many new connections within a second, as at the start of a sale."`
	Bench  benchCmd  `cmd:"" help:"Run all measurements; make bench starts the system for it."`
	Bare   bareCmd   `cmd:"" help:"Serve the bare handler that bench compares with."`

	StormPart stormPartCmd `cmd:"" hidden:"" help:"Run a part of a storm; load storm starts it."`
}

type buyersCmd struct {
	merchantFlag
	Activity  string        `help:"Id of the sale; a new sale by default."`
	Stock     int64         `default:"1000" help:"Units of the new sale."`
	PayWithin time.Duration `default:"15m" help:"Pay window of the new sale."`
	Buyers    int           `default:"10000" help:"Distinct users, one attempt each."`
	Width     int           `default:"200" help:"Concurrent buyers; with --rate their bound."`
	Rate      float64       `help:"Buyers that begin each second, whether or not earlier ones have ended (open loop)."`
	Follow    time.Duration `default:"60s" help:"Wait for accepted purchases to become orders; 0 means not to wait."`
	NoRetry   bool          `help:"Count 429, 503 and time-outs instead of retrying."`
	JSON      bool          `name:"json" help:"Print the report as JSON."`
}

// Validate is called by kong.
func (c *buyersCmd) Validate() error {
	if c.Buyers < 1 || c.Width < 1 || c.Rate < 0 {
		return fmt.Errorf("%d buyers, %d at a time, %g a second", c.Buyers, c.Width, c.Rate)
	}
	return nil
}

func (c *buyersCmd) Run(e env) (err error) {
	opts := client.Options{Connections: c.Width}
	if c.NoRetry {
		opts.Attempts = 1
	}
	cl, err := e.connect(opts)
	if err != nil {
		return err
	}
	defer cl.Close()
	token, err := cl.TokenFor(e.ctx, c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	m := cl.As(token)
	if c.Activity == "" {
		if c.Activity, err = newLoadSale(e, m, c.Stock, c.PayWithin, 1); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, endSale(e, m, c.Activity)) }()
	}
	sale, err := m.Activity(e.ctx, c.Activity)
	if err != nil {
		return err
	}
	if len(sale.Items) == 0 {
		return fmt.Errorf("activity %s has no items", c.Activity)
	}
	buyers, err := purchase.NewBuyers(e.ctx, cl, c.Buyers)
	if err != nil {
		return err
	}
	report, err := load.Run(e.ctx, buyers, load.Plan{
		ActivityID: c.Activity, Lines: []contract.Line{{SKUID: sale.Items[0].SKUID, Qty: 1}},
		Width: c.Width, Rate: c.Rate, Follow: c.Follow,
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(e.out).Encode(report)
	}
	printReport(e.out, c.Activity, report)
	return nil
}

func newLoadSale(e env, m *client.Caller, stock int64, payWithin time.Duration, perUser int64) (string, error) {
	sku, err := m.NewProduct(e.ctx, client.Product{Name: "Load phone", ListPrice: 49900, Currency: "EUR"})
	if err != nil {
		return "", err
	}
	now := time.Now()
	id, err := m.NewActivity(e.ctx, client.Draft{
		Title: "Load", StartsAt: now, EndsAt: now.Add(24 * time.Hour), PerUserLimit: perUser,
		PayWithinS: int64(payWithin / time.Second),
		Items:      []client.Item{{SKUID: sku, Price: 49900, Stock: stock}},
	})
	if err != nil {
		return "", err
	}
	return id, m.Change(e.ctx, id, "publish")
}

// endSale ends a sale of newLoadSale, also after an interrupt: sales that have not ended count for the quota of their
// merchant.
func endSale(e env, m *client.Caller, activityID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), 10*time.Second)
	defer cancel()
	if err := m.Change(ctx, activityID, "end"); err != nil {
		return fmt.Errorf("end sale %s: %w", activityID, err)
	}
	return nil
}

func printReport(w io.Writer, activityID string, r load.Report) {
	fmt.Fprintf(w, "activity %s: %d buyers in %s, %.0f/s\n", activityID, r.Buyers, r.Took.Round(time.Millisecond),
		r.PerSec)
	for _, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(w, "  %-20s %8d  %s\n", o, r.Outcomes[o], r.Example[o])
	}
	fmt.Fprintf(w, "attempt  %s\n", r.Whole)
	fmt.Fprintf(w, "path     %s\n", r.Path)
	fmt.Fprintf(w, "reserve  %s\n", r.Reserve)
	if r.Order.Count > 0 || r.Unknown > 0 {
		fmt.Fprintf(w, "order    %s\n", r.Order)
		for _, s := range slices.Sorted(maps.Keys(r.Results)) {
			fmt.Fprintf(w, "  %-20s %8d\n", s, r.Results[s])
		}
		if r.Unknown > 0 {
			fmt.Fprintf(w, "  %-20s %8d\n", "still queued", r.Unknown)
		}
	}
}
