package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ErrBrokenRow means that a row of the tables cannot be read, and that no retry can cure it.
var ErrBrokenRow = errors.New("a row cannot be read")

// Store keeps the tables, which are the source of truth. Every method is one transaction. Transactions are repeated
// after a deadlock, so the functions passed to them must start from nothing each time they run.
type Store interface {
	// Now returns the time of the database in UTC, in whole milliseconds. Everything that is compared with times in the
	// tables is decided by it, never by the clock of a process.
	Now(ctx context.Context) (time.Time, error)
	// Ledger locks all stock rows of the activities in (activity, SKU) order and then runs fn. Every transaction that
	// changes a row's state or units, an allowance, a live stock or an adjustment's decision holds these locks. So none
	// of these changes while fn runs.
	Ledger(ctx context.Context, activityIDs []string, fn func(tx LedgerTx) error) error

	Reservations(ctx context.Context, orderSNs []string) (map[string]ledger.Row, error)
	// ReadableReservations sets those rows aside whose lines cannot be parsed.
	ReadableReservations(ctx context.Context, orderSNs []string) (rows map[string]ledger.Row, broken []ledger.Row, err error)

	// DatedActivity returns an activity of any merchant, and the time of the database before it was read.
	DatedActivity(ctx context.Context, id string) (*Activity, time.Time, error)
	// DrawEpoch draws a new epoch and plans its imports: of all orders, and of each activity. If an import of the
	// present epoch is not complete, the new one starts from the earlier time of both. If the present epoch is not
	// instead ("" for any), another process has drawn one, which DrawEpoch returns.
	DrawEpoch(ctx context.Context, since time.Time, cause, instead string, now time.Time) (Epoch, error)
	// StartOfOldest returns when the oldest activity began that is not over, or whose units are held; now without one.
	StartOfOldest(ctx context.Context, now time.Time) (time.Time, error)
}

// DeadLetters keeps dead letters. Every method is one transaction.
type DeadLetters interface {
	AddDeadLetters(ctx context.Context, list []contract.DeadLetter) error
	DeadLetters(ctx context.Context, in Scope, state string, p Page) ([]DeadLetter, error)
	DeadLetter(ctx context.Context, in Scope, id string) (*DeadLetter, error) // nil when the scope has none
	// BeginRejection marks a dead letter that is not rejected yet as open and as being rejected. From then on it cannot
	// be replayed.
	BeginRejection(ctx context.Context, id string) error
	// DecideDeadLetter writes the decision and the change. It writes neither if the item has failed again since
	// (Occurrences), if the dead letter is rejected already, or if its rejection has begun and the decision is another.
	// It returns the dead letter as it is then.
	DecideDeadLetter(ctx context.Context, d DeadLetter, state string, c Change) (*DeadLetter, error)
}

// LedgerTx is a ledger transaction.
type LedgerTx interface {
	// Now returns the time of the database: of the reading of the activities, with their stock locked.
	Now() (time.Time, error)

	Activity(id string) *Activity // nil: unknown; with its locked stock, without the names of its SKUs
	Reservations(orderSNs []string) (map[string]ledger.Row, error)
	// ReadableReservations is that of Store.
	ReadableReservations(orderSNs []string) (rows map[string]ledger.Row, broken []ledger.Row, err error)
	Allowances(activityID string, userIDs []string) (map[string]int64, error) // by user, in units
	Apply(m *ledger.Moves) error
	DecidedAdjustments(activityID string) (ids []string, err error)
	// ImportsOrders reports whether the import of the orders of all activities is not complete, or that of one of these.
	ImportsOrders(activityIDs ...string) (bool, error)
	// RedislessSale returns the figures of an activity's sale without Redis, and by user, for those of these users who have
	// some, the orders that were cancelled or expired since then. PutRedislessSale writes the figures that sales change.
	RedislessSale(activityID string, userIDs []string, since time.Time) (RedislessSale, map[string]LostOrders, error)
	PutRedislessSale(activityID string, s RedislessSale) error
}

// LostOrders counts the orders of a buyer that were cancelled or expired. Last is when the latest one ended.
type LostOrders struct {
	Count int64
	Last  time.Time
}

// ErrKnown means that the ledger has one of the order_sns of Moves.Insert.
var ErrKnown = errors.New("the ledger has this order_sn")

// Publisher publishes messages that follow from a committed transaction. It returns nil once the broker has confirmed.
type Publisher interface {
	// Deductions publishes deductions with the descriptions of their activities.
	Deductions(ctx context.Context, d []contract.Deduction, about []contract.ActivityInfo) error
	// Closing publishes a closing, delivered after the delay; without a positive one at once.
	Closing(ctx context.Context, c contract.OrderClose, delay time.Duration) error
	Replay(ctx context.Context, d DeadLetter) error
}

// CloseOutcome is the state of an order after a call to close it.
type CloseOutcome struct {
	OrderSN string
	Outcome string    // closed, paid, refunded, paying, not_due or unknown
	At      time.Time // of not_due and paying: when to close it again, if the order service returns it
	Reason  string    // of closed: why, if the order service returns it
}

// Outcomes of the calls to the order service.
const (
	OutcomeClosed   = "closed"
	OutcomePaid     = "paid"
	OutcomePaying   = "paying"
	OutcomeNotDue   = "not_due"
	OutcomeUnknown  = "unknown"
	OutcomeRefunded = "refunded"
)

// Orders is the order service. Only it decides how an order ends.
type Orders interface {
	Close(ctx context.Context, orderSNs []string, reason string) ([]CloseOutcome, error)
	Refund(ctx context.Context, orderSNs []string, reason string) (map[string]string, error)
}

// OrderTombstone is the state of an order_sn that never gets an order.
const OrderTombstone = "tombstone"

// States of orders.
const (
	OrderPending  = "pending"
	OrderPaid     = "paid"
	OrderClosed   = "closed"
	OrderRefunded = "refunded"
)

// ChangedOrder is an order as the order service lists it for an import.
type ChangedOrder struct {
	OrderSN, UserID, ActivityID string
	Lines                       []contract.Line
	State                       string // OrderPending, OrderPaid, OrderClosed or OrderRefunded
	Reason                      string // of a closed one
	CreatedAt, ExpiresAt        time.Time
	Traceparent                 string
}

// Recorder records what happened in logs, metrics and traces.
type Recorder interface {
	// Span begins a span; the returned function ends it.
	Span(ctx context.Context, name string, database bool) (context.Context, func(error))
	Landed(ctx context.Context, n int, lag []time.Duration)
	// Refused counts accepted purchases that the ledger refused, the displaced ones excepted.
	Refused(ctx context.Context, reason string, n int)
	// Displaced counts an accepted purchase that the ledger refused in an activity that has sold without its gate.
	Displaced(ctx context.Context, reason string)
	Closed(ctx context.Context, n int, lateness time.Duration)
	// Unreadable counts ledger rows that were set aside because they cannot be read.
	Unreadable(ctx context.Context, rows int)
	// Incident records a state that must not occur, such as a dead letter. An operator has to examine it.
	Incident(ctx context.Context, what string, attrs ...any)
}

// Gates writes the ledger's state into the gates.
type Gates interface {
	// Sync repeats the effect of every reservation's present state on its gate.
	Sync(ctx context.Context, rows []ledger.Row) error
	Due(ctx context.Context, activityID string) (bool, error) // whether the gate has to exist now
}

// Gate finds the entry of a dead letter.
type Gate interface {
	Lookup(ctx context.Context, activityID, orderSN string) (*GateEntry, error) // nil: the gate has none
}
