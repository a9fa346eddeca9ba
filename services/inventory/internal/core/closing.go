package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
)

// closeAfterImport is the pause after which a closing is tried again that has met an import.
const closeAfterImport = 30 * time.Second

// CloseDue makes the order service close orders whose pay window has ended, and makes the ledger follow its response.
// deadLetters are items of the message that could not be read.
func (s *Service) CloseDue(ctx context.Context, due []contract.OrderClose, deadLetters []contract.DeadLetter) error {
	if err := s.AddDeadLetters(ctx, deadLetters); err != nil {
		return err
	}
	var errs []error
	for _, c := range due {
		importing, err := s.importing(ctx, c.ActivityID)
		if err != nil {
			return err
		}
		if importing { // an order that was lost must not get a tombstone before it is created again
			c.DueAt = s.now().Add(closeAfterImport)
			errs = append(errs, s.PublishClosings(ctx, []contract.OrderClose{c}))
			continue
		}
		_, err = s.closeOrders(ctx, c.OrderSNs, ReasonExpired, ReasonExpired, c.ActivityID, c.Traceparent)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// closeOrders makes the order service close these orders, and makes ledger and gate follow its response. A row whose
// order is unknown is released with tombstoneReason: the order service wrote a tombstone and never creates this order.
// closeOrders returns the outcomes.
func (s *Service) closeOrders(
	ctx context.Context, sns []string, reason, tombstoneReason, activityID, traceparent string,
) ([]CloseOutcome, error) {
	outcomes, err := s.requestClose(ctx, sns, reason)
	if err != nil {
		return nil, err
	}
	rows, err := s.store.Reservations(ctx, sns)
	if err != nil {
		return nil, err
	}
	c := closing{
		now: s.now(), payingAgainAfter: s.timing.PayingAgainAfter, reason: reason, tombstoneReason: tombstoneReason,
		activityID: activityID, rows: rows, later: map[time.Time][]string{},
	}
	for _, o := range outcomes {
		if incident := c.addOutcome(o); incident != "" {
			s.recorder.Incident(ctx, incident, "order_sn", o.OrderSN, "outcome", o.Outcome)
		}
	}
	var errs []error
	if len(c.steps) > 0 {
		errs = append(errs,
			s.applySteps(ctx, contract.GroupInventoryOrderClose, contract.TopicOrderClose, c.steps, nil))
	}
	if again := c.closings(traceparent); len(again) > 0 {
		errs = append(errs, s.PublishClosings(ctx, again))
	}
	return outcomes, errors.Join(errs...)
}

// PublishClosings publishes closings. It makes up to three attempts.
func (s *Service) PublishClosings(ctx context.Context, closings []contract.OrderClose) error {
	return s.retry(ctx, func() error { return s.pub.Closings(ctx, closings) })
}

// requestClose calls the order service, with at most contract.MaxItems orders a call.
func (s *Service) requestClose(ctx context.Context, sns []string, reason string) (outcomes []CloseOutcome, err error) {
	err = s.retry(ctx, func() error {
		outcomes = outcomes[:0]
		return chunks(sns, contract.MaxItems, func(c []string) error {
			o, err := s.orders.Close(ctx, c, reason)
			outcomes = append(outcomes, o...)
			return err
		})
	})
	return outcomes, err
}

// closing turns the outcomes of one call to the order service into steps for the ledger and closings for later.
type closing struct {
	now                     time.Time
	payingAgainAfter        time.Duration
	reason, tombstoneReason string
	activityID              string // of orders that the ledger does not have
	rows                    map[string]Reservation

	steps []step
	later map[time.Time][]string // order_sns by when to close them again
}

// maxCloseDelay bounds how far in the future a closing is published: no pay window is longer, and no broker delays
// longer.
const maxCloseDelay = 24 * time.Hour

// addOutcome adds the step and the later closing that follow from one outcome. It returns the text of an incident, or
// "" for none.
func (c *closing) addOutcome(o CloseOutcome) (incident string) {
	row, known := c.rows[o.OrderSN]
	st := step{orderSN: o.OrderSN, activityID: c.activityID, at: c.now}
	if known {
		st.activityID = row.ActivityID
	}
	switch o.Outcome {
	case OutcomeClosed:
		// The order may have been cancelled earlier, with its event still in flight. The response and the event name the
		// same reason.
		st.kind, st.reason = contract.OrderClosed, cmp.Or(o.Reason, c.reason)
	case OutcomePaid:
		st.kind = contract.OrderPaid
	case OutcomeRefunded:
		st.kind = contract.OrderRefunded
	case OutcomeUnknown:
		st.kind, st.reason, st.tombstone = contract.OrderClosed, c.tombstoneReason, true
	case OutcomeNotDue, OutcomePaying:
		at := c.closeAgainAt(o)
		c.later[at] = append(c.later[at], o.OrderSN)
		// The order exists: its row needs no deduction any more.
		st.kind = contract.OrderCreated
		if o.Outcome == OutcomeNotDue && !o.At.IsZero() {
			st.expiresAt = &o.At // the order service's deadline holds, whatever the clock of this process shows
		}
	default:
		return "the order service responded with an unknown outcome"
	}
	if !known && o.Outcome != OutcomePaid {
		if o.Outcome != OutcomeUnknown && o.Outcome != OutcomeRefunded { // neither has a claim to units
			return "order exists but the ledger has no reservation"
		}
		return ""
	}
	c.steps = append(c.steps, st)
	return ""
}

func (c *closing) closeAgainAt(o CloseOutcome) time.Time {
	at := o.At.UTC()
	if at.IsZero() || at.Before(c.now) {
		at = c.now.Add(c.payingAgainAfter)
	}
	if latest := c.now.Add(maxCloseDelay); at.After(latest) {
		return latest
	}
	return at
}

// closings returns the closings for later, the earliest first.
func (c *closing) closings(traceparent string) []contract.OrderClose {
	again := make([]contract.OrderClose, 0, len(c.later))
	for at, sns := range c.later {
		again = append(again,
			contract.OrderClose{OrderSNs: sns, ActivityID: c.activityID, DueAt: at, Traceparent: traceparent})
	}
	slices.SortFunc(again, func(a, b contract.OrderClose) int { return a.DueAt.Compare(b.DueAt) })
	return again
}
