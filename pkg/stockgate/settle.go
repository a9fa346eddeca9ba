package stockgate

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

// Step is how far the ledger or the order says that a purchase has come.
type Step string

// The steps of a purchase that hold its pieces.
const (
	StepLanded  Step = "landed"  // in the ledger; its buyer is still told queued
	StepCreated Step = "created" // has an order, to be paid until ExpiresAt
	StepPaid    Step = "paid"
)

// stage is how scripts know the step.
func (s Step) stage() (string, error) {
	switch s {
	case StepLanded:
		return stageLanded, nil
	case StepCreated:
		return stageCreated, nil
	case StepPaid:
		return stagePaid, nil
	}
	return "", fmt.Errorf("stockgate: step %q is unknown", s)
}

// Settlement is what the ledger says of a purchase that holds its pieces.
type Settlement struct {
	OrderSN   string
	UserID    string
	Lines     []Line
	Step      Step
	ExpiresAt time.Time // of StepCreated
}

// Ending is what the ledger says of a purchase that holds its pieces no more.
type Ending struct {
	OrderSN string
	UserID  string
	Lines   []Line
	Reason  string // 1 to 32 of a-z 0-9 _ -
}

// batchSize bounds the items of one script call, and so for how long it holds Redis up (about a millisecond).
const batchSize = 256

// Settle raises purchases to what the ledger says. An entry that is as far or further, and one that has ended, stays as it
// is. An order_sn that the gate does not know is adopted: its pieces are taken, whatever is left. An entry whose buyer or
// lines differ from the ledger's is corrected. Any number of items, 256 to a script call; after an error some may be
// settled and others not, and the whole call may be repeated. O(items).
func (g *Gate) Settle(ctx context.Context, ref contract.GateRef, items []Settlement) error {
	args := make([]any, 0, 5*len(items))
	for _, s := range items {
		if err := validatePurchase(s.OrderSN, s.UserID, s.Lines); err != nil {
			return err
		}
		stage, err := s.Step.stage()
		if err != nil {
			return err
		}
		expires := ""
		if s.Step == StepCreated {
			expires = encodeTime(s.ExpiresAt)
		}
		args = append(args, s.OrderSN, s.UserID, encodeLines(s.Lines), stage, expires)
	}
	return g.runBatches(ctx, scriptSettle, ref, 5, args)
}

// Release gives the pieces and the allowance of purchases back, each exactly once, and tells their buyers closed with the
// reason. It gives back what the gate took, also if the Ending's lines differ. An entry that has ended stays as it is, and
// so does a paid one unless the reason is contract.ReasonRefunded. For an order_sn that the gate does not know it gives nothing back
// and writes the terminal entry, so that neither a late Settle nor a late Reserve takes pieces for it. Batches, repetition
// and cost as in Settle.
func (g *Gate) Release(ctx context.Context, ref contract.GateRef, items []Ending) error {
	return g.end(ctx, scriptRelease, ref, items)
}

// Drop is Release for what the ledger refused: the buyer is told failed with the reason. An entry that was told created
// becomes closed instead, as a told outcome never changes sides. A paid entry stays as it is whatever the reason.
func (g *Gate) Drop(ctx context.Context, ref contract.GateRef, items []Ending) error {
	return g.end(ctx, scriptDrop, ref, items)
}

func (g *Gate) end(ctx context.Context, s *script, ref contract.GateRef, items []Ending) error {
	args := make([]any, 0, 4*len(items))
	for _, e := range items {
		if err := validatePurchase(e.OrderSN, e.UserID, e.Lines); err != nil {
			return err
		}
		if err := validateReason(e.OrderSN, e.Reason); err != nil {
			return err
		}
		args = append(args, e.OrderSN, e.UserID, encodeLines(e.Lines), e.Reason)
	}
	return g.runBatches(ctx, s, ref, 4, args)
}
