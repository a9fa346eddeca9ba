package gates

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// BuildConfig bounds the build of a gate.
type BuildConfig struct {
	Page         int           // rows in memory at a time
	StepTimeout  time.Duration // of one page, or of one call of the gate
	LockWait     time.Duration // for another process that builds the gate
	Locked       time.Duration // how long the stock rows may be locked
	LockedRows   int           // rows that the locked step writes at most
	LockedChecks int           // rows whose version the locked step compares at most
	// Overlap is by how much each reading of changed rows begins before the one before it. It covers clocks that differ,
	// and rows whose transaction commits some time after it has stamped them.
	Overlap time.Duration
	// WideOverlap is the overlap once the rows did not add up to the stock. After it, all rows are read again.
	WideOverlap time.Duration
}

// DefaultBuildConfig returns the defaults.
func DefaultBuildConfig() BuildConfig {
	return BuildConfig{
		Page: 2000, StepTimeout: 10 * time.Second, LockWait: 2 * time.Minute, Locked: time.Second, LockedRows: 1000,
		LockedChecks: 100_000, Overlap: 10 * time.Second, WideOverlap: 15 * time.Minute,
	}
}

const (
	stepAttempts = 6  // of one page or call, with pauses that double
	longestPause = 40 // between attempts, in first pauses
	versionPages = 10 // versions of rows that are read at a time, in pages
	readings     = 10 // of the rows that changed, before a locked step is tried all the same
	lockedSteps  = 20 // attempts of the locked step
)

// Rows reads what a gate is built from.
type Rows interface {
	// Rebuild locks the activity, then its stock rows, and runs fn. So nothing that a gate is built from changes while
	// fn runs.
	Rebuild(ctx context.Context, activityID string, fn func(tx RebuildTx) error) error
	// GateRows pages by order_sn through the rows that are reserved or sold, or ended at kept or later. limit counts those
	// that are left out too; next is "" after the last page. It fails with ErrBrokenRow if one cannot be read.
	GateRows(
		ctx context.Context, activityID string, kept time.Time, afterSN string, limit int,
	) (rows []ledger.Row, next string, err error)
	// RowVersions pages through the rows in a state that changed since then, by the time of their change.
	RowVersions(
		ctx context.Context, activityID string, state ledger.State, since time.Time, after *core.ReservationPlace, limit int,
	) ([]core.RowVersion, error)
	LatestChange(ctx context.Context, activityID string) (time.Time, error)             // of a row; zero: there is none
	CountEnded(ctx context.Context, activityID string, before time.Time) (int64, error) // rows that ended before
	Reservations(ctx context.Context, orderSNs []string) (map[string]ledger.Row, error)
	// ChangedReservations pages by order_sn through the rows in these states that changed since then (zero: all).
	// broken are those whose lines cannot be read; next is "" after the last page.
	ChangedReservations(
		ctx context.Context, activityID string, states []ledger.State, since time.Time, afterSN string, limit int,
	) (rows, broken []ledger.Row, next string, err error)
}

// RebuildTx reads, under the locks of Rows.Rebuild, what the last step of a build needs. Each call has its own ctx,
// which may end before that of the transaction.
type RebuildTx interface {
	Activity() core.Activity // with its locked stock
	// Changed returns at most limit rows that changed since then, in no order.
	Changed(ctx context.Context, since time.Time, limit int) ([]core.RowVersion, error)
	Reservations(ctx context.Context, orderSNs []string) ([]ledger.Row, error)
	// Adjusted returns the ids of the decided adjustments: the stock contains them, or never will.
	Adjusted(ctx context.Context) ([]string, error)
}

// Build is a gate in the making: absent for all others. After ErrGateUnavailable the outcome of a call is unknown,
// and the call may be repeated. It fails with ErrBuildSuperseded once another build of the gate began.
type Build interface {
	// Put adds rows. One that was put before is replaced.
	Put(ctx context.Context, rows []ledger.Row) error
	// PutAdjusted adds ids of decided adjustments.
	PutAdjusted(ctx context.Context, ids []string) error
	// Commit makes the gate exist. It fails with ErrBuildDiffers if the rows that were put have other units than the
	// stock of the activity. endedBefore is the number of rows that ended too long ago to be put.
	Commit(ctx context.Context, a core.Activity, endedBefore int64, epoch GateEpoch) error
}

