package merchants

import (
	"context"
	"sync"
	"time"
)

const (
	// readRest is the ratio of the time for which a value is used to the time that reading it took: boards and lists
	// that are read each second need at most a tenth of a connection for each activity.
	readRest    = 10
	maxReadRest = time.Minute
)

// restCache keeps values that are expensive to read from the ledger for some time. A value of a key is read by one
// caller at a time.
type restCache[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]*rested[V]
}

// rested is the latest value of one key.
type rested[V any] struct {
	turn chan struct{} // holds one element while a caller reads; guards the other fields

	value V
	until time.Time
}

// of returns the entry of a key. It drops entries that no caller has used for some time, so that their number is that
// of the activities that callers read.
func (c *restCache[K, V]) of(key K, now time.Time) *rested[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[K]*rested[V]{}
	}
	if e := c.all[key]; e != nil {
		return e
	}
	for k, e := range c.all {
		select {
		case e.turn <- struct{}{}:
			if e.until.Add(maxReadRest).Before(now) {
				delete(c.all, k)
			}
			<-e.turn
		default: // in use
		}
	}
	e := &rested[V]{turn: make(chan struct{}, 1)}
	c.all[key] = e
	return e
}

// get returns the value of a key, which may be as old as least, or ten times the time that reading takes, at most a
// minute.
func (c *restCache[K, V]) get(
	ctx context.Context, key K, clock func() time.Time, least time.Duration, read func() (V, error),
) (V, error) {
	var none V
	e := c.of(key, clock())
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	defer func() { <-e.turn }()
	began := clock()
	if began.Before(e.until) {
		return e.value, nil
	}
	value, err := read()
	if err != nil {
		return none, err
	}
	now := clock()
	e.value, e.until = value, now.Add(min(max(least, readRest*now.Sub(began)), maxReadRest))
	return value, nil
}
