package core

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

// findRefundTimeout bounds the query of a provider for a refund. An operator's call waits for it, and inventory, which
// forwards the call, waits 8 s.
const findRefundTimeout = 5 * time.Second

// ProviderRefund is a refund that a provider has made.
type ProviderRefund struct {
	RefundID  string
	Reference string // the provider's own id of the payment; empty if it has none
	Amount    int64
	Currency  string
	At        time.Time // by the provider's clock
	// OtherInstallation is set if another installation uses the provider's account, and the payment seems to be of that
	// one. It counts only if it is recorded here.
	OtherInstallation bool
}

// Charge is a payment that a provider has taken. OrderSN and UserID are the reference that it keeps with the charge.
type Charge struct {
	PaymentID string
	OrderSN   string
	UserID    string
	Reference string // the provider's own id of the payment; empty if it has none
	Amount    int64
	Currency  string
	At        time.Time // by the provider's clock

	OtherInstallation bool // as of ProviderRefund
}

// payment returns the payment of a charge as its provider has taken it.
func (c Charge) payment(provider string) Payment {
	return Payment{
		PaymentID: c.PaymentID, OrderSN: c.OrderSN, UserID: c.UserID, Provider: provider, Reference: c.Reference,
		State: PaymentStarted, Amount: c.Amount, Currency: c.Currency, CreatedAt: c.At,
	}
}

// RefundAction is a decision about a refund that its provider has refused.
type RefundAction string

// The decisions about a refused refund.
const (
	RefundRetry  RefundAction = "retry"  // attempt it again
	RefundSettle RefundAction = "settle" // the money was returned outside of the provider
	RefundFound  RefundAction = "found"  // the provider had made the refund already
)

// RefundDecision is a decision of an operator about a refund.
type RefundDecision struct {
	PaymentID string
	Action    RefundAction
	Settlement
	At time.Time // of one that was stored
}

// Settlement identifies an operator and, of RefundSettle, how the money was returned.
type Settlement struct {
	By        string
	Reference string // of the transfer
	Reason    string
}

// WaitingRefunds returns the refunds that wait for an operator, oldest first, at most limit, and whether there are
// more: those that their provider has refused, and pending ones that keep failing. after is the last refund of the
// previous page, its payment's id in place of an order_sn.
func (s *Service) WaitingRefunds(ctx context.Context, after Position, limit int) ([]Refund, bool, error) {
	list, err := s.store.WaitingRefunds(ctx, incidentAttempts, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	return list[:min(limit, len(list))], len(list) > limit, nil
}

// RetryRefund makes a refund that its provider has refused pending again. If the provider has made the refund
// meanwhile, it is recorded as refunded instead. A refund in another state is returned unchanged.
func (s *Service) RetryRefund(ctx context.Context, refundID, by string) (Refund, error) {
	made, err := s.madeAlready(ctx, refundID)
	if err != nil {
		return Refund{}, err
	}
	var r Refund
	var changed bool
	err = s.store.InTx(ctx, "refund transaction", func(tx Tx) (err error) {
		changed = false
		if r, err = lockRefund(tx, refundID); err != nil || r.State != RefundFailed {
			return err
		}
		changed = true
		if made.of(r) {
			return s.decideRefund(tx, &r, RefundDone, RefundFound, Settlement{By: by})
		}
		return s.decideRefund(tx, &r, RefundPending, RefundRetry, Settlement{By: by})
	})
	if err != nil {
		return Refund{}, err
	}
	if changed {
		s.rec.Refund(ctx, r.State)
	}
	return r, nil
}

// SettleRefund records that the money of a refund, which its provider has refused, was returned in another way. A
// repeated call with the same reference returns the refund. If the provider has made the refund, it is recorded so and
// the call is refused with state_conflict: the money may have been returned twice. If it has refunded another amount,
// that is recorded beside the settlement, and raises an incident.
func (s *Service) SettleRefund(ctx context.Context, refundID string, how Settlement) (Refund, error) {
	made, err := s.madeAlready(ctx, refundID)
	if err != nil {
		return Refund{}, err
	}
	var r Refund
	var settled, found bool
	err = s.store.InTx(ctx, "refund transaction", func(tx Tx) (err error) {
		settled, found = false, false
		if r, err = lockRefund(tx, refundID); err != nil {
			return err
		}
		switch {
		case r.State == RefundPending:
			return contract.Refuse(contract.CodeStateConflict,
				"The refund is still being attempted. Only a refund that its provider has refused can be settled by hand.")
		case r.State == RefundDone && r.Settled.Reference == how.Reference:
			return nil
		case r.State == RefundDone && r.Settled.Reference != "":
			return contract.Refuse(contract.CodeStateConflict, "The refund was settled under another reference.")
		case r.State == RefundDone:
			return errMadeByProvider
		case made.of(r):
			found = true
			return s.decideRefund(tx, &r, RefundDone, RefundFound, how)
		}
		settled = true
		r.Settled = how
		if err := s.decideRefund(tx, &r, RefundDone, RefundSettle, how); err != nil || made == nil {
			return err
		}
		return tx.InsertRefundDecision(RefundDecision{
			PaymentID: r.PaymentID, Action: RefundFound, Settlement: Settlement{
				By: how.By, Reason: fmt.Sprintf("provider has refunded %d %s", made.Amount, made.Currency),
			},
		}, r.FinishedAt)
	})
	if err != nil {
		return Refund{}, err
	}
	if settled || found {
		s.rec.Refund(ctx, r.State)
	}
	if found {
		s.rec.Incident(ctx, "refund_twice", "operator settled a refund that its provider had made: the money may have "+
			"been returned twice", "payment_id", r.PaymentID, "order_sn", r.OrderSN, "provider", r.Provider)
		return Refund{}, errMadeByProvider
	}
	if settled && made != nil {
		s.rec.Incident(ctx, "refund_twice", "operator settled a refund of which its provider had refunded another amount: "+
			"more money may have been returned than was paid", "payment_id", r.PaymentID, "order_sn", r.OrderSN,
			"provider", r.Provider, "found_amount", made.Amount, "found_currency", made.Currency)
	}
	return r, nil
}

// ErrNoRefund refuses a call for a refund that does not exist.
var ErrNoRefund = contract.Refuse(contract.CodeNotFound, "There is no such refund.")

var errMadeByProvider = contract.Refuse(contract.CodeStateConflict,
	"The provider has made this refund. It is recorded as refunded, and the reference was not stored.")

// of reports whether the provider has made this refund in full. p is nil if it has made none.
func (p *ProviderRefund) of(r Refund) bool {
	return p != nil && p.Amount == r.Amount && p.Currency == r.Currency
}

// madeAlready returns what the provider has refunded under the id of a refund that it has refused before, nil for
// nothing. It calls the provider only for a refund in this state. Without a response of the provider nothing is
// decided: the call is refused as unavailable.
func (s *Service) madeAlready(ctx context.Context, refundID string) (made *ProviderRefund, err error) {
	r, found, err := s.store.Refund(ctx, refundID)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, ErrNoRefund
	case r.State != RefundFailed:
		return nil, nil
	}
	return s.queryRefund(ctx, r)
}

