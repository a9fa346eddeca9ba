package sweep

import (
	"context"
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// sweepBatch bounds one query of a sweep.
const sweepBatch = 256

// Orders publishes again the deductions of reservations that have no order, and gives up reservations that have had
// none for AbandonAfter. It has no state: each reservation carries the time of its next attempt.
type Orders struct{ Deps }

// NewOrders makes the sweep.
func NewOrders(d Deps) *Orders { return &Orders{Deps: d} }

// Run processes all reservations that are due.
func (w *Orders) Run(ctx context.Context) error {
	for {
		if more, err := w.RunBatch(ctx); err != nil || !more {
			return err
		}
	}
}

// RunBatch processes one batch. more reports that other reservations may be due.
func (w *Orders) RunBatch(ctx context.Context) (more bool, err error) {
	now := w.now()
	rows, broken, err := w.Store.ReservationsToRepublish(ctx, now, sweepBatch)
	if err != nil || len(rows)+len(broken) == 0 {
		return false, err
	}
	open, err := w.Store.OpenDeadLetters(ctx, orderSNs(rows))
	if err != nil {
		return false, err
	}
	republish, abandoned := w.split(rows, open, now)
	w.Alarms.RaiseUnreadable(ctx, broken)
	// The next attempts are scheduled after all have been published. So after a failure the whole batch is still due.
	if err := w.Inventory.PublishDeductions(ctx, republish); err != nil {
		return false, err
	}
	if err := w.abandon(ctx, abandoned, now); err != nil {
		return false, err
	}
	// Reservations that cannot be read or priced wait as long as all others, so that they block none of them.
	if err := w.schedule(ctx, append(rows, broken...), now); err != nil {
		return false, err
	}
	return len(rows)+len(broken) == sweepBatch, nil
}

// split separates the reservations to publish from those to give up, the latter by activity. A reservation with an
// open dead letter is neither.
func (w *Orders) split(
	rows []core.Reservation, open map[string]bool, now time.Time,
) (republish []core.Reservation, abandoned map[string][]string) {
	abandoned = map[string][]string{}
	for _, r := range rows {
		expired := !r.LandedAt.Add(w.Config.AbandonAfter).After(now)
		switch {
		case open[r.OrderSN]:
		case expired:
			abandoned[r.ActivityID] = append(abandoned[r.ActivityID], r.OrderSN)
		default:
			republish = append(republish, r)
		}
	}
	return republish, abandoned
}

// abandon publishes closings for reservations without an order. The order service writes a tombstone, and only its
// response releases units. A message is redelivered until the order service, the ledger and the gate have all changed.
// A direct call could stop in between, and no sweep finds a reservation that is released already.
func (w *Orders) abandon(ctx context.Context, abandoned map[string][]string, now time.Time) error {
	closings := make([]contract.OrderClose, 0, len(abandoned))
	for _, activityID := range slices.Sorted(maps.Keys(abandoned)) {
		w.Recorder.Info(ctx, "giving up reservations without an order", "activity_id", activityID, "rows",
			len(abandoned[activityID]))
		closings = append(closings,
			contract.OrderClose{OrderSNs: abandoned[activityID], ActivityID: activityID, DueAt: now})
	}
	if len(closings) == 0 {
		return nil
	}
	return w.Inventory.PublishClosings(ctx, closings)
}

// schedule writes when each reservation is due next: after a growing pause, at the latest when it is to be given up.
func (w *Orders) schedule(ctx context.Context, rows []core.Reservation, now time.Time) error {
	t := w.Config
	for i := range rows {
		r := &rows[i]
		next := now.Add(doubled(t.RepublishAfter, t.RepublishCap, r.RepublishAttempt+1))
		if end := r.LandedAt.Add(t.AbandonAfter); end.After(now) && end.Before(next) {
			next = end
		}
		r.RepublishAt, r.RepublishAttempt = &next, r.RepublishAttempt+1
	}
	return w.Store.ScheduleRepublish(ctx, rows)
}

func orderSNs(rows []core.Reservation) []string {
	sns := make([]string, len(rows))
	for i, r := range rows {
		sns[i] = r.OrderSN
	}
	return sns
}
