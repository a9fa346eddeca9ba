package ratelimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	leaseIdle    = time.Second // after so long without a request a slice is given back
	maxLeaseKeys = 4096        // keys beyond this number ask Redis each time
	maxFetches   = 8           // slices that a caller sees others use up before it is refused
)

// leases hands out slices of quotas that this process has fetched. A slice grows with this process's part of the limit in
// what it was asked for lately, so one that sees little traffic holds one permit at a time; and it may be for a moment
// ahead, so that processes which compete for a spent quota queue up in Redis instead of asking it again and again.
type leases struct {
	l    *Redis
	keys sync.Map // string -> *lease
	n    atomic.Int64
}

// lease is the slice of one key.
type lease struct {
	mu         sync.Mutex
	permits    int64 // permits
	usableFrom int64 // which may be used from then on (ns since 1970)
	expiresAt  int64 // until then; 0 = no end
	stamp      int64 // what a refund in Redis needs
	lastUsed   int64 // when it was asked last

	remaining, resetAfter int64         // as Redis said last
	refusedUntil          int64         // Redis has nothing before this moment
	fetching              chan struct{} // closed when the call that fetches the next slice has returned; nil if there is none

	requested     int64   // permits since measured
	measuredSince int64   // ns since 1970
	demand        float64 // permits per ns
}

func newLeases(l *Redis) *leases { return &leases{l: l} }

// slice is how many permits a process may hold at most.
func (s *leases) slice(p *params) int64 {
	return max(1, min(int64(float64(p.rate)*s.l.o.Lease), p.maxCost))
}

func (s *leases) leaseFor(key string) *lease {
	if c, ok := s.keys.Load(key); ok {
		return c.(*lease)
	}
	if s.n.Load() >= maxLeaseKeys {
		return nil
	}
	c, known := s.keys.LoadOrStore(key, &lease{measuredSince: s.l.clock.now()})
	if !known {
		s.n.Add(1)
	}
	return c.(*lease)
}

// take decides by the slice at hand, and fetches another one if it is used up. done is false for what is not leased.
func (s *leases) take(ctx context.Context, rs *redisSpec, r Request) (res Result, done bool, err error) {
	limit := s.slice(rs.p)
	if r.N > limit || limit == 1 {
		return res, false, nil
	}
	c := s.leaseFor(r.Key)
	if c == nil {
		return res, false, nil
	}
	q := rs.p.query(r)
	c.mu.Lock()
	c.requested += q.n
	for range maxFetches {
		now := s.l.clock.now()
		c.lastUsed = now
		if d, decided := c.decide(q, now); decided {
			c.mu.Unlock()
			return rs.p.result(q, d, SourceLease), true, nil
		}
		if fetched := c.fetching; fetched != nil {
			c.mu.Unlock()
			select {
			case <-fetched:
			case <-ctx.Done():
				return Result{Limit: rs.p.spec.Limit, Source: SourceLease}, true, context.Cause(ctx)
			}
			c.mu.Lock()
			continue
		}
		if !s.l.conn.breaker.allow() {
			c.mu.Unlock()
			res, err = s.l.decideWithoutRedis(ctx, rs, r, nil)
			return res, true, err
		}
		c.fetching = make(chan struct{})
		size, missing := c.nextSize(rs.p, limit, now), q.least-c.permits
		c.mu.Unlock()
		err := s.fetch(ctx, rs, r.Key, c, query{n: max(size, missing), least: max(1, missing), wait: s.maxAhead(rs.p, limit, q)})
		c.mu.Lock()
		close(c.fetching)
		c.fetching = nil
		if err != nil {
			c.mu.Unlock()
			res, err = s.l.decideWithoutRedis(ctx, rs, r, err)
			return res, true, err
		}
	}
	// Others took each slice before this caller came to it.
	d := decision{remaining: c.permits, retryAfter: max(rs.p.perPermit, int64(time.Millisecond)), resetAfter: c.resetAfter}
	c.mu.Unlock()
	return rs.p.result(q, d, SourceLease), true, nil
}

// ahead is how far ahead a slice may be: so far that each process can have its next one.
func (s *leases) maxAhead(p *params, limit int64, q query) int64 {
	if !p.spec.Algorithm.Reserves() {
		return 0
	}
	return min(p.maxWait, max(q.wait, 2*int64(s.l.conn.Instances())*limit*p.perPermit))
}

