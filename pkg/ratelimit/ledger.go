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
type ledger struct {
	l      *Redis
	seed   maphash.Seed
	share  atomic.Pointer[share]
	until  atomic.Int64 // all that was granted here before has been earned by then
	shards [shards]ledgerShard
}

// share is the part of a limit that this process grants by itself. Immutable.
type share struct {
	of                 *redisSpec
	instances, largest int64
	p                  *params
}

type ledgerShard struct {
	mu      sync.Mutex
	keys    map[uint64]entry
	sweepAt int
	_       [64]byte
}

// entry is about one key. Times are ns since 1970 by the local clock.
type entry struct {
	spent   int64 // the mark: when all that is spent will have been earned
	assumed int64 // ns of it that stand for what somebody may have spent of whom this process knows nothing
	owed    int64 // permits granted here when a single call failed; Redis has not been told
	alone   int64 // permits granted here while Redis was gone, at most as many as can be had at once
	since   int64 // when alone was last begun anew (FixedWindow)
	era     int64 // of Conn, in which Redis spoke of the key last, or the entry was made
}

// spillKey is for keys that come when there is no room: they share an entry in each shard, which is stricter.
const spillKey = 0

func newLedger(l *Redis) *ledger {
	g := &ledger{l: l, seed: maphash.MakeSeed()}
	for i := range g.shards {
		g.shards[i].keys, g.shards[i].sweepAt = make(map[uint64]entry), sweepFrom
	}
	return g
}

// settled is whether Redis knows all there is to know: nothing was granted here for so long that it would still count, and
// Redis has neither been gone nor forgotten anything since.
func (g *ledger) settled(p *params, now int64) bool {
	at := g.l.conn.breaker.eraAt.Load()
	return now >= g.until.Load() && (at == 0 || now-at >= p.horizon())
}

// horizon is how long anything spent can count.
func (p *params) horizon() int64 { return max(p.room, p.period) + p.queue }

// marks says whether the state in Redis is a mark in time too.
func (a Algorithm) marks() bool { return a <= LeakyQueue }

func (g *ledger) shard(key string) (*ledgerShard, uint64) {
	h := maphash.String(g.seed, key) | 1 // not spillKey
	return &g.shards[(h>>1)%shards], h
}

