package cli

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/internal/demo"
)

// A demo takes half a minute; one that hangs is wrong as well.
const demoAtMost = 3 * time.Minute

type demoCmd struct {
	Pieces    int           `default:"100" help:"On sale; an even number."`
	Buyers    int           `default:"2000" help:"In the first wave, at least twice as many as pieces."`
	PayWithin time.Duration `default:"12s" help:"Whole seconds."`
	Width     int           `default:"200" help:"Calls at a time."`
}

// Validate is called by kong.
func (c *demoCmd) Validate() error {
	switch {
	case c.Pieces < 2 || c.Pieces%2 != 0:
		return fmt.Errorf("%d pieces cannot be halved", c.Pieces)
	case c.Buyers < 2*c.Pieces:
		return fmt.Errorf("%d buyers are fewer than two for each of the %d pieces", c.Buyers, c.Pieces)
	case c.PayWithin < time.Second || c.PayWithin%time.Second != 0:
		return fmt.Errorf("a pay window of %s is not whole seconds", c.PayWithin)
	case c.Width < 1:
		return fmt.Errorf("%d calls at a time", c.Width)
	}
	return nil
}

func (c *demoCmd) Run(e env) error {
	cl, err := e.connect(client.Options{Connections: c.Width})
	if err != nil {
		return err
	}
	defer cl.Close()
	plan := demo.Default()
	plan.Pieces, plan.Buyers, plan.PayWithin, plan.Width = c.Pieces, c.Buyers, c.PayWithin, c.Width
	ctx, cancel := context.WithTimeout(e.ctx, demoAtMost)
	defer cancel()
	began := time.Now()
	table, err := demo.Run(ctx, cl, plan, e.out)
	fmt.Fprintln(e.out)
	if perr := table.Print(e.out); perr != nil {
		return perr
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "\nevery count is right, in %s\n", time.Since(began).Round(100*time.Millisecond))
	return err
}
