package core

import (
	"context"
	"errors"
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
)

// Store keeps orders, payments and refunds. Its errors are *contract.Refusal where a caller may see them. All other
// errors are internal.
type Store interface {
	// InTx runs fn in one READ COMMITTED transaction. After a deadlock, or when a concurrent transaction inserted the
	// same row first, it rolls back and runs fn again. So fn must not keep results of an earlier run. name is the name
	// of the span.
	InTx(ctx context.Context, name string, fn func(tx Tx) error) error
	// Now returns the time of the database in UTC, in whole milliseconds. Deadlines, claims and sweeps are decided by it,
	// never by the clock of a process.
	Now(ctx context.Context) (time.Time, error)

	Order(ctx context.Context, orderSN string) (Order, bool, error) // with all details; tombstones too
	List(ctx context.Context, q ListQuery) ([]Order, error)         // with all details; never tombstones
	Payment(ctx context.Context, paymentID string) (Payment, bool, error)
	// PaymentWithOrder is Tx.PaymentWithOrder outside of a transaction.
	PaymentWithOrder(ctx context.Context, paymentID string) (p Payment, o Order, now time.Time, err error)
	// StoreTurn changes TurnAt of a payment, zero for none, unless it has changed since p was read.
	StoreTurn(ctx context.Context, p Payment, at time.Time) error
	// StoreReference stores the provider's own id of a payment that has none.
	StoreReference(ctx context.Context, paymentID, reference string) error

	// DueCancels returns payments whose CancelAt is not after now.
	DueCancels(ctx context.Context, now time.Time, limit int) ([]Payment, error)
	// ClaimCancel sets CancelAt of a payment in the state that was read, and counts an attempt. It returns false when
	// another process was faster.
	ClaimCancel(ctx context.Context, p Payment, next time.Time) (bool, error)
	// EndCancel removes CancelAt of a payment in the state that was read.
	EndCancel(ctx context.Context, p Payment) error

	// OrderStates returns the orders that exist, without refunds and not always with lines; tombstones too.
	OrderStates(ctx context.Context, orderSNs []string) (map[string]Order, error)
	// ChangedOrders returns orders after q.After whose state changed at or after q.Since, with their lines, never
	// tombstones. next is the order_sn up to which it read; more reports whether others may follow.
	ChangedOrders(ctx context.Context, q ChangedQuery) (orders []Order, next string, more bool, err error)
	Contacts(ctx context.Context, orderSNs []string) (map[string]SealedContact, error)
	// Descriptions returns those that exist.
	Descriptions(ctx context.Context, keys []DescriptionKey) (map[DescriptionKey]contract.ActivityInfo, error)
	// ActivityEnds returns the ends in the latest descriptions.
	ActivityEnds(ctx context.Context, ids []string) (map[string]time.Time, error)

	// OverdueOrders returns pending orders whose next closing check is due at the given time.
	OverdueOrders(ctx context.Context, before time.Time, limit int) ([]Order, error)

	// DueRefunds returns at most limit due refunds. The providers take turns, so that one that hangs delays no other.
	DueRefunds(ctx context.Context, now time.Time, limit int) ([]Refund, error)
	// ClaimRefund takes the next attempt of a refund in the state that was read, and postpones the following attempt
	// to next. It returns false when another process has claimed the attempt.
	ClaimRefund(ctx context.Context, r Refund, next time.Time) (bool, error)
	// FinishRefund records the result of an attempt. RefundDone applies to every refund that is not done yet,
	// RefundFailed only to a pending one. It returns false when the refund was not changed.
	FinishRefund(ctx context.Context, paymentID string, to RefundState, lastError string, at time.Time) (bool, error)
	// ReopenRefund makes a refund that is done RefundFailed. It returns false when the refund was not changed.
	ReopenRefund(ctx context.Context, paymentID, lastError string, at time.Time) (bool, error)
	// StoreRefundError stores the error of a failed attempt.
	StoreRefundError(ctx context.Context, paymentID, lastError string) error

	Refund(ctx context.Context, paymentID string) (Refund, bool, error)
	// RefundDecisions returns the latest decisions about these refunds, oldest first, at most limit.
	RefundDecisions(ctx context.Context, paymentIDs []string, limit int) ([]RefundDecision, error)
	// WaitingRefunds returns the refused refunds and the pending ones with at least so many attempts, ascending by
	// creation and payment_id after the given position.
	WaitingRefunds(ctx context.Context, attempts int, after Position, limit int) ([]Refund, error)

	ComparisonStore
}

