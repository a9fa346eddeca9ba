package stockgate

import (
	"context"
	"fmt"
	"time"
)

// Step is the state of a purchase in the ledger, while it holds units.
type Step string

// The steps of a purchase.
const (
	StepLanded  Step = "landed"  // in the ledger; its buyer still sees queued
	StepCreated Step = "created" // has an order, which must be paid before ExpiresAt
	StepPaid    Step = "paid"
)

// stage returns the stage of a stored entry at this step.
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

// Settlement is the ledger's state of a purchase that holds units.
type Settlement struct {
	OrderSN   string
	UserID    string
	Lines     []Line
	Step      Step
	ExpiresAt time.Time // of StepCreated
}

// Ending is the ledger's state of a purchase that ended: it was released or rejected.
type Ending struct {
	OrderSN string
	UserID  string
	Lines   []Line
	Reason  string // 1 to 32 of a-z 0-9 _ -
}

// batchSize bounds the items of one script call, and thereby the time for which it blocks Redis (about 1 ms).
const batchSize = 256

// Settle raises purchases to the state of the ledger. An entry that is as far or further stays as it is, and so does
// one that has ended. An order_sn that the gate does not have is adopted: its units are taken, even below 0. An entry
// whose buyer or lines differ from the ledger's is corrected. It takes any number of items, 256 to a script call.
// After an error some items may be settled, and the whole call may be repeated. O(items).
func (g *Gate) Settle(ctx context.Context, activityID string, items []Settlement) error {
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
	return g.runBatches(ctx, scriptSettle, activityID, 5, args)
}

// Release ends purchases: it restores their units and the buyers' allowance, each exactly once, and sets the status
// closed with the reason. It restores the units that the gate took, also if the Ending has other lines. An entry that
// has ended stays as it is, and so does a paid one unless the reason is contract.ReasonRefunded. For an order_sn that
// the gate does not have it restores nothing and writes the terminal entry, so that neither a late Settle nor a late
// Reserve takes units for it. Batches, repetition and cost are as in Settle.
func (g *Gate) Release(ctx context.Context, activityID string, items []Ending) error {
	return g.end(ctx, scriptRelease, activityID, items)
}

// Drop is Release for purchases that the ledger rejected: it sets the status failed with the reason. A created entry
// becomes closed instead, because its buyer has seen that there was an order. A paid entry stays as it is, whatever the
// reason.
func (g *Gate) Drop(ctx context.Context, activityID string, items []Ending) error {
	return g.end(ctx, scriptDrop, activityID, items)
}

func (g *Gate) end(ctx context.Context, s *script, activityID string, items []Ending) error {
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
	return g.runBatches(ctx, s, activityID, 4, args)
}
