package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

type buyCmd struct {
	activityArg
	User   string        `help:"User id; a new one by default."`
	SKU    string        `help:"Id of the SKU; the first of the sale by default."`
	Qty    int64         `default:"1" help:"Units."`
	Pay    bool          `help:"Pay as well."`
	Within time.Duration `default:"60s" help:"Time to wait for the order."`
}

func (c *buyCmd) Run(e env) error {
	if c.User == "" {
		c.User = "u" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	}
	b, err := e.as(auth.Identity{UserID: c.User})
	if err != nil {
		return err
	}
	defer b.Close()
	if c.SKU == "" {
		a, err := b.Activity(e.ctx, c.Activity)
		if err != nil {
			return err
		}
		if len(a.Items) == 0 {
			return fmt.Errorf("activity %s has no items", c.Activity)
		}
		c.SKU = a.Items[0].SKUID
	}
	attempt := purchase.Buy(e.ctx, b, c.User, c.Activity, []contract.Line{{SKUID: c.SKU, Qty: c.Qty}})
	if attempt.Outcome != purchase.Accepted {
		return fmt.Errorf("purchase of %s failed, %s: %w", c.User, attempt.Outcome, attempt.Err)
	}
	fmt.Fprintf(e.out, "user %s order %s queued\n", c.User, attempt.OrderSN)
	ctx, cancel := context.WithTimeout(e.ctx, c.Within)
	defer cancel()
	r, err := c.await(ctx, b, attempt.OrderSN, func(s client.Status) bool { return s != client.Queued })
	if err != nil {
		return err
	}
	fmt.Fprintf(e.out, "user %s order %s %s %s\n", c.User, r.OrderSN, r.Status, r.Reason)
	if r.Status != client.Created || !c.Pay {
		return nil
	}
	if err := purchase.Pay(ctx, b, r.OrderSN); err != nil {
		return err
	}
	if r, err = c.await(ctx, b, attempt.OrderSN,
		func(s client.Status) bool { return s != client.Created }); err != nil {
		return err
	}
	fmt.Fprintf(e.out, "user %s order %s %s %s\n", c.User, r.OrderSN, r.Status, r.Reason)
	return nil
}

func (c *buyCmd) await(
	ctx context.Context, b *client.Caller, orderSN string, done func(client.Status) bool,
) (client.Reservation, error) {
	return purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
		return b.Reservation(ctx, c.Activity, orderSN)
	}, func(r client.Reservation) bool { return done(r.Status) })
}
