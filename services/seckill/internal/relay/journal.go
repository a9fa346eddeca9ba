package relay

import (
	"context"

	"flashsale.internal/pkg/contract"
)

// Journal holds, for each gate, the accepted reservations that are not published yet.
type Journal interface {
	// Registered returns the activities of all gates, ended ones too.
	Registered(ctx context.Context) ([]string, error)
	// Read returns about limit reservations for this consumer: first those that a dead consumer did not acknowledge, then
	// new ones. more reports that others wait, which did not fit.
	Read(ctx context.Context, activityID, consumer string, limit int) (entries []Entry, more bool, err error)
	// Ack removes reservations. Those with the same id are removed together.
	Ack(ctx context.Context, activityID string, ids []string) error
	// Len returns the number of reservations that are not removed yet. It is 0 for a gate that does not exist.
	Len(ctx context.Context, activityID string) (int64, error)
}

// Entry is one reservation in the journal.
type Entry struct {
	ID  string // shared by reservations that were journaled together; Read returns these together
	Err error  // set if the entry cannot be read; Reservation is empty then
	contract.Reservation
}
