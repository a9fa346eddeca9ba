package gates

import (
	"context"
	"errors"
	"fmt"

	"flashsale.internal/services/inventory/internal/core"
)

// Epochs keeps epochs and imports. Every method is one transaction.
type Epochs interface {
	PresentEpoch(ctx context.Context) (core.Epoch, error)
	// HasEpoch reports whether the database has drawn this epoch.
	HasEpoch(ctx context.Context, value string) (bool, error)
	PendingImports(ctx context.Context) (core.PendingImports, error)
	// AddImport adds an import; it changes nothing if the activity has one.
	AddImport(ctx context.Context, i core.Import) error
	// RestartImport sets a complete import back to a step.
	RestartImport(ctx context.Context, i core.Import) error
	// ActivityDrafts returns the ids of these activities that exist, and whether each is a draft.
	ActivityDrafts(ctx context.Context, ids []string) (map[string]bool, error)
}

// markForImports makes every gate sell nothing while an import of its activity is not complete: also those of
// activities that are over, or that the database does not have.
func (c *Controller) markForImports(ctx context.Context, r round) error {
	if len(r.pending) == 0 {
		return nil
	}
	activityIDs, err := c.Registry.Registered(ctx)
	if err != nil {
		return err
	}
	drafts, err := c.Epochs.ActivityDrafts(ctx, activityIDs)
	if err != nil {
		return err
	}
	var errs []error
	for _, activityID := range activityIDs {
		if _, known := drafts[activityID]; known && !r.pending.Include(activityID) {
			continue
		}
		err := c.Registry.MarkForImport(ctx, activityID, r.epoch.Value)
		if err != nil && !errors.Is(err, core.ErrNoGate) {
			errs = append(errs, fmt.Errorf("gate of activity %s: %w", activityID, err))
		}
	}
	return errors.Join(errs...)
}

// ensureEpoch compares the epoch of a gate with that of the database. ready is false while the gate waits for an
// import; then nothing else is written into it.
//
// A gate gets an epoch only after the database has it, and the gate was read first. So an epoch that the database does
// not have was lost with it. One that it has had before comes from an earlier state of Redis.
func (c *Controller) ensureEpoch(
	ctx context.Context, a *core.Activity, audit core.GateAudit, r round,
) (ready bool, err error) {
	if audit.Epoch == r.epoch.Value && !audit.Importing {
		c.forgetUnknown(a.ID)
		return true, nil
	}
	present, err := c.Epochs.PresentEpoch(ctx) // again: after the gate
	if err != nil {
		return false, err
	}
	pending, err := c.Epochs.PendingImports(ctx)
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
		return false, c.Registry.MarkForImport(ctx, a.ID, present.Value)
	}
	known := audit.Epoch == "" || audit.Epoch == present.Value
	if !known {
		if known, err = c.Epochs.HasEpoch(ctx, audit.Epoch); err != nil {
			return false, err
		}
	}
	if known {
		if err := c.plan(ctx, a, present); err != nil {
			return false, err
		}
		again := core.Import{Epoch: present.Number, ActivityID: a.ID, Step: core.ImportDecisions, UpdatedAt: c.now()}
		if err := c.Epochs.RestartImport(ctx, again); err != nil {
			return false, err
		}
		return false, c.Registry.MarkForImport(ctx, a.ID, present.Value)
	}
	if err := c.Registry.MarkForImport(ctx, a.ID, present.Value); err != nil {
		return false, err
	}
	if !c.confirmUnknown(a.ID, audit.Epoch) {
		return false, nil // the next round confirms it
	}
	return false, c.Inventory.DrawEpoch(ctx, present.Value, core.CauseGate)
}

// plan adds the import of an activity that was created after its epoch was drawn.
func (c *Controller) plan(ctx context.Context, a *core.Activity, e core.Epoch) error {
	return c.Epochs.AddImport(ctx, core.Import{
		Epoch: e.Number, ActivityID: a.ID, Step: core.ImportDecisions, UpdatedAt: c.now(),
	})
}

// confirmUnknown reports whether the gate had this epoch in the last round, too.
func (c *Controller) confirmUnknown(activityID, epoch string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	confirmed := c.unknown[activityID] == epoch
	c.unknown[activityID] = epoch
	return confirmed
}

func (c *Controller) forgetUnknown(activityID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unknown, activityID)
}
