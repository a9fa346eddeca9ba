package cli

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

type saleCmd struct {
	Create    saleCreateCmd    `cmd:"" help:"Create a product and a sale of it; prints the ids of sale and SKU."`
	Duplicate saleDuplicateCmd `cmd:"" help:"Create a draft like a sale; prints its id."`
	Delete    saleDeleteCmd    `cmd:"" help:"Delete a draft."`
	Publish   salePublishCmd   `cmd:"" help:"Publish a sale."`
	Pause     salePauseCmd     `cmd:"" help:"Pause a sale."`
	Resume    saleResumeCmd    `cmd:"" help:"Resume a paused sale."`
	End       saleEndCmd       `cmd:"" help:"End a sale; it cannot be resumed."`
	Challenge saleChallengeCmd `cmd:"" help:"Change the challenge of a sale, also while it is open."`
	Watch     saleWatchCmd     `cmd:"" help:"Print a sale's stock, in the database and in the gate, until Ctrl-C."`
}

type saleCreateCmd struct {
	merchantFlag
	Title     string        `default:"A sale" help:"Title for buyers."`
	Product   string        `default:"Phone" help:"Name of the product."`
	Stock     int64         `default:"100" help:"Units."`
	Price     int64         `default:"49900" help:"In minor units, such as cents."`
	Currency  string        `default:"EUR" help:"Three letters."`
	Limit     int64         `default:"1" help:"Units that one user may hold."`
	StartsIn  time.Duration `default:"0s" help:"Time from now to the start."`
	Lasts     time.Duration `default:"1h" help:"Time from start to end."`
	PayWithin time.Duration `default:"15m" help:"Pay window in whole seconds, 1s to 24h."`
	RoomRate  int64         `help:"Places that the waiting room admits a second; 0 means no waiting room."`
	Challenge string        `help:"Challenge of buyers: none, pow, click or provider." enum:"none,pow,click,provider" default:"none"`
	Hardness  int64         `name:"challenge-difficulty" help:"Hashes, in thousands, that a proof of work takes at most; 50 by default."`
	Reorders  *int64        `help:"Orders that a user may cancel or let expire; 2 by default, 0 means any number."`
	Publish   bool          `help:"Publish it as well."`
}

func (c *saleCreateCmd) Run(e env) error {
	m, err := e.as(c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	defer m.Close()
	sku, err := m.NewProduct(e.ctx, client.Product{Name: c.Product, ListPrice: c.Price, Currency: c.Currency})
	if err != nil {
		return err
	}
	starts := time.Now().Add(c.StartsIn)
	draft := client.Draft{
		Title: c.Title, StartsAt: starts, EndsAt: starts.Add(c.Lasts),
		PerUserLimit: c.Limit, PayWithinS: int64(c.PayWithin / time.Second),
		ReorderLimit: c.Reorders,
		Items:        []client.Item{{SKUID: sku, Price: c.Price, Stock: c.Stock}},
	}
	if c.Challenge != string(contract.ChallengeNone) {
		draft.Challenge, draft.ChallengeDifficulty = contract.ChallengeKind(c.Challenge), c.Hardness
	}
	if c.RoomRate > 0 {
		draft.WaitingRoom = &client.WaitingRoom{AdmitPerSecond: c.RoomRate}
	}
	id, err := m.NewActivity(e.ctx, draft)
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
	Activity string `arg:"" help:"Id of the sale."`
}

// ownActivityArg is an activity, and the merchant that a command of "sale" acts for.
type ownActivityArg struct {
	activityArg
	merchantFlag
}

// change makes one of the four state changes; they differ in the verb only.
func (c ownActivityArg) change(e env, verb string) error {
	m, err := e.as(c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Change(e.ctx, c.Activity, verb)
}

type (
	salePublishCmd struct{ ownActivityArg }
	salePauseCmd   struct{ ownActivityArg }
	saleResumeCmd  struct{ ownActivityArg }
	saleEndCmd     struct{ ownActivityArg }
)

func (c *salePublishCmd) Run(e env) error { return c.change(e, "publish") }
func (c *salePauseCmd) Run(e env) error   { return c.change(e, "pause") }
func (c *saleResumeCmd) Run(e env) error  { return c.change(e, "resume") }
func (c *saleEndCmd) Run(e env) error     { return c.change(e, "end") }

type saleDuplicateCmd struct{ ownActivityArg }

func (c *saleDuplicateCmd) Run(e env) error {
	m, err := e.as(c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	defer m.Close()
	id, err := m.Duplicate(e.ctx, c.Activity)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "activity %s\n", id)
	return err
}

type saleDeleteCmd struct{ ownActivityArg }

func (c *saleDeleteCmd) Run(e env) error {
	m, err := e.as(c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	defer m.Close()
	return m.DeleteDraft(e.ctx, c.Activity)
}

type saleChallengeCmd struct {
	ownActivityArg
	Kind       string `arg:"" help:"none, pow, click or provider." enum:"none,pow,click,provider"`
	Difficulty int64  `help:"Hashes, in thousands, that a proof of work takes at most; unchanged by default."`
}

func (c *saleChallengeCmd) Run(e env) error {
	m, err := e.as(c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	defer m.Close()
	return m.SetChallenge(e.ctx, c.Activity, contract.ChallengeKind(c.Kind), c.Difficulty)
}

type saleWatchCmd struct {
	ownActivityArg
	Every time.Duration `default:"1s" help:"Interval."`
	Once  bool          `help:"Print once and exit."`
}

func (c *saleWatchCmd) Run(e env) error {
	m, err := e.as(c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	defer m.Close()
	for {
		if err := c.print(e, m); err != nil || c.Once {
			return err
		}
		select {
		case <-e.ctx.Done():
			return nil
		case <-time.After(max(c.Every, 100*time.Millisecond)):
		}
	}
}

func (c *saleWatchCmd) print(e env, m *client.Caller) error {
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
