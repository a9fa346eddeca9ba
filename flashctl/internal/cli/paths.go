package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/flashctl/internal/load"
	"flashsale.internal/pkg/auth"
)

type pathsCmd struct {
	merchantFlag
	Activity string        `help:"Id of the sale; a new sale by default."`
	Rate     float64       `default:"5000" help:"Calls a second (open loop)."`
	For      time.Duration `default:"20s" help:"Duration."`
	Users    int           `default:"5000" help:"Distinct users, used in turn."`
	Conns    int           `default:"2500" help:"Bound of the calls in flight, those that wait included."`
	Stock    int64         `default:"1000000" help:"Units of the new sale."`
	Buy      bool          `default:"true" negatable:"" help:"Make a purchase with each path at once."`
	JSON     bool          `name:"json" help:"Print the report as JSON."`
}

// Validate is called by kong.
func (c *pathsCmd) Validate() error {
	if c.Rate <= 0 || c.For <= 0 || c.Users < 1 || c.Conns < 1 {
		return fmt.Errorf("%g calls a second for %s by %d users over %d connections", c.Rate, c.For, c.Users, c.Conns)
	}
	return nil
}

// maxPerUser is the limit for each user of the new sale; each user buys many times.
const maxPerUser = 1600

func (c *pathsCmd) Run(e env) (err error) {
	cl, err := e.connect(client.Options{})
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
		if c.Activity, err = newLoadSale(e, m, c.Stock, 15*time.Minute, maxPerUser); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, endSale(e, m, c.Activity)) }()
	}
	sale, err := m.Activity(e.ctx, c.Activity)
	if err != nil {
		return err
	}
	buyers, err := purchase.NewBuyers(e.ctx, cl, c.Users)
	if err != nil {
		return err
	}
	origin, err := url.Parse(cl.Origins().Seckill)
	if err != nil {
		return err
	}
	p := load.Paths{
		Addr: origin.Host, ActivityID: c.Activity, Rate: c.Rate, For: c.For, Conns: c.Conns,
		Tokens: make([]string, len(buyers)),
	}
	for i, b := range buyers {
		p.Tokens[i] = b.Token()
	}
	if c.Buy && len(sale.Items) > 0 {
		p.Body = `{"lines":[{"sku_id":"` + sale.Items[0].SKUID + `","qty":1}]}`
	}
	report, err := p.Run(e.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(e.out).Encode(report)
	}
	return printPaths(e.out, c.Activity, report)
}

func printPaths(w io.Writer, activityID string, r load.PathsResult) error {
	fmt.Fprintf(w, "activity %s: %d calls in %s\n", activityID, r.Calls, r.Took.Round(time.Millisecond))
	for _, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(w, "  %-24s %8d\n", o, r.Outcomes[o])
	}
	fmt.Fprintf(w, "paths in each second  %v\n", r.PerSec)
	fmt.Fprintf(w, "sent late  %s\n", r.Late)
	fmt.Fprintf(w, "path       %s\n", r.Given)
	fmt.Fprintf(w, "refusal    %s\n", r.Refused)
	for _, s := range slices.Sorted(maps.Keys(r.RetryAfter)) {
		fmt.Fprintf(w, "  Retry-After %-12d %8d\n", s, r.RetryAfter[s])
	}
	if len(r.Purchases) > 0 {
		fmt.Fprintf(w, "purchase   %s\n", r.Purchase)
		for _, o := range slices.Sorted(maps.Keys(r.Purchases)) {
			fmt.Fprintf(w, "  %-24s %8d\n", o, r.Purchases[o])
		}
	}
	if r.Failed > 0 {
		fmt.Fprintf(w, "failed     %d, for example: %s\n", r.Failed, r.Example)
	}
	if r.BadCount > 0 {
		return fmt.Errorf("%d refusals have wrong fields, for example: %s", r.BadCount, r.BadFields)
	}
	return nil
}
