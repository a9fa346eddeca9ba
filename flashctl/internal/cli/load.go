package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
)

type loadCmd struct {
	Buyers buyersCmd `cmd:"" default:"withargs" help:"Make distinct buyers buy, each from the path to the order."`
	Paths  pathsCmd  `cmd:"" help:"Call the path route at a fixed rate, whatever the responses, to measure its limits."`
	Storm  stormCmd  `cmd:"" help:"Begin many new connections within a second, as at the start of a sale."`

	StormPart stormPartCmd `cmd:"" hidden:"" help:"Run a part of a storm; load storm starts it."`
}

// loadFlags are the flags of every load test.
type loadFlags struct {
	merchantFlag
	Activity string `help:"Id of the sale; a new sale by default."`
	JSON     bool   `name:"json" help:"Print the report as JSON."`
}

// loadTest is a load test in a sale.
type loadTest struct {
	stock     int64 // of a new sale
	payWithin time.Duration
	perUser   int64
	users     int
	// run makes the test with these users. sku is an SKU of the sale, "" if it has none.
	run func(activityID, sku string, buyers []purchase.Buyer) (load.Report, error)
}

// test makes a load test in the sale of --activity or in a new one, which it ends, and prints the report.
func (f *loadFlags) test(e env, cl *client.Client, t loadTest) (report load.Report, err error) {
	token, err := cl.TokenFor(e.ctx, f.caller(auth.Merchant))
	if err != nil {
		return report, err
	}
	m, id := cl.As(token), f.Activity
	if id == "" {
		if id, err = t.newSale(e.ctx, m); err != nil {
			return report, err
		}
		defer func() { err = errors.Join(err, endSale(e, m, id)) }()
	}
	sale, err := m.Activity(e.ctx, id)
	if err != nil {
		return report, err
	}
	sku := ""
	if len(sale.Items) > 0 {
		sku = sale.Items[0].SKUID
	}
	buyers, err := purchase.NewBuyers(e.ctx, cl, t.users)
	if err != nil {
		return report, err
	}
	if report, err = t.run(id, sku, buyers); err != nil {
		return report, err
	}
	report.ActivityID = id
	report.Sum()
	if f.JSON {
		return report, json.NewEncoder(e.out).Encode(report)
	}
	report.Print(e.out)
	return report, nil
}

func (t *loadTest) newSale(ctx context.Context, m *client.Caller) (string, error) {
	sku, err := m.NewProduct(ctx, client.Product{Name: "Load phone", ListPrice: 49900, Currency: "EUR"})
	if err != nil {
		return "", err
	}
	now := time.Now()
	id, err := m.NewActivity(ctx, client.Draft{
		Title: "Load", StartsAt: now, EndsAt: now.Add(24 * time.Hour), PerUserLimit: t.perUser,
		PayWithinS: int64(t.payWithin / time.Second),
		Items:      []client.Item{{SKUID: sku, Price: 49900, Stock: t.stock}},
	})
	if err != nil {
		return "", err
	}
	return id, m.Change(ctx, id, "publish")
}

// endSale ends a new sale, also after an interrupt: sales that have not ended count for the quota of their merchant.
func endSale(e env, m *client.Caller, activityID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), 10*time.Second)
	defer cancel()
	if err := m.Change(ctx, activityID, "end"); err != nil {
		return fmt.Errorf("end sale %s: %w", activityID, err)
	}
	return nil
}
