package merchants

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

const (
	lookupTimeout = 3 * time.Second // of one call to the order service for a list
	lookupsAtOnce = 4               // concurrent calls for one page of an export
)

// ReservationCounts are the numbers of an activity's reservations, by state.
type ReservationCounts struct {
	Reserved, Sold, Released, Rejected int64
	AsOf                               time.Time // when the count began
}

// All returns the number of reservations in any state.
func (n ReservationCounts) All() int64 { return n.Reserved + n.Sold + n.Released + n.Rejected }

// counted is what is counted: an activity as a scope contains it.
type counted struct {
	in         core.Scope
	activityID string
}

// ReservationCounts counts an activity's reservations by state. The counts may be as old as ten times the time that
// counting takes, at most a minute. Counting reads one index entry for each reservation of the activity, a million
// after a large sale.
func (s *Service) ReservationCounts(ctx context.Context, in core.Scope, activityID string) (ReservationCounts, error) {
	return s.counts.get(ctx, counted{in, activityID}, s.clock, 0, func() (ReservationCounts, error) {
		began := s.clock()
		n, err := s.Rows.CountReservations(ctx, in, activityID)
		n.AsOf = began
		return n, err
	})
}

// OrderDetails is what the order service stores about an order and the ledger does not.
type OrderDetails struct {
	State    string // of the order: pending, paid, closed or refunded
	Amount   int64  // minor units
	Currency string
	SKUNames map[string]string // at the purchase, by SKU, as far as they are known
	Contact  *Contact          // nil if there is none, and if the order service cannot decrypt it
}

// Contact is how to reach the buyer of an order. Logged or printed, it is hidden.
type Contact struct {
	Name         string
	Phone        string
	AddressLines []string
}

// String implements fmt.Stringer.
func (Contact) String() string { return "(hidden)" }

// GoString implements fmt.GoStringer.
func (Contact) GoString() string { return "(hidden)" }

// LogValue implements slog.LogValuer.
func (Contact) LogValue() slog.Value { return slog.StringValue("(hidden)") }

// MarshalJSON implements json.Marshaler, for logged values that hold a contact.
func (Contact) MarshalJSON() ([]byte, error) { return []byte(`"(hidden)"`), nil }

// Masked returns the first character of the name and the last four digits of the phone number. Operators see no more
// of a contact.
func (c Contact) Masked() Contact {
	first, _ := utf8.DecodeRuneInString(c.Name)
	return Contact{Name: string(first) + "***", Phone: "***" + c.Phone[max(0, len(c.Phone)-4):]}
}

// OrderDetails returns what the order service stores about these orders. It omits orders that do not exist. After an
// error the result holds those orders that were read.
func (s *Service) OrderDetails(ctx context.Context, orderSNs []string) (map[string]OrderDetails, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
		found  = make(map[string]OrderDetails, len(orderSNs))
		slots  = make(chan struct{}, lookupsAtOnce)
	)
	for sns := range slices.Chunk(orderSNs, contract.MaxItems) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
			defer cancel()
			part, err := s.Orders.Lookup(ctx, sns)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
			for sn, d := range part {
				found[sn] = d
			}
		})
	}
	wg.Wait()
	return found, failed
}

// Refund is a refund as the order service stores it.
type Refund struct {
	ID            string // of the payment
	OrderSN       string
	Provider      string
	Amount        int64 // minor units
	Currency      string
	State         string // refund_pending, refunded or refund_failed
	Reason        string
	Attempts      int64      // since the last retry by an operator
	NextAttemptAt *time.Time // of refund_pending
	LastError     string     // of the provider
	CreatedAt     time.Time
	RefundedAt    *time.Time
	Settled       *RefundSettlement // nil unless an operator settled it
}

// RefundSettlement is how an operator returned the money of a refund that its provider has refused.
type RefundSettlement struct {
	By        string // user id of the operator
	Reference string // of the transfer
	Reason    string
}

// PaymentDifference is a disagreement between the order service and a payment provider, as the order service sends it.
type PaymentDifference struct {
	ID             string            `json:"difference_id"`
	Provider       string            `json:"provider"`
	Kind           string            `json:"kind"`
	PaymentID      string            `json:"payment_id"`
	OrderSN        string            `json:"order_sn"`        // "" if it is not known
	ProviderAmount *DifferenceAmount `json:"provider_amount"` // nil if there is none
	RecordedAmount *DifferenceAmount `json:"recorded_amount"` // nil if there is none
	At             time.Time         `json:"at"`
	FirstSeenAt    time.Time         `json:"first_seen_at"`
	LastSeenAt     time.Time         `json:"last_seen_at"`
}

// DifferenceAmount is an amount of one side, in minor units.
type DifferenceAmount struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// RefundPage selects a part of the list of refunds. Cursor is one that the order service returned; "" for the start.
type RefundPage struct {
	Limit  int
	Cursor string
}

// Refunds are the refunds of the order service. Their refusals are those of the order service. If it does not respond,
// or its provider does not, the refusal is unavailable.
type Refunds interface {
	// WaitingRefunds returns those of all merchants that wait for an operator, oldest first. next is "" after the last
	// page.
	WaitingRefunds(ctx context.Context, p RefundPage) (list []Refund, next string, err error)
	// PaymentDifferences returns the differences with the payment providers, as WaitingRefunds.
	PaymentDifferences(ctx context.Context, p RefundPage) (list []PaymentDifference, next string, err error)
	RetryRefund(ctx context.Context, id, by string) (Refund, error)
	SettleRefund(ctx context.Context, id string, how RefundSettlement) (Refund, error)
}

// RetryRefund requests another attempt at a refund that its provider has refused.
func (s *Service) RetryRefund(ctx context.Context, by core.Caller, id string) (Refund, error) {
	if err := s.recordRefund(ctx, by, "refund.retry", id, nil); err != nil {
		return Refund{}, err
	}
	return s.Refunds.RetryRefund(ctx, id, by.UserID)
}

// SettleRefund requests that a refund, which its provider has refused, is recorded as made in another way.
func (s *Service) SettleRefund(ctx context.Context, by core.Caller, id, reference, reason string) (Refund, error) {
	detail := map[string]any{"reference": reference, "reason": reason}
	if err := s.recordRefund(ctx, by, "refund.settle", id, detail); err != nil {
		return Refund{}, err
	}
	return s.Refunds.SettleRefund(ctx, id, RefundSettlement{By: by.UserID, Reference: reference, Reason: reason})
}

// recordRefund records the change of a refund in the change log, before the order service makes it: a change that
// cannot be recorded is not made, and a recorded change that failed was an attempt.
func (s *Service) recordRefund(ctx context.Context, by core.Caller, action, id string, detail any) error {
	return s.History.Record(ctx, core.Change{
		At: s.clock(), Who: by.UserID, Role: by.Role(), Action: action, Object: "refund", ObjectID: id, Detail: detail,
	})
}
