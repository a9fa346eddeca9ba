package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// How much is remembered of tokens that were verified, and for how long at most. A buyer comes with the same token for the
// path, the purchase and each look at the result; to check its signature and decode it each time would be a good part of
// what a purchase costs.
const (
	cachedTokens = 1 << 17 // some 20 MiB when full
	cachedFor    = 5 * time.Minute
)

type tokenHash [sha256.Size]byte

func hashOf(token string) tokenHash { return sha256.Sum256([]byte(token)) }

// cache remembers whom verified tokens name, by their SHA-256: tokens themselves are not kept. An entry ends with its token,
// at the latest after cachedFor, and all end when the keys change. There are two generations: when the younger is full the
// older is forgotten as a whole, which bounds the cache whoever comes.
type cache struct {
	perGeneration int

	mu         sync.RWMutex
	young, old map[tokenHash]cached
	keys       int // how often the keys were changed
}

type cached struct {
	Identity
	ends time.Time
}

func newCache(size int) *cache {
	return &cache{perGeneration: max(size/2, 1), young: map[tokenHash]cached{}}
}

// find tells whom a token named when it was verified, if it is still good; keys is for add.
func (c *cache) find(h tokenHash, now time.Time) (id Identity, ok bool, keys int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.young[h]
	if !ok {
		e, ok = c.old[h]
	}
	return e.Identity, ok && now.Before(e.ends), c.keys
}

// add remembers a token that was verified since find. When the keys were changed meanwhile it does not.
func (c *cache) add(h tokenHash, id Identity, ends, now time.Time, keys int) {
	if latest := now.Add(cachedFor); ends.After(latest) {
		ends = latest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if keys != c.keys {
		return
	}
	if len(c.young) >= c.perGeneration {
		c.young, c.old = map[tokenHash]cached{}, c.young
	}
	c.young[h] = cached{id, ends}
}

// forget is called when the keys have changed: what an old one signed has to be verified again.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = map[tokenHash]cached{}, nil
	c.keys++
}
