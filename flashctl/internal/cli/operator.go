package cli

import (
	"encoding/json"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
)

type deadLettersCmd struct {
	List   deadLettersListCmd   `cmd:"" help:"List all dead letters, one JSON document a line."`
	Replay deadLettersReplayCmd `cmd:"" help:"Send a dead letter to its topic again."`
	Reject deadLettersRejectCmd `cmd:"" help:"Release the units of a dead letter; its purchase fails."`
}

type deadLettersListCmd struct{ merchantFlag }

func (c *deadLettersListCmd) Run(e env) error {
	o, err := e.as(c.caller(auth.Operator))
	if err != nil {
		return err
	}
	defer o.Close()
	deadLetters, err := o.DeadLetters(e.ctx, string(c.Merchant))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(e.out)
	for _, l := range deadLetters {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

type deadLetterArg struct {
	ID string `arg:"" help:"Id of the dead letter."`
}

func (c deadLetterArg) resolve(e env, action string) error {
	return operate(e, func(o *client.Caller) error { return o.ResolveDeadLetter(e.ctx, c.ID, action) })
}

type (
	deadLettersReplayCmd struct{ deadLetterArg }
	deadLettersRejectCmd struct{ deadLetterArg }
)

func (c *deadLettersReplayCmd) Run(e env) error { return c.resolve(e, "replay") }
func (c *deadLettersRejectCmd) Run(e env) error { return c.resolve(e, "reject") }
