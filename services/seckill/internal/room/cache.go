package room

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

// Ages and bounds of the cached rooms.
const (
	refreshInterval = 200 * time.Millisecond
	maxAge          = time.Second
	idleAfter       = 30 * time.Second
	drawInterval    = 10 * time.Second // between two attempts to read the tickets of a draw
	maxRooms        = 1024
)

// Cache holds the state of the waiting rooms that requests use. While Redis is unreachable, tickets stay valid, and the
// last known state stays. Only in a sale that goes on without Redis each process admits the next places by itself, at the
// same pace from the state that all have read. Redis then continues with the highest of their places.
type Cache struct {
	store     Store
	paceOf    func(activityID string) int64
	log       *slog.Logger
	incidents metric.Int64Counter
	now       func() time.Time

	mu    sync.Mutex
	slots map[string]*slot
}

type slot struct {
	usedAt time.Time // guarded by Cache.mu

	last    atomic.Pointer[reading] // nil until the room was read once
	reading turn                    // held while the room is read
	movedAt time.Time               // when the room last moved; guarded by reading, as is owed
	owed    float64                 // part of a place that may be admitted
	differs atomic.Bool             // another root was published than before

	drawn   atomic.Pointer[drawn] // nil until it was read
	drawing turn                  // held while the draw is read, as are the fields below
	lost    draw.Hash             // root whose tickets Redis does not have any more
	drawErr error                 // of the last attempt
	triedAt time.Time
}

// turn lets one caller at a time read. A mutex would let the others wait without a bound while Redis does not respond.
type turn chan struct{}

// take waits for the turn as long as the context and one call last.
func (t turn) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: another caller reads the waiting room: %w", core.ErrUnavailable, ctx.Err())
	}
}

// try reports whether it has taken the turn.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) end() { <-t }

// reading is a room as it was last read. After a failed read it has the time of the attempt.
type reading struct {
	room Room
	at   time.Time
}

// drawn are the early tickets of a draw. They never change.
type drawn struct {
	root        draw.Hash
	commitments []draw.Hash
	tree        *draw.Tree
}

// NewCache returns a cache that reads on demand; Run keeps it fresh. paceOf returns how many places a second a room may
// admit without Redis, 0 for none. now is the clock of this process.
func NewCache(
	store Store, paceOf func(activityID string) int64, tel *telemetry.Telemetry, now func() time.Time,
) (*Cache, error) {
	incidents, err := tel.Incidents()
	return &Cache{
		store: store, paceOf: paceOf, log: tel.Log, incidents: incidents, now: now, slots: map[string]*slot{},
	}, err
}

