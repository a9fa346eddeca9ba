package ratelimit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// fallback is the state from which FailLocal decides while Redis is unreachable: for each key, how much was spent
// according to the last reply of Redis, and what this process has granted since. It has two effects. During an outage
// the processes share what was left, instead of granting a full limit each. After the outage, Redis learns what is
// spent, even if it comes back empty, from the first query about each key.
//
// While Redis is unreachable, each process assumes that all processes grant as much as it does. So a permit granted
// here moves the arrival time of the key by Instances times the price of a permit, and the arrival time is an estimate
// of what all processes have spent. When it is reported, Redis keeps the later of its own arrival time and the
// reported one. So a report may be repeated.
type fallback struct {
	l      *Redis
	seed   maphash.Seed
	share  atomic.Pointer[share]
	until  atomic.Int64 // everything granted here has been earned by then (ns since 1970)
	shards [shards]fallbackShard
}

// share is the part of a limit that this process grants by itself. It is immutable.
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

// entry is the state of one key. Times are ns since 1970 by the local clock.
type entry struct {
	tat          int64 // theoretical arrival time: when all spent permits will have been earned
	assumed      int64 // ns of tat set for an unknown key, as if all but one permit were spent; never reported to Redis
	unreported   int64 // permits granted here when a single call failed, not yet reported to Redis
	offline      int64 // permits granted here while Redis was unreachable, at most the burst
	offlineSince int64 // when offline was last reset (FixedWindow)
	generation   int64 // of the breaker, when Redis last replied about the key or the entry was made
}

// overflowKey is the entry of each shard for keys that find it full. They share its limit, which is stricter.
const overflowKey = 0

func newFallback(l *Redis) *fallback {
	f := &fallback{l: l, seed: maphash.MakeSeed()}
	for i := range f.shards {
		f.shards[i].keys, f.shards[i].sweepAt = make(map[uint64]entry), sweepFrom
	}
	return f
}

// synced reports whether Redis has everything that still counts: nothing was granted here recently, and Redis has
// neither been unreachable nor lost data since.
func (f *fallback) synced(p *params, now int64) bool {
	at := f.l.conn.breaker.generationSince.Load()
	return now >= f.until.Load() && (at == 0 || now-at >= p.horizon())
}

// horizon returns how long a permit can count, in ns.
func (p *params) horizon() int64 { return max(p.tolerance, p.period) + p.maxWait }

// keepsArrivalTime reports whether the state in Redis is an arrival time, too.
func (a Algorithm) keepsArrivalTime() bool { return a <= LeakyQueue }

func (f *fallback) shard(key string) (*fallbackShard, uint64) {
	h := maphash.String(f.seed, key) | 1 // | 1: never overflowKey
	return &f.shards[(h>>1)%shards], h
}

// shareParams returns the parameters of the current share. cost is the cost of the request.
func (f *fallback) shareParams(rs *redisSpec, cost int64) (*params, error) {
	s, n := f.share.Load(), int64(f.l.conn.Instances())
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
	f.share.Store(&share{of: rs, instances: n, largest: largest, p: p})
	return p, nil
}

