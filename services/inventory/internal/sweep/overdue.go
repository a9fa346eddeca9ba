package sweep

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// OverdueConfig holds the pauses of Overdue.
type OverdueConfig struct {
	// AskAfter is the time after the end of the pay window from which a reserved row counts as overdue and its
	// closing is resent. The pause doubles up to six times this.
	AskAfter time.Duration
}

// OverdueStore is what Overdue reads in the tables.
type OverdueStore interface {
	Holdings
	// OverdueReservations pages through the reserved rows that have an order and did not change since then, in the
	// order of their last change. broken are those whose lines cannot be read; next is nil after the last page.
	OverdueReservations(
		ctx context.Context, activityID string, since time.Time, after *core.ReservationPlace, limit int,
	) (rows, broken []ledger.Row, next *core.ReservationPlace, err error)
}

// OverdueDeps are the ports and settings of Overdue.
type OverdueDeps struct {
	Store     OverdueStore
	Inventory Closings
	Recorder  Recorder
	Incidents Incidents
	Held      func() bool // reports that RocketMQ may hold messages back that it has accepted
	Config    OverdueConfig
}

// Overdue resends the closings of reservations that are reserved long after their pay window ended. Both their order
// events and their closings were lost, or became dead letters that an operator rejected. The consumer of the closing
// makes ledger and gate follow the response of the order service. Reservations that never had an order are the work of
// Orders.
//
// While RocketMQ is unavailable, it has messages that nothing else replaces: the event of a buyer's cancellation, and
// closings whose handling was interrupted.
//
// Run must not be called concurrently in one process.
type Overdue struct {
	OverdueDeps
	resent  *backoffs
	cursors map[string]*core.ReservationPlace // by activity, where the next page begins; absent: with the oldest
}

// askHeldAfter is Config.AskAfter while RocketMQ may hold messages back.
const askHeldAfter = 30 * time.Second

// NewOverdue makes the sweep.
func NewOverdue(d OverdueDeps) *Overdue {
	return &Overdue{
		OverdueDeps: d, resent: newBackoffs(d.Config.AskAfter, 6*d.Config.AskAfter),
		cursors: map[string]*core.ReservationPlace{},
	}
}

// Run processes one page of each activity. The next page follows in the next round, so that reservations whose
// closings change nothing do not block the others.
func (w *Overdue) Run(ctx context.Context) error {
	now, err := w.Store.Now(ctx)
	if err != nil {
		return err
	}
	holding, err := holdingActivities(ctx, w.Store)
	if err != nil {
		return err
	}
	var errs []error
	cursors := make(map[string]*core.ReservationPlace, len(holding))
	for _, a := range holding {
		next, err := w.sweepActivity(ctx, a, now)
		if err != nil {
			errs = append(errs, err)
			next = w.cursors[a.ID]
		}
		if next != nil {
			cursors[a.ID] = next
		}
	}
	w.cursors = cursors
	w.resent.forgetOld(now)
	return errors.Join(errs...)
}

// sweepActivity resends the closings of one page of overdue reservations. next is where the next page begins.
func (w *Overdue) sweepActivity(
	ctx context.Context, a core.Activity, now time.Time,
) (next *core.ReservationPlace, err error) {
	// A reserved row that has an order changed last when inventory received the order's event: its pay window began
	// before.
	after := w.askAfter()
	since := now.Add(-after - time.Duration(a.PayWithinS)*time.Second)
	rows, broken, next, err := w.Store.OverdueReservations(ctx, a.ID, since, w.cursors[a.ID], sweepBatch)
	if err != nil {
		return nil, err
	}
	w.Incidents.RaiseUnreadable(ctx, broken)
	open, err := w.Store.OpenDeadLetters(ctx, orderSNs(rows))
	if err != nil {
		return nil, err
	}
	return next, w.resend(ctx, a.ID, w.due(rows, open, after, now), now)
}

// askAfter returns the time past the end of a pay window after which a reservation is overdue. It is short while the
// broker may hold events and closings back that it has accepted.
func (w *Overdue) askAfter() time.Duration {
	if w.Held() {
		return min(w.Config.AskAfter, askHeldAfter)
	}
	return w.Config.AskAfter
}

// due selects the reservations to resend a closing for. A reservation with an open dead letter waits for its operator.
func (w *Overdue) due(rows []ledger.Row, open map[string]bool, after time.Duration, now time.Time) []string {
	var due []string
	for _, r := range rows {
		early := r.ExpiresAt != nil && r.ExpiresAt.Add(after).After(now)
		if !open[r.OrderSN] && !early && w.resent.due(r.OrderSN, now) {
			due = append(due, r.OrderSN)
		}
	}
	return due
}

func (w *Overdue) resend(ctx context.Context, activityID string, due []string, now time.Time) error {
	if len(due) == 0 {
		return nil
	}
	w.Recorder.Info(ctx, "resending closings of overdue reservations", "activity_id", activityID, "rows", len(due))
	closing := contract.OrderClose{OrderSNs: due, ActivityID: activityID, DueAt: now}
	if err := w.Inventory.PublishClosing(ctx, closing, 0); err != nil {
		return err
	}
	w.resent.attempted(due, now)
	return nil
}
