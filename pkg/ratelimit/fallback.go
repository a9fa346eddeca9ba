package ratelimit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// ledger is what this process knows of keys that are limited in Redis, and goes on by when Redis is gone: how much of each
// was spent when Redis last spoke of it, and what this process granted since. It makes two promises hold through outages:
// the processes share what was left, and not a full limit each; and a Redis that is back, perhaps empty, learns what is
// spent from whoever asks it first.
//
// A process that grants by itself moves its mark as if all processes granted as much (its share costs Instances times as
// much time), so each of them has a mark for all. Of two marks the later one holds: telling one twice changes nothing.
type fallback struct {
	l      *Redis
	seed   maphash.Seed
	share  atomic.Pointer[share]
	until  atomic.Int64 // all that was granted here before has been earned by then
	shards [shards]fallbackShard
}

// share is the part of a limit that this process grants by itself. Immutable.
type share struct {
	of                 *redisSpec
	instances, largest int64
	p                  *params
}

type fallbackShard struct {
	mu      sync.Mutex
	keys    map[uint64]entry
	sweepAt int
	_       [64]byte
}

// entry is about one key. Times are ns since 1970 by the local clock.
type entry struct {
	tat          int64 // theoretical arrival time: when all spent permits will have been earned
	assumed      int64 // ns of it that stand for what somebody may have spent of whom this process knows nothing
	unreported   int64 // permits granted here when a single call failed; Redis has not been told
	offline      int64 // permits granted here while Redis was gone, at most as many as can be had at once
	offlineSince int64 // when alone was last begun anew (FixedWindow)
	generation   int64 // of Conn, in which Redis spoke of the key last, or the entry was made
}

// overflowKey is for keys that come when there is no room: they share an entry in each shard, which is stricter.
const overflowKey = 0

func newFallback(l *Redis) *fallback {
	g := &fallback{l: l, seed: maphash.MakeSeed()}
	for i := range g.shards {
		g.shards[i].keys, g.shards[i].sweepAt = make(map[uint64]entry), sweepFrom
	}
	return g
}

// settled is whether Redis knows all there is to know: nothing was granted here for so long that it would still count, and
// Redis has neither been gone nor forgotten anything since.
func (g *fallback) synced(p *params, now int64) bool {
	at := g.l.conn.breaker.generationSince.Load()
	return now >= g.until.Load() && (at == 0 || now-at >= p.horizon())
}

// horizon is how long anything spent can count.
func (p *params) horizon() int64 { return max(p.tolerance, p.period) + p.maxWait }

// marks says whether the state in Redis is a mark in time too.
func (a Algorithm) keepsArrivalTime() bool { return a <= LeakyQueue }

func (g *fallback) shard(key string) (*fallbackShard, uint64) {
	h := maphash.String(g.seed, key) | 1 // not overflowKey
	return &g.shards[(h>>1)%shards], h
}

// numbers are those of the share now.
func (g *fallback) shareParams(rs *redisSpec, cost int64) (*params, error) {
	s, n := g.share.Load(), int64(g.l.conn.Instances())
	if s != nil && s.of == rs && s.instances == n && s.largest >= cost {
		return s.p, nil
	}
	largest := cost
	if s != nil {
		largest = max(largest, s.largest)
	}
	p, err := newParams(shareOf(rs.p.spec, n, largest))
	if err != nil {
		return nil, err
	}
	g.share.Store(&share{of: rs, instances: n, largest: largest, p: p})
	return p, nil
}

// shareOf is what one of n processes grants by itself while Redis is gone: an even n-th of the limit. largest is the highest
// cost that was ever asked for, which must fit.
func shareOf(s Spec, n, largest int64) Spec {
	of := Spec{Algorithm: GCRA, Limit: Limit{Rate: s.Rate, Period: s.Period, Burst: max(1, s.Burst/n)}, MaxWait: s.MaxWait}
	if s.Algorithm == LeakyQueue || s.Algorithm == WarmUp {
		of.Burst = 1
	}
	if of.Period <= maxPeriod/time.Duration(n) {
		of.Period *= time.Duration(n)
	} else {
		of.Rate = max(1, of.Rate/n)
	}
	of.Burst = max(of.Burst, min(s.Burst, largest))
	return of
}

