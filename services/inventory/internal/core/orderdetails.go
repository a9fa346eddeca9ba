package core

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"flashsale.internal/pkg/contract"
)

const (
	lookupTimeout = 3 * time.Second // of one call to the order service for a list
	lookupsAtOnce = 4               // concurrent calls for one page of an export
)

// OrderDetails is what the order service stores about an order and the ledger does not.
type OrderDetails struct {
	State    string // of the order: pending, paid, closed or refunded
	Amount   int64  // minor units
	Currency string
	Contact  *Contact // nil if there is none, and if the order service cannot decrypt it
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
			part, err := s.orders.Lookup(ctx, sns)
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
