package merchants

import (
	"context"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// AdjustmentRequest is a merchant's request for an adjustment.
type AdjustmentRequest struct {
	ActivityID, SKUID string
	Delta             int64
	Reason            string
	Key               core.IdempotencyKey
}

// AdjustStock adds units to a live stock or withdraws them. It writes the intent first. So if the process dies
// between two steps, sweep.Adjustments resumes the adjustment. A repeated key runs all steps again, and each of them
// counts once. A key never returns an adjustment of another merchant: the activity is looked up first.
//
// A top-up is written into the database, then into the gate. A withdrawal is taken from the gate, which may have too
// few units left; then from the database, which may have too few too; then from the gate again without the condition,
// since the gate may have been rebuilt in between from a stock without it. The decision of the database is final.
func (s *Service) AdjustStock(ctx context.Context, by core.Caller, r AdjustmentRequest) (*core.Adjustment, error) {
	switch {
	case !contract.ValidID(r.SKUID):
		return nil, contract.InvalidField("sku_id", "not an id")
	case r.Delta == 0 || r.Delta < -contract.MaxStock || r.Delta > contract.MaxStock:
		return nil, contract.InvalidField("delta", "must be -100000000 to 100000000 and not 0")
	}
	if err := contract.CheckText("reason", r.Reason, oneLine); err != nil {
		return nil, err
	}
	now, err := s.Deps.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.Deps.Activities.BeginAdjustment(ctx, by.Scope(), r.Key, core.Adjustment{
		ActivityID: r.ActivityID, SKUID: r.SKUID, Delta: r.Delta, Reason: r.Reason, State: core.AdjustmentIntent,
		CreatedBy: by.UserID, CreatedAt: now, UpdatedAt: now,
	}, core.Change{
		At: now, Who: by.UserID, Role: by.Role(), Action: "stock.adjust", Object: "activity", ObjectID: r.ActivityID,
		Detail: map[string]any{"sku_id": r.SKUID, "delta": r.Delta, "reason": r.Reason},
	}, func(act *core.Activity) error {
		if act.State == core.ActivityDraft {
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
	a, err = s.Gates.ResumeAdjustment(ctx, *a)
	if err != nil && r.Delta < 0 { // a withdrawal may be undecided
		return nil, core.GateUnreachable(err)
	}
	if err != nil {
		return nil, core.GateRefusal(err)
	}
	if a.State == core.AdjustmentRefused {
		return nil, contract.Refuse(contract.CodeInsufficientStock, "too few units are left to withdraw")
	}
	return a, nil
}
