package core

import (
	"context"
	"encoding/json"
	"fmt"

	"flashsale.internal/pkg/contract"
)

var errNoOrder = contract.Refuse(contract.CodeNotFound, "There is no such order.")

// Order returns an order of the user. An order of another user is not found. If the gene of the order_sn is not the
// user's, Order makes no query.
func (s *Service) Order(ctx context.Context, userID, orderSN string) (Order, error) {
	if !s.genes.Belongs(orderSN, userID) {
		return Order{}, errNoOrder
	}
	o, found, err := s.store.Order(ctx, orderSN)
	if err != nil {
		return Order{}, err
	}
	if !found || o.Tombstone || o.UserID != userID {
		return Order{}, errNoOrder
	}
	return o, nil
}

// List returns one page of a user's orders, newest first. more reports whether orders follow the last one.
func (s *Service) List(ctx context.Context, q ListQuery) (page []Order, more bool, err error) {
	limit := q.Limit
	q.Limit++
	page, err = s.store.List(ctx, q)
	if err != nil {
		return nil, false, err
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}

// Payment returns a payment of the user. A payment of another user is not found.
func (s *Service) Payment(ctx context.Context, userID, paymentID string) (Payment, error) {
	p, found, err := s.store.Payment(ctx, paymentID)
	if err != nil {
		return Payment{}, err
	}
	if !found || p.UserID != userID {
		return Payment{}, contract.Refuse(contract.CodeNotFound, "There is no such payment.")
	}
	return p, nil
}

// StartedPayment is the response to a started payment.
type StartedPayment struct {
	PaymentID string       `json:"payment_id"`
	State     PaymentState `json:"state"`
	PayURL    string       `json:"pay_url"`
}

// StartPayment starts a payment of a pending order before its deadline. The deadline does not change. A repeated call
// (call.Key) returns the same response. While this process must not decide by time, StartPayment refuses a new payment
// as unavailable, with ErrClocks.
//
// One statement decides and inserts. The order is read only if it is not payable, to find the reason.
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
	undecidable := s.requireClocks(ctx) // before the transaction: it may read the clocks
	err = s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		id, err := s.genes.NewPaymentID(userID)
		if err != nil {
			return fmt.Errorf("generate payment id: %w", err)
		}
		started = StartedPayment{PaymentID: id, State: PaymentStarted, PayURL: prov.PayURL(id)}
		body, err := json.Marshal(started)
		if err != nil {
			return err
		}
		stored, found, err := tx.StoreResponse(call, 201, body)
		if err != nil {
			return err
		}
		if found {
			started = StartedPayment{}
			return json.Unmarshal(stored, &started)
		}
		if undecidable == nil {
			p := Payment{PaymentID: id, OrderSN: orderSN, UserID: userID, Provider: provider, State: PaymentStarted}
			if n, err := tx.BeginPayment(p, s.opts.MaxPayments); err != nil || n == 1 {
				return err
			}
		}
		return s.refusePayment(tx, userID, orderSN, undecidable)
	})
	if err != nil {
		return StartedPayment{}, err
	}
	return started, nil
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
		return contract.Refuse(contract.CodeOrderNotPayable, "The order is "+string(o.State)+".").With("state", o.State)
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

// Cancel closes a pending order of the user, also past its deadline. It returns an order that is already closed as it
// is, for whatever reason it was closed. It refuses for a paid order.
func (s *Service) Cancel(ctx context.Context, userID, orderSN string) (Order, error) {
	if !s.genes.Belongs(orderSN, userID) {
		return Order{}, errNoOrder
	}
	var o Order
	cancelled := false
	err := s.store.InTx(ctx, "cancel transaction", func(tx Tx) (err error) {
		cancelled = false
		if o, err = lockOwnOrder(tx, userID, orderSN); err != nil {
			return err
		}
		// Read before the commit: after it, a failed read would report a cancellation that is done as failed.
		if err := tx.FillDetails(&o); err != nil {
			return err
		}
		switch o.State {
		case Closed:
			return nil
		case Pending:
			now, err := tx.Now()
			if err != nil {
				return err
			}
			if err := expectOne(tx.Close([]string{orderSN}, ReasonCancelled, now)); err != nil {
				return err
			}
			o.State, o.ClosedAt, o.CloseReason = Closed, now, ReasonCancelled
			cancelled = true
			return tx.AddEvents([]contract.OrderEvent{o.event(contract.OrderClosed, now)})
		default:
			return contract.Refuse(contract.CodeStateConflict,
				"The order is "+string(o.State)+" and cannot be cancelled.").With("state", o.State)
		}
	})
	if err != nil {
		return Order{}, err
	}
	if cancelled {
		s.rec.Closed(ctx, ReasonCancelled, 1)
	}
	return o, nil
}

// lockOwnOrder locks and returns an order of the user. An order of another user is not found.
func lockOwnOrder(tx Tx, userID, orderSN string) (Order, error) {
	found, err := tx.LockOrders([]string{orderSN})
	if err != nil {
		return Order{}, err
	}
	o, ok := found[orderSN]
	if !ok || o.Tombstone || o.UserID != userID {
		return Order{}, errNoOrder
	}
	return o, nil
}