// shareOf returns the limit that one of n processes enforces by itself while Redis is unreachable: an even n-th.
// largest is the largest cost requested so far, which must fit.
func shareOf(s Spec, n, largest int64) Spec {
	of := Spec{
		Algorithm: GCRA, Limit: Limit{Rate: s.Rate, Period: s.Period, Burst: max(1, s.Burst/n)}, MaxWait: s.MaxWait,
	}
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

// take decides from the share of this process.
func (f *fallback) take(rs *redisSpec, r Request) (Result, error) {
	p, err := f.shareParams(rs, r.N)
	if err != nil {
		return Result{}, err
	}
	q := p.query(r)
	sh, h := f.shard(r.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now, generation, offline := f.l.clock.now(), f.l.conn.breaker.generation.Load(), !f.l.conn.Up()
	e, known := sh.keys[h]
	if !known && r.N > 0 && !f.makeRoom(sh, now) {
		h = overflowKey
		e, known = sh.keys[h]
	}
	if byTime := rs.p.spec.Algorithm.keepsArrivalTime(); !known || !byTime && e.generation != generation {
		// Nothing is known, so everything may be spent: grant one permit, and what is earned from now on.
		e.tat, e.assumed, e.generation = now+p.tolerance-p.perPermit, p.tolerance-p.perPermit, generation
		if byTime && offline {
			e.generation-- // not yet reported to Redis
		}
	}
	e.assumed = min(e.assumed, max(0, e.tat-now))
	tat, d := p.decideArrival(e.tat, now, q)
	if d.granted > 0 {
		f.until.Store(now + rs.p.horizon())
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

// addOffline counts a grant. FixedWindow counts from the start of the current window.
func (e *entry) addOffline(p *params, now, n int64) {
	if p.spec.Algorithm == FixedWindow && now/p.period != e.offlineSince/p.period {
		e.offline, e.offlineSince = 0, now
	}
	e.offline = min(e.offline+n, p.maxCost)
}

// makeRoom reports whether a new key fits, and removes entries without content if needed. When the shard has twice as
// many keys as after the last sweep, it checks all entries; when it is full, only some.
func (f *fallback) makeRoom(sh *fallbackShard, now int64) bool {
	if full := len(sh.keys) >= defaultMaxKeys/shards; full || len(sh.keys) >= sh.sweepAt {
		checks := 32
		for k, e := range sh.keys { // map iteration begins at a random entry
			if e.tat <= now && e.unreported == 0 && e.offline == 0 {
				delete(sh.keys, k)
			}
			if checks--; full && checks == 0 {
				break
			}
		}
		sh.sweepAt = max(sweepFrom, 2*len(sh.keys))
	}
	return len(sh.keys) < defaultMaxKeys/shards
}

// report is the part of a query that informs Redis of grants without it.
type report struct {
	// debt is in permits. A positive debt is added to what Redis has as spent. A negative debt sets what is spent to at
	// least -debt.
	debt       int64
	generation int64
	synced     bool // there is nothing to report about any key
}

// nextReport returns the report for the next query, which must be followed by reportFailed or applyReply. Unreported
// permits are removed from the entry, so that they are reported once. An arrival time may be reported by several
// queries.
func (f *fallback) nextReport(rs *redisSpec, key string, now int64) (c report) {
	if f == nil {
		return c
	}
	c.generation = f.l.conn.breaker.generation.Load()
	if c.synced = f.synced(rs.p, now); c.synced {
		return c
	}
	sh, h := f.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, known := sh.keys[h]
	if !known {
		return c
	}
	switch {
	case c.generation == f.l.conn.breaker.partialOutage.Load() && (e.generation == c.generation-1 || e.offline > 0):
		// Redis has what the other processes spent, so this is added to it.
		e.unreported, e.offline, e.generation = e.unreported+e.offline, 0, c.generation
		sh.keys[h] = e
	case rs.p.spec.Algorithm.keepsArrivalTime():
		if ahead := e.tat - e.assumed - now; e.generation != c.generation && ahead > 0 { // negative debt: at least
			c.debt = -min(ceilDiv(ahead, rs.p.perPermit), maxRate)
		}
	case e.offline > 0 && (rs.p.spec.Algorithm != FixedWindow || now/rs.p.period == e.offlineSince/rs.p.period):
		c.debt = -min(e.offline*int64(f.l.conn.Instances()), rs.p.maxCost)
	}
	if c.debt == 0 && e.unreported > 0 {
		c.debt, e.unreported = e.unreported, 0 // positive debt: added
		sh.keys[h] = e
	}
	return c
}

// reportFailed restores a report that may not have reached Redis. If it did, it is reported twice: too few requests
// pass, never too many.
func (f *fallback) reportFailed(key string, c report) {
	if c.debt <= 0 { // a negative debt (at least) stays in the entry
		return
	}
	sh, h := f.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[h]
	e.unreported += c.debt
	sh.keys[h] = e
}

// applyReply updates the entry of a key from a reply. charged is false if the script only previewed. Keys with most of
// their burst left are not stored, because most keys never come near their limits.
func (f *fallback) applyReply(rs *redisSpec, key string, c report, d decision, charged bool) {
	if f == nil {
		return
	}
	byTime := rs.p.spec.Algorithm.keepsArrivalTime()
	if c.synced && (!byTime || d.resetAfter < rs.p.tolerance/8) {
		return
	}
	sh, h := f.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, known := sh.keys[h]
	now := f.l.clock.now()
	switch {
	case byTime && charged:
		if !known && !f.makeRoom(sh, now) {
			return
		}
		mark := now + d.resetAfter
		if c.generation == f.l.conn.breaker.generation.Load() {
			e.offline = 0
		} else { // Redis was lost meanwhile, and permits may have been granted here
			mark = max(mark, e.tat)
		}
		e.tat, e.assumed, e.generation = mark, 0, c.generation
	case !known:
		return
	case c.debt < 0: // Redis has at least the grants of the outage now
		e.offline = 0
	}
	sh.keys[h] = e
}

// refund takes back what take granted.
func (f *fallback) refund(rs *redisSpec, key string, granted Result) error {
	p, err := f.shareParams(rs, 0)
	if err != nil {
		return err
	}
	sh, h := f.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, known := sh.keys[h]; known {
		n := granted.Granted
		e.tat = p.refundArrival(e.tat, f.l.clock.now(), granted.stamp, n)
		e.unreported, e.offline = max(0, e.unreported-n), max(0, e.offline-n)
		sh.keys[h] = e
	}
	return nil
}

func (f *fallback) drop(key string) {
	if f == nil {
		return
	}
	sh, h := f.shard(key)
	sh.mu.Lock()
	delete(sh.keys, h)
	sh.mu.Unlock()
}

// convert carries the arrival times over to another limit.
func (f *fallback) convert(from, to *params) {
	if f == nil {
		return
	}
	now, fleet := f.l.clock.now(), float64(to.perPermit)*float64(f.l.conn.Instances())
	for i := range f.shards {
		sh := &f.shards[i]
		sh.mu.Lock()
		if !from.spec.Algorithm.keepsArrivalTime() || !to.spec.Algorithm.keepsArrivalTime() {
			clear(sh.keys)
		}
		for k, e := range sh.keys {
			if ahead := e.tat - now; ahead > 0 {
				// As convertArrival, but what the fleet has granted without Redis counts also beyond a reservation.
				most := float64(to.tolerance+to.maxWait) + fleet*float64(e.offline+e.unreported)
				e.tat = now + int64(min(float64(to.carryOver(from, ahead)), most))
			}
			e.assumed = min(to.carryOver(from, e.assumed), max(0, e.tat-now))
			sh.keys[k] = e
		}
		sh.mu.Unlock()
	}
}
