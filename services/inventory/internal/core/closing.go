package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// CloseDue makes the order service close orders whose pay window has ended, and makes the ledger follow its response.
// deadLetters are items of the message that could not be read. During an import it puts closings off, as if they had
// come too early.
func (s *Service) CloseDue(ctx context.Context, due []contract.OrderClose, deadLetters []contract.DeadLetter) error {
	if err := s.AddDeadLetters(ctx, deadLetters); err != nil {
		return err
	}
	var errs []error
	for _, c := range due {
		err := s.Guard.MayClose(ctx, c.ActivityID)
		switch {
		case errors.Is(err, ErrImporting):
			err = s.closeAgain(ctx, closing{request: c, later: map[time.Time][]string{c.DueAt: c.OrderSNs}})
		case err != nil:
			return err
		default:
			_, err = s.CloseOrders(ctx, c, ledger.ReasonExpired, ledger.ReasonExpired)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CloseOrders makes the order service close the orders of a closing, and makes ledger and gate follow its response. A
// row whose order is unknown is released with tombstoneReason: the order service wrote a tombstone and never creates
// this order. CloseOrders returns the outcomes.
func (s *Service) CloseOrders(
	ctx context.Context, request contract.OrderClose, reason, tombstoneReason string,
) ([]CloseOutcome, error) {
	outcomes, err := s.RequestClose(ctx, request.OrderSNs, reason)
	if err != nil {
		return nil, err
	}
	c := closing{
		request: request, reason: reason, tombstoneReason: tombstoneReason, later: map[time.Time][]string{},
	}
	for _, o := range outcomes {
		if incident := c.addOutcome(o); incident != "" {
			s.Recorder.Incident(ctx, incident, "order_sn", o.OrderSN, "outcome", o.Outcome)
		}
	}
	if err := s.followOutcomes(ctx, c.steps); err != nil {
		// The closing is repeated as a whole. If it had also published a later one, each attempt would add one more, and so
		// would each of those: without the gate, closings would multiply.
		return outcomes, err
	}
	return outcomes, s.closeAgain(ctx, c)
}

// followOutcomes makes ledger and gate follow the response of the order service. The rows are expected in the activity
// of the closing; their own activities are read only if one is in another.
func (s *Service) followOutcomes(ctx context.Context, steps []step) error {
	if len(steps) == 0 {
		return nil
	}
	err := s.applySteps(ctx, contract.GroupInventoryOrderClose, contract.TopicOrderClose, steps, nil)
	if !errors.Is(err, errOtherActivity) {
		return err
	}
	sns := make([]string, len(steps))
	for i, st := range steps {
		sns[i] = st.orderSN
	}
	rows, err := s.Store.Reservations(ctx, sns)
	if err != nil {
		return err
	}
	for i, st := range steps {
		if row, known := rows[st.orderSN]; known {
			steps[i].activityID = row.ActivityID
		}
	}
	return s.applySteps(ctx, contract.GroupInventoryOrderClose, contract.TopicOrderClose, steps, nil)
}

// closeAgain publishes the closings for later. Their delays are what is left by the time of the database.
func (s *Service) closeAgain(ctx context.Context, c closing) error {
	if len(c.later) == 0 {
		return nil
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, again := range c.again(now) {
		if again.Attempt > maxCloseAttempts {
			s.Incidents.Raise(ctx, "early closings",
				"closings came too early or met an import too often; the order service resends them",
				"activity_id", again.ActivityID, "due_at", again.DueAt, "attempts", again.Attempt)
			continue
		}
		errs = append(errs, s.PublishClosing(ctx, again.OrderClose, again.delay))
	}
	return errors.Join(errs...)
}

// PublishClosing publishes a closing. It makes up to three attempts, each with what is left of the delay then. A delayed
// closing stays one: its handler may be this call's caller.
func (s *Service) PublishClosing(ctx context.Context, c contract.OrderClose, delay time.Duration) error {
	began := time.Now() //nolint:forbidigo // measures only how long this takes, also if the clock is set meanwhile
	return s.retry(ctx, func() error {
		left := delay - time.Since(began) //nolint:forbidigo // as above
		if delay > 0 {
			left = max(left, firstClosePause)
		}
		return s.Pub.Closing(ctx, c, left)
	})
}

// RequestClose calls the order service, with at most contract.MaxItems orders a call.
func (s *Service) RequestClose(ctx context.Context, sns []string, reason string) (outcomes []CloseOutcome, err error) {
	err = s.retry(ctx, func() error {
		outcomes = outcomes[:0]
		for c := range slices.Chunk(sns, contract.MaxItems) {
			o, err := s.Orders.Close(ctx, c, reason)
			outcomes = append(outcomes, o...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return outcomes, err
}

// closing turns the outcomes of one call to the order service into steps for the ledger and closings for later.
type closing struct {
	request                 contract.OrderClose // its activity is that of orders that the ledger does not have
	reason, tombstoneReason string

	steps []step
	later map[time.Time][]string // order_sns by when to close them again; the zero time: not known
}

// The pause before an order that could not be closed is closed again lasts at least firstClosePause. It doubles with
// each closing that came too early for the same deadline, until lastClosePause.
//
// A broker whose clock is ahead by more than the time that is left delivers at once, whatever that time is. So from the
// second early closing on the delay is a growing multiple of that time, and a broker that is 5 min ahead causes few
// calls. An order may be closed late by that, but the order service sends the closings of orders past their deadline
// again. For the same reason none is sent after maxCloseAttempts early closings.
const (
	firstClosePause  = time.Second
	lastClosePause   = 30 * time.Second
	maxCloseAttempts = 10
)

// maxCloseDelay bounds how far in the future a closing is published: no pay window is longer, and no broker delays
// longer.
const maxCloseDelay = 24 * time.Hour

// laterClosing is a closing that is published with a delay.
type laterClosing struct {
	contract.OrderClose
	delay time.Duration
}

// addOutcome adds the step and the later closing that follow from one outcome. It returns the text of an incident, or
// "" for none.
func (c *closing) addOutcome(o CloseOutcome) (incident string) {
	st := step{
		orderSN: o.OrderSN, activityID: c.request.ActivityID, Step: ledger.Step{Present: true},
	}
	switch o.Outcome {
	case OutcomeClosed:
		// The order may have been cancelled earlier, with its event still in flight. The response and the event name the
		// same reason.
		st.Order, st.Reason = contract.OrderClosed, cmp.Or(o.Reason, c.reason)
	case OutcomePaid:
		st.Order = contract.OrderPaid
	case OutcomeRefunded:
		st.Order = contract.OrderRefunded
	case OutcomeUnknown:
		st.Order, st.Reason, st.Tombstone = contract.OrderClosed, c.tombstoneReason, true
	case OutcomeNotDue, OutcomePaying:
		at := o.At.UTC()
		c.later[at] = append(c.later[at], o.OrderSN)
		// The order exists: its row needs no deduction any more.
		st.Order = contract.OrderCreated
		if o.Outcome == OutcomeNotDue && !o.At.IsZero() {
			st.ExpiresAt = &o.At // the order service's deadline holds, whatever the clock of this process shows
		}
	default:
		return "the order service responded with an unknown outcome"
	}
	c.steps = append(c.steps, st)
	return ""
}

// again returns the closings for later, the earliest first.
func (c *closing) again(now time.Time) []laterClosing {
	list := make([]laterClosing, 0, len(c.later))
	for at, sns := range c.later {
		list = append(list, c.delayed(at, now, sns))
	}
	slices.SortFunc(list, func(a, b laterClosing) int { return a.DueAt.Compare(b.DueAt) })
	return list
}

// delayed returns the closing of orders that become due at a time, or at an unknown one if it is zero.
func (c *closing) delayed(at, now time.Time, sns []string) laterClosing {
	attempt := 1
	if at.IsZero() || at.Equal(c.request.DueAt) { // this closing was meant for the same time and came too early
		attempt = c.request.Attempt + 1
	}
	delay := min(firstClosePause<<min(attempt-1, 10), lastClosePause)
	if at.IsZero() {
		at = now.Add(delay)
	}
	left := min(max(0, at.Sub(now)), maxCloseDelay)
	if attempt > 1 {
		left <<= min(2*attempt-3, 16) // 2, 8, 32 times, ...
	}
	return laterClosing{OrderClose: contract.OrderClose{
		OrderSNs: sns, ActivityID: c.request.ActivityID, DueAt: at, Attempt: attempt, Traceparent: c.request.Traceparent,
	}, delay: min(max(delay, left), maxCloseDelay)}
}
