package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Errors of the gate port. Its adapter maps all errors of the gate to these.
var (
	ErrNoGate           = errors.New("the gate is absent")
	ErrGateUnavailable  = errors.New("the gate cannot be reached; the outcome is unknown")
	ErrGateVersion      = errors.New("the gate has a newer version")
	ErrGateInsufficient = errors.New("the gate has too few units left")
	ErrGateDecided      = errors.New("the gate has another decision about the adjustment")
	ErrGateLive         = errors.New("the gate is live already")
	// ErrBuildSuperseded means that another build of the gate began, or that Redis lost a part of this one. It is an
	// ErrGateUnavailable.
	ErrBuildSuperseded = fmt.Errorf("%w: the build was superseded", ErrGateUnavailable)
	// ErrBuildDiffers means that the rows that were put have other units than the stock. The build may go on.
	ErrBuildDiffers = errors.New("the rows do not add up to the stock")
	// ErrGateBroken means that the gate responded with an error that no retry can cure. An operator has to repair the
	// gate or the tables.
	ErrGateBroken = errors.New("the gate is broken")
)

// ErrBrokenRow means that a row of the tables cannot be read, and that no retry can cure it.
var ErrBrokenRow = errors.New("a row cannot be read")

// Page selects a part of a list: Limit rows after the id Cursor, "" for the start of the list.
type Page struct {
	Limit  int
	Cursor string
}

// Store keeps the tables, which are the source of truth. Every method is one transaction. Transactions are repeated
// after a deadlock, so the functions passed to them must start from nothing each time they run.
type Store interface {
	EpochStore

	// Now returns the time of the database in UTC, in whole milliseconds. Everything that is compared with times in the
	// tables is decided by it, never by the clock of a process.
	Now(ctx context.Context) (time.Time, error)
	// Ledger locks all stock rows of the activities in (activity, SKU) order and then runs fn. Every transaction that
	// changes a row's state or units, an allowance, a live stock or an adjustment's decision holds these locks. So none
	// of these changes while fn runs.
	Ledger(ctx context.Context, activityIDs []string, fn func(tx LedgerTx) error) error

	Reservations(ctx context.Context, orderSNs []string) (map[string]ledger.Row, error)
	// Newest first.
	ReservationsOfActivity(
		ctx context.Context, in Scope, activityID string, f ReservationFilter, p Page,
	) ([]ledger.Row, error)
	CountReservations(ctx context.Context, in Scope, activityID string) (ReservationCounts, error)
	// EndedHolds returns the users with at least so many reservations that expired or were cancelled, those with most
	// first. It reads one row for each released reservation of the activity.
	EndedHolds(ctx context.Context, activityID string, least int64, limit int) ([]EndedHolds, error)
	PurchasesOf(ctx context.Context, activityID string, userIDs []string) (map[string]int64, error) // that hold units
	// HoldingReservations returns the reservations of these users that hold units, newest first.
	HoldingReservations(ctx context.Context, activityID string, userIDs []string, p Page) ([]ledger.Row, error)
	// ChangedReservations pages by order_sn through the rows in these states that changed since then (zero: all).
	// broken are those whose lines cannot be read; next is "" after the last page.
	ChangedReservations(
		ctx context.Context, activityID string, states []ledger.State, since time.Time, afterSN string, limit int,
	) (rows, broken []ledger.Row, next string, err error)

	Activity(ctx context.Context, in Scope, id string) (*Activity, error) // nil when the scope has none
	// Activities returns activities, newest first; those in a phase of Phases at the time now, if phase is not "".
	Activities(ctx context.Context, in Scope, phase string, now time.Time, p Page) ([]Activity, error)
	// AnyActivity returns an activity of any merchant, for internal work; nil when there is none.
	AnyActivity(ctx context.Context, id string) (*Activity, error)
	// DatedActivity is AnyActivity with the time of the database before the activity was read.
	DatedActivity(ctx context.Context, id string) (*Activity, time.Time, error)
	// CreateActivity writes the change too, and the key if it is not nil. If the key is known, it writes nothing and
	// returns the activity that was made with it.
	CreateActivity(ctx context.Context, key *IdempotencyKey, a Activity, c Change) (string, error)
	// ChangeActivity locks the activity's row and calls fn to change it. Then it writes the row, the items if they
	// were replaced, and the change. If fn returns false, it writes nothing. growth counts the merchant's activities
	// that are published or paused and have not ended at the time of the change. It refuses with not_found if the
	// scope has no such activity.
	ChangeActivity(
		ctx context.Context, in Scope, id string, c Change, growth Growth, fn func(a *Activity) (bool, error),
	) (*Activity, error)
	SKUs(ctx context.Context, in Scope, ids []string) (map[string]SKU, error)

	// CreateProduct and ChangeProduct write the change too. growth counts the merchant's SKUs. CreateProduct writes the
	// key if it is not nil; if the key is known, it only returns the product that was made with it.
	CreateProduct(ctx context.Context, key *IdempotencyKey, p Product, c Change, growth Growth) (*Product, error)
	Product(ctx context.Context, in Scope, id string) (*Product, error) // nil when the scope has none
	Products(ctx context.Context, in Scope, p Page) ([]Product, error)
	ChangeProduct(
		ctx context.Context, in Scope, id string, c Change, growth Growth, fn func(p *Product) error,
	) (*Product, error)

	// BeginAdjustment writes the intent and the Idempotency-Key, if check allows it. If the key is known, it returns
	// the adjustment that was made with it. It refuses with not_found if the scope has no such activity, also when the
	// key is known.
	BeginAdjustment(
		ctx context.Context, in Scope, k IdempotencyKey, a Adjustment, c Change, check func(*Activity) error,
	) (*Adjustment, error)

	// History of an activity, newest first. Changes are those of merchants and operators; reconciliations have repairs,
	// or were requested.
	ChangesOfActivity(ctx context.Context, in Scope, activityID string, p Page) ([]PastChange, error)
	ReconciliationsOfActivity(ctx context.Context, in Scope, activityID string, p Page) ([]PastChange, error)
	AdjustmentsOfActivity(ctx context.Context, in Scope, activityID string, p Page) ([]Adjustment, error)

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

	Record(ctx context.Context, c Change) error
}

