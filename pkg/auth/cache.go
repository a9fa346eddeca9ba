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

// How much is remembered of tokens that were verified, and for how long at most. A buyer comes with the same token for the
// path, the purchase and each look at the result; to check its signature and decode it each time would be a sixth of
// what a purchase costs its process. There is room for a million buyers who press the button in the same second, or for as
// many as an eighth of the memory limit (GOMEMLIMIT) holds.
const (
	cachedTokens = 1 << 20
	cachedFor    = 5 * time.Minute
	tokenBytes   = 120 // of memory for each, with the longest of user ids
	memoryShare  = 8
)

func cacheSize() int {
	limit := debug.SetMemoryLimit(-1) // changes nothing
	if limit == math.MaxInt64 {
		return cachedTokens
	}
	return int(min(limit/memoryShare/tokenBytes, cachedTokens))
}

// tokenHash is half of a token's SHA-256: to find another token with that of a given one takes 2^128 tries, shared among
// those that are remembered.
type tokenHash [sha256.Size / 2]byte

func hashOf(token string) tokenHash {
	h, _ := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.Reset()
	h.text = append(h.text[:0], token...)
	h.Write(h.text)
	return tokenHash(h.Sum(h.sum[:0])[:len(tokenHash{})])
}

// hasher is what a hash is computed with; a token of maxToken bytes is the longest that it comes to hold.
type hasher struct {
	hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

var hashers = sync.Pool{New: func() any { return &hasher{Hash: sha256.New()} }}

// cache remembers whom verified tokens name, by their hash: no entry has the token itself. An entry ends with its token,
// at the latest after cachedFor, and all end when the keys change. There are two generations: when the younger is full the
// older is forgotten as a whole, which bounds the cache whoever comes.
type cache struct {
	perGeneration int

	mu         sync.RWMutex
	young, old generation
	keys       int // how often the keys were changed
}

// generation holds no pointer for each token, so that the garbage collector has nothing to follow.
type generation struct {
	tokens map[tokenHash]cached
	users  [][]byte // ids, one behind the other, in pieces of userChunk
}

type cached struct {
	ends  int64 // Unix time in nanoseconds
	user  uint32
	chunk uint16
	len   uint8
	roles uint8 // bits: which of rememberedRoles
}

const userChunk = 64 << 10

func newCache(size int) *cache {
	return &cache{perGeneration: max(size/2, 1), young: newGeneration()}
}

func newGeneration() generation { return generation{tokens: map[tokenHash]cached{}} }

// find tells whom a token named when it was verified, if it is still good; keys is for add.
func (c *cache) find(h tokenHash, now time.Time) (id Identity, ok bool, keys int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, g := range []*generation{&c.young, &c.old} {
		if e, there := g.tokens[h]; there {
			if now.UnixNano() >= e.ends {
				break
			}
			return Identity{UserID: string(g.users[e.chunk][e.user:][:e.len]), Roles: roleSets[e.roles]}, true, c.keys
		}
	}
	return Identity{}, false, c.keys
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
	if len(c.young.tokens) >= c.perGeneration {
		c.young, c.old = newGeneration(), c.young
	}
	c.young.add(h, id, ends)
}

// add has room for every generation: half of cachedTokens ids of 64 bytes are 512 pieces.
func (g *generation) add(h tokenHash, id Identity, ends time.Time) {
	if e, known := g.tokens[h]; known { // it came twice at once, or lives longer than we remember: it says the same as ever
		e.ends = ends.UnixNano()
		g.tokens[h] = e
		return
	}
	last := len(g.users) - 1
	if last < 0 || len(g.users[last])+len(id.UserID) > userChunk {
		g.users = append(g.users, make([]byte, 0, userChunk))
		last++
	}
	e := cached{ends: ends.UnixNano(), chunk: uint16(last), user: uint32(len(g.users[last])), len: uint8(len(id.UserID))}
	for bit, role := range rememberedRoles {
		if slices.Contains(id.Roles, role) {
			e.roles |= 1 << bit
		}
	}
	g.users[last] = append(g.users[last], id.UserID...)
	g.tokens[h] = e
}

// rememberedRoles are all that mean something here.
var rememberedRoles = [...]Role{Merchant, Operator}

// roleSets are the roles of each set of bits, shared by all whom they belong to.
var roleSets = func() (sets [1 << len(rememberedRoles)][]Role) {
	for bits := range sets {
		for bit, role := range rememberedRoles {
			if bits>>bit&1 == 1 {
				sets[bits] = append(sets[bits], role)
			}
		}
	}
	return sets
}()

// forget is called when the keys have changed: what an old one signed has to be verified again.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = newGeneration(), generation{}
	c.keys++
}