// queryRefund returns what the provider has refunded under the id of a refund, nil for nothing. Without a response of
// the provider the call is refused as unavailable.
func (s *Service) queryRefund(ctx context.Context, r Refund) (*ProviderRefund, error) {
	prov, ok := s.providers[r.Provider]
	if !ok {
		return nil, unanswered(fmt.Errorf("%w: %q", errNoProvider, r.Provider))
	}
	p, err := s.paymentOf(ctx, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, findRefundTimeout)
	defer cancel()
	known, found, err := prov.FindRefund(ctx, p)
	if err != nil {
		return nil, unanswered(err)
	}
	if !found {
		return nil, nil
	}
	return &known, nil
}

// byProvider reports whether a refund is recorded as made by its provider.
func (r Refund) byProvider() bool { return r.State == RefundDone && r.Settled.Reference == "" }

// reopenRefund records that the provider has not made a refund that is recorded as made: an operator decides.
func (s *Service) reopenRefund(ctx context.Context, r Refund) error {
	const why = "provider reported the refund as made, and has none now"
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	reopened, err := s.store.ReopenRefund(ctx, r.PaymentID, why, now)
	if err == nil && reopened {
		s.reportRefused(ctx, r, why)
	}
	return err
}

func unanswered(cause error) error {
	return contract.Refuse(contract.CodeUnavailable,
		"The payment provider did not respond whether it has made this refund. Nothing was changed; try again.").
		Because(cause)
}

func lockRefund(tx Tx, refundID string) (Refund, error) {
	r, found, err := tx.LockRefund(refundID)
	if err == nil && !found {
		err = ErrNoRefund
	}
	return r, err
}

// decideRefund moves a locked refund out of RefundFailed and stores the decision in the same transaction.
func (s *Service) decideRefund(tx Tx, r *Refund, to RefundState, action RefundAction, how Settlement) error {
	now, err := tx.Now()
	if err != nil {
		return err
	}
	r.State, r.FinishedAt = to, now
	if to == RefundPending {
		r.FinishedAt, r.NextAttemptAt, r.Attempts = time.Time{}, now, 0
	}
	if err := expectOne(tx.UpdateRefused(*r)); err != nil {
		return err
	}
	return tx.InsertRefundDecision(RefundDecision{PaymentID: r.PaymentID, Action: action, Settlement: how}, now)
}