// take decides by the share.
func (g *fallback) take(rs *redisSpec, r Request) (Result, error) {
	p, err := g.shareParams(rs, r.N)
	if err != nil {
		return Result{}, err
	}
	q := p.query(r)
	sh, h := g.shard(r.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now, generation, offline := g.l.clock.now(), g.l.conn.breaker.generation.Load(), !g.l.conn.Up()
	e, known := sh.keys[h]
	if !known && r.N > 0 && !g.makeRoom(sh, now) {
		h = overflowKey
		e, known = sh.keys[h]
	}
	if byTime := rs.p.spec.Algorithm.keepsArrivalTime(); !known || !byTime && e.generation != generation {
		// Nothing is known, so all may be spent: one permit, and what is earned from now on.
		e.tat, e.assumed, e.generation = now+p.tolerance-p.perPermit, p.tolerance-p.perPermit, generation
		if byTime && offline {
			e.generation-- // Redis has yet to hear of it
		}
	}
	e.assumed = min(e.assumed, max(0, e.tat-now))
	tat, d := p.decideArrival(e.tat, now, q)
	if d.granted > 0 {
		g.until.Store(now + rs.p.horizon())
		e.tat = tat
		if offline {
			e.addOffline(rs.p, now, d.granted)
		} else {
			e.unreported += d.granted
		}
		sh.keys[h] = e
	}
	return p.result(q, d, SourceFallback), nil
}

// addOffline counts grants. Windows that begin at fixed times count from there.
func (e *entry) addOffline(p *params, now, n int64) {
	if p.spec.Algorithm == FixedWindow && now/p.period != e.offlineSince/p.period {
		e.offline, e.offlineSince = 0, now
	}
	e.offline = min(e.offline+n, p.maxCost)
}

// room makes room for a key if it can: when a shard has twice as many as were in use last time, those that say nothing
// are forgotten; when it is full, some are looked at.
func (g *fallback) makeRoom(sh *fallbackShard, now int64) bool {
	if full := len(sh.keys) >= defaultMaxKeys/shards; full || len(sh.keys) >= sh.sweepAt {
		looks := 32
		for k, e := range sh.keys { // begins anywhere
			if e.tat <= now && e.unreported == 0 && e.offline == 0 {
				delete(sh.keys, k)
			}
			if looks--; full && looks == 0 {
				break
			}
		}
		sh.sweepAt = max(sweepFrom, 2*len(sh.keys))
	}
	return len(sh.keys) < defaultMaxKeys/shards
}

// claim is what Redis has to be told with the next question about a key: debt > 0 is permits that it does not know of,
// debt < 0 says that at least -debt are spent.
type report struct {
	debt       int64
	generation int64
	synced     bool // there was nothing to tell of any key
}

// claim is to be followed by told. What is owed is taken out, so that it is told once; a mark may be told by many at once.
func (g *fallback) nextReport(rs *redisSpec, key string, now int64) (c report) {
	if g == nil {
		return c
	}
	c.generation = g.l.conn.breaker.generation.Load()
	if c.synced = g.synced(rs.p, now); c.synced {
		return c
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, known := sh.keys[h]
	if !known {
		return c
	}
	switch {
	case c.generation == g.l.conn.breaker.aloneGeneration.Load() && (e.generation == c.generation-1 || e.offline > 0):
		// Redis knows what the others spent: this comes on top.
		e.unreported, e.offline, e.generation = e.unreported+e.offline, 0, c.generation
		sh.keys[h] = e
	case rs.p.spec.Algorithm.keepsArrivalTime():
		if ahead := e.tat - e.assumed - now; e.generation != c.generation && ahead > 0 {
			c.debt = -min(ceilDiv(ahead, rs.p.perPermit), maxRate)
		}
	case e.offline > 0 && (rs.p.spec.Algorithm != FixedWindow || now/rs.p.period == e.offlineSince/rs.p.period):
		c.debt = -min(e.offline*int64(g.l.conn.Instances()), rs.p.maxCost)
	}
	if c.debt == 0 && e.unreported > 0 {
		c.debt, e.unreported = e.unreported, 0
		sh.keys[h] = e
	}
	return c
}

// failed is for a claim that perhaps never arrived. If it did, it is told twice: too few, never too many.
func (g *fallback) reportFailed(key string, c report) {
	if c.debt <= 0 {
		return
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[h]
	e.unreported += c.debt
	sh.keys[h] = e
}

// told is for an answer of Redis. charged is false for one that tells what would have been. Who has most of his burst left
// is not remembered: most keys never come near their limits.
func (g *fallback) applyReply(rs *redisSpec, key string, c report, d decision, charged bool) {
	if g == nil {
		return
	}
	byTime := rs.p.spec.Algorithm.keepsArrivalTime()
	if c.synced && (!byTime || d.resetAfter < rs.p.tolerance/8) {
		return
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, known := sh.keys[h]
	now := g.l.clock.now()
	switch {
	case byTime && charged:
		if !known && !g.makeRoom(sh, now) {
			return
		}
		mark := now + d.resetAfter
		if c.generation == g.l.conn.breaker.generation.Load() {
			e.offline = 0
		} else { // gone meanwhile, and perhaps some was granted here
			mark = max(mark, e.tat)
		}
		e.tat, e.assumed, e.generation = mark, 0, c.generation
	case !known:
		return
	case c.debt < 0:
		e.offline = 0
	}
	sh.keys[h] = e
}

// undo gives back what take granted.
func (g *fallback) refund(rs *redisSpec, key string, n int64) error {
	p, err := g.shareParams(rs, 0)
	if err != nil {
		return err
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, known := sh.keys[h]; known {
		e.tat = p.refundArrival(e.tat, g.l.clock.now(), n)
		e.unreported, e.offline = max(0, e.unreported-n), max(0, e.offline-n)
		sh.keys[h] = e
	}
	return nil
}

func (g *fallback) drop(key string) {
	if g == nil {
		return
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	delete(sh.keys, h)
	sh.mu.Unlock()
}

// convert carries the marks over to another limit.
func (g *fallback) convert(from, to *params) {
	if g == nil {
		return
	}
	now := g.l.clock.now()
	for i := range g.shards {
		sh := &g.shards[i]
		sh.mu.Lock()
		if !from.spec.Algorithm.keepsArrivalTime() || !to.spec.Algorithm.keepsArrivalTime() {
			clear(sh.keys)
		}
		for k, e := range sh.keys {
			e.tat, e.assumed = to.convertArrival(from, e.tat, now), 0
			sh.keys[k] = e
		}
		sh.mu.Unlock()
	}
}
