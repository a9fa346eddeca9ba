package core

import (
	"context"

	"flashsale.internal/pkg/contract"
)

// Callback takes in what a provider says of a payment; the signature has been checked. It may come any number of times
// and in any order. The answer tells whether the payment exists here; when it does not, the event is kept for a person.
//
// A success is settled in one transaction: either the order goes pending -> paid by it, or its refund is written.
func (s *Service) Callback(ctx context.Context, e PaymentEvent) (Handled, error) {
	if e.Outcome == OutcomeSucceeded && e.Amount < 1 {
		return "", contract.InvalidField("amount", "must be at least 1 for a payment that succeeded")
	}
	known, found, err := s.store.Payment(ctx, e.PaymentID)
	if err != nil {
		return "", err
	}
	if !found || known.Provider != e.Provider {
		return s.unknownPayment(ctx, e)
	}

	var settled settlement
	err = s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		settled = settlement{}
		before, seen, err := tx.PaymentEvent(e.Provider, e.EventID)
		if err != nil {
			return err
		}
		if seen && !sameEvent(before, e) {
			settled.reused = true
			return contract.Refuse(contract.CodeStateConflict, "This event_id was used for another event.")
		}
		if seen && before.Handled != EventUnknown {
			settled.handled = before.Handled
			return nil
		}
		locked, err := tx.LockOrders([]string{known.OrderSN})
		if err != nil {
			return err
		}
		p, ok, err := tx.LockPayment(e.PaymentID)
		if err != nil {
			return err
		}
		o, exists := locked[p.OrderSN]
		if !ok || !exists { // payments are never deleted, nor orders
			return ErrRetry
		}
		if err := s.settle(tx, o, p, e, &settled); err != nil {
			return err
		}
		if seen { // kept as unknown once; the payment is there now
			n, err := tx.MovePaymentEvent(e.Provider, e.EventID, EventUnknown, settled.handled)
			if err == nil && n != 1 {
				err = ErrRetry
			}
			return err
		}
		e.Handled, e.ReceivedAt = settled.handled, s.now()
		return tx.InsertPaymentEvent(e)
	})
	s.reportSettlement(ctx, known, e, settled, err)
	return settled.handled, err
}

// settlement is what a callback's transaction did, for counting after its commit.
type settlement struct {
	handled  Handled
	paid     bool
	refund   *Refund
	reused   bool // the event_id names another event
	disagree bool // a success of other figures for a payment that has succeeded
}

// settle applies an event to a payment and its order, both locked.
func (s *Service) settle(tx Tx, o Order, p Payment, e PaymentEvent, done *settlement) error {
	now := s.now()
	done.handled = EventIgnored
	switch {
	case p.State == PaymentSucceeded: // settled; no later word changes that
		done.disagree = e.Outcome == OutcomeSucceeded && (e.Amount != p.PaidAmount || e.Currency != p.PaidCurrency)
		return nil
	case e.Outcome == OutcomeFailed && p.State == PaymentFailed:
		return nil
	case e.Outcome == OutcomeFailed:
		p.State, p.FinishedAt = PaymentFailed, now
		done.handled = EventApplied
		return moved(tx.MovePayment(p, PaymentStarted))
	}

	// A payment that failed may still succeed: the money was taken, whatever was said before.
	p.State, p.FinishedAt, p.PaidAmount, p.PaidCurrency = PaymentSucceeded, now, e.Amount, e.Currency
	done.handled = EventApplied
	if err := moved(tx.MovePayment(p, PaymentStarted, PaymentFailed)); err != nil {
		return err
	}
	var why string
	switch {
	case e.Amount != p.Amount || e.Currency != p.Currency:
		why = RefundWrongAmount
	case o.State == Pending: // also past its deadline, as long as nobody has closed it
		n, err := tx.Pay(o.OrderSN, p.PaymentID, now)
		if err != nil {
			return err
		}
		if n != 1 {
			return ErrRetry
		}
		o.State, o.PaidAt, o.PaidBy = Paid, now, p.PaymentID
		done.paid = true
		return tx.AddEvents([]contract.OrderEvent{o.event(contract.OrderPaid, now)})
	case o.State == Closed:
		why = map[string]string{ReasonCancelled: RefundCancelled, ReasonRejected: RefundRejected}[o.CloseReason]
		if why == "" {
			why = RefundLate
		}
	default:
		why = RefundSecond
	}
	r := refundOf(p, why)
	r.CreatedAt, r.NextAttemptAt = now, now
	done.refund = &r
	return tx.InsertRefund(r)
}

func refundOf(p Payment, why string) Refund {
	return Refund{
		PaymentID: p.PaymentID, OrderSN: p.OrderSN, Provider: p.Provider,
		Amount: p.PaidAmount, Currency: p.PaidCurrency, State: RefundPending, Reason: why,
	}
}

func moved(n int, err error) error {
	if err == nil && n != 1 {
		return ErrRetry
	}
	return err
}

func (s *Service) reportSettlement(ctx context.Context, p Payment, e PaymentEvent, done settlement, err error) {
	switch {
	case done.reused:
		s.rec.Alarm(ctx, "event_reused", "A provider used one event_id for two events",
			"provider", e.Provider, "payment_id", e.PaymentID)
	case err != nil:
	case done.disagree:
		s.rec.Alarm(ctx, "payment_disagreement", "A provider reports other figures for a payment that has succeeded",
			"provider", e.Provider, "payment_id", e.PaymentID, "order_sn", p.OrderSN)
	case done.paid:
		s.rec.Paid(ctx)
	case done.refund != nil:
		s.rec.Refund(ctx, RefundPending)
		s.rec.Alarm(ctx, "payment_refunded", "A payment succeeded without making its order paid and is given back",
			"payment_id", p.PaymentID, "order_sn", p.OrderSN, "reason", done.refund.Reason)
	}
}

// unknownPayment keeps an event for a payment that does not exist here.
func (s *Service) unknownPayment(ctx context.Context, e PaymentEvent) (Handled, error) {
	first, reused := false, false
	err := s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		first, reused = false, false
		before, seen, err := tx.PaymentEvent(e.Provider, e.EventID)
		if err != nil {
			return err
		}
		if seen {
			if reused = !sameEvent(before, e); reused {
				return contract.Refuse(contract.CodeStateConflict, "This event_id was used for another event.")
			}
			return nil
		}
		first = true
		e.Handled, e.ReceivedAt = EventUnknown, s.now()
		return tx.InsertPaymentEvent(e)
	})
	switch {
	case reused:
		s.rec.Alarm(ctx, "event_reused", "A provider used one event_id for two events", "provider", e.Provider)
	case err == nil && first:
		s.rec.Alarm(ctx, "unknown_payment", "A provider reports a payment that does not exist here",
			"provider", e.Provider, "payment_id", e.PaymentID, "outcome", string(e.Outcome), "amount", e.Amount)
	}
	return EventUnknown, err
}

func sameEvent(a, b PaymentEvent) bool {
	return a.PaymentID == b.PaymentID && a.Outcome == b.Outcome && a.Amount == b.Amount && a.Currency == b.Currency
}
