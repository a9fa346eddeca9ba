package core

import (
	"context"
	"errors"
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
	switch {
	case e.PaymentID == "": // of a payment that could not be read
		s.rec.Incident(ctx, "payment_disputed", "buyer's bank disputes a payment that order cannot read at its provider",
			"provider", e.Provider, "reference", e.Reference, "amount", e.Amount)
		return EventIgnored, nil
	case e.Outcome == OutcomeRefundFailed:
		return s.refundEventFailed(ctx, e)
	}
	effect, err := s.handleEvent(ctx, e)
	return effect.handled, err
}

// refundEventFailed handles the event of a refund that has failed. The provider may have made another one since.
func (s *Service) refundEventFailed(ctx context.Context, e PaymentEvent) (Handled, error) {
	r, found, err := s.store.Refund(ctx, e.PaymentID)
	if err != nil || !found || r.Provider != e.Provider || !r.byProvider() {
		return EventIgnored, err
	}
	made, err := s.queryRefund(ctx, r)
	if err != nil || made.of(r) {
		return EventIgnored, err
	}
	return EventApplied, s.reopenRefund(ctx, r)
}

// handleEvent handles an event.
//
// Nearly every event is a new success that pays its order. So the first transaction locks nothing before it writes: its
// guarded updates and the key of the event decide. If one of them shows that what it read has changed, or that the
// event is known, it rolls back, and a second transaction locks order and payment first.
func (s *Service) handleEvent(ctx context.Context, e PaymentEvent) (callbackEffect, error) {
	var effect callbackEffect
	handle := func(lock bool) error {
		return s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
			effect = callbackEffect{}
			return handleEventIn(tx, e, lock, &effect)
		})
	}
	err := handle(false)
	if errors.Is(err, ErrStale) {
		err = handle(true)
	}
	s.reportCallback(ctx, e, effect, err)
	return effect, err
}

// callbackEffect records what the transaction of a callback did, for metrics and incidents after its commit.
type callbackEffect struct {
	handled  Handled
	orderSN  string // empty for an unknown payment
	unknown  bool   // the event was stored as unknown for the first time
	paid     bool
	refund   *Refund
	alarm    bool // the event is one that an operator decides about, and is new
	reused   bool // the event_id belongs to another event
	disagree bool // the payment has succeeded before, with another amount or currency
}

// handleEventIn handles an event in a transaction. Unless lock is set, it returns ErrStale for an event that only locks
// can decide.
func handleEventIn(tx Tx, e PaymentEvent, lock bool, done *callbackEffect) error {
	p, o, now, err := tx.PaymentWithOrder(e.PaymentID)
	if err != nil {
		return err
	}
	if p.PaymentID == "" || p.Provider != e.Provider {
		if e.OtherInstallation {
			done.handled = EventIgnored
			return nil
		}
		return handleUnknown(tx, e, done)
	}
	done.orderSN = p.OrderSN
	if !lock && e.Outcome == OutcomeSucceeded && p.State != PaymentSucceeded && refundReason(o, p, e) == "" {
		err := applyEvent(tx, o, p, e, now, done)
		if err == nil {
			e.Handled, e.ReceivedAt = done.handled, now
			err = tx.InsertPaymentEvent(e)
		}
		if errors.Is(err, ErrRetry) || errors.Is(err, ErrEventExists) {
			return ErrStale
		}
		return err
	}
	return handleLocked(tx, p, e, done)
}