// Tx is a transaction of the Store. Every transaction locks rows in the same order: orders by order_sn, then payments.
// Refunds are locked alone, or last.
type Tx interface {
	Now() (time.Time, error) // as Store.Now

	// LockOrders reads and locks the orders that exist, with their lines; tombstones too.
	LockOrders(orderSNs []string) (map[string]Order, error)
	Deadline(orderSN string) (time.Time, error) // of an order that exists
	InsertOrders(orders []Order) error          // ErrOrderExists when one of the keys is taken
	InsertTombstones(orderSNs []string, at time.Time) error

	// The transitions of an order. Each returns the number of orders that it changed.

	// Close: pending -> closed; with ReasonExpired only orders whose deadline is not after at.
	Close(orderSNs []string, reason string, at time.Time) (int, error)
	Pay(orderSN, paymentID string, at time.Time) (int, error) // pending -> paid
	Refund(orderSN string, at time.Time) (int, error)         // paid -> refunded
	// HoldForPayment keeps a pending order open until the given time, once per order.
	HoldForPayment(orderSN string, until time.Time) (held int, err error)
	// PostponeClosingCheck sets the next check of pending orders whose closing was sent again so many times, and counts
	// once more. It returns the number of orders that it changed.
	PostponeClosingCheck(orderSNs []string, resends int, at time.Time) (int, error)

	AddEvents(events []contract.OrderEvent) error // to the outbox
	AddClosing(c contract.OrderClose) error       // to the outbox, to be delivered immediately

	// StoreResponse stores the response to a call for 24 h. If an earlier call with the same key has a response, it
	// returns that one instead, and found. It refuses with idempotency_conflict if that call had another body.
	StoreResponse(call Call, status int, body []byte) (stored []byte, found bool, err error)

	PaymentsOf(orderSNs []string) ([]Payment, error) // in no particular order
	// OpenPayments returns which of these orders have a payment that was started and is not finished.
	OpenPayments(orderSNs []string) (map[string]bool, error)
	LockPayment(paymentID string) (Payment, bool, error)
	// PaymentWithOrder reads a payment, its order without amount and with no time but the deadline, and the time of the
	// database. It locks nothing. The payment is zero if it does not exist. The order and the time are zero if the order
	// does not exist.
	PaymentWithOrder(paymentID string) (p Payment, o Order, now time.Time, err error)
	InsertPayment(p Payment) error
	// BeginPayment locks the order of p and inserts p, with the amount and currency of the order and the present time,
	// if the order belongs to p.UserID and is pending, its deadline is later, and it has fewer than most payments. It
	// returns the number of payments that it inserted.
	BeginPayment(p Payment, most int) (begun int, err error)
	// UpdatePayment updates state, amounts taken, finish time and, unless it is empty, reference from p if the payment is in
	// one of the states from. It returns the number of payments that it changed.
	UpdatePayment(p Payment, from ...PaymentState) (int, error)

	// CancelPayments sets CancelAt of the payments of these orders that have not succeeded.
	CancelPayments(orderSNs []string, at time.Time) error

	PaymentEvent(provider, eventID string) (PaymentEvent, bool, error)
	InsertPaymentEvent(e PaymentEvent) error // ErrEventExists when the provider's event_id is taken
	UpdatePaymentEvent(provider, eventID string, from, to Handled) (int, error)
	InsertRefund(r Refund) error
	LockRefund(paymentID string) (Refund, bool, error)
	// UpdateRefused updates state, attempts and times from r if the refund is in the state RefundFailed. It returns the
	// number of refunds that it changed.
	UpdateRefused(r Refund) (int, error)
	InsertRefundDecision(d RefundDecision, at time.Time) error
	FillDetails(o *Order) error // payments and refunds, oldest first, and whether a contact is given

	PutContact(c SealedContact) error                                              // replaces an earlier one
	LockDescription(activityID string) (contract.ActivityInfo, bool, error)        // the latest one
	EqualDescription(a contract.ActivityInfo) (contract.ActivityInfo, bool, error) // the first with the same content
	InsertDescription(a contract.ActivityInfo) (inserted bool, err error)          // false: its time is taken
}

// Call identifies one call with an Idempotency-Key.
type Call struct {
	Caller, Method, Path, Key string
	Body                      []byte // only its hash is stored
}

// ListQuery selects a user's orders, newest first. Before is the last order of the previous page; zero for the first
// page.
type ListQuery struct {
	UserID string
	State  State // empty for all
	Limit  int
	Before Position
}

// Position is the place of an order in its buyer's list.
type Position struct {
	CreatedAt time.Time
	OrderSN   string
}

// Publisher sends messages to the other services. It returns nil only after the broker has confirmed. After an error
// the outcome is unknown, and the caller publishes everything again.
type Publisher interface {
	Events(ctx context.Context, events []contract.OrderEvent) error
	// Close publishes a request to close orders, delivered after the delay; without a positive one at once.
	// traceparents are those of the orders.
	Close(ctx context.Context, c contract.OrderClose, traceparents []string, delay time.Duration) error
	DeadLetters(ctx context.Context, deadLetters []contract.DeadLetter) error
}

