package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// Adjustment adds units to a live stock or withdraws them.
type Adjustment struct {
	ID         string
	ActivityID string
	SKUID      string
	Delta      int64
	Reason     string
	State      string // intent, applied or refused
	Decision   string // "", taken or refused: whether the stock in the database contains it
	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time

	ResumeAt      *time.Time // when the sweep tries it again; nil before the first failed attempt
	ResumeAttempt int        // failed attempts of the sweep
}

// States and decisions of adjustments.
const (
	AdjustmentIntent  = "intent"
	AdjustmentApplied = "applied"
	AdjustmentRefused = "refused"
	DecisionTaken     = "taken"
	DecisionRefused   = "refused"
)

// AdjustmentRequest is a merchant's request for an adjustment.
type AdjustmentRequest struct {
	ActivityID, SKUID string
	Delta             int64
	Reason            string
	Key               IdempotencyKey
}

// AdjustStock adds units to a live stock or withdraws them. It writes the intent first. So if the process dies
// between two steps, sweep.Adjustments resumes the adjustment. A repeated key runs all steps again, and each of them
// counts once. A key never returns an adjustment of another merchant: the activity is looked up first.
//
// A top-up is written into the database, then into the gate. A withdrawal is taken from the gate, which may have too
// few units left; then from the database, which may have too few too; then from the gate again without the condition,
// since the gate may have been rebuilt in between from a stock without it. The decision of the database is final.
func (s *Service) AdjustStock(ctx context.Context, by Caller, r AdjustmentRequest) (*Adjustment, error) {
	switch {
	case !contract.ValidID(r.SKUID):
		return nil, contract.InvalidField("sku_id", "not an id")
	case r.Delta == 0 || r.Delta < -contract.MaxStock || r.Delta > contract.MaxStock:
		return nil, contract.InvalidField("delta", "must be -100000000 to 100000000 and not 0")
	case !validText(r.Reason):
		return nil, contract.InvalidField("reason", "must have 1 to 200 characters, not only white space")
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.store.BeginAdjustment(ctx, by.Scope(), r.Key, Adjustment{
		ActivityID: r.ActivityID, SKUID: r.SKUID, Delta: r.Delta, Reason: r.Reason, State: AdjustmentIntent,
		CreatedBy: by.UserID, CreatedAt: now, UpdatedAt: now,
	}, Change{
		At: now, Who: by.UserID, Role: by.role(), Action: "stock.adjust", Object: "activity", ObjectID: r.ActivityID,
		Detail: map[string]any{"sku_id": r.SKUID, "delta": r.Delta, "reason": r.Reason},
	}, func(act *Activity) error {
		if act.State == ActivityDraft {
			return contract.Refuse(contract.CodeStateConflict, "the activity is a draft: change its items instead")
		}
		if _, ended := act.EndedSince(now); ended {
			return contract.Refuse(contract.CodeActivityEnded, "the activity has ended")
		}
		it := act.Item(r.SKUID)
		if it == nil {
			return contract.InvalidField("sku_id", "is not sold in this activity")
		}
		if it.Total+r.Delta > contract.MaxStock {
			return contract.InvalidField("delta", "the stock would exceed 100000000")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	a, err = s.ResumeAdjustment(ctx, *a)
	if err != nil && r.Delta < 0 { // a withdrawal may be undecided
		return nil, gateUnreachable(err)
	}
	if err != nil {
		return nil, gateRefusal(err)
	}
	if a.State == AdjustmentRefused {
		return nil, contract.Refuse(contract.CodeInsufficientStock, "too few units are left to withdraw")
	}
	return a, nil
}

// refusedByGate takes the units of a withdrawal out of the gate, and reports whether the gate refuses that. During an
// import it fails with ErrImporting: the units may belong to orders that the import brings back. If an epoch is drawn
// afterwards, DecideAdjustment fails, and the import drops what the gate has given up. A withdrawal that the gate has
// undone was refused by the database, which has lost that decision in a restore: it is refused again.
func (s *Service) refusedByGate(ctx context.Context, a Adjustment) (bool, error) {
	if err := s.guard.MayClose(ctx, a.ActivityID); err != nil {
		return false, err
	}
	err := s.Gates.fillIfAbsent(ctx, a.ActivityID, func() error { return s.gate.Adjust(ctx, a.ActivityID, a, false) })
	if errors.Is(err, ErrGateInsufficient) || errors.Is(err, ErrGateDecided) {
		return true, nil
	}
	return false, err
}

// ResumeAdjustment runs the remaining steps of an adjustment. A withdrawal that is not decided fails with ErrImporting
// while an import of its activity is not complete. An addition may go on: the units that it adds belong to no order, and
// RenewEpoch reads the additions under the locks under which they are decided.
func (s *Service) ResumeAdjustment(ctx context.Context, a Adjustment) (*Adjustment, error) {
	if a.Decision == "" {
		refuse := false
		if a.Delta < 0 {
			var err error
			if refuse, err = s.refusedByGate(ctx, a); err != nil {
				return nil, err
			}
		}
		now, err := s.store.Now(ctx)
		if err != nil {
			return nil, err
		}
		decided, err := s.store.DecideAdjustment(ctx, a.ID, refuse, now)
		if err != nil {
			return nil, err
		}
		a = *decided
	}
	send := func() error { return s.Gates.SendAdjustment(ctx, a) }
	if err := s.Gates.fillIfAbsent(ctx, a.ActivityID, send); err != nil {
		return nil, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	done, err := s.store.FinishAdjustment(ctx, a.ID, now)
	if err != nil {
		return nil, err
	}
	if a.Decision == DecisionTaken {
		s.Gates.showSale(ctx, a.ActivityID)
	}
	return done, nil
}
