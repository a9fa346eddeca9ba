package cli

import (
	"encoding/json"

	"flashsale.internal/flashctl/client"
)

type refundsCmd struct {
	List         refundsListCmd   `cmd:"" help:"List the refunds that wait for an operator, one JSON document a line."`
	Retry        refundsRetryCmd  `cmd:"" help:"Attempt a refused refund again, unless its provider has made it."`
	SettleByHand refundsSettleCmd `cmd:"" help:"Record how the money of a refused refund was returned, unless its provider has made it."`
}

type refundsListCmd struct{}

func (*refundsListCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		list, err := o.Refunds(e.ctx)
		return e.print(list, err)
	})
}

type refundArg struct {
	ID string `arg:"" help:"Id of the refund: its payment's id."`
}

type refundsRetryCmd struct{ refundArg }

func (c *refundsRetryCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		r, err := o.RetryRefund(e.ctx, c.ID)
		return e.print([]client.Refund{r}, err)
	})
}

type refundsSettleCmd struct {
	refundArg
	Reference string `required:"" help:"Reference of the transfer, 1 to 128 characters."`
	Reason    string `required:"" help:"Why the provider did not make it, 1 to 255 characters."`
}

func (c *refundsSettleCmd) Run(e env) error {
	return operate(e, func(o *client.Caller) error {
		r, err := o.SettleRefund(e.ctx, c.ID, c.Reference, c.Reason)
		return e.print([]client.Refund{r}, err)
	})
}

// print writes the refunds, one JSON document a line, unless err is not nil, which it returns.
func (e env) print(list []client.Refund, err error) error {
	if err != nil {
		return err
	}
	enc := json.NewEncoder(e.out)
	for _, r := range list {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
