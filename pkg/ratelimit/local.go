package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	shards         = 64
	defaultMaxKeys = 1 << 20
	sweepFrom      = 1024 // keys in a shard below which idle states are kept: to create a state again costs more
)

// Local is a limiter in this process. A decision about a known key takes the read lock of the key's shard;
// SlidingWindow, SlidingLog and WarmUp also take the lock of the key. The key "" needs no shard lock. A decision about
// a known key allocates nothing, except when the log of a SlidingLog grows.
type Local struct {
	clock   clock
	maxKeys int

	changing sync.Mutex // held by SetSpec and Reset
	current  atomic.Pointer[params]
	global   atomic.Pointer[globalState] // the state of the key ""
	seed     maphash.Seed
	shards   [shards]shard
}

// globalState is the state of the key "" together with its limit. It is replaced as a whole.
type globalState struct {
	p *params
	s state
}

type shard struct {
	mu       sync.RWMutex
	p        *params
	keys     map[uint64]state // by hash: 64 bits of a seeded hash; keys with equal hashes share a limit
	overflow state            // the state that new keys share when the shard is full
	sweepAt  int              // number of keys from which a new key triggers a sweep of idle ones
	_        [64]byte         // keeps shards on separate cache lines
}

// LocalOption configures a Local.
type LocalOption func(*Local)

// WithClock sets the clock, for tests. The clock may go back.
func WithClock(now func() time.Time) LocalOption {
	return func(l *Local) { l.clock = newClock(now) }
}

// WithMaxKeys bounds the number of keys in memory (default 1,048,576). A key takes about 100 bytes, plus 16 bytes per
// bucket of a SlidingWindow, or 8 bytes per permit spent of a SlidingLog. When all keys are in use, new keys share
// limits with each other: stricter, never looser.
func WithMaxKeys(n int) LocalOption {
	return func(l *Local) { l.maxKeys = max(n, shards) }
}

// NewLocal returns a limiter in this process.
func NewLocal(s Spec, opts ...LocalOption) (*Local, error) {
	p, err := newParams(s)
	if err != nil {
		return nil, err
	}
	l := &Local{clock: newClock(nil), maxKeys: defaultMaxKeys, seed: maphash.MakeSeed()}
	for _, o := range opts {
		o(l)
	}
	l.current.Store(p)
	l.global.Store(&globalState{p: p, s: p.newState()})
	for i := range l.shards {
		l.shards[i].p, l.shards[i].sweepAt = p, sweepFrom
		l.shards[i].keys = make(map[uint64]state)
	}
	return l, nil
}

// Spec returns the current Spec.
func (l *Local) Spec() Spec { return l.current.Load().spec }

// Take decides. The context is unused because nothing here waits.
func (l *Local) Take(_ context.Context, r Request) (Result, error) {
	if r.N < 0 {
		return Result{}, fmt.Errorf("ratelimit: negative cost %d", r.N)
	}
	if r.Key == "" {
		for {
			at := l.global.Load()
			q := at.p.query(r)
			now := l.clock.now()
			if d, ok := at.s.take(at.p, now, q); ok {
				return at.p.result(q, d, SourceLocal), nil
			}
			runtime.Gosched() // SetSpec is about to store another globalState
		}
	}
	hash := maphash.String(l.seed, r.Key)
	sh := &l.shards[hash%shards]
	sh.mu.RLock()
	s := sh.keys[hash]
	if s == nil && r.N == 0 { // a peek adds no key
		s = sh.p.newState()
	}
	if s == nil {
		sh.mu.RUnlock()
		l.addKey(sh, hash)
		sh.mu.RLock()
		if s = sh.keys[hash]; s == nil {
			s = sh.overflow
		}
	}
	// The shard stays locked for reading, so that the state is not removed or migrated before it is charged.
	p := sh.p
	q := p.query(r)
	now := l.clock.now()
	var d decision
	if s == nil { // removed between the two locks, so it was idle and nothing is spent
		sh.mu.RUnlock()
		return l.Take(context.Background(), r)
	}
	d, _ = s.take(p, now, q)
	sh.mu.RUnlock()
	return p.result(q, d, SourceLocal), nil
}

