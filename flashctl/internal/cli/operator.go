package cli

import (
	"encoding/json"

	"flashsale.internal/pkg/auth"
)

type deadLettersCmd struct {
	List   deadLettersListCmd   `cmd:"" help:"All of them, one JSON document a line."`
	Replay deadLettersReplayCmd `cmd:"" help:"Send it where it was going."`
	Reject deadLettersRejectCmd `cmd:"" help:"Give the pieces back and tell the buyer that it failed."`
}

type deadLettersListCmd struct{}

func (*deadLettersListCmd) Run(e env) error {
	o, err := e.as(merchantID, auth.Operator)
	if err != nil {
		return err
	}
	defer o.Close()
	letters, err := o.DeadLetters(e.ctx)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(e.out)
	for _, l := range letters {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

type letterArg struct {
	ID string `arg:"" help:"Its id."`
}

func (a letterArg) settle(e env, what string) error {
	o, err := e.as(merchantID, auth.Operator)
	if err != nil {
		return err
	}
	defer o.Close()
	return o.ResolveDeadLetter(e.ctx, a.ID, what)
}

type (
	deadLettersReplayCmd struct{ letterArg }
	deadLettersRejectCmd struct{ letterArg }
)

func (c *deadLettersReplayCmd) Run(e env) error { return c.settle(e, "replay") }
func (c *deadLettersRejectCmd) Run(e env) error { return c.settle(e, "reject") }
