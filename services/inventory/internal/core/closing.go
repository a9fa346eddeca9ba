package core

import (
	"cmp"
	"context"
	"errors"
	"sort"
	"time"

	"flashsale.internal/pkg/contract"
)

// CloseDue asks the order service to close orders whose pay window is over, and acts on how each of them stands.
func (s *Service) CloseDue(ctx context.Context, due []contract.OrderClose, letters []contract.DeadLetter) error {
	if len(letters) > 0 {
		if err := s.AddDeadLetters(ctx, letters); err != nil {
			return err
		}
	}
	var errs []error
	for _, c := range due {
		_, err := s.closeOrders(ctx, c.OrderSNs, ReasonExpired, ReasonExpired, c.ActivityID, c.Traceparent)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// closeOrders asks order to close these, and lets ledger and gate follow what it answers. tombstoneReason is the reason
// of a row whose order is unknown, then and ever after. It returns the outcomes.
func (s *Service) closeOrders(ctx context.Context, sns []string, reason, tombstoneReason, activityID, traceparent string) ([]CloseOutcome, error) {
	var outcomes []CloseOutcome
	err := s.retry(ctx, func() error {
		outcomes = outcomes[:0]
		return chunks(sns, contract.MaxItems, func(c []string) error {
			o, err := s.Orders.Close(ctx, c, reason)
			outcomes = append(outcomes, o...)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.Reservations(ctx, sns)
	if err != nil {
		return nil, err
	}
	now := s.now()
	var steps []step
	var again []contract.OrderClose
	later := map[time.Time][]string{}
	for _, o := range outcomes {
		row, ok := rows[o.OrderSN]
		st := step{orderSN: o.OrderSN, activityID: activityID, at: now}
		if ok {
			st.activityID = row.ActivityID
		}
		switch o.Outcome {
		case OutcomeClosed:
			// It may have been cancelled before, and the event be on its way: buyers are told one reason everywhere.
			st.kind, st.reason = contract.OrderClosed, cmp.Or(o.Reason, reason)
		case OutcomePaid:
			st.kind = contract.OrderPaid
		case OutcomeRefunded:
			st.kind = contract.OrderRefunded
		case OutcomeUnknown:
			st.kind, st.reason, st.tombstone = contract.OrderClosed, tombstoneReason, true
		case OutcomeNotDue, OutcomePaying:
			at := o.At.UTC()
			if at.IsZero() || at.Before(now) {
				at = now.Add(s.Timing.PayingAgainAfter)
			}
			if latest := now.Add(24 * time.Hour); at.After(latest) { // no pay window is longer, no broker waits for ever
				at = latest
			}
			later[at] = append(later[at], o.OrderSN)
			// The order is there: its row needs no deduction any more.
			st.kind = contract.OrderCreated
			if o.Outcome == OutcomeNotDue && !o.At.IsZero() {
				st.expiresAt = &o.At // as order has it, whatever our clock says
			}
		default:
			s.Recorder.Incident(ctx, "order answered an unknown outcome", "order_sn", o.OrderSN, "outcome", o.Outcome)
			continue
		}
		if !ok && o.Outcome != OutcomePaid {
			if o.Outcome != OutcomeUnknown && o.Outcome != OutcomeRefunded { // neither has a claim to units
				s.Recorder.Incident(ctx, "order stands, the ledger has no such reservation", "order_sn", o.OrderSN, "outcome", o.Outcome)
			}
			continue
		}
		steps = append(steps, st)
	}
	var errs []error
	if len(steps) > 0 {
		errs = append(errs, s.take(ctx, contract.GroupInventoryOrderClose, contract.TopicOrderClose, steps, nil))
	}
	for at, late := range later {
		again = append(again, contract.OrderClose{OrderSNs: late, ActivityID: activityID, DueAt: at, Traceparent: traceparent})
	}
	if len(again) > 0 {
		sort.Slice(again, func(i, j int) bool { return again[i].DueAt.Before(again[j].DueAt) })
		errs = append(errs, s.retry(ctx, func() error { return s.Pub.Closings(ctx, again) }))
	}
	return outcomes, errors.Join(errs...)
}
