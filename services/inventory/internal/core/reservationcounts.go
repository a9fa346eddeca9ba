package core

import "context"

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