// Run refreshes the rooms in use until ctx ends. The rooms are few, and each read is one call.
func (c *Cache) Run(ctx context.Context) error {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		for id, s := range c.inUse() {
			_, _ = c.read(ctx, id, s, refreshInterval/2) // after an error the last state stays
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// inUse returns the rooms that were used lately, and drops those whose activities have ended.
func (c *Cache) inUse() map[string]*slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	used := map[string]*slot{}
	for id, s := range c.slots {
		switch idle := now.Sub(s.usedAt); {
		case idle <= idleAfter:
			used[id] = s
		case idle > time.Hour: // until then it is what Redis may need after a loss
			delete(c.slots, id)
		}
	}
	return used
}

// get returns the state of a room, at most maxAge old while Redis is reachable. The activity must have a room.
func (c *Cache) get(ctx context.Context, id string) (Room, *slot, error) {
	c.mu.Lock()
	s := c.slots[id]
	if s == nil {
		if len(c.slots) >= maxRooms {
			c.mu.Unlock()
			return Room{}, nil, fmt.Errorf("%w: too many waiting rooms", core.ErrOverloaded)
		}
		s = &slot{reading: make(turn, 1), drawing: make(turn, 1)}
		c.slots[id] = s
	}
	s.usedAt = c.now()
	c.mu.Unlock()
	r, err := c.read(ctx, id, s, maxAge)
	return r, s, err
}

// read returns the state of a room and reads it if it is older than maxAge. One caller at a time reads; the others get
// the last state meanwhile, and only wait, for a bounded time, if there is none.
func (c *Cache) read(ctx context.Context, id string, s *slot, maxAge time.Duration) (Room, error) {
	last := s.last.Load()
	if last != nil && c.now().Sub(last.at) <= maxAge {
		return last.room, nil
	}
	switch {
	case last == nil:
		if err := s.reading.take(ctx); err != nil {
			return Room{}, err
		}
	case !s.reading.try():
		return last.room, nil
	}
	defer s.reading.end()
	if last = s.last.Load(); last != nil && c.now().Sub(last.at) <= maxAge {
		return last.room, nil
	}
	var known Room
	if last != nil {
		known = last.room
	}
	if known.Key == (draw.Hash{}) {
		known.Key = draw.NewHash()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	at := c.now()
	room, err := c.store.Room(ctx, id, known)
	switch {
	case err == nil:
		s.last.Store(&reading{room, at})
		s.movedAt, s.owed = at, 0
		if known.Root != nil && room.Root != nil && *known.Root != *room.Root && !s.differs.Swap(true) {
			c.log.ErrorContext(ctx, "two draws of a waiting room were published", "activity_id", id, "root", room.Root,
				"before", known.Root)
			c.incidents.Add(ctx, 1)
		}
		return room, nil
	case last == nil || errors.Is(err, ErrNone):
		return Room{}, err
	}
	// The next caller reads again after a pause, so that an unreachable Redis is not called for every request.
	room = s.withoutRedis(last.room, c.paceOf(id), at)
	s.last.Store(&reading{room, at.Add(refreshInterval - maxAge)})
	return room, nil
}

// withoutRedis returns the room after the places that pace allows since it last moved. No place is admitted before the
// draw, and none lapses. The caller holds reading.
func (s *slot) withoutRedis(r Room, pace int64, now time.Time) Room {
	elapsed := min(now.Sub(s.movedAt), maxCredit)
	s.movedAt = now
	r.Admissions = nil // no place lapses
	if pace <= 0 || !r.Closed || r.Early > 0 && r.Seed == nil {
		return r
	}
	s.owed += float64(pace) * elapsed.Seconds()
	whole := int64(s.owed)
	s.owed -= float64(whole)
	r.Admitted, r.Rate = max(r.Admitted, min(r.Admitted+whole, r.Sequence)), pace
	return r
}

// tickets returns the early tickets of a room whose draw is stored. If they are not those of the published root, Redis has
// lost some of them since. wait is whether to wait for another caller that reads them.
func (c *Cache) tickets(ctx context.Context, id string, s *slot, r Room, wait bool) (*drawn, error) {
	if d := s.drawn.Load(); d != nil && d.root == *r.Root {
		return d, nil
	}
	if wait {
		if err := s.drawing.take(ctx); err != nil {
			return nil, err
		}
	} else if !s.drawing.try() {
		return nil, errTicketsAreRead
	}
	defer s.drawing.end()
	switch d := s.drawn.Load(); {
	case d != nil && d.root == *r.Root:
		return d, nil
	case s.lost == *r.Root:
		return nil, errTicketsLost
	case s.drawErr != nil && c.now().Sub(s.triedAt) < drawInterval:
		return nil, s.drawErr
	}
	read, err := c.readTickets(ctx, id, r)
	if s.drawErr, s.triedAt = err, c.now(); err == nil {
		s.drawn.Store(read)
	} else if errors.Is(err, errTicketsLost) {
		s.lost, s.drawErr = *r.Root, nil
		c.log.WarnContext(ctx, "Redis has lost tickets of a published draw", "activity_id", id, "root", r.Root)
	}
	return read, err
}

var (
	errTicketsAreRead = fmt.Errorf("%w: the tickets of a draw are being read", core.ErrUnavailable)
	// errTicketsLost means that Redis does not have the tickets of the published root any more.
	errTicketsLost = fmt.Errorf("%w: the tickets are not those of the published root", core.ErrUnavailable)
)

func (c *Cache) readTickets(ctx context.Context, id string, r Room) (*drawn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	commitments, err := c.store.Commitments(ctx, id, r.Early)
	if err != nil {
		return nil, err
	}
	tree, err := draw.NewTree(commitments)
	if err != nil {
		return nil, err
	}
	root, err := tree.Root()
	if err != nil {
		return nil, err
	}
	if root != *r.Root {
		return nil, errTicketsLost
	}
	return &drawn{root, commitments, tree}, nil
}