// LedgerTx is a ledger transaction.
type LedgerTx interface {
	// Now returns the time of the database: of the reading of the activities, with their stock locked.
	Now() (time.Time, error)

	Activity(id string) *Activity // nil: unknown; with its locked stock, without the names of its SKUs
	Reservations(orderSNs []string) (map[string]ledger.Row, error)
	Allowances(activityID string, userIDs []string) (map[string]int64, error) // by user, in units
	// HeldByReservations sums the units that the users' reservations hold.
	HeldByReservations(activityID string, userIDs []string) (map[string]int64, error)
	// SetAllowance rewrites an allowance that differs from the reservations, whatever the limit is.
	SetAllowance(b ledger.Buyer, held int64) error
	Apply(m *ledger.Moves) error
	DecidedAdjustments(activityID string) (ids []string, err error)
	// ImportsOrders reports whether the import of the orders of all activities is not complete.
	ImportsOrders() (bool, error)
	// DirectSale returns the figures of an activity's sale without Redis; PutDirectSale writes those that sales change.
	DirectSale(activityID string) (DirectSale, error)
	PutDirectSale(activityID string, s DirectSale) error
}

// ErrKnown means that the ledger has one of the order_sns of Moves.Insert.
var ErrKnown = errors.New("the ledger has this order_sn")

// RowVersion shows whether a row has changed since it was read.
type RowVersion struct {
	OrderSN   string
	State     ledger.State
	ChangedAt time.Time
}

// GateConfig is the part of an activity that the gate enforces.
type GateConfig struct {
	State            ActivityState
	StartsAt, EndsAt time.Time
	PerUserLimit     int64
	RoomRate         int64
	Captcha          contract.Captcha
	ReorderLimit     int64 // in an audit -1 if the gate has lost it
	Version          int64
}

// GateStock holds the counters of one SKU in the gate, in units. Journal and InFlight are the shares of Held that have
// not landed: in the journal, and published.
type GateStock struct{ Left, Held, Sold, Total, Journal, InFlight int64 }

// GateAudit is the configuration and the counters of a gate.
type GateAudit struct {
	Config     GateConfig
	SKUs       map[string]GateStock
	Revision   GateRevision
	Held       int64    // units held in all
	Incomplete []string // SKUs without a counter of the units left
	Epoch      string   // "" while an import is to follow
	Importing  bool     // the gate sells nothing until the import is complete
	Trimmed    int64    // purchases that ended and whose entries were removed

	// Numbers of entries. They are 0 in an audit that a collection of changes returns.
	Entries  int64 // all
	Unlanded int64 // queued, and not known to have a row
	Ended    int64 // terminal
}

// GateRevision identifies the build of a gate and the last correction of its counters at the time of a reading.
type GateRevision struct {
	Build       string // of the build that made the gate
	Corrections int64  // how often its counters were corrected
}

// GateEntry is an entry of the gate.
type GateEntry struct {
	OrderSN, UserID string
	Lines           []contract.Line
	JournaledAt     time.Time // of unlanded entries only
}

// KnownAdjustment is an adjustment that a gate has. Without a SKU it has no further effect.
type KnownAdjustment struct {
	ID, SKUID string
	Delta     int64 // units
}

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
	// Lookup returns the orders that exist, at most contract.MaxItems in a call.
	Lookup(ctx context.Context, orderSNs []string) (map[string]OrderDetails, error)
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
	Warn(ctx context.Context, what string, err error)
}

// Gates writes the ledger's state into the gates.
type Gates interface {
	// Sync repeats the effect of every reservation's present state on its gate.
	Sync(ctx context.Context, rows []ledger.Row) error
	Due(ctx context.Context, activityID string) (bool, error) // whether the gate has to exist now
	IsDue(ctx context.Context, a *Activity) (bool, error)     // likewise
	// SyncActivity writes an activity into its gate and its sale document.
	SyncActivity(ctx context.Context, a *Activity) error
	// ResumeAdjustment runs the remaining steps of an adjustment.
	ResumeAdjustment(ctx context.Context, a Adjustment) (*Adjustment, error)
}

// Gate is what is read in a gate.
type Gate interface {
	Audit(ctx context.Context, activityID string) (GateAudit, error)
	Lookup(ctx context.Context, activityID, orderSN string) (*GateEntry, error) // nil: the gate has none
	RefusedRequests(ctx context.Context, activityID string) (RefusedRequests, error)
}
