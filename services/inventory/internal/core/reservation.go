package core

import (
	"context"
	"time"
)

// ReservationFilter selects reservations of an activity. The zero value selects all.
type ReservationFilter struct {
	UserID  string
	OrderSN string
	// State is a state of a reservation, or that of its order according to the ledger: pending (reserved, and the order
	// exists), paid (sold), closed or refunded (released, by its reason).
	State string
}

// FilterStates are the values of ReservationFilter.State besides "".
var FilterStates = []string{"pending", "paid", "closed", "refunded", "reserved", "sold", "released", "rejected"}

// ReservationPlace is the position of a reservation in the order of last changes.
type ReservationPlace struct {
	ChangedAt time.Time
	OrderSN   string
}

// ReservationCounts are the numbers of an activity's reservations, by state.
type ReservationCounts struct{ Reserved, Sold, Released, Rejected int64 }

// All returns the number of reservations in any state.
func (n ReservationCounts) All() int64 { return n.Reserved + n.Sold + n.Released + n.Rejected }

// counted is what is counted: an activity as a scope contains it.
type counted struct {
	in         Scope
	activityID string
}

// ReservationCounts counts an activity's reservations by state. The counts may be as old as ten times the time that
// counting takes, at most a minute. Counting reads one index entry for each reservation of the activity, a million
// after a large sale.
func (s *Service) ReservationCounts(ctx context.Context, in Scope, activityID string) (ReservationCounts, error) {
	return s.counts.get(ctx, counted{in, activityID}, s.clock, 0, func() (ReservationCounts, error) {
		return s.store.CountReservations(ctx, in, activityID)
	})
}
