package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	beginTimeout = 8 * time.Second // of the call to a provider for which a buyer waits
	storeTimeout = 3 * time.Second // to store its response
)

// StartedPayment is the response to a started payment.
type StartedPayment struct {
	PaymentID string       `json:"payment_id"`
	State     PaymentState `json:"state"`
	PayURL    string       `json:"pay_url"`
}

// StartPayment starts a payment of a pending order before its deadline. The deadline does not change. A repeated call
// (call.Key) goes on with the same payment, as long as the order is pending. While this process must not decide by
// time, StartPayment refuses a new payment as unavailable, with ErrClocks. It refuses with provider_busy while the
// provider takes no call, and the repeated call keeps its turn.
func (s *Service) StartPayment(
	ctx context.Context, userID, orderSN, provider string, call Call,
) (started StartedPayment, err error) {
	if !s.genes.Belongs(orderSN, userID) {
		return started, errNoOrder
	}
	prov, ok := s.providers[provider]
	if !ok {
		return started, contract.InvalidField("provider", "is not a configured payment provider")
	}
	paymentID, err := s.insertPayment(ctx, userID, orderSN, provider, call)
	if err != nil {
		return started, err
	}
	return s.begin(ctx, prov, paymentID)
}

// insertPayment inserts a payment, and returns its id or that of an earlier call with the same key.
//
// One statement decides and inserts. The order is read only if it is not payable, to find the reason.
func (s *Service) insertPayment(
	ctx context.Context, userID, orderSN, provider string, call Call,
) (paymentID string, err error) {
	undecidable := s.requireClocks(ctx) // before the transaction: it may read the clocks
	err = s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		id, err := s.genes.NewPaymentID(userID)
		if err != nil {
			return fmt.Errorf("generate payment id: %w", err)
		}
		paymentID = id
		body, err := json.Marshal(StartedPayment{PaymentID: id, State: PaymentStarted})
		if err != nil {
			return err
		}
		stored, found, err := tx.StoreResponse(call, 201, body)
		if err != nil {
			return err
		}
		if found {
			var earlier StartedPayment
			err := json.Unmarshal(stored, &earlier)
			paymentID = earlier.PaymentID
			return err
		}
		if undecidable == nil {
			p := Payment{PaymentID: id, OrderSN: orderSN, UserID: userID, Provider: provider, State: PaymentStarted}
			if n, err := tx.BeginPayment(p, s.opts.MaxPayments); err != nil || n == 1 {
				return err
			}
		}
		return s.refusePayment(tx, userID, orderSN, undecidable)
	})
	return paymentID, err
}

// begin makes a payment payable at its provider.
func (s *Service) begin(ctx context.Context, prov Provider, paymentID string) (started StartedPayment, err error) {
	p, o, now, err := s.store.PaymentWithOrder(ctx, paymentID)
	switch {
	case err != nil:
		return started, err
	case o.State != Pending:
		return started, notPayable(o)
	case !now.Before(o.ExpiresAt):
		return started, contract.Refuse(contract.CodeOrderNotPayable, "The time to pay has expired.").With("state", o.State)
	case p.State != PaymentStarted: // also one that succeeded with another amount, and is refunded
		return started, errPaymentEnded
	case now.Before(p.TurnAt):
		return started, turnAfter(p.TurnAt.Sub(now))
	}
	call, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	begun, err := prov.Begin(call, p, o.ExpiresAt)
	// What the provider responded is stored, also if the buyer has left meanwhile.
	ctx, stored := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer stored()
	if err != nil && !p.TurnAt.IsZero() {
		// The call has used its turn. The buyers whose calls failed during an outage would exceed the rate after it.
		if err := s.store.StoreTurn(ctx, p, time.Time{}); err != nil {
			return started, err
		}
	}
	var busy *ProviderBusy
	switch {
	case errors.As(err, &busy) && busy.Reserved:
		if err := s.store.StoreTurn(ctx, p, now.Add(busy.After)); err != nil {
			return started, err
		}
		return started, turnAfter(busy.After)
	case busy != nil:
		return started, contract.Refuse(contract.CodeProviderBusy,
			"The payment provider is busy. Repeat the call with the same Idempotency-Key.").After(busy.After).Because(err)
	case errors.Is(err, ErrPaymentDeclined):
		return started, s.declined(ctx, p, err)
	case errors.Is(err, ErrPaymentEnded):
		return started, cmp.Or(s.endPayment(ctx, p), errPaymentEnded)
	case err != nil:
		return started, contract.Refuse(contract.CodeUnavailable,
			"The payment provider does not respond. Repeat the call with the same Idempotency-Key.").Because(err)
	}
	if begun.Reference != "" && begun.Reference != p.Reference {
		if err := s.keepReference(ctx, p, begun.Reference); err != nil {
			return started, err
		}
	}
	return StartedPayment{PaymentID: paymentID, State: PaymentStarted, PayURL: begun.PayURL}, nil
}

