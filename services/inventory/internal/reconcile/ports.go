package reconcile

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ErrLockHeld means that another process holds the lock.
var ErrLockHeld = errors.New("lock is held by another process")

// Locks serialize work between processes. They only save work: when a lock is lost, the context of its work is
// cancelled, and the work may run concurrently with that of the next holder for a moment.
type Locks interface {
	Do(ctx context.Context, name string, work func(ctx context.Context) error) error
}

// Activities reads activities, and records what was done to them.
type Activities interface {
	Now(ctx context.Context) (time.Time, error) // the database's clock, by which the ages of rows are decided
	// Activity returns an activity of the scope, nil when there is none. AnyActivity is for the timer.
	Activity(ctx context.Context, in core.Scope, id string) (*core.Activity, error)
	AnyActivity(ctx context.Context, id string) (*core.Activity, error)
	GateActivities(ctx context.Context, now time.Time) ([]core.Activity, error)
	// Totals adds up the tables of an activity as of one moment, without reading the rows of the ledger.
	Totals(ctx context.Context, activityID string) (Totals, error)
	Record(ctx context.Context, c core.Change) error
}

// Rows reads the rows of the ledger, and changes allowances.
type Rows interface {
	Reservations(ctx context.Context, orderSNs []string) (map[string]ledger.Row, error)
	// ChangedReservations pages by order_sn through the reservations in these states that changed since then (zero:
	// all). broken are those whose lines cannot be read. next is "" after the last page.
	ChangedReservations(
		ctx context.Context, activityID string, states []ledger.State, since time.Time, afterSN string,
		limit int,
	) (rows, broken []ledger.Row, next string, err error)
	// RowVersions is that of gates.Rows: it pages through the rows in a state that changed since then, by the time of
	// their change.
	RowVersions(
		ctx context.Context, activityID string, state ledger.State, since time.Time, after *core.ReservationPlace,
		limit int,
	) ([]core.RowVersion, error)
	OpenDeadLetters(ctx context.Context, orderSNs []string) (map[string]bool, error)
	// Holders pages by user through the allowances and the users of reservations that hold units. next is "" after
	// the last page. Allowances and reservations are not read at one moment.
	Holders(ctx context.Context, activityID, afterUser string, limit int) (page []Holder, next string, err error)
	// ChangeAllowances runs fn with the locks of a ledger transaction of the activity.
	ChangeAllowances(ctx context.Context, activityID string, fn func(tx AllowanceTx) error) error
}

// AllowanceTx is a transaction that no change of reservations and allowances runs beside.
type AllowanceTx interface {
	Allowances(activityID string, userIDs []string) (map[string]int64, error) // by user, in units
	// HeldByReservations sums the units that the users' reservations hold.
	HeldByReservations(activityID string, userIDs []string) (map[string]int64, error)
	// SetAllowance rewrites an allowance that differs from the reservations, whatever the limit is.
	SetAllowance(b ledger.Buyer, held int64) error
}

// Adjustments reads the adjustments of live stocks.
type Adjustments interface {
	DecidedAdjustments(ctx context.Context, activityID string) ([]core.Adjustment, error)
	// CountAdjustments counts all adjustments, and those of them that the gate may lack in whole or in part.
	CountAdjustments(ctx context.Context, activityID string) (all, open int64, err error)
	// KnownAdjustments returns which of these ids the database has.
	KnownAdjustments(ctx context.Context, ids []string) (map[string]bool, error)
}

// Imports reads the present epoch and its imports.
type Imports interface {
	PresentEpoch(ctx context.Context) (core.Epoch, error)
	PendingImports(ctx context.Context) (core.PendingImports, error)
	// LeftAhead returns which of these purchases an import has left with a status above that of their row, at this time
	// or later: `order payments reconcile` may still raise the row.
	LeftAhead(ctx context.Context, activityID string, orderSNs []string, since time.Time) (map[string]bool, error)
}

// Holder compares the units that a user's reservations hold with the user's allowance.
type Holder struct {
	UserID          string
	Held, Allowance int64
}

