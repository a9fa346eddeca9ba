package core

import (
	"context"

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
			if err := tx.CancelPayments([]string{orderSN}, now); err != nil {
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