// keepReference stores the provider's own id of a payment. If the order was closed during the call to the
// provider, it has the payment cancelled, and refuses it: the cancellation of the closing may have come before the
// payment.
func (s *Service) keepReference(ctx context.Context, p Payment, reference string) error {
	if err := s.store.StoreReference(ctx, p.PaymentID, reference); err != nil {
		return err
	}
	_, o, now, err := s.store.PaymentWithOrder(ctx, p.PaymentID)
	if err != nil || o.State == Pending {
		return err
	}
	err = s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		return tx.CancelPayments([]string{p.OrderSN}, now)
	})
	if err != nil {
		return err
	}
	return notPayable(o)
}

var errPaymentEnded error = contract.Refuse(contract.CodeOrderNotPayable, "This payment has ended. Start another one.").
	With("state", Pending)

// endPayment records that the provider takes a payment no more.
func (s *Service) endPayment(ctx context.Context, p Payment) error {
	return s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		failed := p
		failed.State, failed.FinishedAt = PaymentFailed, now
		_, err = tx.UpdatePayment(failed, PaymentStarted)
		return err
	})
}

// declined records that the provider will never take a payment, and returns the refusal of the call.
func (s *Service) declined(ctx context.Context, p Payment, why error) error {
	if err := s.endPayment(ctx, p); err != nil {
		return err
	}
	s.rec.Incident(ctx, "payment_declined", "provider refuses to take a payment", "provider", p.Provider,
		"payment_id", p.PaymentID, "order_sn", p.OrderSN, "error", why.Error())
	return contract.Refuse(contract.CodeOrderNotPayable, "The payment provider refuses this payment.").
		With("state", Pending).Because(why)
}

func turnAfter(d time.Duration) error {
	return contract.Refuse(contract.CodeProviderBusy,
		"Many buyers pay at present. Repeat the call with the same Idempotency-Key: it keeps its turn.").After(d)
}

func notPayable(o Order) error {
	return contract.Refuse(contract.CodeOrderNotPayable, "The order is "+string(o.State)+".").With("state", o.State)
}

// refusePayment returns why no payment of an order can be started. undecidable is the refusal of a process that must
// not decide by time; nil if it may. If the order has become payable meanwhile, the error is ErrRetry.
func (s *Service) refusePayment(tx Tx, userID, orderSN string, undecidable error) error {
	o, err := lockOwnOrder(tx, userID, orderSN)
	if err != nil {
		return err
	}
	if o.State == Pending && undecidable != nil {
		return undecidable
	}
	if o.State != Pending {
		return notPayable(o)
	}
	now, err := tx.Now()
	if err != nil {
		return err
	}
	if !now.Before(o.ExpiresAt) {
		return contract.Refuse(contract.CodeOrderNotPayable, "The time to pay has expired.").With("state", o.State)
	}
	earlier, err := tx.PaymentsOf([]string{orderSN})
	if err != nil {
		return err
	}
	if len(earlier) >= s.opts.MaxPayments {
		return contract.Refuse(contract.CodeOrderNotPayable, "Too many payments were started for this order.")
	}
	return ErrRetry
}
