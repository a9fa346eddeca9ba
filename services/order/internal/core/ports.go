package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// Store keeps orders, payments and refunds. Its errors are *contract.Refusal where a caller may see them; everything
// else is of the inside.
type Store interface {
	// InTx runs fn in one READ COMMITTED transaction. A deadlock or a row that somebody else inserted first rolls back
	// and runs fn again, so fn must start from nothing each time. name is what the trace calls it.
	InTx(ctx context.Context, name string, fn func(tx Tx) error) error

	Order(ctx context.Context, orderSN string) (Order, bool, error) // with lines and refunds; tombstones too
	List(ctx context.Context, q ListQuery) ([]Order, error)         // with lines and refunds; never tombstones
	Payment(ctx context.Context, paymentID string) (Payment, bool, error)

	// OverdueOrders finds pending orders whose next look is due before the given time.
	OverdueOrders(ctx context.Context, before time.Time, limit int) ([]Order, error)
	// PostponeClosingCheck notes that the closing of these orders was published again and when to look next.
	PostponeClosingCheck(ctx context.Context, orderSNs []string, at time.Time) error

	DueRefunds(ctx context.Context, now time.Time, limit int) ([]Refund, error)
	// ClaimRefund takes the next attempt of a refund as read, and puts the one after it off until next. False when
	// somebody else took it.
	ClaimRefund(ctx context.Context, r Refund, next time.Time) (bool, error)
	// FinishRefund moves a pending refund to its end. False when it was there before.
	FinishRefund(ctx context.Context, paymentID string, to RefundState, lastError string, at time.Time) (bool, error)
	// NoteRefundError keeps what went wrong with an attempt.
	NoteRefundError(ctx context.Context, paymentID, lastError string) error
}

// Tx is what a transaction can do. Rows are locked in one order everywhere: orders by shard and order_sn, then payments.
type Tx interface {
	// LockOrders reads and locks the orders that exist, with their lines; tombstones too.
	LockOrders(orderSNs []string) (map[string]Order, error)
	InsertOrders(orders []Order) error // ErrOrderExists when one of them is there
	InsertTombstones(orderSNs []string, at time.Time) error

	// The steps of an order. Each tells how many orders took it.
	Close(orderSNs []string, reason string, at time.Time) (int, error)        // pending -> closed
	Pay(orderSN, paymentID string, at time.Time) (int, error)                 // pending -> paid
	Refund(orderSN string, at time.Time) (int, error)                         // paid -> refunded
	HoldForPayment(orderSN string, until time.Time) (held int, err error)     // of a pending order, once
	AddEvents(events []contract.OrderEvent) error                             // to the outbox
	StoredResponse(call Call) (answer []byte, known bool, err error)              // refuses idempotency_conflict
	StoreResponse(call Call, status int, answer []byte) error                      // for 24 h
	PaymentsOf(orderSNs []string) ([]Payment, error)                          // in no particular order
	LockPayment(paymentID string) (Payment, bool, error)                      //
	InsertPayment(p Payment) error                                            //
	MovePayment(p Payment, from ...PaymentState) (int, error)                 // to p's state, figures and finish
	PaymentEvent(provider, eventID string) (PaymentEvent, bool, error)        //
	InsertPaymentEvent(e PaymentEvent) error                                  //
	MovePaymentEvent(provider, eventID string, from, to Handled) (int, error) //
	InsertRefund(r Refund) error                                              //
}

// Call names one call with an Idempotency-Key.
type Call struct {
	Caller, Method, Path, Key string
	Body                      []byte // as it came; only its hash is kept
}

// ListQuery asks for a user's orders, newest first. Before is where the page before ended; zero for the first page.
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

// Publisher says things to the other services. It returns nil only once the broker has confirmed; after any error the
// outcome is unknown and everything is said again.
type Publisher interface {
	Events(ctx context.Context, events []contract.OrderEvent) error
	// Close says when to close orders; deliverAt zero is now. traceparents are those of the orders.
	Close(ctx context.Context, c contract.OrderClose, traceparents []string, deliverAt time.Time) error
	DeadLetters(ctx context.Context, letters []contract.DeadLetter) error
}

// Provider takes money and gives it back.
type Provider interface {
	Name() string
	// PayURL is where the buyer pays, relative to the origin.
	PayURL(p Payment) string
	// Verify checks the signature of a callback over the body as it came.
	Verify(signature string, body []byte, now time.Time) error
	// Refund gives a payment back in full; refundID makes it happen once however often it is called.
	// ErrRefundDeclined is final, any other error is tried again.
	Refund(ctx context.Context, refundID string, amount int64, currency string) error
}

// ErrRefundDeclined is a provider's final no to a refund.
var ErrRefundDeclined = errors.New("refund declined")

// ErrRetry rolls a transaction back and runs it again: a row changed between being looked at and being written.
var ErrRetry = errors.New("row changed meanwhile")

// ErrOrderExists ends a transaction that wanted to insert an order which exists.
var ErrOrderExists = errors.New("order exists")

// Recorder counts what happens and raises alarms.
type Recorder interface {
	Created(ctx context.Context, n int)
	Paid(ctx context.Context)
	Closed(ctx context.Context, reason string, n int)
	Lateness(ctx context.Context, d time.Duration) // of a closing for the deadline
	Refund(ctx context.Context, state RefundState)
	ClosingsResent(ctx context.Context, n int)
	// Alarm tells operators of something that must not happen. kind is one of a few fixed words; the attributes hold
	// ids, never what a user wrote.
	Alarm(ctx context.Context, kind, message string, attrs ...any)
}

// Shards tells where an order_sn belongs.
type Shards interface {
	// Belongs reports whether the order_sn carries the user's gene. If not it is no order_sn of this user.
	Belongs(orderSN, userID string) bool
	// NewPaymentID draws an id that carries the user's gene.
	NewPaymentID(userID string) (string, error)
}
