package ratelimit

import (
	"hash/maphash"
	"sync"
)

// denyCache remembers until when keys are certain to be refused, so that a refusal costs no round trip. It is exact:
// what is spent only grows until it expires. The exception is a refund or reset by another process, which takes effect
// here only when the cached refusal ends.
type denyCache struct {
	seed   maphash.Seed
	max    int // entries per shard
	shards [16]denyShard
}

type denyShard struct {
	mu sync.RWMutex
	m  map[uint64]denial
	_  [64]byte
}

type denial struct {
	cost         int64 // the entry holds for this cost and higher ones
	refusedUntil int64 // nothing is granted without a wait before this time (ns since 1970, local clock)
	remaining    int64
	resetAt      int64 // ns since 1970
}

func newDenyCache(maxKeys int) *denyCache {
	c := &denyCache{seed: maphash.MakeSeed(), max: max(1, maxKeys/16)}
	for i := range c.shards {
		c.shards[i].m = make(map[uint64]denial)
	}
	return c
}

func (c *denyCache) shard(key string) (*denyShard, uint64) {
	h := maphash.String(c.seed, key)
	return &c.shards[h%16], h
}

// lookup returns the cached refusal of a query, if there is one.
func (c *denyCache) lookup(key string, now int64, q query) (decision, bool) {
	if c == nil || q.n == 0 {
		return decision{}, false
	}
	sh, h := c.shard(key)
	sh.mu.RLock()
	e, known := sh.m[h]
	sh.mu.RUnlock()
	if !known || q.least < e.cost || e.refusedUntil-q.wait <= now {
		return decision{}, false
	}
	return decision{
		remaining: e.remaining, retryAfter: e.refusedUntil - q.wait - now, resetAfter: max(0, e.resetAt-now),
	}, true
}

// add caches a refusal by Redis. sent is when the query was sent; the refusal counts from then on, which errs towards
// a query to Redis.
func (c *denyCache) add(key string, sent int64, q query, d decision) {
	if c == nil || d.ok || d.retryAfter <= 0 || q.n == 0 {
		return
	}
	sh, h := c.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, known := sh.m[h]; !known && len(sh.m) >= c.max {
		checks := 8
		for k, e := range sh.m { // map iteration begins at a random entry
			if e.refusedUntil <= sent {
				delete(sh.m, k)
			}
			if checks--; checks == 0 {
				break
			}
		}
		if len(sh.m) >= c.max {
			return // the cache is full: this key queries Redis each time
		}
	}
	sh.m[h] = denial{
		cost: q.least, refusedUntil: sent + d.retryAfter + q.wait, remaining: d.remaining, resetAt: sent + d.resetAfter,
	}
}

// remove drops the entry of a key after a refund or reset.
func (c *denyCache) remove(key string) {
	if c == nil {
		return
	}
	sh, h := c.shard(key)
	sh.mu.Lock()
	delete(sh.m, h)
	sh.mu.Unlock()
}

// clear drops all entries after a change of the limit.
func (c *denyCache) clear() {
	if c == nil {
		return
	}
	for i := range c.shards {
		c.shards[i].mu.Lock()
		clear(c.shards[i].m)
		c.shards[i].mu.Unlock()
	}
}
