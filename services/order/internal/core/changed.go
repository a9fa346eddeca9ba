package core

import (
	"context"
	"time"
)

// ChangedQuery selects the orders whose state changed at or after Since.
type ChangedQuery struct {
	Since      time.Time
	ActivityID string // empty for all
	Limit      int
	After      ChangedPosition // of the previous page; zero for the first
}

// ChangedPosition is how far a listing of changed orders has read, by order_sn.
type ChangedPosition struct {
	Began   time.Time // the database's time at which the listing began
	OrderSN string
}

// ChangedPage is one page of the listing of changed orders.
type ChangedPage struct {
	Orders []Order // with their lines
	More   bool
	Next   ChangedPosition // if there are more
	// NextSince is the time from which another listing returns the orders that changed during this one.
	NextSince time.Time
}

// transactionMargin is more than the time from the moment at which a transaction reads its time to its commit.
const transactionMargin = time.Minute

// ChangedOrders returns one page of the orders whose state changed since a time. A page may have fewer orders than the
// limit, even none, although others follow. The listing has each order whose change was committed before it began, in
// the state at that time or a later one. NextSince is the time from which another listing has those that changed later.
func (s *Service) ChangedOrders(ctx context.Context, q ChangedQuery) (ChangedPage, error) {
	if q.After.Began.IsZero() {
		now, err := s.store.Now(ctx)
		if err != nil {
			return ChangedPage{}, err
		}
		q.After.Began = now
	}
	orders, next, more, err := s.store.ChangedOrders(ctx, q)
	if err != nil {
		return ChangedPage{}, err
	}
	return ChangedPage{
		Orders: orders, More: more, Next: ChangedPosition{Began: q.After.Began, OrderSN: next},
		NextSince: q.After.Began.Add(-transactionMargin),
	}, nil
}
