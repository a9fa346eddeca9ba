package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Pauses between attempts for an activity whose batch failed, and the number of activities in a row that may fail
// before a round ends: more than one, since a single activity must not end it, and few, since without a broker each
// attempt takes its time-out.
const (
	failedFor    = time.Second
	failedForCap = time.Minute
	maxFailed    = 3
)

// OrdersConfig holds the pauses of Orders.
type OrdersConfig struct {
	// Pause before a deduction without an order is first published again; doubles up to RepublishCap.
	RepublishAfter time.Duration
	RepublishCap   time.Duration
	AbandonAfter   time.Duration // age from which a reservation without an order is given up
}

// OrdersStore is what Orders reads and writes in the tables. broken are reservations whose lines cannot be read.
type OrdersStore interface {
	Holdings
	// ReservationsToRepublish lists reservations of an activity whose deduction is due again, the longest due first.
	ReservationsToRepublish(
		ctx context.Context, activityID string, due Due, limit int,
	) (rows, broken []ledger.Row, err error)
	// ScheduleRepublish writes RepublishAt and RepublishAttempt of those that still have no order.
	ScheduleRepublish(ctx context.Context, rows []ledger.Row) error
}

// Due is which reservations are due again: those whose RepublishAt is Now or earlier; and those whose RepublishAt is
// Early[n] or earlier, n being the RepublishAttempt, if they landed after LandedAfter or are to be given up, since they
// landed at GivenUp or earlier. The last element of Early is for all further attempts; without any, none is due early.
type Due struct {
	Now                  time.Time
	Early                []time.Time
	LandedAfter, GivenUp time.Time
}

// OrdersDeps are the ports and settings of Orders.
type OrdersDeps struct {
	Store     OrdersStore
	Inventory interface { // the part of core.Service
		Closings
		PublishDeductions(ctx context.Context, rows []ledger.Row) error
	}
	Recorder      Recorder
	Incidents     Incidents
	BrokerlessFor func() time.Duration // for how long messages have been calls; 0 while RocketMQ takes them
	Config        OrdersConfig
}

// Orders publishes again the deductions of reservations that have no order, and gives up reservations that have had
// none for AbandonAfter. Each reservation carries the time of its next attempt. While messages are calls, a deduction is
// published again from brokerlessAge on, and a later time once if that was before they were.
//
// RunBatch must not be called concurrently in one process.
type Orders struct {
	OrdersDeps
	transport transport
	failures  *backoffs // by activity
	last      string    // the activity at which failures ended the last round
}

// NewOrders makes the sweep.
func NewOrders(d OrdersDeps) *Orders {
	return &Orders{
		OrdersDeps: d, transport: transport{brokerlessFor: d.BrokerlessFor},
		failures: newBackoffs(failedFor, failedForCap),
	}
}

