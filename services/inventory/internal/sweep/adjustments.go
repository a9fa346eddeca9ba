package sweep

import (
	"context"
	"errors"
)

// Adjustments finishes adjustments whose process was killed between two steps. It has no state.
type Adjustments struct{ Deps }

// NewAdjustments makes the sweep.
func NewAdjustments(d Deps) *Adjustments { return &Adjustments{Deps: d} }

// Run finishes one batch of adjustments that are older than ResumeAfter.
func (w *Adjustments) Run(ctx context.Context) error {
	unfinished, err := w.Store.AdjustmentsToResume(ctx, w.now().Add(-w.Config.ResumeAfter), sweepBatch)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range unfinished {
		_, err := w.Inventory.ResumeAdjustment(ctx, a)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