// Totals are sums over the tables of an activity.
type Totals struct {
	Stock      map[string]core.Stock // by SKU, without prices
	Rows       map[ledger.State]int64
	Allowances int64 // units of all users
}

// Holdings reads what gates hold: entries, records of buyers, counters and configurations.
type Holdings interface {
	Audit(ctx context.Context, activityID string) (core.GateAudit, error)
	ReplicationID(ctx context.Context) (string, error) // of the Redis master, as in gates.Redis
	// TrackChanges makes the gate note which entries change from now on. A Survey of all entries follows, and then
	// CollectChanges.
	TrackChanges(ctx context.Context, activityID string) (token string, err error)
	// Survey pages through all entries. An entry that exists throughout comes at least once. build identifies the
	// build of the gate; next is 0 after the last page.
	Survey(
		ctx context.Context, activityID string, cursor uint64,
	) (page []ledger.StoredEntry, build string, next uint64, err error)
	// CollectChanges ends the tracking: it returns the counters and the entries that changed since, all as of one
	// moment. A deleted entry has nothing Stored. ok is false if too much changed: then nothing is returned.
	CollectChanges(
		ctx context.Context, activityID, token string,
	) (audit core.GateAudit, changed []ledger.StoredEntry, ok bool, err error)
	// AdjustmentsOfGate pages through the adjustments that the gate has; next is 0 after the last page.
	AdjustmentsOfGate(
		ctx context.Context, activityID string, cursor uint64,
	) (page []core.KnownAdjustment, next uint64, err error)
	Inspect(ctx context.Context, activityID string, orderSNs []string) (map[string]ledger.StoredEntry, error)
	// MismatchedBuyers pages through the buyers whose record does not match their entries.
	MismatchedBuyers(ctx context.Context, activityID string, cursor uint64) (users []string, next uint64, err error)
}

// Repairs changes a gate.
type Repairs interface {
	// Repair rewrites entries that still are as they were read. It returns which of them it changed.
	Repair(ctx context.Context, activityID, build string, list []ledger.EntryRepair) (map[string]bool, error)
	// RebuildBuyer rebuilds a buyer's record and the indexes of these entries.
	RebuildBuyer(ctx context.Context, activityID, userID string, orderSNs []string) (changed bool, err error)
	// Correct adds to counters what they lack, once, unless the gate was built again or corrected since it was read.
	Correct(ctx context.Context, activityID string, read core.GateRevision, held int64, list []Correction) error
	Configure(ctx context.Context, activityID string, c core.GateConfig) error
	// OverrideConfig is Configure of a gate that claims a later version than the activity has.
	OverrideConfig(ctx context.Context, activityID string, readVersion int64, c core.GateConfig) error
}

// Gates is the part of gates.Syncer that the reconciler needs.
type Gates interface {
	Due(ctx context.Context, activityID string) (bool, error)
	Fill(ctx context.Context, activityID string) error
	SettleBeforeReturning(ctx context.Context, activityID string, refused []ledger.Row) error
	SendAdjustment(ctx context.Context, a core.Adjustment) error
}

// Epochs draws an epoch if the present one is still instead. The imports that follow are those of restore.Importer.
type Epochs interface {
	DrawEpoch(ctx context.Context, instead, cause string) error
}

// Recorder records repairs in logs, metrics and traces.
type Recorder interface {
	Span(ctx context.Context, name string, database bool) (context.Context, func(error))
	Repaired(ctx context.Context, activityID string, r Repair)
	Checked(ctx context.Context, outcome CheckOutcome)
	// Compared records a round that compared each activity that was due, and the differences that are left in all.
	Compared(at time.Time, differences int)
	Incident(ctx context.Context, what string, attrs ...any) // a state that must not occur
	Info(ctx context.Context, what string, attrs ...any)
}

// Incidents raises incidents about conditions that may last, each once an hour at most.
type Incidents interface {
	Raise(ctx context.Context, key, what string, attrs ...any)
	RaiseBrokenGate(ctx context.Context, activityID string, err error)
}

// Correction is what the counters of a SKU lack, in units. Unlanded is a part of Held.
type Correction struct {
	SKUID                             string
	Left, Held, Sold, Total, Unlanded int64
}
