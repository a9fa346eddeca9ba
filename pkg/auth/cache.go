package auth

import (
	"crypto/sha256"
	"hash"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Bounds of the cache of verified tokens. A buyer sends the same token for the path, the purchase and each poll of
// the result. Without the cache, checking and decoding it would take a sixth of the CPU time of a purchase. The cache
// holds a million tokens, or as many as fit into an eighth of the memory limit (GOMEMLIMIT).
const (
	cachedTokens = 1 << 20
	cachedFor    = 5 * time.Minute
	tokenBytes   = 280 // memory of one entry with the longest user id, as BenchmarkCache measures it
	memoryShare  = 8
)

func cacheSize() int {
	limit := debug.SetMemoryLimit(-1) // only reads the limit
	if limit == math.MaxInt64 {
		return cachedTokens
	}
	return int(min(limit/memoryShare/tokenBytes, cachedTokens))
}

// tokenHash is the first half of a token's SHA-256. Finding a token whose hash equals a cached one takes 2^128 tries,
// divided by the number of cached tokens.
type tokenHash [sha256.Size / 2]byte

func hashOf(token string) tokenHash {
	h, _ := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.Reset()
	h.text = append(h.text[:0], token...)
	h.Write(h.text)
	return tokenHash(h.Sum(h.sum[:0])[:len(tokenHash{})])
}

// hasher holds reusable buffers for one hash. Its text grows to at most maxToken bytes.
type hasher struct {
	hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

var hashers = sync.Pool{New: func() any { return &hasher{Hash: sha256.New()} }}

// cache maps the hashes of verified tokens to identities; it does not hold the tokens. An entry expires with its
// token, at the latest after cachedFor. A change of the keys removes all entries. The entry that was not used for the
// longest time makes room for a new one: one that prefers often used entries would not keep those of a new sale.
type cache struct {
	tokens *lru.Cache[tokenHash, cached]
	keys   atomic.Int64 // number of changes of the keys
}

type cached struct {
	Identity
	ends int64 // expiry as Unix time in nanoseconds
	keys int64 // those that the token was verified with
}

func newCache(size int) *cache {
	tokens, err := lru.New[tokenHash, cached](max(size, 1))
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &cache{tokens: tokens}
}

// find returns the identity of a cached token that has not expired. The returned keys is an argument of add.
func (c *cache) find(h tokenHash, now time.Time) (id Identity, ok bool, keys int64) {
	keys = c.keys.Load()
	e, ok := c.tokens.Get(h)
	if !ok || e.keys != keys || now.UnixNano() >= e.ends {
		return Identity{}, false, keys
	}
	return e.Identity, true, keys
}

// add caches a token that was verified after find returned keys. If the keys have changed since, find ignores it.
func (c *cache) add(h tokenHash, id Identity, ends, now time.Time, keys int64) {
	if latest := now.Add(cachedFor); ends.After(latest) {
		ends = latest
	}
	c.tokens.Add(h, cached{Identity: id, ends: ends.UnixNano(), keys: keys})
}

// clear removes all entries. It is called after a change of the keys: tokens signed by an old key need a new check.
func (c *cache) clear() {
	c.keys.Add(1)
	c.tokens.Purge()
}

// knownRoles are all roles that this system defines.
var knownRoles = [...]Role{Merchant, Operator, Accessible}

// Known reports whether this system defines a role.
func Known(role Role) bool { return slices.Contains(knownRoles[:], role) }