// Run processes all reservations that are due, in turns: one batch of each activity, then the next.
func (w *Orders) Run(ctx context.Context) error {
	var errs []error
	for {
		more, err := w.RunBatch(ctx)
		errs = append(errs, err)
		if !more || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// RunBatch processes one batch of each activity that holds reservations. more reports that other reservations may be
// due. An activity that fails delays no other: it is left out for a growing pause. A round that failures end is continued
// by the next one, behind the activity where it ended.
func (w *Orders) RunBatch(ctx context.Context) (more bool, err error) {
	holding, err := holdingActivities(ctx, w.Store)
	if err != nil {
		return false, err
	}
	now, err := w.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	brokerlessFor, switched := w.transport.next(now)
	if switched { // activities failed because of RocketMQ
		w.failures = newBackoffs(failedFor, failedForCap)
	}
	w.failures.forgetOld(now)
	var errs []error
	inARow := 0
	first := slices.IndexFunc(holding, func(a core.Activity) bool { return a.ID == w.last }) + 1
	w.last = ""
	for _, a := range slices.Concat(holding[first:], holding[:first]) {
		if !w.failures.due(a.ID, now) {
			continue
		}
		full, err := w.sweepActivity(ctx, a.ID, brokerlessFor)
		if err != nil {
			errs = append(errs, fmt.Errorf("reservations without an order of activity %s: %w", a.ID, err))
			w.failures.failed(a.ID, now)
			if inARow++; inARow == maxFailed {
				w.last = a.ID
				break
			}
			continue
		}
		inARow = 0
		w.failures.succeeded(a.ID)
		more = more || full
	}
	return more, errors.Join(errs...)
}

// sweepActivity processes one batch of an activity's reservations.
func (w *Orders) sweepActivity(
	ctx context.Context, activityID string, brokerlessFor time.Duration,
) (more bool, err error) {
	now, err := w.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	rows, broken, err := w.Store.ReservationsToRepublish(ctx, activityID, w.due(now, brokerlessFor), sweepBatch)
	if err != nil || len(rows)+len(broken) == 0 {
		return false, err
	}
	open, err := w.Store.OpenDeadLetters(ctx, orderSNs(rows))
	if err != nil {
		return false, err
	}
	republish, abandoned := w.split(rows, open, now)
	w.Incidents.RaiseUnreadable(ctx, broken)
	// The next attempts are scheduled after all have been published. So after a failure the whole batch is still due.
	if err := w.Inventory.PublishDeductions(ctx, republish); err != nil {
		return false, err
	}
	if err := w.abandon(ctx, activityID, abandoned, now); err != nil {
		return false, err
	}
	// Reservations that cannot be read or priced wait as long as all others, so that they block none of them.
	if err := w.schedule(ctx, slices.Concat(rows, broken), now); err != nil {
		return false, err
	}
	return len(rows)+len(broken) == sweepBatch, nil
}

// due returns which reservations are due. While messages are calls, these are also reservations that landed brokerlessAge
// ago and were not repeated, and those that were last repeated before: RocketMQ may hold their deductions, or their orders'
// events. schedule stamps those that are soon given up with an earlier time, so that the time of their last repetition is
// unknown: they are not due early.
func (w *Orders) due(now time.Time, brokerlessFor time.Duration) Due {
	t := w.Config
	due := Due{Now: now, LandedAfter: now.Add(t.RepublishCap - t.AbandonAfter), GivenUp: now.Add(-t.AbandonAfter)}
	sent := now.Add(-brokerlessAge)
	for attempt := 0; brokerlessFor > 0; attempt++ {
		pause := doubled(t.RepublishAfter, t.RepublishCap, attempt)
		due.Early = append(due.Early, sent.Add(pause))
		if pause >= t.RepublishCap && attempt > 0 {
			break
		}
		sent = sentBefore(now, brokerlessFor)
	}
	return due
}

// split separates the reservations to publish from the order_sns to give up. A reservation with an open dead letter is
// neither.
func (w *Orders) split(
	rows []ledger.Row, open map[string]bool, now time.Time,
) (republish []ledger.Row, abandoned []string) {
	for _, r := range rows {
		expired := !r.LandedAt.Add(w.Config.AbandonAfter).After(now)
		switch {
		case open[r.OrderSN]:
		case expired:
			abandoned = append(abandoned, r.OrderSN)
		default:
			republish = append(republish, r)
		}
	}
	return republish, abandoned
}

// abandon publishes closings for reservations without an order. The order service writes a tombstone, and only its
// response releases units. A message is redelivered until the order service, the ledger and the gate have all changed.
// Without RocketMQ its handler runs here instead. The next round repeats it until the ledger has changed. No sweep finds
// a reservation that is released already, so if this process is killed then, the reconciler corrects the gate.
func (w *Orders) abandon(ctx context.Context, activityID string, abandoned []string, now time.Time) error {
	if len(abandoned) == 0 {
		return nil
	}
	w.Recorder.Info(ctx, "giving up reservations without an order", "activity_id", activityID, "rows", len(abandoned))
	return w.Inventory.PublishClosing(ctx, contract.OrderClose{OrderSNs: abandoned, ActivityID: activityID, DueAt: now}, 0)
}

// schedule writes when each reservation is due next: after a growing pause, at the latest when it is to be given up.
func (w *Orders) schedule(ctx context.Context, rows []ledger.Row, now time.Time) error {
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
