package cli

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/internal/demo"
)

// demoTimeout bounds a demo, which takes half a minute.
const demoTimeout = 3 * time.Minute

type demoCmd struct {
	Merchant  []merchantID  `default:"demo-1,demo-2" help:"Ids of the two merchants that sell side by side."`
	Units     int           `default:"100" help:"Units on sale by the first merchant; an even number."`
	Buyers    int           `default:"2000" help:"Buyers of its first wave, at least twice as many as units."`
	PayWithin time.Duration `default:"12s" help:"Pay window in whole seconds."`
	Width     int           `default:"200" help:"Concurrent calls for one sale."`
}

// Validate is called by kong.
func (c *demoCmd) Validate() error {
	switch {
	case len(c.Merchant) != 2 || c.Merchant[0] == c.Merchant[1]:
		return fmt.Errorf("%v are not two different merchants", c.Merchant)
	case c.Units < 2 || c.Units%2 != 0:
		return fmt.Errorf("%d units are not an even number of at least 2", c.Units)
	case c.Buyers < 2*c.Units:
		return fmt.Errorf("%d buyers are fewer than two for each of the %d units", c.Buyers, c.Units)
	case c.PayWithin < time.Second || c.PayWithin%time.Second != 0:
		return fmt.Errorf("a pay window of %s is not whole seconds", c.PayWithin)
	case c.Width < 1:
		return fmt.Errorf("%d concurrent calls", c.Width)
	}
	return nil
}

func (c *demoCmd) Run(e env) error {
	cl, err := e.connect(client.Options{Connections: 2 * c.Width})
	if err != nil {
		return err
	}
	defer cl.Close()
	plan := demo.Default()
	plan.PayWithin, plan.Width = c.PayWithin, c.Width
	plan.Sales[0].Units, plan.Sales[0].Buyers = c.Units, c.Buyers
	for i, m := range c.Merchant {
		plan.Sales[i].Merchant = string(m)
	}
	ctx, cancel := context.WithTimeout(e.ctx, demoTimeout)
	defer cancel()
	began := time.Now()
	report, err := demo.Run(ctx, cl, plan, e.out)
	fmt.Fprintln(e.out)
	if perr := report.Print(e.out); perr != nil {
		return perr
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "\nevery count is right, in %s\n", time.Since(began).Round(100*time.Millisecond))
	return err
}
