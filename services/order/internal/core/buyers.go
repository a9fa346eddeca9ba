package core

import (
	"context"
	"encoding/json"
	"fmt"

	"flashsale.internal/pkg/contract"
)

var errNoOrder = contract.Refuse(contract.CodeNotFound, "There is no such order.")

// Order is a buyer's own order. What belongs to another user is not found; where the gene says so already, without a
// query.
func (s *Service) Order(ctx context.Context, userID, orderSN string) (Order, error) {
	if !s.shards.Belongs(orderSN, userID) {
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

// List is one page of a buyer's orders, newest first. more tells whether others follow the last one.
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

// Payment is a buyer's own payment.
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

// StartedPayment is the answer to a payment begun.
type StartedPayment struct {
	PaymentID string       `json:"payment_id"`
	State     PaymentState `json:"state"`
	PayURL    string       `json:"pay_url"`
}

// StartPayment begins a payment of a pending order before its deadline. The deadline stays where it is. The same call
// again (call.Key) gives the same answer.
func (s *Service) StartPayment(ctx context.Context, userID, orderSN, provider string, call Call) (StartedPayment, error) {
	var answer StartedPayment
	if !s.shards.Belongs(orderSN, userID) {
		return answer, errNoOrder
	}
	prov, ok := s.providers[provider]
	if !ok {
		return answer, contract.InvalidField("provider", "is not one that takes payments here")
	}
	err := s.store.InTx(ctx, "payment transaction", func(tx Tx) error {
		before, known, err := tx.StoredResponse(call)
		if err != nil {
			return err
		}
		if known {
			return json.Unmarshal(before, &answer)
		}
		o, err := ownOrder(tx, userID, orderSN)
		if err != nil {
			return err
		}
		now := s.now()
		if o.State != Pending {
			return contract.Refuse(contract.CodeOrderNotPayable, "The order is "+string(o.State)+".").With("state", o.State)
		}
		if !now.Before(o.ExpiresAt) {
			return contract.Refuse(contract.CodeOrderNotPayable, "The time to pay is over.").With("state", o.State)
		}
		begun, err := tx.PaymentsOf([]string{orderSN})
		if err != nil {
			return err
		}
		if len(begun) >= s.opts.MaxPayments {
			return contract.Refuse(contract.CodeOrderNotPayable, "Too many payments were begun for this order.")
		}
		id, err := s.shards.NewPaymentID(userID)
		if err != nil {
			return fmt.Errorf("draw a payment id: %w", err)
		}
		p := Payment{
			PaymentID: id, OrderSN: orderSN, UserID: userID, Provider: provider, State: PaymentStarted,
			Amount: o.Amount, Currency: o.Currency, CreatedAt: now,
		}
		if err := tx.InsertPayment(p); err != nil {
			return err
		}
		answer = StartedPayment{PaymentID: id, State: PaymentStarted, PayURL: prov.PayURL(p)}
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return tx.StoreResponse(call, 201, body)
	})
	return answer, err
}

// Cancel closes a buyer's pending order, also past its deadline. One that is closed already is answered as it is,
// whoever closed it; a paid one stays paid.
func (s *Service) Cancel(ctx context.Context, userID, orderSN string) (Order, error) {
	if !s.shards.Belongs(orderSN, userID) {
		return Order{}, errNoOrder
	}
	cancelled := false
	err := s.store.InTx(ctx, "cancel transaction", func(tx Tx) error {
		cancelled = false
		o, err := ownOrder(tx, userID, orderSN)
		if err != nil {
			return err
		}
		switch o.State {
		case Closed:
			return nil
		case Pending:
			cancelled = true
			return s.closeIn(tx, []Order{o}, ReasonCancelled)
		default:
			return contract.Refuse(contract.CodeStateConflict, "The order is "+string(o.State)+" and cannot be cancelled.").With("state", o.State)
		}
	})
	if err != nil {
		return Order{}, err
	}
	if cancelled {
		s.rec.Closed(ctx, ReasonCancelled, 1)
	}
	return s.Order(ctx, userID, orderSN)
}

// closeIn closes pending orders that tx has locked, and tells inventory.
func (s *Service) closeIn(tx Tx, orders []Order, reason string) error {
	if len(orders) == 0 {
		return nil
	}
	now := s.now()
	sns := make([]string, len(orders))
	events := make([]contract.OrderEvent, len(orders))
	for i, o := range orders {
		o.State, o.ClosedAt, o.CloseReason = Closed, now, reason
		sns[i], events[i] = o.OrderSN, o.event(contract.OrderClosed, now)
	}
	n, err := tx.Close(sns, reason, now)
	if err != nil {
		return err
	}
	if n != len(orders) {
		return ErrRetry
	}
	return tx.AddEvents(events)
}

// ownOrder locks a buyer's own order.
func ownOrder(tx Tx, userID, orderSN string) (Order, error) {
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
