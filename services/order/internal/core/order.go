package core

import (
	"errors"
	"math"
	"time"

	"flashsale.internal/pkg/contract"
)

// State is the state of an order.
type State string

// The states of an order. It is pending, then paid or closed; a paid order can become refunded.
const (
	Pending  State = "pending"
	Paid     State = "paid"
	Closed   State = "closed"
	Refunded State = "refunded"
)

// The reasons for closing an order.
const (
	ReasonExpired   = "expired"   // not paid in time
	ReasonCancelled = "cancelled" // by its buyer
	ReasonRejected  = "rejected"  // by an operator
)

// CloseReasons lists all of them.
var CloseReasons = []string{ReasonExpired, ReasonCancelled, ReasonRejected}

// Order is an order of one buyer. All times are UTC in whole milliseconds; the zero time means that the event has not
// happened.
type Order struct {
	OrderSN    string
	UserID     string
	ActivityID string
	State      State
	Tombstone  bool // an order that must never exist: no field but OrderSN has a meaning
	Lines      []contract.PricedLine
	Amount     int64 // minor units
	Currency   string

	CreatedAt   time.Time
	ExpiresAt   time.Time // the deadline: payable before this time
	PaidAt      time.Time
	ClosedAt    time.Time
	RefundedAt  time.Time
	CloseReason string

	PaidBy       string    // id of the payment that made it paid
	PayingUntil  time.Time // set by the first closing that found a payment in flight
	DescribedAt  time.Time // which description of its activity was bought; zero: none was known
	CloseResends int       // number of times the sweep published its closing again
	Traceparent  string    // of the deduction that created it

	// Set by Store.Order, Store.List and Tx.FillDetails only.

	Refunds      []Refund
	Payments     []Payment // oldest first
	ContactGiven bool      // the buyer has given a contact, and it is still stored
}

// ChangedAt returns the time of the last change of the order's state.
func (o Order) ChangedAt() time.Time {
	for _, at := range []time.Time{o.RefundedAt, o.ClosedAt, o.PaidAt} {
		if !at.IsZero() {
			return at
		}
	}
	return o.CreatedAt
}

// PaymentState is the state of a payment.
type PaymentState string

// The states of a payment. A failed payment can still succeed if the provider reports so later.
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
	Amount       int64 // requested, in minor units
	Currency     string
	PaidAmount   int64 // taken, as reported by the provider
	PaidCurrency string
	CreatedAt    time.Time
	FinishedAt   time.Time

	// Reference is the provider's own id of it, empty until one is known.
	Reference string
	// TurnAt is when it may begin at the provider; zero if it did not have to wait.
	TurnAt time.Time
	// CancelAt is when the provider is next requested to end it; zero if that is not needed or done.
	// CancelAttempts counts the calls that failed.
	CancelAt       time.Time
	CancelAttempts int
}

// RefundState is the state of a refund.
type RefundState string

// The states of a refund. It is pending until it was made, or until its provider has refused it for good; a time-out
// never ends it. A refused one waits for an operator, who makes it pending again or returns the money in another way.
const (
	RefundPending RefundState = "refund_pending"
	RefundDone    RefundState = "refunded"
	RefundFailed  RefundState = "refund_failed"
)

// RefundStates lists all states.
var RefundStates = []RefundState{RefundPending, RefundDone, RefundFailed}

// The reasons for refunding a payment.
const (
	RefundSecond      = "second"       // another payment had paid the order
	RefundLate        = "late"         // the order was closed at its deadline
	RefundCancelled   = "cancelled"    // the buyer cancelled the order
	RefundRejected    = "rejected"     // an operator or the merchant closed the order
	RefundWrongAmount = "wrong_amount" // amount or currency differs from the requested one
	RefundNoStock     = "no_stock"     // inventory has no unit for the paid order
	RefundReview      = "review"       // the merchant cancelled the paid order
	RefundNoOrder     = "no_order"     // the order does not exist any more
	RefundByProvider  = "provider"     // the provider had made it; found by ReconcilePayments
)

// Refund is the refund of one payment in full. A payment has at most one refund, so the refund's id is the payment's.
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

	// Settled is how an operator returned the money; zero if the provider did. Set by Store.Refund and Tx.LockRefund.
	Settled Settlement
}

// Outcome is the result of a payment as reported by a provider.
type Outcome string

// The outcomes of a payment. Of the latter three an operator decides: they raise an incident.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomeDisputed  Outcome = "disputed" // the buyer's bank demands the money back
	OutcomeReturned  Outcome = "returned" // money was returned at the provider, without a request of this service

	OutcomeRefundFailed Outcome = "refund_failed" // a refund that seemed to be made has failed since
)

// PaymentEvent is an event of a provider about one payment. EventID is unique per provider. Reference is the
// provider's own id of the payment, empty if the event has none. It is not stored with the event.
type PaymentEvent struct {
	Provider   string
	Reference  string
	EventID    string
	PaymentID  string
	Outcome    Outcome
	Amount     int64
	Currency   string
	Handled    Handled
	ReceivedAt time.Time

	OtherInstallation bool // as of ProviderRefund
}

// Handled is the result of handling a PaymentEvent.
type Handled string

// The results of handling an event: it changed a payment, it changed nothing, or there is no such payment.
const (
	EventApplied Handled = "applied"
	EventIgnored Handled = "ignored"
	EventUnknown Handled = "unknown"
)

var errAmount = errors.New("lines: amount is negative or overflows 64 bits")

// AmountOf returns the total price of the lines in minor units. It fails for a negative value and on overflow.
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

// sameOrder reports whether a deduction describes the existing order o. It does not compare the pay window: the
// deadline was fixed when the order was created.
func sameOrder(o Order, d contract.Deduction) bool {
	if o.UserID != d.UserID || o.ActivityID != d.ActivityID || o.Currency != d.Currency {
		return false
	}
	return sameLines(o.Lines, d.Lines)
}

func sameDeduction(a, b contract.Deduction) bool {
	return a.UserID == b.UserID && a.ActivityID == b.ActivityID &&
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

// event returns the message that reports a transition of o to inventory.
func (o Order) event(step contract.OrderEventType, at time.Time) contract.OrderEvent {
	e := contract.OrderEvent{
		OrderSN: o.OrderSN, UserID: o.UserID, ActivityID: o.ActivityID,
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

// events returns the events that describe the state of o to inventory: created, and its later transition if it has
// one.
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
