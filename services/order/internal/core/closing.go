package core

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
)

// CloseOutcome is the state of an order after a closing.
type CloseOutcome string

// The outcomes of a closing.
const (
	CloseClosed   CloseOutcome = "closed"
	ClosePaid     CloseOutcome = "paid"
	CloseRefunded CloseOutcome = "refunded" // paid, and then refunded
	ClosePaying   CloseOutcome = "paying"   // kept open for a payment in flight
	CloseNotDue   CloseOutcome = "not_due"
	CloseUnknown  CloseOutcome = "unknown" // has a tombstone
)

// CloseResult is the outcome for one order.
type CloseResult struct {
	OrderSN string
	Outcome CloseOutcome
	At      time.Time // of not_due and paying: when the closing is to be repeated
	Reason  string    // of closed: why the order was closed, which can differ from the requested reason
}

// CloseOrders closes the orders that are pending and due, and returns the state of each order. A repeated call returns
// the same results.
//
// For ReasonExpired an order is due at its deadline. A payment keeps it open for longer if it was started before the
// deadline, is not finished, and is younger than PaymentGrace. The order then becomes due when that payment reaches
// this age. This happens once per order, so later payments do not extend it again. For ReasonCancelled and
// ReasonRejected an order is due at once.
//
// An order_sn without an order gets a tombstone and is unknown from then on. This is correct for every closing, since
// the closing of an order is published only after the order was committed.
//
// While this process must not decide by time, CloseOrders refuses ReasonExpired as unavailable, with ErrClocks.
func (s *Service) CloseOrders(ctx context.Context, orderSNs []string, reason string) ([]CloseResult, error) {
	if reason == ReasonExpired {
		if err := s.requireClocks(ctx); err != nil {
			return nil, err
		}
	}
	orderSNs = distinct(orderSNs)
	var results []CloseResult
	var closing []Order
	var closedAt time.Time
	err := s.store.InTx(ctx, "close transaction", func(tx Tx) error {
		results, closing = make([]CloseResult, 0, len(orderSNs)), nil
		orders, err := tx.LockOrders(orderSNs)
		if err != nil {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		closedAt = now
		inFlight, err := s.paymentsInFlight(tx, orders, reason, now)
		if err != nil {
			return err
		}
		var missing []string
		for _, sn := range orderSNs {
			o, found := orders[sn]
			if !found {
				missing = append(missing, sn)
			}
			r, err := s.decideClose(tx, o, found, reason, now, inFlight[sn])
			if err != nil {
				return err
			}
			r.OrderSN = sn
			results = append(results, r)
			if r.Outcome == CloseClosed && o.State == Pending {
				closing = append(closing, o)
			}
		}
		if len(missing) > 0 {
			if err := tx.InsertTombstones(missing, now); err != nil {
				return err
			}
		}
		return s.closePending(tx, closing, reason, now)
	})
	if err != nil {
		return nil, err
	}
	if len(closing) > 0 {
		s.rec.Closed(ctx, reason, len(closing))
	}
	if reason == ReasonExpired {
		for _, o := range closing {
			s.rec.Lateness(ctx, closedAt.Sub(o.ExpiresAt))
		}
	}
	return results, nil
}

// decideClose returns the outcome of a closing for one locked order; found reports whether the order exists. inFlight
// is the end of the grace of its newest open payment, zero without one. Only for ClosePaying does it write: it stamps
// the order with the end of the grace.
func (s *Service) decideClose(
	tx Tx, o Order, found bool, reason string, now, inFlight time.Time,
) (CloseResult, error) {
	switch {
	case !found, o.Tombstone:
		return CloseResult{Outcome: CloseUnknown}, nil
	case o.State == Closed:
		return CloseResult{Outcome: CloseClosed, Reason: o.CloseReason}, nil
	case o.State == Refunded:
		return CloseResult{Outcome: CloseRefunded}, nil
	case o.State != Pending:
		return CloseResult{Outcome: ClosePaid}, nil
	case reason != ReasonExpired:
		return CloseResult{Outcome: CloseClosed, Reason: reason}, nil
	case now.Before(o.ExpiresAt):
		return CloseResult{Outcome: CloseNotDue, At: o.ExpiresAt}, nil
	case inFlight.IsZero():
		return CloseResult{Outcome: CloseClosed, Reason: reason}, nil
	case o.PayingUntil.IsZero():
		if err := expectOne(tx.HoldForPayment(o.OrderSN, inFlight)); err != nil {
			return CloseResult{}, err
		}
		return CloseResult{Outcome: ClosePaying, At: inFlight}, nil
	case now.Before(o.PayingUntil): // a repeated closing during the same grace, not a second grace
		return CloseResult{Outcome: ClosePaying, At: o.PayingUntil}, nil
	default:
		return CloseResult{Outcome: CloseClosed, Reason: reason}, nil
	}
}

// paymentsInFlight returns, by order_sn, the time until which an open payment keeps a due order open.
func (s *Service) paymentsInFlight(
	tx Tx, orders map[string]Order, reason string, now time.Time,
) (map[string]time.Time, error) {
	if reason != ReasonExpired {
		return nil, nil
	}
	var due []string
	for sn, o := range orders {
		if !o.Tombstone && o.State == Pending && !now.Before(o.ExpiresAt) {
			due = append(due, sn)
		}
	}
	if len(due) == 0 {
		return nil, nil
	}
	payments, err := tx.PaymentsOf(due)
	if err != nil {
		return nil, err
	}
	until := make(map[string]time.Time, len(due))
	for _, p := range payments {
		end := p.CreatedAt.Add(s.opts.PaymentGrace)
		inTime := p.CreatedAt.Before(orders[p.OrderSN].ExpiresAt)
		if p.State == PaymentStarted && inTime && now.Before(end) && end.After(until[p.OrderSN]) {
			until[p.OrderSN] = end
		}
	}
	return until, nil
}

// RefundOutcome is the state of an order after a refund was requested.
type RefundOutcome string

// The outcomes of a refund that inventory requested.
const (
	OrderRefunded  RefundOutcome = "refunded"
	OrderNotPaid   RefundOutcome = "not_paid"
	OrderIsUnknown RefundOutcome = "unknown"
)

// RefundResult is the outcome for one order.
type RefundResult struct {
	OrderSN string
	Outcome RefundOutcome
}

// RefundOrders refunds paid orders for which inventory has no units: paid -> refunded, with a refund of the payment
// that paid the order. A repeated call returns the same results.
func (s *Service) RefundOrders(ctx context.Context, orderSNs []string, reason string) ([]RefundResult, error) {
	orderSNs = distinct(orderSNs)
	var results []RefundResult
	var refunded []Refund
	err := s.store.InTx(ctx, "refund transaction", func(tx Tx) error {
		results, refunded = make([]RefundResult, 0, len(orderSNs)), nil
		orders, err := tx.LockOrders(orderSNs)
		if err != nil {
			return err
		}
		for _, sn := range orderSNs {
			o, found := orders[sn]
			r := RefundResult{OrderSN: sn, Outcome: OrderNotPaid}
			switch {
			case !found || o.Tombstone:
				r.Outcome = OrderIsUnknown
			case o.State == Refunded:
				r.Outcome = OrderRefunded
			case o.State == Paid:
				refund, err := s.refundPaid(tx, o, reason)
				if err != nil {
					return err
				}
				refunded = append(refunded, refund)
				r.Outcome = OrderRefunded
			}
			results = append(results, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range refunded {
		s.rec.Refund(ctx, RefundPending)
		s.rec.Alarm(ctx, "order_refunded", "paid order is refunded: inventory has no units for it",
			"order_sn", r.OrderSN, "payment_id", r.PaymentID, "reason", reason)
	}
	return results, nil
}

// refundPaid moves a paid order to refunded and inserts the refund of the payment that paid it.
func (s *Service) refundPaid(tx Tx, o Order, reason string) (Refund, error) {
	now, err := tx.Now()
	if err != nil {
		return Refund{}, err
	}
	if err := expectOne(tx.Refund(o.OrderSN, now)); err != nil {
		return Refund{}, err
	}
	p, found, err := tx.LockPayment(o.PaidBy)
	if err != nil {
		return Refund{}, err
	}
	if !found {
		return Refund{}, ErrRetry
	}
	r := newRefund(p, reason, now)
	if err := tx.InsertRefund(r); err != nil {
		return Refund{}, err
	}
	o.State, o.RefundedAt = Refunded, now
	return r, tx.AddEvents([]contract.OrderEvent{o.event(contract.OrderRefunded, now)})
}

func distinct(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}