// handleLocked handles an event of a payment. It locks the payment and its order first.
func handleLocked(tx Tx, known Payment, e PaymentEvent, done *callbackEffect) error {
	stored, seen, err := storedEvent(tx, e, done)
	if err != nil {
		return err
	}
	if seen && stored.Handled != EventUnknown {
		done.handled = stored.Handled
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
	now, err := tx.Now()
	if err != nil {
		return err
	}
	if err := applyEvent(tx, o, p, e, now, done); err != nil {
		return err
	}
	if seen { // stored as unknown before the payment existed
		return expectOne(tx.UpdatePaymentEvent(e.Provider, e.EventID, EventUnknown, done.handled))
	}
	e.Handled, e.ReceivedAt = done.handled, now
	return insertNewEvent(tx, e)
}

// handleUnknown stores an event for a payment that does not exist.
func handleUnknown(tx Tx, e PaymentEvent, done *callbackEffect) error {
	done.handled = EventUnknown
	_, seen, err := storedEvent(tx, e, done)
	if err != nil || seen {
		return err
	}
	done.unknown = true
	e.Handled = EventUnknown
	if e.ReceivedAt, err = tx.Now(); err != nil {
		return err
	}
	return insertNewEvent(tx, e)
}

// storedEvent returns the stored event with the provider and event_id of e. It refuses if that is another event.
func storedEvent(tx Tx, e PaymentEvent, done *callbackEffect) (stored PaymentEvent, seen bool, err error) {
	stored, seen, err = tx.PaymentEvent(e.Provider, e.EventID)
	if err == nil && seen && !sameEvent(stored, e) {
		done.reused = true
		err = contract.Refuse(contract.CodeStateConflict, "This event_id was used for another event.")
	}
	return stored, seen, err
}

// insertNewEvent inserts an event that was not stored when the transaction read it.
func insertNewEvent(tx Tx, e PaymentEvent) error {
	err := tx.InsertPaymentEvent(e)
	if errors.Is(err, ErrEventExists) { // inserted meanwhile
		return ErrRetry
	}
	return err
}

// applyEvent applies an event to a payment and its order. It returns ErrRetry if they have changed since they were
// read. It writes the order first, as every transaction locks the order before its payments.
func applyEvent(tx Tx, o Order, p Payment, e PaymentEvent, now time.Time, done *callbackEffect) error {
	done.handled = EventIgnored
	switch {
	case e.Outcome == OutcomeDisputed:
		done.alarm = true
		return nil
	case e.Outcome == OutcomeReturned:
		r, known, err := tx.LockRefund(p.PaymentID)
		done.alarm = !known || r.Reason == RefundByProvider || r.Amount != e.Amount || r.Currency != e.Currency
		return err
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
	p.Reference = e.Reference
	done.handled = EventApplied
	reason := refundReason(o, p, e)
	if reason == "" {
		if err := expectOne(tx.Pay(o.OrderSN, p.PaymentID, now)); err != nil {
			return err
		}
	}
	if err := expectOne(tx.UpdatePayment(p, PaymentStarted, PaymentFailed)); err != nil {
		return err
	}
	if reason == "" {
		o.State, o.PaidAt, o.PaidBy = Paid, now, p.PaymentID
		done.paid = true
		return tx.AddEvents([]contract.OrderEvent{o.event(contract.OrderPaid, now)})
	}
	r := newRefund(p, reason, now)
	done.refund = &r
	return tx.InsertRefund(r)
}

// refundReason returns why the success e of payment p is refunded. It is empty if p pays its order o.
func refundReason(o Order, p Payment, e PaymentEvent) string {
	switch {
	case e.Amount != p.Amount || e.Currency != p.Currency:
		return RefundWrongAmount
	case o.State == Pending: // also past its deadline, until a closing has closed it
		return ""
	case o.State == Closed && o.CloseReason == ReasonCancelled:
		return RefundCancelled
	case o.State == Closed && o.CloseReason == ReasonRejected:
		return RefundRejected
	case o.State == Closed:
		return RefundLate
	default:
		return RefundSecond
	}
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

// reportCallback counts the effect of a callback and reports its incident. err is the error of the callback's
// transaction.
func (s *Service) reportCallback(ctx context.Context, e PaymentEvent, done callbackEffect, err error) {
	switch {
	case done.reused:
		s.rec.Incident(ctx, "event_reused", "provider used one event_id for two events",
			"provider", e.Provider, "payment_id", e.PaymentID)
	case err != nil:
	case done.unknown:
		s.rec.Incident(ctx, "unknown_payment", "provider reports a payment that does not exist",
			"provider", e.Provider, "payment_id", e.PaymentID, "outcome", string(e.Outcome), "amount", e.Amount)
	case done.alarm && e.Outcome == OutcomeDisputed:
		s.rec.Incident(ctx, "payment_disputed", "buyer's bank disputes a payment: an operator decides",
			"provider", e.Provider, "payment_id", e.PaymentID, "order_sn", done.orderSN, "amount", e.Amount)
	case done.alarm:
		s.rec.Incident(ctx, "payment_returned", "money of a payment was returned at its provider: an operator decides",
			"provider", e.Provider, "payment_id", e.PaymentID, "order_sn", done.orderSN, "amount", e.Amount)
	case done.disagree:
		s.rec.Incident(ctx, "payment_disagreement",
			"provider reports another amount or currency for a payment that has succeeded",
			"provider", e.Provider, "payment_id", e.PaymentID, "order_sn", done.orderSN)
	case done.paid:
		s.rec.Paid(ctx)
	case done.refund != nil:
		s.rec.Refund(ctx, RefundPending)
		s.rec.Incident(ctx, "payment_refunded", "payment succeeded but did not make its order paid, and is refunded",
			"payment_id", e.PaymentID, "order_sn", done.orderSN, "reason", done.refund.Reason)
	}
}

func sameEvent(a, b PaymentEvent) bool {
	return a.PaymentID == b.PaymentID && a.Outcome == b.Outcome && a.Amount == b.Amount && a.Currency == b.Currency
}
