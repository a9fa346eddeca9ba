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

// Guard decides what the ordinary path may do while an import after a restore is not complete, or while a sale goes on
// without its gate.
type Guard struct {
	Store interface {
		PendingImports(ctx context.Context) (PendingImports, error)
		// NoteLacking reports whether the sale is redisless. Then the gate is noted to lack changes from since on.
		NoteLacking(ctx context.Context, activityID string, since time.Time) (redisless bool, err error)
	}
	Watch interface { // the part of redisless.Watch
		UsesGate(activityID string) bool
	}
}

// MayClose fails with ErrImporting while an import of the activity is not complete: an order that was lost must not
// get a tombstone before it is created again, and units may belong to orders that the import brings back.
func (g Guard) MayClose(ctx context.Context, activityID string) error {
	pending, err := g.Store.PendingImports(ctx)
	if err == nil && pending.Include(activityID) {
		err = ErrImporting
	}
	return err
}

// MaySettle returns the rows whose effects the gate gets now. Those of redisless activities are left out:
// the gate gets them when the sale returns to it. A row of a change that is older than what is noted lowers that time.
// Effects without a row in the ledger are never left out.
//
// The mode is read after the rows have committed. If it is redisless, it changes later, and ReturnToGate reads the
// rows.
func (g Guard) MaySettle(ctx context.Context, rows []ledger.Row) ([]ledger.Row, error) {
	oldest := map[string]time.Time{}
	for _, r := range rows {
		if g.Watch.UsesGate(r.ActivityID) || r.ChangedAt.IsZero() {
			continue
		}
		if at, known := oldest[r.ActivityID]; !known || r.ChangedAt.Before(at) {
			oldest[r.ActivityID] = r.ChangedAt
		}
	}
	redisless := map[string]bool{}
	for _, id := range sortedKeys(oldest) {
		is, err := g.Store.NoteLacking(ctx, id, oldest[id])
		if err != nil {
			return nil, err
		}
		redisless[id] = is
	}
	if len(oldest) == 0 {
		return rows, nil
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r ledger.Row) bool {
		return redisless[r.ActivityID] && !r.ChangedAt.IsZero()
	}), nil
}