// GateEpoch is the epoch that a new gate gets.
type GateEpoch struct {
	Value     string // "" while an import is to follow
	Importing bool   // the gate sells nothing until the import is complete
}

// ErrLocksUnavailable means that no lock can be obtained now, whether it is free or not.
var ErrLocksUnavailable = errors.New("locks are unavailable")

// Locks serialize work between processes. They only save work: when a lock is lost, the context of its work is
// cancelled, and the work may run concurrently with that of the next holder for a moment.
type Locks interface {
	// DoWithin waits for the lock and runs work while holding it. It fails with ErrGateUnavailable if the wait was too
	// short, and with ErrLocksUnavailable if work has not begun for another reason.
	DoWithin(ctx context.Context, wait time.Duration, name string, work func(ctx context.Context) error) error
}

// BuildReport describes a finished build.
type BuildReport struct {
	Rows   int64         // written, repetitions included
	Took   time.Duration // from its begin to its end
	Locked time.Duration // the longest time for which the stock rows were locked
}

var errTooManyChanges = errors.New("too many rows changed since they were read")

// Fill builds an absent gate from the tables, and waits for it until ctx ends. The build outlives ctx: with a million
// rows it takes longer than a caller can wait. This process runs one build of a gate at a time, and other processes
// wait for its lock. A gate that is live already keeps its entries; only its configuration and the sale document are
// refreshed.
//
// While an import into the activity is to follow, the new gate has no epoch and sells nothing: the tables may lack
// purchases that orders and messages still have.
func (g *Syncer) Fill(ctx context.Context, activityID string) error {
	return g.builds.do(ctx, activityID, func(ctx context.Context) error {
		return core.InSpan(ctx, g.Recorder, "gate build", false, func(ctx context.Context) error {
			return g.buildAlone(ctx, activityID)
		})
	})
}

// buildAlone builds a gate under its lock. The lock only saves work: of two builds, the one that began first fails. So
// without locks the gate is built all the same.
func (g *Syncer) buildAlone(ctx context.Context, activityID string) error {
	if g.Locks == nil {
		return g.build(ctx, activityID)
	}
	err := g.Locks.DoWithin(ctx, g.Limits.LockWait, "inventory gate build "+activityID, func(ctx context.Context) error {
		return g.build(ctx, activityID)
	})
	if errors.Is(err, ErrLocksUnavailable) && ctx.Err() == nil {
		return g.build(ctx, activityID)
	}
	return err
}

func (g *Syncer) build(ctx context.Context, activityID string) error {
	r := rebuild{Syncer: g, activityID: activityID}
	a, err := r.run(ctx)
	switch {
	case errors.Is(err, core.ErrGateLive):
		fresh, err := g.Activities.AnyActivity(ctx, activityID)
		if err != nil || fresh == nil {
			return err
		}
		if err := g.configure(ctx, fresh); err != nil {
			return err
		}
		return g.Gate.ShowSale(ctx, *fresh)
	case err != nil:
		return err
	}
	g.Recorder.Rebuilt(ctx, activityID, r.report)
	return g.Gate.ShowSale(ctx, *a)
}

// epochFor returns the epoch that a new gate gets. An epoch that is drawn after this reading includes an import of the
// activity, so the gate controller finds the difference.
func (g *Syncer) epochFor(ctx context.Context, activityID string) (GateEpoch, error) {
	e, err := g.Epochs.PresentEpoch(ctx) // before its imports
	if err != nil {
		return GateEpoch{}, err
	}
	pending, err := g.Epochs.PendingImports(ctx)
	if err != nil {
		return GateEpoch{}, err
	}
	if pending.Include(activityID) {
		return GateEpoch{Importing: true}, nil
	}
	return GateEpoch{Value: e.Value}, nil
}
