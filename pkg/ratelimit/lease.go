package ratelimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	leaseIdle    = time.Second // idle time after which a lease is returned
	maxLeaseKeys = 4096        // keys above this number are decided by Redis each time
	maxFetches   = 8           // leases that a caller sees used up by other callers before it is refused
)

// leases grants permits that this process has fetched from Redis in advance. A lease grows with the recent share of
// this process in the use of the limit, so a process with little traffic leases one permit at a time. A lease may be
// for a later time: processes that compete for a spent quota then queue in Redis instead of polling it.
type leases struct {
	l    *Redis
	keys sync.Map // string -> *lease
	n    atomic.Int64
}

// lease is the leased permits of one key.
type lease struct {
	mu         sync.Mutex
	permits    int64
	usableFrom int64 // ns since 1970
	expiresAt  int64 // ns since 1970; 0 = never
	stamp      int64 // of the last fetch, for a refund
	returnable int64 // most permits that may be returned to Redis: those of the last fetch
	lastUsed   int64 // ns since 1970

	remaining, resetAfter int64         // from the last reply of Redis
	refusedUntil          int64         // Redis grants nothing before this time (ns since 1970)
	fetching              chan struct{} // closed when the pending fetch has returned; nil if none is pending

	waiting       int64   // permits for which callers wait
	requested     int64   // permits requested since measuredSince
	measuredSince int64   // ns since 1970
	demand        float64 // permits per ns
}

func newLeases(l *Redis) *leases { return &leases{l: l} }

