package auth

import (
	"crypto/sha256"
	"hash"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Bounds of the cache of verified tokens. A buyer sends the same token for the path, the purchase and each poll of
// the result. Without the cache, checking and decoding it would take a sixth of the CPU time of a purchase. The cache
// holds a million tokens, or as many as fit into an eighth of the memory limit (GOMEMLIMIT).
const (
	cachedTokens = 1 << 20
	cachedFor    = 5 * time.Minute
	// memory of one entry with the longest user id; only the few tokens with a role add a merchant id
	tokenBytes  = 120
	memoryShare = 8
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
// token, at the latest after cachedFor. A change of the keys removes all entries. There are two generations: when the
// young one is full, it replaces the old one, which bounds the cache for any load.
type cache struct {
	perGeneration int

	mu         sync.RWMutex
	young, old generation
	keys       int // number of changes of the keys
}

// generation holds no pointer per token, so that the garbage collector does not scan the entries.
type generation struct {
	tokens map[tokenHash]cached
	ids    [][]byte // concatenated user ids, each followed by its merchant id, in chunks of idChunk bytes
}

type cached struct {
	ends     int64 // expiry as Unix time in nanoseconds
	chunk    uint16
	start    uint16 // of the user id in the chunk
	user     uint8  // length of the user id
	merchant uint8  // length of the merchant id
	roles    uint8  // bit i: knownRoles[i]
}

const idChunk = 64 << 10 // every start in a chunk fits in 16 bits

// identity returns the identity of an entry. Both ids share one allocation.
func (g *generation) identity(e cached) Identity {
	ids := string(g.ids[e.chunk][e.start:][:int(e.user)+int(e.merchant)])
	return Identity{UserID: ids[:e.user], MerchantID: ids[e.user:], Roles: roleSets[e.roles]}
}

func newCache(size int) *cache {
	return &cache{perGeneration: max(size/2, 1), young: newGeneration()}
}

func newGeneration() generation { return generation{tokens: map[tokenHash]cached{}} }

// find returns the identity of a cached token that has not expired. The returned keys is an argument of add.
func (c *cache) find(h tokenHash, now time.Time) (id Identity, ok bool, keys int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, g := range []*generation{&c.young, &c.old} {
		if e, there := g.tokens[h]; there {
			if now.UnixNano() >= e.ends {
				break
			}
			return g.identity(e), true, c.keys
		}
	}
	return Identity{}, false, c.keys
}

// add caches a token that was verified after find returned keys. It does nothing if the keys have changed since.
func (c *cache) add(h tokenHash, id Identity, ends, now time.Time, keys int) {
	if latest := now.Add(cachedFor); ends.After(latest) {
		ends = latest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if keys != c.keys {
		return
	}
	if len(c.young.tokens) >= c.perGeneration {
		c.young, c.old = newGeneration(), c.young
	}
	c.young.add(h, id, ends)
}

// add stores an entry. The chunk number never overflows: half of cachedTokens pairs of ids, of 128 bytes each, fill
// 1024 chunks.
func (g *generation) add(h tokenHash, id Identity, ends time.Time) {
	if e, known := g.tokens[h]; known { // verified twice at once, or after its entry expired: the identity is the same
		e.ends = ends.UnixNano()
		g.tokens[h] = e
		return
	}
	last := len(g.ids) - 1
	if last < 0 || len(g.ids[last])+len(id.UserID)+len(id.MerchantID) > idChunk {
		g.ids = append(g.ids, make([]byte, 0, idChunk))
		last++
	}
	e := cached{
		ends: ends.UnixNano(), chunk: uint16(last), start: uint16(len(g.ids[last])), user: uint8(len(id.UserID)),
		merchant: uint8(len(id.MerchantID)),
	}
	for bit, role := range knownRoles {
		if slices.Contains(id.Roles, role) {
			e.roles |= 1 << bit
		}
	}
	g.ids[last] = append(append(g.ids[last], id.UserID...), id.MerchantID...)
	g.tokens[h] = e
}

// knownRoles are all roles that this system defines.
var knownRoles = [...]Role{Merchant, Operator, Accessible}

// Known reports whether this system defines a role.
func Known(role Role) bool { return slices.Contains(knownRoles[:], role) }

// roleSets maps each set of bits to its roles. The slices are shared by all identities.
var roleSets = func() (sets [1 << len(knownRoles)][]Role) {
	for bits := range sets {
		for bit, role := range knownRoles {
			if bits>>bit&1 == 1 {
				sets[bits] = append(sets[bits], role)
			}
		}
	}
	return sets
}()

// clear removes all entries. It is called after a change of the keys: tokens signed by an old key need a new check.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = newGeneration(), generation{}
	c.keys++
}
