package sweep

import (
	"context"
	"errors"
	"fmt"

	"flashsale.internal/services/inventory/internal/core"
)

// Adjustments finishes adjustments whose process was killed between two steps. It has no state: each adjustment carries
// the time of its next attempt.
type Adjustments struct{ Deps }

// NewAdjustments makes the sweep.
func NewAdjustments(d Deps) *Adjustments { return &Adjustments{Deps: d} }

// Run resumes one batch of each activity's adjustments that are older than ResumeAfter. What fails in one activity
// delays no other.
func (w *Adjustments) Run(ctx context.Context) error {
	now, err := w.Store.Now(ctx)
	if err != nil {
		return err
	}
	activities, err := w.Store.ActivitiesToResume(ctx, now.Add(-w.Config.ResumeAfter), now)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range activities {
		if err := w.resume(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("adjustments of activity %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// resume resumes one batch of an activity's adjustments. One that fails moves back, and the next follow. A gate that
// cannot be reached ends the batch, and nothing moves back: all are due as soon as the gate responds. Withdrawals that
// wait for an import do not move back either: they are due as soon as it is complete.
func (w *Adjustments) resume(ctx context.Context, activityID string) error {
	now, err := w.Store.Now(ctx)
	if err != nil {
		return err
	}
	due, err := w.Store.AdjustmentsToResume(ctx, activityID, now.Add(-w.Config.ResumeAfter), now, sweepBatch)
	if err != nil {
		return err
	}
	var failed []core.Adjustment
	var errs []error
	for _, a := range due {
		_, err := w.Inventory.ResumeAdjustment(ctx, a)
		if err == nil || errors.Is(err, core.ErrImporting) {
			continue
		}
		errs = append(errs, fmt.Errorf("adjustment %s: %w", a.ID, err))
		if errors.Is(err, core.ErrGateUnavailable) || ctx.Err() != nil {
			break
		}
		at := now.Add(jittered(doubled(w.Config.ResumeAfter, w.Config.ResumeCap, a.ResumeAttempt)))
		a.ResumeAt, a.ResumeAttempt = &at, a.ResumeAttempt+1
		failed = append(failed, a)
	}
	if len(failed) > 0 {
		errs = append(errs, w.Store.PostponeAdjustments(ctx, failed))
	}
	return errors.Join(errs...)
}
