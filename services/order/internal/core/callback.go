package core

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
)

// Callback handles an event of a payment provider, whose signature has been verified. Events may be repeated and
// arrive in any order. For a payment that does not exist, Callback stores the event for an operator and returns
// EventUnknown.
//
// One transaction handles a success completely: either it moves the order pending -> paid, or it inserts a refund.
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
	effect, err := s.handleEvent(ctx, known, e)
	return effect.handled, err
}

// handleEvent handles an event of the payment known.
func (s *Service) handleEvent(ctx context.Context, known Payment, e PaymentEvent) (callbackEffect, error) {
	var effect callbackEffect
	err := s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		effect = callbackEffect{}
		stored, seen, err := tx.PaymentEvent(e.Provider, e.EventID)
		if err != nil {
			return err
		}
		if seen && !sameEvent(stored, e) {
			effect.reused = true
			return contract.Refuse(contract.CodeStateConflict, "This event_id was used for another event.")
		}
		if seen && stored.Handled != EventUnknown {
			effect.handled = stored.Handled
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
		if !ok || !exists { // neither payments nor orders are ever deleted
			return ErrRetry
		}
		if err := s.applyEvent(tx, o, p, e, &effect); err != nil {
			return err
		}
		if seen { // stored as unknown before the payment existed
			return expectOne(tx.UpdatePaymentEvent(e.Provider, e.EventID, EventUnknown, effect.handled))
		}
		e.Handled = effect.handled
		if e.ReceivedAt, err = tx.Now(); err != nil {
			return err
		}
		return tx.InsertPaymentEvent(e)
	})
	s.reportCallback(ctx, known, e, effect, err)
	return effect, err
}

// callbackEffect records what the transaction of a callback did, for metrics and alarms after its commit.
type callbackEffect struct {
	handled  Handled
	paid     bool
	refund   *Refund
	reused   bool // the event_id belongs to another event
	disagree bool // the payment has succeeded before, with another amount or currency
}

// applyEvent applies an event to a payment and its order, both locked.
func (s *Service) applyEvent(tx Tx, o Order, p Payment, e PaymentEvent, done *callbackEffect) error {
	now, err := tx.Now()
	if err != nil {
		return err
	}
	done.handled = EventIgnored
	switch {
	case p.State == PaymentSucceeded: // final: no later event changes it
		done.disagree = e.Outcome == OutcomeSucceeded && (e.Amount != p.PaidAmount || e.Currency != p.PaidCurrency)
		return nil
	case e.Outcome == OutcomeFailed && p.State == PaymentFailed:
		return nil
	case e.Outcome == OutcomeFailed:
		p.State, p.FinishedAt = PaymentFailed, now
		done.handled = EventApplied
		return expectOne(tx.UpdatePayment(p, PaymentStarted))
	}

	// A failed payment can still succeed: the money was taken, whatever was reported before.
	p.State, p.FinishedAt, p.PaidAmount, p.PaidCurrency = PaymentSucceeded, now, e.Amount, e.Currency
	done.handled = EventApplied
	if err := expectOne(tx.UpdatePayment(p, PaymentStarted, PaymentFailed)); err != nil {
		return err
	}
	var why string
	switch {
	case e.Amount != p.Amount || e.Currency != p.Currency:
		why = RefundWrongAmount
	case o.State == Pending: // also past its deadline, until a closing has closed it
		if err := expectOne(tx.Pay(o.OrderSN, p.PaymentID, now)); err != nil {
			return err
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
	r := newRefund(p, why, now)
	done.refund = &r
	return tx.InsertRefund(r)
}

// newRefund returns a pending refund of all that payment p took, due at once.
func newRefund(p Payment, reason string, now time.Time) Refund {
	return Refund{
		PaymentID: p.PaymentID, OrderSN: p.OrderSN, Provider: p.Provider, Amount: p.PaidAmount,
		Currency: p.PaidCurrency, State: RefundPending, Reason: reason, CreatedAt: now, NextAttemptAt: now,
	}
}

// expectOne checks the result of a compare-and-swap. It returns ErrRetry unless exactly one row changed.
func expectOne(changed int, err error) error {
	if err == nil && changed != 1 {
		return ErrRetry
	}
	return err
}

// reportCallback counts the effect of a callback and raises its alarm. err is the error of the callback's transaction.
func (s *Service) reportCallback(ctx context.Context, p Payment, e PaymentEvent, done callbackEffect, err error) {
	switch {
	case done.reused:
		s.rec.Alarm(ctx, "event_reused", "provider used one event_id for two events",
			"provider", e.Provider, "payment_id", e.PaymentID)
	case err != nil:
	case done.disagree:
		s.rec.Alarm(ctx, "payment_disagreement",
			"provider reports another amount or currency for a payment that has succeeded",
			"provider", e.Provider, "payment_id", e.PaymentID, "order_sn", p.OrderSN)
	case done.paid:
		s.rec.Paid(ctx)
	case done.refund != nil:
		s.rec.Refund(ctx, RefundPending)
		s.rec.Alarm(ctx, "payment_refunded", "payment succeeded but did not make its order paid, and is refunded",
			"payment_id", p.PaymentID, "order_sn", p.OrderSN, "reason", done.refund.Reason)
	}
}

// unknownPayment stores an event for a payment that does not exist.
func (s *Service) unknownPayment(ctx context.Context, e PaymentEvent) (Handled, error) {
	first, reused := false, false
	err := s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		first, reused = false, false
		stored, seen, err := tx.PaymentEvent(e.Provider, e.EventID)
		if err != nil {
			return err
		}
		if seen {
			if reused = !sameEvent(stored, e); reused {
				return contract.Refuse(contract.CodeStateConflict, "This event_id was used for another event.")
			}
			return nil
		}
		first = true
		e.Handled = EventUnknown
		if e.ReceivedAt, err = tx.Now(); err != nil {
			return err
		}
		return tx.InsertPaymentEvent(e)
	})
	switch {
	case reused:
		s.rec.Alarm(ctx, "event_reused", "provider used one event_id for two events", "provider", e.Provider)
	case err == nil && first:
		s.rec.Alarm(ctx, "unknown_payment", "provider reports a payment that does not exist",
			"provider", e.Provider, "payment_id", e.PaymentID, "outcome", string(e.Outcome), "amount", e.Amount)
	}
	return EventUnknown, err
}

func sameEvent(a, b PaymentEvent) bool {
	return a.PaymentID == b.PaymentID && a.Outcome == b.Outcome && a.Amount == b.Amount && a.Currency == b.Currency
}
