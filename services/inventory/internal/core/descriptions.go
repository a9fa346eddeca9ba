package core

import (
	"context"
	"sync"
	"time"
)

// describedFor is the time for which a process describes an activity as it has read it. What a deduction takes from it
// does not change while the activity sells, but for its end.
const describedFor = time.Second

// descriptions keeps the activities that deductions describe.
type descriptions struct {
	mu  sync.Mutex
	all map[string]description
}

type description struct {
	activity *Activity
	asOf     time.Time // time of the database before the activity was read
	until    time.Time // clock of the process
}

// get returns the description of an activity that is not too old.
func (d *descriptions) get(id string, now time.Time) (description, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, found := d.all[id]
	return e, found && now.Before(e.until) && now.After(e.until.Add(-2*describedFor))
}

// put keeps a description and drops those that are too old.
func (d *descriptions) put(id string, e description, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[string]description{}
	}
	for k, old := range d.all {
		if !now.Before(old.until) {
			delete(d.all, k)
		}
	}
	d.all[id] = e
}

// described returns an activity as it was at most a second ago, and the time of the database before it was read. The
// activity is nil if it does not exist; nothing may change it.
func (s *Service) described(ctx context.Context, id string) (*Activity, time.Time, error) {
	now := s.clock()
	if e, found := s.descriptions.get(id, now); found {
		return e.activity, e.asOf, nil
	}
	a, asOf, err := s.Store.DatedActivity(ctx, id)
	if err != nil || a == nil {
		return nil, asOf, err
	}
	s.descriptions.put(id, description{a, asOf, now.Add(describedFor)}, now)
	return a, asOf, nil
}
