package core

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Ages and bounds of the cache. The loop refreshes the sales in use often enough that the states of their gates are no
// older than MaxDecisionAge while Redis responds.
const (
	// MaxDecisionAge is the age of a gate state that decides a request, MaxDisplayAge that of data that a buyer reads.
	MaxDecisionAge = 200 * time.Millisecond
	MaxDisplayAge  = time.Second

	refreshInterval = 100 * time.Millisecond
	idleAfter       = 10 * time.Second // since the last use; then the sale is dropped from the cache
	maxOffsetAge    = time.Second      // of the offset to Redis time
	readTimeout     = 3 * time.Second  // of one read of the catalogue; its single calls have time-outs of their own
	maxViews        = 1024
)

// view is one activity as this process last read it. It is never changed, only replaced.
type view struct {
	Sale
	GateState
	saleAt time.Time // both times are taken before the read began
	gateAt time.Time
}

type slot struct {
	view    *view // nil until the first read succeeded
	usedAt  time.Time
	loading chan struct{} // closed when the read in flight has ended
	err     error         // of the last read
}

// SaleCache holds the sales that requests use: their windows and units left, and the offset of Redis time to the clock
// of this process.
type SaleCache struct {
	cat Catalogue
	now func() time.Time

	mu       sync.Mutex
	slots    map[string]*slot
	sales    []view // the list of all sales
	listedAt time.Time
	listErr  error
	listing  chan struct{} // closed when the listing in flight has ended
	offsetAt time.Time     // when offset was read

	// offset is Redis time minus now(), nil while unknown. It is atomic because each request reads it.
	offset atomic.Pointer[time.Duration]
}

// NewSaleCache returns a cache that reads on demand; Run keeps it fresh. now is the clock of this process.
func NewSaleCache(cat Catalogue, now func() time.Time) *SaleCache {
	return &SaleCache{cat: cat, now: now, slots: map[string]*slot{}}
}

