package sweep

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

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
	Deps
	held    func() bool
	resent  *backoffs
	cursors map[string]*core.ReservationPlace // by activity, where the next page begins; absent: with the oldest
}

// askHeldAfter is Config.AskAfter while RocketMQ may hold messages back.
const askHeldAfter = 30 * time.Second

// NewOverdue makes the sweep. held reports that RocketMQ may hold messages back that it has accepted.
func NewOverdue(d Deps, held func() bool) *Overdue {
	return &Overdue{
		Deps: d, held: held, resent: newBackoffs(d.Config.AskAfter, d.Config.AskCap),
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
	holding, err := w.holdingActivities(ctx)
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
	w.Alarms.RaiseUnreadable(ctx, broken)
	open, err := w.Store.OpenDeadLetters(ctx, orderSNs(rows))
	if err != nil {
		return nil, err
	}
	return next, w.resend(ctx, a.ID, w.due(rows, open, after, now), now)
}

// askAfter returns the time past the end of a pay window after which a reservation is overdue. It is short while the
// broker may hold events and closings back that it has accepted.
func (w *Overdue) askAfter() time.Duration {
	if w.held() {
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
	if err := w.Inventory.PublishClosing(ctx, closing); err != nil {
		return err
	}
	w.resent.attempted(due, now)
	return nil
}
