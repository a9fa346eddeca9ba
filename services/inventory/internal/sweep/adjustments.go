package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

// AdjustmentsConfig holds the pauses of Adjustments.
type AdjustmentsConfig struct {
	// Age from which an unfinished adjustment is resumed. The pause after a failed attempt doubles up to 15 times
	// this.
	ResumeAfter time.Duration
}

// AdjustmentsStore is what Adjustments reads and writes in the tables.
type AdjustmentsStore interface {
	Now(ctx context.Context) (time.Time, error) // the database's clock
	// ActivitiesToResume lists the activities with unfinished adjustments that did not change since before and whose
	// next attempt is due.
	ActivitiesToResume(ctx context.Context, before, due time.Time) ([]string, error)
	// AdjustmentsToResume lists such adjustments of an activity, the oldest first.
	AdjustmentsToResume(
		ctx context.Context, activityID string, before, due time.Time, limit int,
	) ([]core.Adjustment, error)
	// PostponeAdjustments writes ResumeAt and ResumeAttempt of those that are still unfinished.
	PostponeAdjustments(ctx context.Context, list []core.Adjustment) error
}

// AdjustmentsDeps are the ports and settings of Adjustments.
type AdjustmentsDeps struct {
	Store AdjustmentsStore
	Gates interface { // the part of gates.Syncer
		ResumeAdjustment(ctx context.Context, a core.Adjustment) (*core.Adjustment, error)
	}
	Config AdjustmentsConfig
}

// Adjustments finishes adjustments whose process was killed between two steps. It has no state: each adjustment carries
// the time of its next attempt.
type Adjustments struct{ AdjustmentsDeps }

// NewAdjustments makes the sweep.
func NewAdjustments(d AdjustmentsDeps) *Adjustments { return &Adjustments{d} }

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
		_, err := w.Gates.ResumeAdjustment(ctx, a)
		if err == nil || errors.Is(err, core.ErrImporting) {
			continue
		}
		errs = append(errs, fmt.Errorf("adjustment %s: %w", a.ID, err))
		if errors.Is(err, core.ErrGateUnavailable) || ctx.Err() != nil {
			break
		}
		at := now.Add(jittered(doubled(w.Config.ResumeAfter, 15*w.Config.ResumeAfter, a.ResumeAttempt)))
		a.ResumeAt, a.ResumeAttempt = &at, a.ResumeAttempt+1
		failed = append(failed, a)
	}
	if len(failed) > 0 {
		errs = append(errs, w.Store.PostponeAdjustments(ctx, failed))
	}
	return errors.Join(errs...)
}