// numbers are those of the share now.
func (g *ledger) numbers(rs *redisSpec, cost int64) (*params, error) {
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
func (g *ledger) take(rs *redisSpec, r Request) (Result, error) {
	p, err := g.numbers(rs, r.N)
	if err != nil {
		return Result{}, err
	}
	q := p.ask(r)
	sh, h := g.shard(r.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now, era, gone := g.l.clock.now(), g.l.conn.breaker.era.Load(), !g.l.conn.Up()
	e, known := sh.keys[h]
	if !known && r.N > 0 && !g.room(sh, now) {
		h = spillKey
		e, known = sh.keys[h]
	}
	if marks := rs.p.spec.Algorithm.marks(); !known || !marks && e.era != era {
		// Nothing is known, so all may be spent: one permit, and what is earned from now on.
		e.spent, e.assumed, e.era = now+p.room-p.perPermit, p.room-p.perPermit, era
		if marks && gone {
			e.era-- // Redis has yet to hear of it
		}
	}
	e.assumed = min(e.assumed, max(0, e.spent-now))
	spent, a := p.decideArrival(e.spent, now, q)
	if a.give > 0 {
		g.until.Store(now + rs.p.horizon())
		e.spent = spent
		if gone {
			e.grewAlone(rs.p, now, a.give)
		} else {
			e.owed += a.give
		}
		sh.keys[h] = e
	}
	return p.result(q, a, SourceFallback), nil
}

// grewAlone counts grants. Windows that begin at fixed times count from there.
func (e *entry) grewAlone(p *params, now, n int64) {
	if p.spec.Algorithm == FixedWindow && now/p.period != e.since/p.period {
		e.alone, e.since = 0, now
	}
	e.alone = min(e.alone+n, p.most)
}

// room makes room for a key if it can: when a shard has twice as many as were in use last time, those that say nothing
// are forgotten; when it is full, some are looked at.
func (g *ledger) room(sh *ledgerShard, now int64) bool {
	if full := len(sh.keys) >= defaultMaxKeys/shards; full || len(sh.keys) >= sh.sweepAt {
		looks := 32
		for k, e := range sh.keys { // begins anywhere
			if e.spent <= now && e.owed == 0 && e.alone == 0 {
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
type claim struct {
	debt    int64
	era     int64
	settled bool // there was nothing to tell of any key
}

// claim is to be followed by told. What is owed is taken out, so that it is told once; a mark may be told by many at once.
func (g *ledger) claim(rs *redisSpec, key string, now int64) (c claim) {
	if g == nil {
		return c
	}
	c.era = g.l.conn.breaker.era.Load()
	if c.settled = g.settled(rs.p, now); c.settled {
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
	case c.era == g.l.conn.breaker.only.Load() && (e.era == c.era-1 || e.alone > 0):
		// Redis knows what the others spent: this comes on top.
		e.owed, e.alone, e.era = e.owed+e.alone, 0, c.era
		sh.keys[h] = e
	case rs.p.spec.Algorithm.marks():
		if ahead := e.spent - e.assumed - now; e.era != c.era && ahead > 0 {
			c.debt = -min(ceilDiv(ahead, rs.p.perPermit), maxRate)
		}
	case e.alone > 0 && (rs.p.spec.Algorithm != FixedWindow || now/rs.p.period == e.since/rs.p.period):
		c.debt = -min(e.alone*int64(g.l.conn.Instances()), rs.p.most)
	}
	if c.debt == 0 && e.owed > 0 {
		c.debt, e.owed = e.owed, 0
		sh.keys[h] = e
	}
	return c
}

// failed is for a claim that perhaps never arrived. If it did, it is told twice: too few, never too many.
func (g *ledger) failed(key string, c claim) {
	if c.debt <= 0 {
		return
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[h]
	e.owed += c.debt
	sh.keys[h] = e
}

// told is for an answer of Redis. standing is false for one that tells what would have been. Who has most of his burst left
// is not remembered: most keys never come near their limits.
func (g *ledger) told(rs *redisSpec, key string, c claim, a answer, standing bool) {
	if g == nil {
		return
	}
	marks := rs.p.spec.Algorithm.marks()
	if c.settled && (!marks || a.reset < rs.p.room/8) {
		return
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, known := sh.keys[h]
	now := g.l.clock.now()
	switch {
	case marks && standing:
		if !known && !g.room(sh, now) {
			return
		}
		mark := now + a.reset
		if c.era == g.l.conn.breaker.era.Load() {
			e.alone = 0
		} else { // gone meanwhile, and perhaps some was granted here
			mark = max(mark, e.spent)
		}
		e.spent, e.assumed, e.era = mark, 0, c.era
	case !known:
		return
	case c.debt < 0:
		e.alone = 0
	}
	sh.keys[h] = e
}

// undo gives back what take granted.
func (g *ledger) undo(rs *redisSpec, key string, n int64) error {
	p, err := g.numbers(rs, 0)
	if err != nil {
		return err
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, known := sh.keys[h]; known {
		e.spent = p.undoArrival(e.spent, g.l.clock.now(), n)
		e.owed, e.alone = max(0, e.owed-n), max(0, e.alone-n)
		sh.keys[h] = e
	}
	return nil
}

func (g *ledger) forget(key string) {
	if g == nil {
		return
	}
	sh, h := g.shard(key)
	sh.mu.Lock()
	delete(sh.keys, h)
	sh.mu.Unlock()
}

// convert carries the marks over to another limit.
func (g *ledger) convert(from, to *params) {
	if g == nil {
		return
	}
	now := g.l.clock.now()
	for i := range g.shards {
		sh := &g.shards[i]
		sh.mu.Lock()
		if !from.spec.Algorithm.marks() || !to.spec.Algorithm.marks() {
			clear(sh.keys)
		}
		for k, e := range sh.keys {
			e.spent, e.assumed = to.convertArrival(from, e.spent, now), 0
			sh.keys[k] = e
		}
		sh.mu.Unlock()
	}
}
