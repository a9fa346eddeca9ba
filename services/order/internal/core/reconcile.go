package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	reconcileBatch   = 100
	reconcileTimeout = 30 * time.Second // of one call to a provider
	busyAttempts     = 10               // of a call to a provider that is busy
	failedAttempts   = 4                // of a call to a provider that fails otherwise
)

// ReconcileResult is what ReconcilePayments found or did about a charge or a refund of a provider.
type ReconcileResult string

// The results for a charge or a refund.
const (
	ReconcileKnown    ReconcileResult = "known"     // recorded here already
	ReconcileDiffers  ReconcileResult = "differs"   // recorded here with another amount, currency or provider; unchanged
	ReconcileForeign  ReconcileResult = "foreign"   // its id is none of this service; unchanged
	ReconcileNoOrder  ReconcileResult = "no_order"  // its order does not exist: recorded, and refunded in full
	ReconcileKept     ReconcileResult = "kept"      // its order does not exist; unchanged, as requested
	ReconcilePaid     ReconcileResult = "paid"      // of a charge: recorded, and its order is paid
	ReconcileRefunded ReconcileResult = "refunded"  // of a charge: recorded; its order cannot become paid; refunded in full
	ReconcileReturned ReconcileResult = "returned"  // of a charge: recorded; the provider had refunded it in full
	ReconcileRecorded ReconcileResult = "recorded"  // of a refund: recorded
	ReconcileByHand   ReconcileResult = "by_hand"   // of a refund: an operator has settled it, too
	ReconcileNoCharge ReconcileResult = "no_charge" // of a refund: the provider has no such charge; unchanged
	ReconcileOther    ReconcileResult = "other"     // of another installation with this account; unchanged
	ReconcileYoung    ReconcileResult = "young"     // may be in flight; left for a later comparison
)

// Reconciled is a charge or a refund of a provider, and what was done about it.
type Reconciled struct {
	Provider  string
	Refund    bool // else a charge
	PaymentID string
	OrderSN   string // empty if it is not known
	Amount    int64
	Currency  string
	At        time.Time // by the provider's clock
	Result    ReconcileResult
}

// reconciling selects what of the lists of a provider is reconciled, and how.
type reconciling struct {
	since time.Time
	until time.Time // from which entries are ReconcileYoung; zero for none
	keep  bool      // leaves charges unchanged whose order does not exist
	each  func(context.Context, Reconciled) error
}

// young reports whether an entry is left for a later comparison.
func (r reconciling) young(at time.Time) bool { return !r.until.IsZero() && !at.Before(r.until) }