// Provider is a payment provider: it takes payments and refunds them. All calls may use the network, and no
// transaction is open during them. Any of them may return a *ProviderBusy.
type Provider interface {
	Name() string
	// Begin makes a payment payable until about the deadline of its order. Calls with the same payment take effect once,
	// and return the same. ErrPaymentDeclined and ErrPaymentEnded are final.
	Begin(ctx context.Context, p Payment, deadline time.Time) (Begun, error)
	// Parse returns the events of a callback, none for a callback that is about nothing here. It verifies the signature
	// before it does anything else. Its errors are refusals of the callback: unauthenticated, invalid_request, or
	// unavailable if the provider did not respond what a rare event is about.
	Parse(ctx context.Context, h http.Header, body []byte) ([]PaymentEvent, error)
	// Cancel ends a payment that was begun, so that it cannot be paid any more. It returns nil, too, for a payment that
	// has succeeded or has ended: an event reports which. A provider that cannot end payments returns nil and refunds a
	// late one.
	Cancel(ctx context.Context, p Payment) error
	// Refund returns what a payment has taken, in full. The id of the payment is that of the refund: calls with the same
	// one take effect once. ErrRefundDeclined is final; after any other error the refund is retried without end.
	Refund(ctx context.Context, p Payment) error
	// FindRefund returns the refund that the provider has made of a payment. found is false only if the provider
	// responded that there is none.
	FindRefund(ctx context.Context, p Payment) (made ProviderRefund, found bool, err error)
	// FindCharge returns the charge of a payment. found is false only if the provider responded that there is none.
	// Of the payment, the id and, if it is known, the reference are used.
	FindCharge(ctx context.Context, p Payment) (c Charge, found bool, err error)
	// Charges returns a page of the charges that the provider has made since a time, by its clock, in any order. cursor is
	// next of the previous page, empty for the first; next is empty after the last page.
	Charges(ctx context.Context, since time.Time, cursor string, limit int) (page []Charge, next string, err error)
	// Refunds returns a page of the refunds that the provider has made since a time, as Charges.
	Refunds(ctx context.Context, since time.Time, cursor string, limit int) (page []ProviderRefund, next string, err error)
}

// Begun is a payment that can be paid.
type Begun struct {
	PayURL    string // where the buyer pays: absolute https, or relative to the origin of the pages
	Reference string // the provider's own id of the payment; empty if it has none
}

// ErrPaymentDeclined is returned by a provider that will never take a payment.
var ErrPaymentDeclined = errors.New("payment declined")

// ErrPaymentEnded is returned by a provider that cannot take a payment any more, and may take another one.
var ErrPaymentEnded = errors.New("payment has ended")

// ProviderBusy is the error of a provider that takes no call at present.
type ProviderBusy struct {
	After    time.Duration // when the call may be repeated; 0 if that is not known
	Reserved bool          // a turn was reserved for the call at that time
}

func (b *ProviderBusy) Error() string { return "provider is busy" }

// ErrRefundDeclined is returned by a provider that will never make a refund.
var ErrRefundDeclined = errors.New("refund declined")

// ErrRetry makes InTx roll back and run the transaction again: a row changed between its read and its update.
var ErrRetry = errors.New("row changed concurrently")

// ErrStale makes InTx roll back without running the transaction again: what it read without locks has changed.
var ErrStale = errors.New("row changed since it was read")

// ErrEventExists is returned by InsertPaymentEvent for an event_id that is stored.
var ErrEventExists = errors.New("payment event exists")

// ErrOrderExists is returned by InsertOrders for an order that exists.
var ErrOrderExists = errors.New("order exists")

// Recorder counts events of the service and reports incidents.
type Recorder interface {
	// Created counts n orders. lags are the times from their reservations to their creation.
	Created(ctx context.Context, n int, lags []time.Duration)
	Paid(ctx context.Context)
	Closed(ctx context.Context, reason string, n int)
	// Lateness records the time from the deadline of one of the orders of a closing to the closing.
	Lateness(ctx context.Context, d time.Duration)
	Refund(ctx context.Context, state RefundState)
	ClosingsResent(ctx context.Context, n int)
	ContactsDeleted(ctx context.Context, n int)
	// Incident reports a fault to operators. kind is one of IncidentKinds. The attributes hold ids, never text that a
	// user wrote.
	Incident(ctx context.Context, kind, message string, attrs ...any)
}

// IncidentKinds are the kinds of incidents. Each is counted from 0.
var IncidentKinds = []string{
	"activity_not_stored", "cancel_failing", "charge_without_order", "contact_unreadable", "dead_letter", "event_reused",
	"order_refunded", "payment_declined", "payment_disagreement", "payment_disputed", "payment_found",
	"payment_refunded", "payment_returned", "refund_failed", "refund_failing", "refund_twice", "unknown_payment",
}

// Genes checks and issues ids that carry the gene of a user.
type Genes interface {
	// Belongs reports whether the order_sn carries the user's gene. An order_sn without it is not one of this user's.
	Belongs(orderSN, userID string) bool
	// NewPaymentID returns a random id that carries the user's gene.
	NewPaymentID(userID string) (string, error)
}
