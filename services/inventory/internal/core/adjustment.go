package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// Adjustment adds pieces to a live stock or withdraws them.
type Adjustment struct {
	ID         string
	ActivityID string
	SKUID      string
	Delta      int64
	Reason     string
	State      string // intent, applied or refused
	Decision   string // "", taken or refused: what the figures in the database say
	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// States and decisions of adjustments.
const (
	AdjustmentIntent  = "intent"
	AdjustmentApplied = "applied"
	AdjustmentRefused = "refused"
	DecisionTaken     = "taken"
	DecisionRefused   = "refused"
)

// AdjustmentRequest is what a merchant asks for.
type AdjustmentRequest struct {
	ActivityID, SKUID string
	Delta             int64
	Reason            string
	Key               IdempotencyKey
}

// AdjustStock adds pieces to a live stock or withdraws them. The intent is written first, so an instance that dies between
// any two steps leaves something that is resumed; a repeated key runs all steps again, and each of them counts once.
//
// A top-up goes to the database, then to the gate. A withdrawal goes to the gate, which may not have so many left; then
// to the database, which may not either; then to the gate again without the condition, since the gate may have been
// rebuilt in between from figures that did not contain it. What the database decided is final.
func (s *Service) AdjustStock(ctx context.Context, who string, r AdjustmentRequest) (*Adjustment, error) {
	switch {
	case !contract.ValidID(r.SKUID):
		return nil, contract.InvalidField("sku_id", "not an id")
	case r.Delta == 0 || r.Delta < -contract.MaxStock || r.Delta > contract.MaxStock:
		return nil, contract.InvalidField("delta", "must not be 0 and at most 100000000 either way")
	case !words(r.Reason):
		return nil, contract.InvalidField("reason", "must have 1 to 200 characters, not only white space")
	}
	now := s.now()
	a, err := s.Store.BeginAdjustment(ctx, r.Key, Adjustment{
		ActivityID: r.ActivityID, SKUID: r.SKUID, Delta: r.Delta, Reason: r.Reason, State: AdjustmentIntent,
		CreatedBy: who, CreatedAt: now, UpdatedAt: now,
	}, Change{
		At: now, Who: who, Action: "stock.adjust", Object: "activity", ObjectID: r.ActivityID,
		Detail: map[string]any{"sku_id": r.SKUID, "delta": r.Delta, "reason": r.Reason},
	}, func(act *Activity) error {
		if act == nil {
			return notFound()
		}
		if act.State == ActivityDraft {
			return contract.Refuse(contract.CodeStateConflict, "the activity is a draft: change its items instead")
		}
		if _, over := act.Over(now); over {
			return contract.Refuse(contract.CodeActivityEnded, "the activity is over")
		}
		it := act.Item(r.SKUID)
		if it == nil {
			return contract.InvalidField("sku_id", "is not sold in this activity")
		}
		if it.Total+r.Delta > contract.MaxStock {
			return contract.InvalidField("delta", "the stock would be over 100000000")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	a, err = s.runAdjustment(ctx, *a)
	if err != nil {
		return nil, gateRefusal(err)
	}
	if a.State == AdjustmentRefused {
		return nil, contract.Refuse(contract.CodeInsufficientStock, "not so many pieces are left to withdraw")
	}
	return a, nil
}

// runAdjustment runs all steps from wherever the adjustment stands.
func (s *Service) runAdjustment(ctx context.Context, a Adjustment) (*Adjustment, error) {
	ref := contract.GateRef{ActivityID: a.ActivityID}
	if a.Decision == "" {
		refuse := false
		if a.Delta < 0 {
			err := s.orFill(ctx, ref, func() error { return s.Gate.Adjust(ctx, ref, a, false) })
			if refuse = errors.Is(err, ErrGateInsufficient); err != nil && !refuse {
				return nil, err
			}
		}
		decided, err := s.Store.DecideAdjustment(ctx, a.ID, refuse, s.now())
		if err != nil {
			return nil, err
		}
		a = *decided
	}
	if err := s.orFill(ctx, ref, func() error { return s.sendAdjustment(ctx, ref, a) }); err != nil {
		return nil, err
	}
	done, err := s.Store.FinishAdjustment(ctx, a.ID, s.now())
	if err != nil {
		return nil, err
	}
	if a.Decision == DecisionTaken {
		s.showSale(ctx, a.ActivityID)
	}
	return done, nil
}

// sendAdjustment makes the gate agree with what the database decided: by force, or not at all, whatever any run took out
// of it before.
func (s *Service) sendAdjustment(ctx context.Context, ref contract.GateRef, a Adjustment) error {
	if a.Decision == DecisionTaken {
		return s.Gate.Adjust(ctx, ref, a, true)
	}
	return s.Gate.UndoAdjust(ctx, ref, a)
}

// gateRefusal is what a caller over HTTP sees of a gate that did not answer.
func gateRefusal(err error) error {
	if errors.Is(err, ErrGateUnavailable) || errors.Is(err, ErrNoGate) {
		return contract.Refuse(contract.CodeGateUnavailable,
			"the change is kept, but the gate has not heard of it yet; repeat the call, or it follows by itself").Because(err).After(retryGateAfter)
	}
	return err
}

func notFound() *contract.Refusal { return contract.Refuse(contract.CodeNotFound, "no such resource") }