// Run refreshes the activities in use until ctx ends.
func (c *SaleCache) Run(ctx context.Context) error {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		c.refresh(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// refresh reads the gate states in use with one call, the descriptions and the offset that are due, and drops idle
// sales.
func (c *SaleCache) refresh(ctx context.Context) {
	now := c.now()
	c.mu.Lock()
	var ids []string
	for id, s := range c.slots {
		switch {
		case now.Sub(s.usedAt) <= idleAfter:
			ids = append(ids, id)
		case s.loading == nil:
			delete(c.slots, id)
		}
	}
	clockDue := now.Sub(c.offsetAt) >= maxOffsetAge
	c.mu.Unlock()

	if clockDue {
		c.readClock(ctx)
	}
	if len(ids) == 0 {
		return
	}
	at := c.now()
	call, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	states, err := c.cat.GateStates(call, ids)
	for _, id := range ids {
		if _, ok := states[id]; !ok && err != nil {
			continue // the view becomes too old to be used
		}
		c.update(call, id, states, at)
	}
}

// update replaces the gate state in the view of one activity by the one that was read at that time. It reads the
// description if that is due. An activity that is absent from states has no gate any more.
func (c *SaleCache) update(ctx context.Context, id string, states map[string]GateState, at time.Time) {
	state, ok := states[id]
	c.mu.Lock()
	s := c.slots[id]
	switch {
	case s == nil:
		c.mu.Unlock()
		return
	case !ok:
		s.view = nil
		c.mu.Unlock()
		return
	}
	known := s.view
	c.mu.Unlock()

	v := view{GateState: state, gateAt: at}
	if known != nil {
		v.Sale, v.saleAt = known.Sale, known.saleAt
	}
	if at.Sub(v.saleAt) >= MaxDisplayAge {
		sale, err := c.cat.Sale(ctx, id)
		switch {
		case err == nil:
			v.Sale, v.saleAt = sale, at
		case known == nil:
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// get may have stored a newer view in the meantime.
	if s.view == nil || !s.view.gateAt.After(at) {
		s.view = &v
	}
}

// GateState returns the gate state of an activity, at most maxAge old, or a refusal.
func (c *SaleCache) GateState(ctx context.Context, id string, maxAge time.Duration) (GateState, error) {
	v, err := c.get(ctx, id, maxAge)
	if err != nil {
		return GateState{}, c.Refusal(ctx, id, err)
	}
	return v.GateState, nil
}

// get returns a view whose gate state is no older than maxAge, and reads it if necessary. Concurrent callers share one
// read. The call marks the activity as in use.
func (c *SaleCache) get(ctx context.Context, id string, maxAge time.Duration) (*view, error) {
	for shared := false; ; {
		c.mu.Lock()
		now := c.now()
		s := c.slots[id]
		if s != nil && s.view != nil {
			s.usedAt = now
			if v := s.view; now.Sub(v.gateAt) <= maxAge {
				c.mu.Unlock()
				return v, nil
			}
		}
		if s != nil && s.loading != nil {
			done := s.loading
			c.mu.Unlock()
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			// That read is recent enough for all callers that waited for it.
			c.mu.Lock()
			v, err := s.view, s.err
			c.mu.Unlock()
			if err == nil && v == nil {
				err = ErrNoGate
			}
			// One failed read must not refuse all callers that waited for it: each reads once more.
			if errors.Is(err, ErrUnavailable) && !shared {
				shared = true
				continue
			}
			return v, err
		}
		if s == nil {
			if len(c.slots) >= maxViews {
				c.mu.Unlock()
				return c.load(ctx, id)
			}
			s = &slot{}
			c.slots[id] = s
		}
		done := make(chan struct{})
		s.loading = done
		c.mu.Unlock()

		v, err := c.load(ctx, id)

		c.mu.Lock()
		s.loading, s.err = nil, err
		if err == nil {
			s.view, s.usedAt = v, c.now()
		} else if s.view == nil && s.usedAt.IsZero() {
			delete(c.slots, id) // callers may send any id, so absent activities are not kept
		}
		c.mu.Unlock()
		close(done)
		return v, err
	}
}

// load reads a view. It is detached from the caller's context, because other callers wait for the same read.
func (c *SaleCache) load(ctx context.Context, id string) (*view, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	at := c.now()
	states, err := c.cat.GateStates(ctx, []string{id})
	state, ok := states[id]
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrNoGate
	}
	sale, err := c.cat.Sale(ctx, id)
	if err != nil {
		return nil, err
	}
	return &view{Sale: sale, GateState: state, saleAt: at, gateAt: at}, nil
}

// fresh returns the view if it is fresh enough to decide a request, and otherwise nil. It marks the activity as in
// use.
func (c *SaleCache) fresh(id string) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[id]
	if s == nil {
		return nil
	}
	now := c.now()
	s.usedAt = now
	if s.view == nil || now.Sub(s.view.gateAt) > MaxDecisionAge {
		return nil
	}
	return s.view
}

// Known reports whether the cache holds a view of the activity, so that its gate exists or did so a short time ago.
func (c *SaleCache) Known(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[id]
	return s != nil && s.view != nil
}

// track marks an activity as in use, so that the loop reads it. Its gate must exist.
func (c *SaleCache) track(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[id]; s != nil {
		s.usedAt = c.now()
	} else if len(c.slots) < maxViews {
		c.slots[id] = &slot{usedAt: c.now()}
	}
}

// list returns all sales whose window has not ended, at most MaxDisplayAge old. Concurrent callers share one read.
func (c *SaleCache) list(ctx context.Context) ([]view, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listedAt.IsZero() && c.now().Sub(c.listedAt) <= MaxDisplayAge {
		return c.sales, nil
	}
	done := c.listing
	if done == nil {
		done = make(chan struct{})
		c.listing = done
		c.mu.Unlock()
		at := c.now()
		sales, err := c.loadSales(ctx, at)
		c.mu.Lock()
		c.listing, c.listErr = nil, err
		if err == nil {
			c.sales, c.listedAt = sales, at
		}
		close(done)
		return sales, err
	}
	c.mu.Unlock()
	select {
	case <-done:
		c.mu.Lock()
		return c.sales, c.listErr
	case <-ctx.Done():
		c.mu.Lock()
		return nil, ctx.Err()
	}
}

func (c *SaleCache) loadSales(ctx context.Context, at time.Time) ([]view, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	ready, err := c.cat.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if !ready {
		return nil, errNotReady
	}
	sales, err := c.cat.Sales(ctx)
	if err != nil {
		return nil, err
	}
	now := c.Now(ctx)
	var ids []string
	for _, s := range sales {
		if now.Before(s.EndsAt) {
			ids = append(ids, s.ActivityID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	states, err := c.cat.GateStates(ctx, ids)
	if err != nil && len(states) == 0 {
		return nil, err
	}
	var views []view // without the sales whose gates cannot be read
	for _, s := range sales {
		if l, ok := states[s.ActivityID]; ok {
			views = append(views, view{Sale: s, GateState: l, saleAt: at, gateAt: at})
		}
	}
	return views, nil
}

var errNotReady = errors.New("redis has not been filled yet")

// Now returns Redis time by the last known offset. Until Redis was reached once, it returns the time of this process.
func (c *SaleCache) Now(ctx context.Context) time.Time {
	offset := c.offset.Load()
	if offset == nil {
		c.readClock(ctx)
		if offset = c.offset.Load(); offset == nil {
			return c.now()
		}
	}
	return c.now().Add(*offset)
}

// readClock measures the offset to Redis time. After an error the old offset stays.
func (c *SaleCache) readClock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	before := c.now()
	redisNow, err := c.cat.Now(ctx)
	if err != nil {
		return
	}
	after := c.now()
	// Redis read its clock at some moment of the call; the middle of the call is wrong by half its duration at most.
	offset := redisNow.Sub(before.Add(after.Sub(before) / 2))
	c.offset.Store(&offset)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offsetAt = after
}
