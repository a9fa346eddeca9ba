package ratelimit

import (
	"container/list"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// BulkheadSpec bounds what runs at the same time, per key.
type BulkheadSpec struct {
	Limit   int64         // how many run, 1 to 100,000
	Queue   int64         // how many wait for that, 0 to 100,000
	MaxWait time.Duration // how long they wait at most; 0 = nobody waits
}

const maxConcurrency = 100_000

func (s BulkheadSpec) validate() error {
	switch {
	case s.Limit < 1 || s.Limit > maxConcurrency:
		return fmt.Errorf("ratelimit: a bulkhead of %d is not within 1 and %d", s.Limit, maxConcurrency)
	case s.Queue < 0 || s.Queue > maxConcurrency:
		return fmt.Errorf("ratelimit: a queue of %d is not within 0 and %d", s.Queue, maxConcurrency)
	case s.MaxWait < 0:
		return fmt.Errorf("ratelimit: a wait of %s", s.MaxWait)
	}
	return nil
}

// ConcurrencyLimiter bounds what runs at the same time.
type ConcurrencyLimiter interface {
	// Acquire takes a place, waiting for one in the queue if there is room in it: first come, first served. ErrQueueFull if
	// there is not, ErrLimited if the wait was not enough, the context's error if that ended first.
	Acquire(ctx context.Context, key string) (Permit, error)
	// Spec is what holds now; SetSpec changes it. Who runs goes on, also if there are more than the new limit.
	Spec() BulkheadSpec
	SetSpec(s BulkheadSpec) error
}

// Permit is a place in a bulkhead. The zero Permit is none.
type Permit struct {
	bulkhead *Bulkhead
	room     *room
	slot     int32
	turn     uint32
	held     *held
}

// Release gives the place back. Calling it again does nothing, even if somebody else has the place by then.
func (p Permit) Release() {
	if p.held != nil {
		p.held.release()
	}
	if p.bulkhead != nil {
		p.bulkhead.release(p)
	}
}

// Lost is closed when a place that is held in Redis may have been given to somebody else. It is nil for local places, which
// cannot be lost.
func (p Permit) Lost() <-chan struct{} {
	if p.held == nil {
		return nil
	}
	return p.held.lost
}

const bulkheadShards = 16

// Bulkhead bounds what runs at the same time in this process.
type Bulkhead struct {
	seed   maphash.Seed
	shards [bulkheadShards]bulkheadShard
}

type bulkheadShard struct {
	mu    sync.Mutex
	spec  BulkheadSpec
	rooms map[string]*room
	_     [64]byte
}

// room is one key: who runs, by slots that are numbered so that nobody can give back the place of another one, and who
// waits, oldest first.
type room struct {
	key   string
	turns []uint32 // of each slot: how often it was given back
	free  []int32
	held  int64
	queue list.List // of *waiter
}

type waiter struct {
	granted chan Permit // buffered: the one who grants never waits
}

// NewBulkhead makes one.
func NewBulkhead(s BulkheadSpec) (*Bulkhead, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	b := &Bulkhead{seed: maphash.MakeSeed()}
	for i := range b.shards {
		b.shards[i].spec, b.shards[i].rooms = s, map[string]*room{}
	}
	return b, nil
}

func (b *Bulkhead) shard(key string) *bulkheadShard {
	return &b.shards[maphash.String(b.seed, key)%bulkheadShards]
}

// Spec is what holds now.
func (b *Bulkhead) Spec() BulkheadSpec {
	sh := &b.shards[0]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.spec
}

// SetSpec changes it. A higher limit lets waiting ones in at once.
func (b *Bulkhead) SetSpec(s BulkheadSpec) error {
	if err := s.validate(); err != nil {
		return err
	}
	for i := range b.shards {
		sh := &b.shards[i]
		sh.mu.Lock()
		sh.spec = s
		for _, r := range sh.rooms {
			sh.admit(b, r)
		}
		sh.mu.Unlock()
	}
	return nil
}

// Acquire takes a place; see ConcurrencyLimiter.
func (b *Bulkhead) Acquire(ctx context.Context, key string) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, context.Cause(ctx)
	}
	sh := b.shard(key)
	sh.mu.Lock()
	r := sh.rooms[key]
	if r == nil {
		r = &room{key: key}
		sh.rooms[key] = r
	}
	if r.held < sh.spec.Limit && r.queue.Len() == 0 {
		p := r.take(b)
		sh.mu.Unlock()
		return p, nil
	}
	if sh.spec.MaxWait <= 0 || int64(r.queue.Len()) >= sh.spec.Queue {
		sh.mu.Unlock()
		return Permit{}, ErrQueueFull
	}
	w := &waiter{granted: make(chan Permit, 1)}
	place := r.queue.PushBack(w)
	wait := sh.spec.MaxWait
	sh.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	var err error
	select {
	case p := <-w.granted:
		return p, nil
	case <-timer.C:
		err = fmt.Errorf("%w: no place within %s", ErrLimited, wait)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	select {
	case p := <-w.granted: // at the same moment
		if ctx.Err() == nil {
			return p, nil
		}
		sh.giveBack(b, p)
		return Permit{}, err
	default:
		r.queue.Remove(place)
		sh.forget(r)
		return Permit{}, err
	}
}

func (r *room) take(b *Bulkhead) Permit {
	r.held++
	var slot int32
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		slot = int32(len(r.turns))
		r.turns = append(r.turns, 0)
	}
	return Permit{bulkhead: b, room: r, slot: slot, turn: r.turns[slot]}
}

func (b *Bulkhead) release(p Permit) {
	sh := b.shard(p.room.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.giveBack(b, p)
}

func (sh *bulkheadShard) giveBack(b *Bulkhead, p Permit) {
	r := p.room
	if r.turns[p.slot] != p.turn {
		return // given back before
	}
	r.turns[p.slot]++
	r.free = append(r.free, p.slot)
	r.held--
	sh.admit(b, r)
	sh.forget(r)
}

// admit lets in who waits, oldest first.
func (sh *bulkheadShard) admit(b *Bulkhead, r *room) {
	for r.held < sh.spec.Limit && r.queue.Len() > 0 {
		w := r.queue.Remove(r.queue.Front()).(*waiter)
		w.granted <- r.take(b)
	}
}

// forget drops a room with nobody in it. Its permits keep pointing to it, so a late second release does no harm. The room
// of all stays: it would only be made again.
func (sh *bulkheadShard) forget(r *room) {
	if r.held == 0 && r.queue.Len() == 0 && r.key != "" && sh.rooms[r.key] == r {
		delete(sh.rooms, r.key)
	}
}

// Running is how many run and wait now, of a key.
func (b *Bulkhead) Running(key string) (running, waiting int64) {
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.rooms[key]; r != nil {
		return r.held, int64(r.queue.Len())
	}
	return 0, 0
}
