package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// What the gate may answer besides success. Its adapter maps to these.
var (
	ErrNoGate           = errors.New("the gate is absent")
	ErrGateUnavailable  = errors.New("the gate cannot be reached; the outcome is unknown")
	ErrGateVersion      = errors.New("the gate has a newer version")
	ErrGateInsufficient = errors.New("the gate has not so many pieces left")
	ErrGateLive         = errors.New("the gate is live already")
	// ErrGateBroken: the call was answered, and the same call will never be answered otherwise; somebody has to look at the
	// gate or at the tables.
	ErrGateBroken = errors.New("the gate is broken")
)

// ErrBrokenRow says that a row of the tables cannot be read, and that reading it again will not help.
var ErrBrokenRow = errors.New("a row cannot be read")

// Page asks for a part of a list: Limit rows after the id Cursor ("" = from the start).
type Page struct {
	Limit  int
	Cursor string
}

// Store is the truth. Every method is one transaction unless it says otherwise; transactions are repeated after a
// deadlock, so functions given to them start from nothing each time they run.
type Store interface {
	// Ledger locks all stock rows of the activities in (activity, SKU) order and then runs fn. Whoever changes an
	// activity's ledger, allowances, adjustments or stock holds these locks, so fn sees and decides alone.
	Ledger(ctx context.Context, activityIDs []string, fn func(tx LedgerTx) error) error
	// Rebuild locks the activity, then its stock rows, and only then reads what a gate is made of.
	Rebuild(ctx context.Context, activityID string, now time.Time, fn func(Rebuild) error) error

	Reservations(ctx context.Context, orderSNs []string) (map[string]Reservation, error)
	ReservationsOfActivity(ctx context.Context, activityID, userID string, p Page) ([]Reservation, error) // newest first
	// ChangedReservations pages by order_sn through the rows in these states that changed since then (zero: all). broken are
	// those whose lines cannot be read; next is "" after the last page.
	ChangedReservations(ctx context.Context, activityID string, states []ReservationState, since time.Time, afterSN string, limit int) (rows, broken []Reservation, next string, err error)
	Activity(ctx context.Context, id string) (*Activity, error) // nil when there is none
	Activities(ctx context.Context, p Page) ([]Activity, error) // newest first
	GateActivities(ctx context.Context, now time.Time) ([]Activity, error)
	CreateActivity(ctx context.Context, a Activity, c Change) (string, error)
	// ChangeActivity locks the activity's row, lets fn change it, and writes it, its items when they were replaced,
	// and the change. fn returning false writes nothing.
	ChangeActivity(ctx context.Context, id string, c Change, fn func(a *Activity) (bool, error)) (*Activity, error)
	SKUs(ctx context.Context, ids []string) (map[string]SKU, error)

	CreateProduct(ctx context.Context, p Product, c Change) (*Product, error)
	Product(ctx context.Context, id string) (*Product, error)
	Products(ctx context.Context, p Page) ([]Product, error)
	ChangeProduct(ctx context.Context, id string, c Change, fn func(p *Product) error) (*Product, error)

	// BeginAdjustment writes the intent, if check allows it, and remembers the Idempotency-Key, or finds the adjustment that the key made.
	BeginAdjustment(ctx context.Context, k IdempotencyKey, a Adjustment, c Change, check func(*Activity) error) (*Adjustment, error)
	DecideAdjustment(ctx context.Context, id string, refuse bool, now time.Time) (*Adjustment, error)
	// FinishAdjustment ends the intent as decided. A refused one forgets its Idempotency-Key.
	FinishAdjustment(ctx context.Context, id string, now time.Time) (*Adjustment, error)
	DecidedAdjustments(ctx context.Context, activityID string) ([]Adjustment, error)
	AddDeadLetters(ctx context.Context, letters []contract.DeadLetter) error
	DeadLetters(ctx context.Context, state string, p Page) ([]DeadLetter, error)
	DeadLetter(ctx context.Context, id string) (*DeadLetter, error)
	// BeginRejection opens a letter that is not rejected yet for its rejection only: nothing replays it any more.
	BeginRejection(ctx context.Context, id string) error
	// DecideDeadLetter writes the decision and the change, if the letter has not failed again since (occurrences).
	DecideDeadLetter(ctx context.Context, d DeadLetter, state string, c Change) (*DeadLetter, error)
	OpenDeadLetters(ctx context.Context, orderSNs []string) (map[string]bool, error)
	Record(ctx context.Context, c Change) error
}

// LedgerTx is the inside of a ledger transaction.
type LedgerTx interface {
	Activity(id string) *Activity // nil: unknown; its items as locked
	Reservations(orderSNs []string) (map[string]Reservation, error)
	Held(activityID string, userIDs []string) (map[string]int64, error)
	// HeldByReservations adds up what the users' rows hold.
	HeldByReservations(activityID string, userIDs []string) (map[string]int64, error)
	// SetHeld rewrites an allowance that does not say what the rows say, whatever the limit is.
	SetHeld(b Buyer, held int64) error
	Apply(m *Moves) error
}

