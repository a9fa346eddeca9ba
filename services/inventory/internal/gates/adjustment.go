package gates

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

// Adjustments keeps the adjustments of live stocks. Every method is one transaction.
type Adjustments interface {
	// DecideAdjustment takes or refuses an intent; it returns a decided one as it is. It fails with ErrImporting for a
	// withdrawal while an import of the activity is not complete, and with ErrGateUnavailable while its mode is not gate.
	DecideAdjustment(ctx context.Context, id string, refuse bool, now time.Time) (*core.Adjustment, error)
	// FinishAdjustment ends the intent as decided. It deletes the Idempotency-Key of a refused one.
	FinishAdjustment(ctx context.Context, id string, now time.Time) (*core.Adjustment, error)
	DecidedAdjustments(ctx context.Context, activityID string) ([]core.Adjustment, error)
}

// ResumeAdjustment runs the remaining steps of an adjustment. A withdrawal that is not decided fails with ErrImporting
// while an import of its activity is not complete. An addition may go on: the units that it adds belong to no order,
// and RenewEpoch reads the additions under the locks under which they are decided.
func (g *Syncer) ResumeAdjustment(ctx context.Context, a core.Adjustment) (*core.Adjustment, error) {
	if a.Decision == "" {
		refuse := false
		if a.Delta < 0 {
			var err error
			if refuse, err = g.refusedByGate(ctx, a); err != nil {
				return nil, err
			}
		}
		now, err := g.Activities.Now(ctx)
		if err != nil {
			return nil, err
		}
		decided, err := g.Adjustments.DecideAdjustment(ctx, a.ID, refuse, now)
		if err != nil {
			return nil, err
		}
		a = *decided
	}
	send := func() error { return g.SendAdjustment(ctx, a) }
	if err := g.fillIfAbsent(ctx, a.ActivityID, send); err != nil {
		return nil, err
	}
	now, err := g.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	done, err := g.Adjustments.FinishAdjustment(ctx, a.ID, now)
	if err != nil {
		return nil, err
	}
	if a.Decision == core.DecisionTaken {
		g.showSale(ctx, a.ActivityID)
	}
	return done, nil
}

// refusedByGate takes the units of a withdrawal out of the gate, and reports whether the gate refuses that. During an
// import it fails with ErrImporting: the units may belong to orders that the import brings back. If an epoch is drawn
// afterwards, DecideAdjustment fails, and the import drops what the gate has given up. A withdrawal that the gate has
// undone was refused by the database, which has lost that decision in a restore: it is refused again.
func (g *Syncer) refusedByGate(ctx context.Context, a core.Adjustment) (bool, error) {
	if err := g.Guard.MayClose(ctx, a.ActivityID); err != nil {
		return false, err
	}
	err := g.fillIfAbsent(ctx, a.ActivityID, func() error { return g.Gate.Adjust(ctx, a.ActivityID, a, false) })
	if errors.Is(err, core.ErrGateInsufficient) || errors.Is(err, core.ErrGateDecided) {
		return true, nil
	}
	return false, err
}

// SendAdjustment makes the gate agree with the decision of the database, whatever an earlier attempt took out of the
// gate: a taken adjustment is applied without a condition, a refused one is undone.
//
// One that the gate cannot take raises an incident. Callers that send many continue with the others after
// ErrGateBroken.
func (g *Syncer) SendAdjustment(ctx context.Context, a core.Adjustment) error {
	err := g.sendAdjustment(ctx, a)
	if errors.Is(err, core.ErrGateBroken) {
		g.Incidents.Raise(ctx, "adjustment "+a.ID, "a gate does not take an adjustment", "activity_id", a.ActivityID,
			"adjustment_id", a.ID, "error", err)
	}
	return err
}

func (g *Syncer) sendAdjustment(ctx context.Context, a core.Adjustment) error {
	if a.Decision == core.DecisionTaken {
		return g.Gate.Adjust(ctx, a.ActivityID, a, true)
	}
	return g.Gate.UndoAdjust(ctx, a.ActivityID, a)
}

// showSale refreshes the sale document that buyers see. If it fails, the gate controller repeats it.
func (g *Syncer) showSale(ctx context.Context, activityID string) {
	a, err := g.Activities.AnyActivity(ctx, activityID)
	if err == nil && a != nil {
		err = g.Gate.ShowSale(ctx, *a)
	}
	if err != nil {
		g.Recorder.Warn(ctx, "sale document not refreshed yet", err)
	}
}
