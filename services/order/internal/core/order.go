package core

import (
	"errors"
	"math"
	"time"

	"flashsale.internal/pkg/contract"
)

// State is where an order stands.
type State string

// The states of an order. It is pending, then paid or closed; a paid one may become refunded.
const (
	Pending  State = "pending"
	Paid     State = "paid"
	Closed   State = "closed"
	Refunded State = "refunded"
)

// Why an order was closed.
const (
	ReasonExpired   = "expired"   // not paid in time
	ReasonCancelled = "cancelled" // by its buyer
	ReasonRejected  = "rejected"  // by an operator
)

// Order is one buyer's order. All times are UTC in whole milliseconds; the zero time stands for "not yet".
type Order struct {
	OrderSN    string
	UserID     string
	ActivityID string
	Bucket     int
	State      State
	Tombstone  bool // an order that must never be: only OrderSN says something
	Lines      []contract.PricedLine
	Amount     int64 // minor units
	Currency   string

	CreatedAt   time.Time
	ExpiresAt   time.Time // payable before this moment
	PaidAt      time.Time
	ClosedAt    time.Time
	RefundedAt  time.Time
	CloseReason string

	PaidBy       string    // the payment that made it paid
	PayingUntil  time.Time // set by the one closing that was put off for a payment in flight
	CloseResends int       // how often the sweeper published its closing again
	Traceparent  string    // of the item that created it
	Refunds      []Refund  // filled where an order is shown
}

// PaymentState is where a payment stands.
type PaymentState string

// The states of a payment. A failed one may still succeed, when the provider says so later.
const (
	PaymentStarted   PaymentState = "started"
	PaymentSucceeded PaymentState = "succeeded"
	PaymentFailed    PaymentState = "failed"
)

// Payment is one attempt to pay an order.
type Payment struct {
	PaymentID    string
	OrderSN      string
	UserID       string
	Provider     string
	State        PaymentState
	Amount       int64 // what was asked for
	Currency     string
	PaidAmount   int64 // what the provider says it took
	PaidCurrency string
	CreatedAt    time.Time
	FinishedAt   time.Time
}

// RefundState is where a refund stands.
type RefundState string

// The states of a refund.
const (
	RefundPending RefundState = "refund_pending"
	RefundDone    RefundState = "refunded"
	RefundFailed  RefundState = "refund_failed"
)

// Why a payment is refunded.
const (
	RefundSecond      = "second"       // the order was paid already
	RefundLate        = "late"         // the order was closed for its deadline
	RefundCancelled   = "cancelled"    // the order was cancelled
	RefundRejected    = "rejected"     // the order was closed by an operator
	RefundWrongAmount = "wrong_amount" // not what was asked for
	RefundNoStock     = "no_stock"     // inventory has no piece for a paid order
)

// Refund gives one payment back in full. A payment has at most one, so its id is the payment's.
type Refund struct {
	PaymentID     string
	OrderSN       string
	Provider      string
	Amount        int64
	Currency      string
	State         RefundState
	Reason        string
	Attempts      int
	NextAttemptAt time.Time
	LastError     string
	CreatedAt     time.Time
	FinishedAt    time.Time
}

// Outcome is what a provider says of a payment.
type Outcome string

// The outcomes of a payment.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
)

// PaymentEvent is what a provider tells by its callback. EventID is unique for the provider.
type PaymentEvent struct {
	Provider   string
	EventID    string
	PaymentID  string
	Outcome    Outcome
	Amount     int64
	Currency   string
	Handled    Handled
	ReceivedAt time.Time
}

// Handled is what became of a PaymentEvent.
type Handled string

// What became of an event: it changed a payment, it had nothing to change, or no such payment exists.
const (
	EventApplied Handled = "applied"
	EventIgnored Handled = "ignored"
	EventUnknown Handled = "unknown"
)

var errAmount = errors.New("lines: the amount does not fit")

// AmountOf sums up the lines without overflow.
func AmountOf(lines []contract.PricedLine) (int64, error) {
	var sum int64
	for _, l := range lines {
		if l.Qty < 0 || l.Price < 0 {
			return 0, errAmount
		}
		if l.Price != 0 && l.Qty > (math.MaxInt64-sum)/l.Price {
			return 0, errAmount
		}
		sum += l.Qty * l.Price
	}
	return sum, nil
}

// sameOrder tells whether a deduction asks for the order that exists. The pay window is not compared: it was stamped
// when the order was created.
func sameOrder(o Order, d contract.Deduction) bool {
	if o.UserID != d.UserID || o.ActivityID != d.ActivityID || o.Bucket != d.Bucket || o.Currency != d.Currency {
		return false
	}
	return sameLines(o.Lines, d.Lines)
}

func sameDeduction(a, b contract.Deduction) bool {
	return a.UserID == b.UserID && a.ActivityID == b.ActivityID && a.Bucket == b.Bucket &&
		a.Currency == b.Currency && sameLines(a.Lines, b.Lines)
}

func sameLines(a, b []contract.PricedLine) bool {
	if !contract.SameLines(contract.PlainLines(a), contract.PlainLines(b)) {
		return false
	}
	price := make(map[string]int64, len(a))
	for _, l := range a {
		price[l.SKUID] = l.Price
	}
	for _, l := range b {
		if price[l.SKUID] != l.Price {
			return false
		}
	}
	return true
}

// Event tells inventory that o took a step.
func (o Order) event(step contract.OrderEventType, at time.Time) contract.OrderEvent {
	e := contract.OrderEvent{
		OrderSN: o.OrderSN, UserID: o.UserID, ActivityID: o.ActivityID, Bucket: o.Bucket,
		Lines: contract.PlainLines(o.Lines), Type: step, At: at, Traceparent: o.Traceparent,
	}
	switch step {
	case contract.OrderPaid, contract.OrderRefunded:
	case contract.OrderCreated:
		expires := o.ExpiresAt
		e.ExpiresAt = &expires
	case contract.OrderClosed:
		e.Reason = o.CloseReason
	}
	return e
}

// events says again all that inventory has to know of an order: that it was created, and where it went from there.
func (o Order) events() []contract.OrderEvent {
	all := []contract.OrderEvent{o.event(contract.OrderCreated, o.CreatedAt)}
	switch o.State {
	case Pending:
	case Paid:
		all = append(all, o.event(contract.OrderPaid, o.PaidAt))
	case Closed:
		all = append(all, o.event(contract.OrderClosed, o.ClosedAt))
	case Refunded:
		all = append(all, o.event(contract.OrderRefunded, o.RefundedAt))
	}
	return all
}
