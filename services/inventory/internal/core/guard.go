package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/ledger"
)

// ErrImporting means that a purchase may be one that a restore has lost, or that units may belong to such a purchase.
// The caller repeats the work: the import brings it, or ends.
var ErrImporting = errors.New("an import after a restore is not complete")

// PendingImports are the activities whose import into the present epoch is not complete; AllActivities too.
type PendingImports map[string]bool

// Include reports whether the import of an activity is not complete.
func (p PendingImports) Include(activityID string) bool { return p[activityID] || p[AllActivities] }

// GuardStore is what a Guard reads and writes in the tables.
type GuardStore interface {
	PendingImports(ctx context.Context) (PendingImports, error)
	// NoteLacking reports whether the mode is direct. Then the gate is noted to lack changes from since on.
	NoteLacking(ctx context.Context, activityID string, since time.Time) (direct bool, err error)
}

// Guard decides what the ordinary path may do while an import after a restore is not complete, or while a sale goes on
// without its gate.
type Guard struct {
	store GuardStore
	watch interface { // the part of redisless.Watch
		UsesGate(activityID string) bool
	}
}

// NewGuard makes the guard of a process.
func NewGuard(store GuardStore, watch interface{ UsesGate(activityID string) bool }) Guard {
	return Guard{store, watch}
}

// MayClose fails with ErrImporting while an import of the activity is not complete: an order that was lost must not
// get a tombstone before it is created again, and units may belong to orders that the import brings back.
func (g Guard) MayClose(ctx context.Context, activityID string) error {
	pending, err := g.store.PendingImports(ctx)
	if err == nil && pending.Include(activityID) {
		err = ErrImporting
	}
	return err
}

// MaySettle returns the rows whose effects the gate gets now. Those of activities in the mode direct are left out:
// the gate gets them when the sale returns to it. A row of a change that is older than what is noted lowers that time.
// Effects without a row in the ledger are never left out.
//
// The mode is read after the rows have committed. If it is direct, it changes later, and returnToGate reads the rows.
func (g Guard) MaySettle(ctx context.Context, rows []ledger.Row) ([]ledger.Row, error) {
	oldest := map[string]time.Time{}
	for _, r := range rows {
		if g.watch.UsesGate(r.ActivityID) || r.ChangedAt.IsZero() {
			continue
		}
		if at, known := oldest[r.ActivityID]; !known || r.ChangedAt.Before(at) {
			oldest[r.ActivityID] = r.ChangedAt
		}
	}
	direct := map[string]bool{}
	for _, id := range sortedKeys(oldest) {
		is, err := g.store.NoteLacking(ctx, id, oldest[id])
		if err != nil {
			return nil, err
		}
		direct[id] = is
	}
	if len(oldest) == 0 {
		return rows, nil
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r ledger.Row) bool {
		return direct[r.ActivityID] && !r.ChangedAt.IsZero()
	}), nil
}
