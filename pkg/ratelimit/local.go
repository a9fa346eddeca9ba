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
	sweepFrom      = 1024 // keys of a shard: to make a state again costs more than to keep it for a while
)

// Local is a limiter in this process. A decision takes no lock but the shared one of its key's shard, and allocates
// nothing for a key that is known.
type Local struct {
	clock   clock
	maxKeys int

	changing sync.Mutex // one SetSpec at a time
	current  atomic.Pointer[params]
	global   atomic.Pointer[globalState] // the key ""
	seed     maphash.Seed
	shards   [shards]shard
}

// line is a state together with the limit it is for. It is replaced as a whole.
type globalState struct {
	p *params
	s state
}

type shard struct {
	mu       sync.RWMutex
	p        *params
	keys     map[uint64]state // by hash: 64 bits of a seeded hash; two keys that share one share a limit
	overflow state            // for newcomers when there is no more room: they share one limit
	sweepAt  int              // so many keys make the next newcomer forget who is idle
	_        [64]byte         // shards do not share cache lines
}

// LocalOption changes a Local.
type LocalOption func(*Local)

// WithClock sets the clock, for tests. It need not be monotonic.
func WithClock(now func() time.Time) LocalOption {
	return func(l *Local) { l.clock = newClock(now) }
}

// WithMaxKeys bounds how many keys are remembered, about 100 bytes each (default 1,048,576). When all of them are in use,
// newcomers share limits with each other: stricter, never looser.
func WithMaxKeys(n int) LocalOption {
	return func(l *Local) { l.maxKeys = max(n, shards) }
}

// NewLocal makes a limiter in this process.
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

// Spec is what holds now.
func (l *Local) Spec() Spec { return l.current.Load().spec }

// Take decides. The context is not looked at: nothing here waits.
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
			runtime.Gosched() // SetSpec is about to put another line here
		}
	}
	hash := maphash.String(l.seed, r.Key)
	sh := &l.shards[hash%shards]
	sh.mu.RLock()
	s := sh.keys[hash]
	if s == nil && r.N == 0 { // a look adds no key
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
	// The shard stays locked for readers: nobody may forget or convert the state before it is charged.
	p := sh.p
	q := p.query(r)
	now := l.clock.now()
	var d decision
	if s == nil { // forgotten between the two locks, so idle: nothing is spent
		sh.mu.RUnlock()
		return l.Take(context.Background(), r)
	}
	d, _ = s.take(p, now, q)
	sh.mu.RUnlock()
	return p.result(q, d, SourceLocal), nil
}

// admit makes a state for a new key. When the shard has twice as many keys as were in use last time, all that are idle are
// forgotten; when it is full, each newcomer looks at some others, so that no flood of keys can make this expensive.
func (l *Local) addKey(sh *shard, hash uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.keys[hash] != nil {
		return
	}
	if full := len(sh.keys) >= l.maxKeys/shards; full || len(sh.keys) >= sh.sweepAt {
		now, looks := l.clock.now(), 32
		for k, s := range sh.keys { // begins anywhere
			if s.idle(sh.p, now) {
				delete(sh.keys, k)
			}
			if looks--; full && looks == 0 {
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

// find calls do with the state of a key, if there is one, under its limit.
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

// Refund gives back what a Take granted.
func (l *Local) Refund(_ context.Context, key string, granted Result) error {
	if granted.Granted > 0 {
		l.withState(key, func(p *params, s state) bool {
			return s.refund(p, l.clock.now(), granted.stamp, granted.Granted, granted.debit)
		})
	}
	return nil
}

// Reset forgets what the key has spent. A key that shares its limit because of WithMaxKeys is not reset.
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

// SetSpec changes the limit of all keys. Decisions that run at the same time fall under the old limit or the new one, and
// every charge is carried over.
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

// Keys is how many keys are remembered now, "" not counted.
func (l *Local) Keys() (n int) {
	for i := range l.shards {
		l.shards[i].mu.RLock()
		n += len(l.shards[i].keys)
		l.shards[i].mu.RUnlock()
	}
	return n
}

// preview is Take without the charge; see jointLimiter.
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
