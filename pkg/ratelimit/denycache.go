package ratelimit

import (
	"hash/maphash"
	"sync"
)

// denyCache remembers until when keys are refused for certain, so that a refusal costs no round trip. It is exact: what is
// spent only becomes more until it expires, except by a refund or a reset of another process, which is then seen late, at
// worst when the refusal would have ended anyway.
type denyCache struct {
	seed   maphash.Seed
	max    int // per shard
	shards [16]denyShard
}

type denyShard struct {
	mu sync.RWMutex
	m  map[uint64]denial
	_  [64]byte
}

type denial struct {
	cost         int64 // for this cost, or a higher one,
	refusedUntil int64 // nothing passes at once before this (ns since 1970, local clock)
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

// refused answers the refusal of a key, if it is known.
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
	return decision{remaining: e.remaining, retryAfter: e.refusedUntil - q.wait - now, resetAfter: max(0, e.resetAt-now)}, true
}

// learn takes a refusal that Redis gave for a question sent at sent: from then on the time counts, the early side.
func (c *denyCache) add(key string, sent int64, q query, d decision) {
	if c == nil || d.ok || d.retryAfter <= 0 || q.n == 0 {
		return
	}
	sh, h := c.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, known := sh.m[h]; !known && len(sh.m) >= c.max {
		looks := 8
		for k, e := range sh.m { // begins anywhere
			if e.refusedUntil <= sent {
				delete(sh.m, k)
			}
			if looks--; looks == 0 {
				break
			}
		}
		if len(sh.m) >= c.max {
			return // it is a cache: this key asks Redis
		}
	}
	sh.m[h] = denial{cost: q.least, refusedUntil: sent + d.retryAfter + q.wait, remaining: d.remaining, resetAt: sent + d.resetAfter}
}

// forget is for a key that got something back.
func (c *denyCache) remove(key string) {
	if c == nil {
		return
	}
	sh, h := c.shard(key)
	sh.mu.Lock()
	delete(sh.m, h)
	sh.mu.Unlock()
}

// clear is for a limit that changed.
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
