package core

import (
	"cmp"
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
// No event follows: the caller is inventory, which calls again until it has the response.
//
// While this process must not decide by time, CloseOrders refuses ReasonExpired as unavailable, with ErrClocks.
func (s *Service) CloseOrders(ctx context.Context, orderSNs []string, reason string) ([]CloseResult, error) {
	if reason == ReasonExpired {
		if err := s.requireClocks(ctx); err != nil {
			return nil, err
		}
	}
	orderSNs = distinct(orderSNs)
	var done closed
	err := s.store.InTx(ctx, "close transaction", func(tx Tx) (err error) {
		done, err = s.closeIn(tx, orderSNs, reason)
		return err
	})
	if err != nil {
		return nil, err
	}
	if done.orders == 0 {
		return done.results, nil
	}
	s.rec.Closed(ctx, reason, done.orders)
	if !done.deadline.IsZero() {
		s.rec.Lateness(ctx, done.at.Sub(done.deadline))
	}
	return done.results, nil
}

// closed is what a transaction closed.
type closed struct {
	results  []CloseResult
	orders   int // those that were not closed before
	at       time.Time
	deadline time.Time // of one that expired; zero if none did
}

// closeIn closes the orders that are pending and due, before it reads any. It then reads only those that have an open
// payment; if the number of closed orders shows that another one was not due or not pending, it reads all.
func (s *Service) closeIn(tx Tx, orderSNs []string, reason string) (c closed, err error) {
	if c.at, err = tx.Now(); err != nil {
		return c, err
	}
	sns, paying, err := withoutPayments(tx, orderSNs, reason)
	if err != nil {
		return c, err
	}
	if c.orders, err = tx.Close(sns, reason, c.at); err != nil {
		return c, err
	}
	if _, begun, err := withoutPayments(tx, sns, reason); err != nil || len(begun) > 0 {
		return c, cmp.Or(err, ErrRetry) // a payment that was begun in time and committed after the first reading
	}
	if reason != ReasonExpired && c.orders > 0 { // of those that expired, none has an open payment
		if err := tx.CancelPayments(sns, c.at); err != nil {
			return c, err
		}
	}
	if c.orders == len(sns) {
		for _, sn := range sns {
			c.results = append(c.results, CloseResult{OrderSN: sn, Outcome: CloseClosed, Reason: reason})
		}
		orderSNs = paying
		if reason == ReasonExpired && len(sns) > 0 {
			if c.deadline, err = tx.Deadline(sns[0]); err != nil {
				return c, err
			}
		}
	}
	return c, s.closeOneByOne(tx, &c, orderSNs, reason)
}

// withoutPayments separates the orders without an open payment from the others. Only for ReasonExpired do payments
// matter.
func withoutPayments(tx Tx, orderSNs []string, reason string) (without, with []string, err error) {
	if reason != ReasonExpired || len(orderSNs) == 0 {
		return orderSNs, nil, nil
	}
	open, err := tx.OpenPayments(orderSNs)
	if err != nil || len(open) == 0 {
		return orderSNs, nil, err
	}
	for _, sn := range orderSNs {
		if open[sn] {
			with = append(with, sn)
		} else {
			without = append(without, sn)
		}
	}
	return without, with, nil
}

// closeOneByOne reads and locks orders, decides about each, and adds the results to c.
func (s *Service) closeOneByOne(tx Tx, c *closed, orderSNs []string, reason string) error {
	if len(orderSNs) == 0 {
		return nil
	}
	orders, err := tx.LockOrders(orderSNs)
	if err != nil {
		return err
	}
	inFlight, err := s.paymentsInFlight(tx, orders, reason, c.at)
	if err != nil {
		return err
	}
	var missing, closing []string
	for _, sn := range orderSNs {
		o, found := orders[sn]
		if !found {
			missing = append(missing, sn)
		}
		r, err := s.decideClose(tx, o, found, reason, c.at, inFlight[sn])
		if err != nil {
			return err
		}
		r.OrderSN = sn
		c.results = append(c.results, r)
		expired := reason == ReasonExpired && r.Outcome == CloseClosed
		if expired && (o.State == Pending || o.ClosedAt.Equal(c.at)) {
			c.deadline = o.ExpiresAt
		}
		if r.Outcome == CloseClosed && o.State == Pending {
			closing = append(closing, sn)
		}
	}
	if len(missing) > 0 {
		if err := tx.InsertTombstones(missing, c.at); err != nil {
			return err
		}
	}
	if len(closing) == 0 {
		return nil
	}
	n, err := tx.Close(closing, reason, c.at)
	if err == nil && n != len(closing) {
		err = ErrRetry
	}
	if err != nil {
		return err
	}
	c.orders += n
	return tx.CancelPayments(closing, c.at)
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
		began := p.CreatedAt
		if p.TurnAt.After(began) {
			began = p.TurnAt
		}
		end := began.Add(s.opts.PaymentGrace)
		inTime := began.Before(orders[p.OrderSN].ExpiresAt)
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

// RefundOrders refunds paid orders for which inventory has no units, or which the merchant cancelled: paid -> refunded,
// with a refund of the payment that paid the order. A repeated call returns the same results.
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
		if reason == RefundReview {
			continue
		}
		s.rec.Incident(ctx, "order_refunded", "paid order is refunded: inventory has no units for it",
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