// addKey creates the state of a new key. When the shard has twice as many keys as were in use after the last sweep,
// all idle ones are removed. When it is full, each new key checks only a few others, so that a flood of keys stays
// cheap.
func (l *Local) addKey(sh *shard, hash uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.keys[hash] != nil {
		return
	}
	if full := len(sh.keys) >= l.maxKeys/shards; full || len(sh.keys) >= sh.sweepAt {
		now, checks := l.clock.now(), 32
		for k, s := range sh.keys { // map iteration begins at a random entry
			if s.idle(sh.p, now) {
				delete(sh.keys, k)
			}
			if checks--; full && checks == 0 {
				break
			}
		}
		sh.sweepAt = max(sweepFrom, 2*len(sh.keys))
	}
	if len(sh.keys) < l.maxKeys/shards {
		sh.keys[hash] = sh.p.newState()
	} else if sh.overflow == nil {
		sh.overflow = sh.p.newState()
	}
}

// withState calls do with the state of a key, if there is one, and its limit.
func (l *Local) withState(key string, do func(p *params, s state) (ok bool)) {
	if key == "" {
		for {
			if at := l.global.Load(); do(at.p, at.s) {
				return
			}
			runtime.Gosched()
		}
	}
	hash := maphash.String(l.seed, key)
	sh := &l.shards[hash%shards]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if s := sh.keys[hash]; s != nil {
		do(sh.p, s)
	} else if sh.overflow != nil {
		do(sh.p, sh.overflow)
	}
}

// Refund returns the permits that a Take granted.
func (l *Local) Refund(_ context.Context, key string, granted Result) error {
	l.withState(key, func(p *params, s state) bool {
		return !p.refundable(granted) || s.refund(p, l.clock.now(), granted.stamp, granted.Granted, granted.debit)
	})
	return nil
}

// Reset removes what the key has spent. A key that shares its limit because of WithMaxKeys is not reset.
func (l *Local) Reset(_ context.Context, key string) error {
	if key == "" {
		l.changing.Lock()
		defer l.changing.Unlock()
		at := l.global.Load()
		at.s.migrate(at.p, at.p, l.clock.now())
		l.global.Store(&globalState{p: at.p, s: at.p.newState()})
		return nil
	}
	hash := maphash.String(l.seed, key)
	sh := &l.shards[hash%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.keys, hash)
	return nil
}

// SetSpec changes the limit of all keys. Concurrent decisions fall under the old limit or the new one. Every charge is
// carried over.
func (l *Local) SetSpec(s Spec) error {
	to, err := newParams(s)
	if err != nil {
		return err
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	if to.spec == l.current.Load().spec {
		return nil
	}
	l.current.Store(to)
	now := l.clock.now()
	at := l.global.Load()
	l.global.Store(&globalState{p: to, s: at.s.migrate(at.p, to, now)})
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for k, s := range sh.keys {
			if s.idle(sh.p, now) {
				delete(sh.keys, k)
			} else {
				sh.keys[k] = s.migrate(sh.p, to, now)
			}
		}
		if sh.overflow != nil {
			sh.overflow = sh.overflow.migrate(sh.p, to, now)
		}
		sh.p = to
		sh.mu.Unlock()
	}
	return nil
}

// Keys returns the number of keys in memory, not counting "".
func (l *Local) Keys() (n int) {
	for i := range l.shards {
		l.shards[i].mu.RLock()
		n += len(l.shards[i].keys)
		l.shards[i].mu.RUnlock()
	}
	return n
}

// preview is Take without the charge; see jointLimiter.
//
//nolint:unparam // jointLimiter wants an error
func (l *Local) preview(_ context.Context, r Request) (res Result, err error) {
	found := false
	decide := func(p *params, s state) bool {
		found = true
		q := p.query(r)
		q.dryRun = true
		d, ok := s.take(p, l.clock.now(), q)
		if d.granted > 0 {
			d.remaining += d.granted
		}
		res = p.result(q, d, SourceLocal)
		res.Granted, res.Wait = 0, 0
		return ok
	}
	l.withState(r.Key, decide)
	if !found {
		p := l.current.Load()
		decide(p, p.newState())
	}
	return res, nil
}