// maxPermits returns the largest number of permits that a lease holds while no caller waits.
func (s *leases) maxPermits(p *params) int64 {
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

// take decides from the lease of a key and fetches the next lease if it is used up. done is false for requests that
// are not leased.
func (s *leases) take(ctx context.Context, rs *redisSpec, r Request) (res Result, done bool, err error) {
	limit := s.maxPermits(rs.p)
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
	d, decided := c.decide(q, s.l.clock.now())
	unused := Result{}
	if !decided {
		c.waiting += q.n
		d, decided, err = s.fetchUntilDecided(ctx, rs, r.Key, c, q, limit)
		c.waiting -= q.n
		unused = Result{Granted: c.takeUnused(limit), stamp: c.stamp}
	}
	c.mu.Unlock()
	if unused.Granted > 0 {
		s.refund(context.WithoutCancel(ctx), r.Key, unused)
	}
	switch {
	case decided:
		return rs.p.result(q, d, SourceLease), true, nil
	case ctx.Err() != nil:
		return Result{Limit: rs.p.spec.Limit, Source: SourceLease}, true, context.Cause(ctx)
	default:
		res, err = s.l.decideWithoutRedis(ctx, rs, r, err)
		return res, true, err
	}
}

// takeUnused takes the permits that callers waited for and did not use, because their contexts ended or the permits
// came later than they accept. They are what is above a lease when no caller waits any more.
func (c *lease) takeUnused(limit int64) int64 {
	if c.waiting > 0 || c.permits <= limit {
		return 0
	}
	return c.remove(c.permits - limit)
}

// remove removes n permits and returns how many of them may be returned to Redis.
func (c *lease) remove(n int64) int64 {
	c.permits -= n
	n = min(n, c.returnable)
	c.returnable -= n
	return n
}

// refund returns unused permits to Redis. If that fails, they are lost: too few requests pass, never too many.
func (s *leases) refund(ctx context.Context, key string, unused Result) {
	rs := s.l.current.Load()
	_ = s.l.refund(ctx, []*redisSpec{rs}, []string{s.l.key(rs, key)}, []Result{unused})
}

// fetchUntilDecided fetches leases, or waits for those that another caller fetches, until they decide. Without a
// decision, the context has ended or Redis is unreachable; err is the error of the call to Redis, if there was one. The
// caller holds the lock of the lease, which is released meanwhile.
func (s *leases) fetchUntilDecided(
	ctx context.Context, rs *redisSpec, key string, c *lease, q query, limit int64,
) (decision, bool, error) {
	for range maxFetches {
		if fetched := c.fetching; fetched != nil {
			c.mu.Unlock()
			select {
			case <-fetched:
			case <-ctx.Done():
			}
			c.mu.Lock()
			if ctx.Err() != nil {
				return decision{}, false, nil
			}
		} else {
			if !s.l.conn.breaker.allow() {
				return decision{}, false, nil
			}
			c.fetching = make(chan struct{})
			next := s.nextQuery(rs.p, c, q, limit)
			c.mu.Unlock()
			err := s.fetch(ctx, rs, key, c, next)
			c.mu.Lock()
			close(c.fetching)
			c.fetching = nil
			if err != nil {
				return decision{}, false, err
			}
		}
		if d, decided := c.decide(q, s.l.clock.now()); decided {
			return d, true, nil
		}
	}
	// Other callers used up every lease before this one got a permit.
	retry := max(rs.p.perPermit, int64(time.Millisecond))
	return decision{remaining: c.permits, retryAfter: retry, resetAfter: c.resetAfter}, true, nil
}

// nextQuery returns the query for the next lease. It is for no less than what callers wait for now. Otherwise one call
// would serve no more callers than a lease holds, and where calls are slow, because the process has much to do, most of
// the limit would stay unused. Permits beyond a lease are only for these callers, so they are no later than the caller
// that fetches accepts.
func (s *leases) nextQuery(p *params, c *lease, q query, limit int64) query {
	missing := q.least - c.permits
	next := query{
		n: max(missing, c.nextSize(p, limit, s.l.clock.now())), least: max(1, missing), wait: s.maxAhead(p, limit, q),
	}
	if waiting := c.waiting - c.permits; waiting > next.n { // Redis grants Burst at most
		next.n, next.wait = waiting, q.wait
	}
	return next
}

// maxAhead returns how far ahead a lease may be, in ns: far enough that every process can have its next lease.
func (s *leases) maxAhead(p *params, limit int64, q query) int64 {
	if !p.spec.Algorithm.Reserves() {
		return 0
	}
	return min(p.maxWait, max(q.wait, 2*int64(s.l.conn.Instances())*limit*p.perPermit))
}

// decide decides from the permits at hand: a grant, at once or within the wait, or a refusal that certainly holds.
func (c *lease) decide(q query, now int64) (decision, bool) {
	c.lastUsed = now
	if c.expiresAt > 0 && now >= c.expiresAt {
		c.permits = 0
	}
	wait := max(0, c.usableFrom-now)
	switch {
	case c.permits >= q.least && wait <= q.wait:
		give := min(q.n, c.permits)
		c.permits -= give
		return decision{
			ok: true, granted: give, remaining: c.permits + c.remaining, wait: wait, resetAfter: c.resetAfter,
			stamp: c.stamp,
		}, true
	case c.permits >= q.least: // the permits are there, but later than the caller accepts
		return decision{remaining: 0, retryAfter: wait - q.wait, resetAfter: c.resetAfter}, true
	case c.refusedUntil-q.wait > now:
		return decision{remaining: c.permits, retryAfter: c.refusedUntil - q.wait - now, resetAfter: c.resetAfter}, true
	}
	return decision{}, false
}

// largeShare is the share of the whole limit from which a process leases as much as it may. A smaller share leases
// less in proportion, so that all processes together hold at most 1/largeShare full leases.
const largeShare = 0.2

// nextSize returns the size of the next lease, by the recent share of this process in the whole limit.
func (c *lease) nextSize(p *params, limit, now int64) int64 {
	if spent := now - c.measuredSince; spent >= int64(time.Millisecond) {
		recent := float64(c.requested) / float64(spent)
		if c.demand == 0 {
			c.demand = recent
		}
		c.demand = (c.demand + recent) / 2
		c.requested, c.measuredSince = 0, now
	}
	return max(1, min(limit, int64(c.demand*float64(p.period)/float64(p.rate)/largeShare*float64(limit))))
}

// fetch gets the next lease from Redis. The time-out of the Conn bounds the call; the caller's context does not end
// it, because other callers wait for it.
func (s *leases) fetch(ctx context.Context, rs *redisSpec, key string, c *lease, q query) error {
	sent := s.l.clock.now()
	rep := s.l.fallback.nextReport(rs, key, sent)
	args := rs.fastArgs(nil, q, rep.debt)
	reply, err := s.l.conn.call(context.WithoutCancel(ctx), rs.script, []string{s.l.key(rs, key)}, args)
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
	c.expiresAt = 0
	if rs.p.spec.Algorithm == FixedWindow {
		if d.stamp != c.stamp { // permits of an earlier window
			c.permits = 0
		}
		c.expiresAt = sent + d.resetAfter
	}
	c.permits += d.granted
	c.stamp, c.returnable = d.stamp, d.granted
	if s.l.current.Load() != rs { // limitChanged may have seen this lease already
		c.stamp, c.returnable = 0, 0
	}
	c.usableFrom = max(c.usableFrom, now+d.wait) // from the time of the reply, not of the call: the strict side
	return nil
}

// restore takes back permits that a request did not use. It returns false if the lease does not exist any more, is full,
// or was fetched again since.
func (s *leases) restore(key string, granted Result) bool {
	c, ok := s.keys.Load(key)
	if !ok {
		return false
	}
	held, p := c.(*lease), s.l.current.Load().p
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.stamp != granted.stamp {
		return false
	}
	if held.permits+granted.Granted > s.maxPermits(p) {
		held.returnable = max(0, held.returnable-granted.Granted) // Redis gets them now
		return false
	}
	held.permits += granted.Granted
	return true
}

// drop removes the lease of a key.
func (s *leases) drop(key string) {
	if _, had := s.keys.LoadAndDelete(key); had {
		s.n.Add(-1)
	}
}

// limitChanged removes the cached refusals. What was fetched under the old limit may be granted, but neither returned nor
// refunded.
func (s *leases) limitChanged() {
	s.keys.Range(func(_, v any) bool {
		c := v.(*lease)
		c.mu.Lock()
		c.refusedUntil, c.returnable, c.stamp = 0, 0, 0
		c.mu.Unlock()
		return true
	})
}

// returnIdle returns the leases to Redis that were not used for leaseIdle.
func (s *leases) returnIdle(ctx context.Context) { s.returnUnused(ctx, leaseIdle) }

func (s *leases) returnAll(ctx context.Context) { s.returnUnused(ctx, 0) }

func (s *leases) returnUnused(ctx context.Context, idle time.Duration) {
	s.keys.Range(func(k, v any) bool {
		key, c := k.(string), v.(*lease)
		c.mu.Lock()
		if c.fetching != nil || s.l.clock.now()-c.lastUsed < int64(idle) {
			c.mu.Unlock()
			return true
		}
		n, stamp := c.remove(c.permits), c.stamp
		c.demand = 0
		c.mu.Unlock()
		s.drop(key)
		if n > 0 {
			s.refund(ctx, key, Result{Granted: n, stamp: stamp})
		}
		return ctx.Err() == nil
	})
}
