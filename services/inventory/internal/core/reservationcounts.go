package core

import (
	"context"
	"sync"
	"time"
)

const (
	// countRest is the ratio of the time for which a count is used to the time that the counting took: boards and lists
	// that are read each second need at most a tenth of a connection for each activity.
	countRest    = 10
	maxCountRest = time.Minute
)

// countCache keeps the counts of reservations for some time. Counting reads one index entry for each reservation of the
// activity, a million after a large sale.
type countCache struct {
	mu  sync.Mutex
	all map[counted]*reservationCount
}

// counted is what is counted: an activity as a scope contains it.
type counted struct {
	in         Scope
	activityID string
}

// reservationCount is the latest count of one activity.
type reservationCount struct {
	turn chan struct{} // holds one element while a caller counts; guards the other fields

	counts ReservationCounts
	until  time.Time
}

// of returns the entry of a key. It drops entries that no caller has used for some time, so that their number is that of
// the activities that callers read.
func (c *countCache) of(key counted, now time.Time) *reservationCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[counted]*reservationCount{}
	}
	if e := c.all[key]; e != nil {
		return e
	}
	for k, e := range c.all {
		select {
		case e.turn <- struct{}{}:
			if e.until.Add(maxCountRest).Before(now) {
				delete(c.all, k)
			}
			<-e.turn
		default: // in use
		}
	}
	e := &reservationCount{turn: make(chan struct{}, 1)}
	c.all[key] = e
	return e
}

// ReservationCounts counts an activity's reservations by state. The counts may be as old as ten times the time that
// counting takes, at most a minute.
func (s *Service) ReservationCounts(ctx context.Context, in Scope, activityID string) (ReservationCounts, error) {
	e := s.counts.of(counted{in, activityID}, s.clock())
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return ReservationCounts{}, ctx.Err()
	}
	defer func() { <-e.turn }()
	began := s.clock()
	if began.Before(e.until) {
		return e.counts, nil
	}
	counts, err := s.store.CountReservations(ctx, in, activityID)
	if err != nil {
		return ReservationCounts{}, err
	}
	now := s.clock()
	e.counts, e.until = counts, now.Add(min(countRest*now.Sub(began), maxCountRest))
	return counts, nil
}