// Rebuild is what a gate is made of, read under the locks.
type Rebuild struct {
	Activity     Activity
	Reservations []Reservation // reserved and sold ones, released and rejected ones of the last day
	Adjusted     []string      // ids of the adjustments that are decided: the figures contain them, or never will
}

// GateStep is how far the ledger says a reservation is.
type GateStep string

// The steps a gate is told.
const (
	StepLanded  GateStep = "landed"
	StepCreated GateStep = "created"
	StepPaid    GateStep = "paid"
)

// Settlement tells the gate a ledger row that holds pieces.
type Settlement struct {
	OrderSN, UserID string
	Lines           []contract.Line
	Step            GateStep
	ExpiresAt       time.Time
}

// Ending tells the gate a ledger row that holds nothing.
type Ending struct {
	OrderSN, UserID string
	Lines           []contract.Line
	Reason          string
}

// GateConfig is what of an activity binds the gate.
type GateConfig struct {
	State            ActivityState
	StartsAt, EndsAt time.Time
	PerUserLimit     int64
	Version          int64
}

// GateStock counts the pieces of one SKU in the gate.
type GateStock struct{ Left, Held, Sold, Total, Journal, InFlight int64 }

// GateAudit is the gate's own account of itself.
type GateAudit struct {
	Config     GateConfig
	SKUs       map[string]GateStock
	Revision   GateRevision
	Held       int64    // pieces held in all
	Incomplete []string // SKUs of which the gate does not say what is left
}

// GateRevision identifies the build of a gate and the last correction of its counters at the time of a reading.
type GateRevision struct {
	Build       string // of the build that made the gate
	Corrections int64  // how often its counters were corrected
}

// GateEntry is a queued reservation that the gate has not heard the ledger's answer about.
type GateEntry struct {
	OrderSN, UserID string
	Lines           []contract.Line
	JournaledAt     time.Time // told by Unlanded only
}

// Gate is the gate, as the one that fills, settles and repairs it sees it.
type Gate interface {
	Preload(ctx context.Context, ref contract.GateRef, r Rebuild) error
	Configure(ctx context.Context, ref contract.GateRef, c GateConfig) error
	Settle(ctx context.Context, ref contract.GateRef, s []Settlement) error
	Release(ctx context.Context, ref contract.GateRef, e []Ending) error
	Drop(ctx context.Context, ref contract.GateRef, e []Ending) error
	Adjust(ctx context.Context, ref contract.GateRef, a Adjustment, force bool) error
	UndoAdjust(ctx context.Context, ref contract.GateRef, a Adjustment) error
	Audit(ctx context.Context, ref contract.GateRef) (GateAudit, error)
	Lookup(ctx context.Context, ref contract.GateRef, orderSN string) (*GateEntry, error) // nil: not known
	Trim(ctx context.Context, ref contract.GateRef) error
	Refs(ctx context.Context) ([]contract.GateRef, error)
	Register(ctx context.Context, refs []contract.GateRef) error // adds them to Refs
	Unregister(ctx context.Context, ref contract.GateRef) error
	ShowSale(ctx context.Context, a Activity) error // writes the sale document, if it differs
	Ready(ctx context.Context) (bool, error)
	MarkReady(ctx context.Context) error
	ReplicationID(ctx context.Context) (string, error) // another one: a master was restarted or replaced
}

// Publisher publishes what follows from a committed transaction.
type Publisher interface {
	Deductions(ctx context.Context, d []contract.Deduction) error
	Closings(ctx context.Context, c []contract.OrderClose) error
	Replay(ctx context.Context, l DeadLetter) error
}

// CloseOutcome is how an order stands after it was asked to close.
type CloseOutcome struct {
	OrderSN string
	Outcome string // closed, paid, refunded, paying, not_due or unknown
	At      time.Time
	Reason  string // of closed: why it is, where the order service tells
}

// Outcomes of the two internal calls.
const (
	OutcomeClosed   = "closed"
	OutcomePaid     = "paid"
	OutcomePaying   = "paying"
	OutcomeNotDue   = "not_due"
	OutcomeUnknown  = "unknown"
	OutcomeRefunded = "refunded"
)

// Orders is the order service: only it decides an order's fate.
type Orders interface {
	Close(ctx context.Context, orderSNs []string, reason string) ([]CloseOutcome, error)
	Refund(ctx context.Context, orderSNs []string, reason string) (map[string]string, error)
}

// Recorder records what happened in logs, metrics and traces.
type Recorder interface {
	Span(ctx context.Context, name string, database bool) (context.Context, func(error))
	Landed(ctx context.Context, n int, lag []time.Duration)
	Refused(ctx context.Context, reason string, n int)
	Closed(ctx context.Context, n int, lateness time.Duration)
	Rebuilt(ctx context.Context, activityID string)
	Resettled(ctx context.Context, activityID string, rows int)
	Incident(ctx context.Context, what string, attrs ...any) // alarm: must never happen, and did
	Info(ctx context.Context, what string, attrs ...any)
	Warn(ctx context.Context, what string, err error)
}
