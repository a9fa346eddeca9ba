// Package sweep repeats what no message repeats: deductions without an order, closings of overdue reservations,
// journal entries that did not land, and unfinished adjustments. One process at a time runs each sweep, only to save
// work.
//
// It imports core, the standard library and the contract only.
package sweep

import (
	"context"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Store is what the sweeps read and write in the tables. broken are reservations whose lines cannot be read.
type Store interface {
	Now(ctx context.Context) (time.Time, error) // the database's clock, by which ages and pauses of rows are decided
	ReadableReservations(
		ctx context.Context, orderSNs []string,
	) (rows map[string]ledger.Row, broken []ledger.Row, err error)
	OpenDeadLetters(ctx context.Context, orderSNs []string) (map[string]bool, error)
	// ReservationsToRepublish lists reservations of an activity whose deduction is due again, the longest due first.
	ReservationsToRepublish(
		ctx context.Context, activityID string, due time.Time, limit int,
	) (rows, broken []ledger.Row, err error)
	// ScheduleRepublish writes RepublishAt and RepublishAttempt of those that still have no order.
	ScheduleRepublish(ctx context.Context, rows []ledger.Row) error
	PendingImports(ctx context.Context) (core.PendingImports, error)
	// HoldingActivities lists the activities that have reserved units, without their items.
	HoldingActivities(ctx context.Context) ([]core.Activity, error)
	// OverdueReservations pages through the reserved rows that have an order and did not change since then, in the
	// order of their last change. next is nil after the last page.
	OverdueReservations(
		ctx context.Context, activityID string, since time.Time, after *core.ReservationPlace, limit int,
	) (rows, broken []ledger.Row, next *core.ReservationPlace, err error)
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

// Gate is what the sweeps read and write in the gates.
type Gate interface {
	Registered(ctx context.Context) ([]string, error)
	Now(ctx context.Context) (time.Time, error) // Redis's clock
	// Unlanded lists queued entries that were last journaled within these times, the oldest first.
	Unlanded(ctx context.Context, activityID string, from, before time.Time, limit int) ([]core.GateEntry, error)
	Rejournal(ctx context.Context, activityID string, orderSNs []string) (int, error)
}

// Inventory is the part of core.Service that the sweeps need.
type Inventory interface {
	PublishDeductions(ctx context.Context, rows []ledger.Row) error
	PublishClosing(ctx context.Context, c contract.OrderClose) error
	ResumeAdjustment(ctx context.Context, a core.Adjustment) (*core.Adjustment, error)
}

// Gates is the part of core.GateSync that the sweeps need.
type Gates interface {
	Sync(ctx context.Context, rows []ledger.Row) error
}

// Recorder logs what the sweeps repeat.
type Recorder interface {
	Info(ctx context.Context, what string, attrs ...any)
}

// Alarms counts rows that cannot be read, and raises incidents about them, for each row once an hour at most.
type Alarms interface {
	RaiseUnreadable(ctx context.Context, broken []ledger.Row)
}

// Config holds the thresholds and pauses of the sweeps.
type Config struct {
	// Pause before a deduction without an order is first published again; doubles up to RepublishCap.
	RepublishAfter time.Duration
	RepublishCap   time.Duration
	AbandonAfter   time.Duration // age from which a reservation without an order is given up
	// AskAfter is the time after the end of the pay window from which a reserved row counts as overdue and its
	// closing is resent. The pause doubles up to AskCap.
	AskAfter time.Duration
	AskCap   time.Duration
	// Age from which an entry absent from the ledger is journaled again; doubles up to RejournalCap.
	RejournalAfter time.Duration
	RejournalCap   time.Duration
	// Age from which an unfinished adjustment is resumed. The pause after a failed attempt doubles up to ResumeCap.
	ResumeAfter time.Duration
	ResumeCap   time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		RepublishAfter: time.Minute, RepublishCap: 30 * time.Minute, AbandonAfter: 24 * time.Hour,
		AskAfter: 10 * time.Minute, AskCap: time.Hour,
		RejournalAfter: time.Minute, RejournalCap: 30 * time.Minute,
		ResumeAfter: 20 * time.Second, ResumeCap: 5 * time.Minute,
	}
}

// Deps are the ports and settings of the sweeps.
type Deps struct {
	Store     Store
	Gate      Gate
	Inventory Inventory
	Gates     Gates
	Recorder  Recorder
	Alarms    Alarms
	Config    Config
}

// holdingActivities lists the activities that have reserved units, except those that wait for an import: it publishes
// the deductions again that are missing, and a closing might meet an order that a restore has lost.
func (d *Deps) holdingActivities(ctx context.Context) ([]core.Activity, error) {
	pending, err := d.Store.PendingImports(ctx)
	if err != nil || pending[core.AllActivities] {
		return nil, err
	}
	holding, err := d.Store.HoldingActivities(ctx)
	return slices.DeleteFunc(holding, func(a core.Activity) bool { return pending.Include(a.ID) }), err
}
