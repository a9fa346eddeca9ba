package relay

import (
	"context"

	"flashsale.internal/pkg/contract"
)

// Journal holds, for each gate, the accepted reservations that are not published yet.
type Journal interface {
	// Refs returns all gates, those of ended activities too.
	Refs(ctx context.Context) ([]contract.GateRef, error)
	// Read returns up to limit entries for this consumer: new ones first, then those that a dead consumer did not
	// acknowledge.
	Read(ctx context.Context, ref contract.GateRef, consumer string, limit int) ([]Entry, error)
	// Ack removes entries.
	Ack(ctx context.Context, ref contract.GateRef, ids []string) error
	// Len returns the number of entries that are not removed yet. It is 0 for a gate that does not exist.
	Len(ctx context.Context, ref contract.GateRef) (int64, error)
}

// Entry is one reservation in the journal.
type Entry struct {
	ID  string
	Err error // set if the entry cannot be read; Reservation is empty then
	contract.Reservation
}