// ReconcilePayments compares all charges and refunds that the providers have made since a time with those recorded
// here, and records what is missing, for example after a restore of this database. A charge that is recorded makes its
// order paid if the order is pending, else it is refunded in full, as in Callback. A charge whose order does not exist
// is refunded, too, or left unchanged if keep is set. A charge that its provider has refunded pays no order.
//
// Each charge and refund is one transaction or two that can be repeated, so that a call that was interrupted is repeated
// from its beginning. each is called once for each of them.
func (s *Service) ReconcilePayments(ctx context.Context, since time.Time, keep bool, each func(Reconciled)) error {
	for _, prov := range s.providers {
		err := s.reconcile(ctx, prov, reconciling{
			since: since, keep: keep, each: func(_ context.Context, r Reconciled) error { each(r); return nil },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reconcile records what the tables lack of the charges and refunds of a provider.
func (s *Service) reconcile(ctx context.Context, prov Provider, how reconciling) error {
	err := pages(ctx, prov.Charges, how.since, func(c Charge) (err error) {
		r := Reconciled{
			Provider: prov.Name(), PaymentID: c.PaymentID, OrderSN: c.OrderSN, Amount: c.Amount, Currency: c.Currency, At: c.At,
			Result: ReconcileYoung,
		}
		if !how.young(c.At) || c.OtherInstallation {
			if r.Result, err = s.reconcileCharge(ctx, prov, c, how.keep); err != nil {
				return err
			}
		}
		return how.each(ctx, r)
	})
	if err != nil {
		return err
	}
	return pages(ctx, prov.Refunds, how.since, func(of ProviderRefund) (err error) {
		r := Reconciled{
			Provider: prov.Name(), Refund: true, PaymentID: of.RefundID, Amount: of.Amount, Currency: of.Currency, At: of.At,
			Result: ReconcileYoung,
		}
		if !how.young(of.At) || of.OtherInstallation {
			if r.Result, r.OrderSN, err = s.reconcileRefund(ctx, prov, of, how.keep); err != nil {
				return err
			}
		}
		return how.each(ctx, r)
	})
}

// pages calls each for every entry of a list of a provider.
func pages[T any](
	ctx context.Context, list func(context.Context, time.Time, string, int) ([]T, string, error), since time.Time,
	each func(T) error,
) error {
	for cursor := ""; ; {
		var page []T
		var next string
		err := patiently(ctx, func(ctx context.Context) (err error) {
			page, next, err = list(ctx, since, cursor, reconcileBatch)
			return err
		})
		if err != nil {
			return err
		}
		for _, entry := range page {
			if err := each(entry); err != nil {
				return err
			}
		}
		switch next {
		case "":
			return nil
		case cursor:
			return errors.New("list of the provider returns the same cursor again")
		}
		cursor = next
	}
}

// patiently calls a provider, and repeats the call up to failedAttempts times, up to busyAttempts times while the
// provider is busy.
func patiently(ctx context.Context, call func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, reconcileTimeout)
		err := call(limited)
		cancel()
		pause, most := backoff(200*time.Millisecond, 5*time.Second, attempt-1), failedAttempts
		var busy *ProviderBusy
		if errors.As(err, &busy) {
			pause, most = min(max(busy.After, time.Second), time.Minute), busyAttempts
		}
		if err == nil || attempt >= most {
			return err
		}
		select {
		case <-time.After(jitter(pause)):
		case <-ctx.Done():
			return err
		}
	}
}

// reconcileCharge records a charge that is not recorded yet.
func (s *Service) reconcileCharge(ctx context.Context, prov Provider, c Charge, keep bool) (ReconcileResult, error) {
	foreign := ReconcileForeign
	if c.OtherInstallation {
		foreign = ReconcileOther
	}
	if !contract.ValidID(c.PaymentID) || c.Amount < 1 {
		return foreign, nil
	}
	p, found, err := s.store.Payment(ctx, c.PaymentID)
	switch {
	case err != nil:
		return "", err
	case !found && c.OtherInstallation || found && contract.ValidID(c.OrderSN) && c.OrderSN != p.OrderSN:
		return foreign, nil
	case found && p.Provider != prov.Name():
		return ReconcileDiffers, nil
	case found && p.State == PaymentSucceeded && (p.PaidAmount != c.Amount || p.PaidCurrency != c.Currency):
		return ReconcileDiffers, nil
	case found && p.State == PaymentSucceeded:
		return ReconcileKnown, nil
	}
	returned, err := s.returned(ctx, prov, c)
	if err != nil {
		return "", err
	}
	if !found {
		var ended ReconcileResult
		if p, ended, err = s.insertCharged(ctx, prov, c, returned, keep); err != nil || ended != "" {
			return ended, err
		}
	}
	if returned {
		return ReconcileReturned, s.recordReturned(ctx, p, c)
	}
	effect, err := s.handleEvent(ctx, PaymentEvent{
		Provider: prov.Name(), EventID: "reconcile-" + c.PaymentID, PaymentID: c.PaymentID, Reference: c.Reference,
		Outcome: OutcomeSucceeded, Amount: c.Amount, Currency: c.Currency,
	})
	switch {
	case err != nil:
		return "", err
	case effect.paid:
		return ReconcilePaid, nil
	case effect.refund != nil:
		return ReconcileRefunded, nil
	}
	return ReconcileKnown, nil // a callback was faster
}

// returned returns whether the provider has refunded a charge in full.
func (s *Service) returned(ctx context.Context, prov Provider, c Charge) (bool, error) {
	var made ProviderRefund
	var found bool
	err := patiently(ctx, func(ctx context.Context) (err error) {
		made, found, err = prov.FindRefund(ctx, c.payment(prov.Name()))
		return err
	})
	return found && made.Amount == c.Amount && made.Currency == c.Currency, err
}

// insertCharged inserts the payment of a charge that is not known here. If the order exists, the payment is started and
// ended is empty. Otherwise it has succeeded and is refunded, or nothing is inserted if keep is set.
func (s *Service) insertCharged(
	ctx context.Context, prov Provider, c Charge, returned, keep bool,
) (p Payment, ended ReconcileResult, err error) {
	hasOrder := contract.ValidID(c.OrderSN)
	if !hasOrder {
		c.OrderSN = "0"
	}
	var refund *Refund
	err = s.store.InTx(ctx, "reconcile transaction", func(tx Tx) error {
		refund, ended = nil, ""
		var o Order
		exists := false
		if hasOrder {
			locked, err := tx.LockOrders([]string{c.OrderSN})
			if err != nil {
				return err
			}
			o, exists = locked[c.OrderSN]
			exists = exists && !o.Tombstone
		}
		known, found, err := tx.LockPayment(c.PaymentID)
		if err != nil || found { // another process was faster
			p = known
			return err
		}
		p = c.payment(prov.Name())
		if exists {
			p.UserID, p.Amount, p.Currency = o.UserID, o.Amount, o.Currency
			return tx.InsertPayment(p)
		}
		if ended = ReconcileKept; keep {
			return nil
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		p.State, p.PaidAmount, p.PaidCurrency, p.FinishedAt = PaymentSucceeded, c.Amount, c.Currency, now
		r := newRefund(p, RefundNoOrder, now)
		ended = ReconcileNoOrder
		if returned {
			r.State, r.Reason, r.FinishedAt = RefundDone, RefundByProvider, now
			ended = ReconcileReturned
		}
		refund = &r
		if err := tx.InsertPayment(p); err != nil {
			return err
		}
		return tx.InsertRefund(r)
	})
	if err != nil {
		return p, "", err
	}
	if refund != nil {
		s.rec.Refund(ctx, refund.State)
	}
	if ended == ReconcileNoOrder {
		s.rec.Incident(ctx, "charge_without_order", "provider has charged an order that does not exist; it is refunded",
			"provider", prov.Name(), "payment_id", c.PaymentID, "order_sn", c.OrderSN)
	}
	return p, ended, nil
}

// recordReturned records that the charge of a payment was taken and refunded by the provider. Its order stays as it is.
func (s *Service) recordReturned(ctx context.Context, p Payment, c Charge) error {
	recorded := false
	err := s.store.InTx(ctx, "reconcile transaction", func(tx Tx) error {
		recorded = false
		if _, err := tx.LockOrders([]string{p.OrderSN}); err != nil {
			return err
		}
		locked, found, err := tx.LockPayment(p.PaymentID)
		if err != nil || !found || locked.State == PaymentSucceeded {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		locked.State, locked.FinishedAt, locked.PaidAmount, locked.PaidCurrency = PaymentSucceeded, now, c.Amount, c.Currency
		locked.Reference = c.Reference
		if err := expectOne(tx.UpdatePayment(locked, PaymentStarted, PaymentFailed)); err != nil {
			return err
		}
		recorded = true
		return tx.InsertRefund(refundMade(locked, now))
	})
	if err == nil && recorded {
		s.rec.Refund(ctx, RefundDone)
	}
	return err
}

// refundMade returns the refund of all that payment p took, made by its provider.
func refundMade(p Payment, now time.Time) Refund {
	r := newRefund(p, RefundByProvider, now)
	r.State, r.FinishedAt = RefundDone, now
	return r
}

// reconcileRefund records a refund that is not recorded as made yet. orderSN is empty if it is not known.
func (s *Service) reconcileRefund(
	ctx context.Context, prov Provider, r ProviderRefund, keep bool,
) (result ReconcileResult, orderSN string, err error) {
	if !contract.ValidID(r.RefundID) {
		if r.OtherInstallation {
			return ReconcileOther, "", nil
		}
		return ReconcileForeign, "", nil
	}
	known, found, err := s.store.Refund(ctx, r.RefundID)
	switch {
	case err != nil:
		return "", "", err
	case found && (known.Provider != prov.Name() || known.Amount != r.Amount || known.Currency != r.Currency):
		return ReconcileDiffers, known.OrderSN, nil
	case found && known.State == RefundDone && known.Settled.Reference != "":
		return ReconcileByHand, known.OrderSN, nil
	case found && known.State == RefundDone:
		return ReconcileKnown, known.OrderSN, nil
	case found:
		return ReconcileRecorded, known.OrderSN, s.finishRefund(ctx, known, RefundDone, "")
	}
	p, found, err := s.store.Payment(ctx, r.RefundID)
	if err != nil {
		return "", "", err
	}
	if !found && r.OtherInstallation {
		return ReconcileOther, "", nil
	}
	if !found || p.State != PaymentSucceeded {
		return s.reconcileUnpaidRefund(ctx, prov, r, keep)
	}
	if p.Provider != prov.Name() || p.PaidAmount != r.Amount || p.PaidCurrency != r.Currency {
		return ReconcileDiffers, p.OrderSN, nil
	}
	return ReconcileRecorded, p.OrderSN, s.recordRefund(ctx, p)
}

// reconcileUnpaidRefund records a refund whose charge is not recorded: the provider made the charge earlier than the
// time from which it was listed.
func (s *Service) reconcileUnpaidRefund(
	ctx context.Context, prov Provider, r ProviderRefund, keep bool,
) (ReconcileResult, string, error) {
	var c Charge
	var found bool
	err := patiently(ctx, func(ctx context.Context) (err error) {
		c, found, err = prov.FindCharge(ctx, Payment{PaymentID: r.RefundID, Reference: r.Reference})
		return err
	})
	if err != nil || !found {
		return ReconcileNoCharge, "", err
	}
	result, err := s.reconcileCharge(ctx, prov, c, keep)
	if result == ReconcileReturned {
		result = ReconcileRecorded
	}
	return result, c.OrderSN, err
}

// recordRefund records that the provider has refunded payment p in full. The order that it paid becomes refunded. The
// ledger may hold its units as sold. It releases them after the event, or at a closing.
func (s *Service) recordRefund(ctx context.Context, p Payment) error {
	err := s.store.InTx(ctx, "reconcile transaction", func(tx Tx) error {
		locked, err := tx.LockOrders([]string{p.OrderSN})
		if err != nil {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		if o := locked[p.OrderSN]; o.State == Paid && o.PaidBy == p.PaymentID {
			if err := expectOne(tx.Refund(o.OrderSN, now)); err != nil {
				return err
			}
			o.State, o.RefundedAt = Refunded, now
			if err := tx.AddEvents([]contract.OrderEvent{o.event(contract.OrderRefunded, now)}); err != nil {
				return err
			}
			closing := contract.OrderClose{OrderSNs: []string{o.OrderSN}, ActivityID: o.ActivityID, DueAt: now}
			if err := tx.AddClosing(closing); err != nil {
				return err
			}
		}
		return tx.InsertRefund(refundMade(p, now))
	})
	if err == nil {
		s.rec.Refund(ctx, RefundDone)
	}
	return err
}
