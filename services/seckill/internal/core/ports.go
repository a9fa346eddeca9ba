package core

import (
	"context"
	"errors"
	"time"
)

// Errors that implementations of the ports return.
var (
	// ErrNoGate means that this Redis holds no gate of the activity.
	ErrNoGate = errors.New("no gate")
	// ErrNoSale means that this Redis holds no sale of the activity.
	ErrNoSale = errors.New("no sale")
	// ErrUnavailable means that Redis did not respond or could not serve the call, or that its data is damaged, such as
	// the entry of a purchase. Whether the call was carried out is unknown.
	ErrUnavailable = errors.New("gate unavailable")
	// ErrRefused means that a service will refuse the same call each time.
	ErrRefused = errors.New("call refused")
	// ErrUnconfirmed means that the gate has the purchase, and a failover may still lose it.
	ErrUnconfirmed = errors.New("too few replicas have confirmed the purchase")
	// ErrBreakerOpen means that the call was not made, because Redis did not respond to earlier calls.
	ErrBreakerOpen = errors.New("gate unavailable: breaker open")
	// ErrOverloaded means that the queue of the gate is full and the call was not made.
	ErrOverloaded = errors.New("gate queue is full")
	// ErrLater means that the sale is slowed down while Redis is unavailable. This call reserved nothing.
	ErrLater = errors.New("more purchases than the sale may have now")
	// ErrNoLease means that this process holds no worker id, a part of each order_sn, and may not issue order_sns now.
	ErrNoLease = errors.New("no worker id")
)

// Purchases accepts purchases and reserves their units; nothing else in this service does. It may send the calls of many
// callers together.
type Purchases interface {
	// Reserve requests the units of one purchase. Like Lookup it waits for a bounded time. ErrNoGate, ErrOverloaded,
	// ErrBreakerOpen and ErrLater mean that this call reserved nothing. After any other error the outcome is unknown.
	Reserve(ctx context.Context, activityID string, p Purchase) (Verdict, error)
	// Lookup reads one purchase; it returns false if the gate has none with this order_sn.
	Lookup(ctx context.Context, activityID, orderSN string) (Reservation, bool, error)
	// LookupAll reads many purchases of one activity with one call. Those that the gate does not have are absent.
	LookupAll(ctx context.Context, activityID string, orderSNs []string) (map[string]Reservation, error)
	// Allowance returns whether a user may reserve units at all. Like Lookup it waits for a bounded time.
	Allowance(ctx context.Context, activityID, userID string) (Allowance, error)
	// OfUser returns the purchases of a user in an activity, and what is left of the allowance.
	OfUser(ctx context.Context, activityID, userID string) (UserPurchases, error)
	// Confirm returns a purchase that Lookup has found, as the gate has it now, once a failover cannot lose it any
	// more, as far as the settings demand it. It returns false if the gate has lost it since. Reserve includes it.
	Confirm(ctx context.Context, r Reservation) (Reservation, bool, error)
}

// Catalogue reads the sales, the states of their gates and the clock of Redis.
type Catalogue interface {
	Sale(ctx context.Context, activityID string) (Sale, error)
	Sales(ctx context.Context) ([]Sale, error)
	// GateStates reads the gates of these activities with one call. An activity without a gate is absent from the
	// result. If some gates cannot be read, it returns the others and an error; an absent activity is unknown then.
	GateStates(ctx context.Context, activityIDs []string) (map[string]GateState, error)
	// Ready reports whether inventory has filled this Redis. Until then, a sale that Redis lacks may exist.
	Ready(ctx context.Context) (bool, error)
	// Now returns Redis time, which decides whether a sale is open.
	Now(ctx context.Context) (time.Time, error)
}

// OrderSNs issues order_sns.
type OrderSNs interface {
	// Next returns a new order_sn with the gene of this user, a hash of the user id in its lowest 8 bits.
	Next(userID string) (string, error)
	// Belongs reports whether an order_sn carries the gene of this user.
	Belongs(orderSN, userID string) bool
	// IssuedAt returns the time at which an order_sn was issued, by Redis time; zero for one that is malformed.
	IssuedAt(orderSN string) time.Time
}
