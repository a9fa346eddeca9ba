package core

import (
	"context"
	"errors"
	"time"
)

// What the parts behind the ports report.
var (
	// ErrNoGate says that this Redis holds no gate of that activity.
	ErrNoGate = errors.New("no gate")
	// ErrNoSale says that this Redis knows no sale of that activity.
	ErrNoSale = errors.New("no sale")
	// ErrUnavailable says that Redis did not answer. Whether it did what it was asked is unknown.
	ErrUnavailable = errors.New("gate unavailable")
	// ErrAway says that Redis did not answer others and is not asked at present.
	ErrAway = errors.New("gate is away")
	// ErrOverloaded says that the call was not even queued.
	ErrOverloaded = errors.New("gate queue is full")
	// ErrNoLease says that this process may not issue order_sns now.
	ErrNoLease = errors.New("no worker id")
)

// Gate is the one place where pieces are given out. Calls of many callers may travel together.
type Gate interface {
	// Reserve asks for the pieces of one purchase. Like Lookup it waits for a bounded time. After an error other than
	// ErrOverloaded and ErrNoGate the outcome is unknown.
	Reserve(ctx context.Context, activityID string, p Purchase) (Verdict, error)
	// Lookup reads one purchase; false when the gate does not know it.
	Lookup(ctx context.Context, activityID, orderSN string) (Reservation, bool, error)
	// LookupAll reads many purchases of one activity at once.
	LookupAll(ctx context.Context, activityID string, orderSNs []string) (map[string]Reservation, error)
	// Buyer lists the order_sns a user has in an activity, latest last.
	Buyer(ctx context.Context, activityID, userID string) ([]string, error)
}

// Catalogue tells what is on sale.
type Catalogue interface {
	Sale(ctx context.Context, activityID string) (Sale, error)
	Sales(ctx context.Context) ([]Sale, error)
	// Levels reads the gates of these activities at once; one without a gate is absent. With an error too it answers what
	// could be read; nothing is known of the others then.
	Levels(ctx context.Context, activityIDs []string) (map[string]Level, error)
	// Ready tells whether this Redis has been filled: only then does "unknown" mean "does not exist".
	Ready(ctx context.Context) (bool, error)
	// Now is the clock that decides whether a sale is open.
	Now(ctx context.Context) (time.Time, error)
}

// OrderSNs issues order numbers.
type OrderSNs interface {
	Next(userID string) (string, error)
	// Belongs tells whether an order_sn carries the mark of this user.
	Belongs(orderSN, userID string) bool
}
