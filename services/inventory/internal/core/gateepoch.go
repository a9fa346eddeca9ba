package core

import (
	"context"
	"errors"
	"fmt"
)

// markForImports makes every gate sell nothing while an import of its activity is not complete: also those of activities
// that are over, or that the database does not have.
func (c *GateController) markForImports(ctx context.Context, r round) error {
	if len(r.pending) == 0 {
		return nil
	}
	activityIDs, err := c.svc.gate.Registered(ctx)
	if err != nil {
		return err
	}
	drafts, err := c.svc.store.ActivityDrafts(ctx, activityIDs)
	if err != nil {
		return err
	}
	var errs []error
	for _, activityID := range activityIDs {
		if _, known := drafts[activityID]; known && !r.pending.Include(activityID) {
			continue
		}
		err := c.svc.gate.MarkForImport(ctx, activityID, r.epoch.Value)
		if err != nil && !errors.Is(err, ErrNoGate) {
			errs = append(errs, fmt.Errorf("gate of activity %s: %w", activityID, err))
		}
	}
	return errors.Join(errs...)
}

// ensureEpoch compares the epoch of a gate with that of the database. ready is false while the gate waits for an import;
// then nothing else is written into it.
//
// A gate gets an epoch only after the database has it, and the gate was read first. So an epoch that the database does
// not have was lost with it. One that it has had before comes from an earlier state of Redis.
func (c *GateController) ensureEpoch(ctx context.Context, a *Activity, audit GateAudit, r round) (ready bool, err error) {
	if audit.Epoch == r.epoch.Value && !audit.Importing {
		c.forgetUnknown(a.ID)
		return true, nil
	}
	present, err := c.svc.store.PresentEpoch(ctx) // again: after the gate
	if err != nil {
		return false, err
	}
	pending, err := c.svc.store.PendingImports(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case audit.Epoch == present.Value && !audit.Importing:
		return true, nil
	case pending.Include(a.ID):
		if err := c.plan(ctx, a, present); err != nil {
			return false, err
		}
		return false, c.svc.gate.MarkForImport(ctx, a.ID, present.Value)
	}
	known := audit.Epoch == "" || audit.Epoch == present.Value
	if !known {
		if known, err = c.svc.store.HasEpoch(ctx, audit.Epoch); err != nil {
			return false, err
		}
	}
	if known {
		if err := c.plan(ctx, a, present); err != nil {
			return false, err
		}
		again := Import{Epoch: present.Number, ActivityID: a.ID, Step: ImportRows, UpdatedAt: c.svc.clock()}
		if err := c.svc.store.RestartImport(ctx, again); err != nil {
			return false, err
		}
		return false, c.svc.gate.MarkForImport(ctx, a.ID, present.Value)
	}
	if err := c.svc.gate.MarkForImport(ctx, a.ID, present.Value); err != nil {
		return false, err
	}
	if !c.confirmUnknown(a.ID, audit.Epoch) {
		return false, nil // the next round confirms it
	}
	return false, c.svc.DrawEpoch(ctx, present.Value, CauseGate)
}

// plan adds the import of an activity that was created after its epoch was drawn.
func (c *GateController) plan(ctx context.Context, a *Activity, e Epoch) error {
	return c.svc.store.AddImport(ctx, Import{
		Epoch: e.Number, ActivityID: a.ID, Step: ImportRows, UpdatedAt: c.svc.clock(),
	})
}

// confirmUnknown reports whether the gate had this epoch in the last round, too.
func (c *GateController) confirmUnknown(activityID, epoch string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	confirmed := c.unknown[activityID] == epoch
	c.unknown[activityID] = epoch
	return confirmed
}

func (c *GateController) forgetUnknown(activityID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unknown, activityID)
}
