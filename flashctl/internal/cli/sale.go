package cli

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
)

// merchantID is who flashctl acts as where a role is needed; it is kept with every change.
const merchantID = "flashctl"

type saleCmd struct {
	Create  saleCreateCmd  `cmd:"" help:"Make a product and a sale of it; prints the sale's id and the SKU's."`
	Publish salePublishCmd `cmd:"" help:"Open a sale's gate."`
	Pause   salePauseCmd   `cmd:"" help:"Stop selling for a while."`
	Resume  saleResumeCmd  `cmd:"" help:"Sell again."`
	End     saleEndCmd     `cmd:"" help:"End a sale for good."`
	Watch   saleWatchCmd   `cmd:"" help:"Print a sale's stock, in the database and in the gate, until Ctrl-C."`
}

type saleCreateCmd struct {
	Title     string        `default:"A sale" help:"What buyers read."`
	Product   string        `default:"Phone" help:"Name of the product."`
	Stock     int64         `default:"100" help:"Pieces."`
	Price     int64         `default:"49900" help:"In minor units, such as cents."`
	Currency  string        `default:"EUR" help:"Three letters."`
	Limit     int64         `default:"1" help:"Pieces a user may hold."`
	StartsIn  time.Duration `default:"0s" help:"From now."`
	Lasts     time.Duration `default:"1h" help:"From its start."`
	PayWithin time.Duration `default:"15m" help:"Whole seconds, 1s to 24h."`
	Publish   bool          `help:"Publish it as well."`
}

func (c *saleCreateCmd) Run(e env) error {
	m, err := e.as(merchantID, auth.Merchant)
	if err != nil {
		return err
	}
	defer m.Close()
	sku, err := m.NewProduct(e.ctx, client.Product{Name: c.Product, ListPrice: c.Price, Currency: c.Currency})
	if err != nil {
		return err
	}
	starts := time.Now().Add(c.StartsIn)
	id, err := m.NewActivity(e.ctx, client.Draft{
		Title: c.Title, StartsAt: starts, EndsAt: starts.Add(c.Lasts),
		PerUserLimit: c.Limit, PayWithinS: int64(c.PayWithin / time.Second),
		Items: []client.Item{{SKUID: sku, Price: c.Price, Stock: c.Stock}},
	})
	if err != nil {
		return err
	}
	if c.Publish {
		if err := m.Change(e.ctx, id, "publish"); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(e.out, "activity %s sku %s\n", id, sku)
	return err
}

type activityArg struct {
	Activity string `arg:"" help:"The sale's id."`
}

// change is the body of the four commands that only differ in their verb.
func (a activityArg) change(e env, verb string) error {
	m, err := e.as(merchantID, auth.Merchant)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Change(e.ctx, a.Activity, verb)
}

type (
	salePublishCmd struct{ activityArg }
	salePauseCmd   struct{ activityArg }
	saleResumeCmd  struct{ activityArg }
	saleEndCmd     struct{ activityArg }
)

func (c *salePublishCmd) Run(e env) error { return c.change(e, "publish") }
func (c *salePauseCmd) Run(e env) error   { return c.change(e, "pause") }
func (c *saleResumeCmd) Run(e env) error  { return c.change(e, "resume") }
func (c *saleEndCmd) Run(e env) error     { return c.change(e, "end") }

type saleWatchCmd struct {
	activityArg
	Every time.Duration `default:"1s" help:"How often."`
	Once  bool          `help:"Once is enough."`
}

func (c *saleWatchCmd) Run(e env) error {
	m, err := e.as(merchantID, auth.Merchant)
	if err != nil {
		return err
	}
	defer m.Close()
	for {
		if err := c.look(e, m); err != nil || c.Once {
			return err
		}
		select {
		case <-e.ctx.Done():
			return nil
		case <-time.After(max(c.Every, 100*time.Millisecond)):
		}
	}
}

func (c *saleWatchCmd) look(e env, m *client.Caller) error {
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	view, err := m.Stock(ctx, c.Activity)
	if err != nil {
		return err
	}
	for _, s := range view.SKUs {
		if _, err := fmt.Fprintf(e.out, "%s  sku %s  %s\n", view.AsOf.Format("15:04:05.000"), s.SKUID, s); err != nil {
			return err
		}
	}
	return nil
}