// decide by what is at hand: a grant, now or within the wait, or a refusal that certainly holds.
func (c *lease) decide(q query, now int64) (decision, bool) {
	if c.expiresAt > 0 && now >= c.expiresAt {
		c.permits = 0
	}
	wait := max(0, c.usableFrom-now)
	switch {
	case c.permits >= q.least && wait <= q.wait:
		give := min(q.n, c.permits)
		c.permits -= give
		return decision{ok: true, granted: give, remaining: c.permits + c.remaining, wait: wait, resetAfter: c.resetAfter, stamp: c.stamp}, true
	case c.permits >= q.least: // it is there, but later than the caller would wait
		return decision{remaining: 0, retryAfter: wait - q.wait, resetAfter: c.resetAfter}, true
	case c.refusedUntil-q.wait > now:
		return decision{remaining: c.permits, retryAfter: c.refusedUntil - q.wait - now, resetAfter: c.resetAfter}, true
	}
	return decision{}, false
}

// largeShare is the part of the whole limit from which on a process takes slices as large as it may. Smaller ones take less in
// proportion, so that however many processes there are, what all of them hold is at most 1/largeShare slices.
const largeShare = 0.2

// want is the size of the next slice: by the part of the whole limit that this process was asked for lately.
func (c *lease) nextSize(p *params, limit, now int64) int64 {
	if spent := now - c.measuredSince; spent >= int64(time.Millisecond) {
		lately := float64(c.requested) / float64(spent)
		if c.demand == 0 {
			c.demand = lately
		}
		c.demand = (c.demand + lately) / 2
		c.requested, c.measuredSince = 0, now
	}
	return max(1, min(limit, int64(c.demand*float64(p.period)/float64(p.rate)/largeShare*float64(limit))))
}

// fetch asks Redis for a slice and puts it to what is at hand. The call is bounded by the Conn's time-out and does not end
// with the caller who happened to make it: others wait for it.
func (s *leases) fetch(ctx context.Context, rs *redisSpec, key string, c *lease, q query) error {
	sent := s.l.clock.now()
	rep := s.l.fallback.nextReport(rs, key, sent)
	reply, err := s.l.conn.call(context.WithoutCancel(ctx), rs.script, []string{s.l.key(rs, key)}, rs.fastArgs(nil, q, rep.debt))
	if err != nil {
		s.l.fallback.reportFailed(key, rep)
		return err
	}
	d := rs.decode(reply)
	s.l.fallback.applyReply(rs, key, rep, d, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remaining, c.resetAfter, c.refusedUntil = d.remaining, d.resetAfter, 0
	if d.granted == 0 {
		c.refusedUntil = sent + d.retryAfter + q.wait
		return nil
	}
	now := s.l.clock.now()
	c.permits += d.granted
	c.stamp = d.stamp
	c.usableFrom = max(c.usableFrom, now+d.wait) // now, and not when it was sent: the late side
	if rs.p.spec.Algorithm == FixedWindow {
		c.permits = d.granted
		c.expiresAt = sent + d.resetAfter
	}
	return nil
}

// restore takes permits that a request could not use after all.
func (s *leases) restore(key string, n int64) bool {
	c, ok := s.keys.Load(key)
	if !ok {
		return false
	}
	held := c.(*lease)
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.permits+n > 2*s.slice(s.l.current.Load().p) {
		return false
	}
	held.permits += n
	return true
}

// drop forgets a key.
func (s *leases) drop(key string) {
	if _, had := s.keys.LoadAndDelete(key); had {
		s.n.Add(-1)
	}
}

// clearRefusals is for a limit that changed.
func (s *leases) clearRefusals() {
	s.keys.Range(func(_, v any) bool {
		c := v.(*lease)
		c.mu.Lock()
		c.refusedUntil = 0
		c.mu.Unlock()
		return true
	})
}

// giveBack returns the slices that nobody asked for lately.
func (s *leases) returnIdle(ctx context.Context) { s.returnUnused(ctx, leaseIdle) }

func (s *leases) returnAll(ctx context.Context) { s.returnUnused(ctx, 0) }

func (s *leases) returnUnused(ctx context.Context, idle time.Duration) {
	rs := s.l.current.Load()
	s.keys.Range(func(k, v any) bool {
		key, c := k.(string), v.(*lease)
		c.mu.Lock()
		if c.fetching != nil || s.l.clock.now()-c.lastUsed < int64(idle) {
			c.mu.Unlock()
			return true
		}
		n, stamp := c.permits, c.stamp
		c.permits, c.demand = 0, 0
		c.mu.Unlock()
		s.drop(key)
		if n > 0 { // if it fails, these permits are lost: too few, never too many
			_ = s.l.refund(ctx, []*redisSpec{rs}, []string{s.l.key(rs, key)}, []Result{{Granted: n, stamp: stamp}})
		}
		return ctx.Err() == nil
	})
}
