package ratelimit

import (
	"container/list"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// BulkheadSpec limits concurrency per key.
type BulkheadSpec struct {
	Limit   int64         // concurrent holders, 1 to 100,000
	Queue   int64         // queued callers, 0 to 100,000
	MaxWait time.Duration // longest wait in the queue; 0 = no queue
}

const maxConcurrency = 100_000

func (s BulkheadSpec) validate() error {
	switch {
	case s.Limit < 1 || s.Limit > maxConcurrency:
		return fmt.Errorf("ratelimit: a bulkhead of %d is not between 1 and %d", s.Limit, maxConcurrency)
	case s.Queue < 0 || s.Queue > maxConcurrency:
		return fmt.Errorf("ratelimit: a queue of %d is not between 0 and %d", s.Queue, maxConcurrency)
	case s.MaxWait < 0:
		return fmt.Errorf("ratelimit: negative wait %s", s.MaxWait)
	}
	return nil
}

// ConcurrencyLimiter limits the number of concurrent holders per key.
type ConcurrencyLimiter interface {
	// Acquire takes a slot. If none is free, it waits in the queue. A Bulkhead serves its queue first come, first served.
	// A RedisBulkhead retries at random intervals, so the order across processes is random. Acquire returns ErrQueueFull
	// if the queue is full, ErrLimited if no slot became free in time, and the cause of the context if that ended first.
	Acquire(ctx context.Context, key string) (Permit, error)
	// Spec returns the current BulkheadSpec and SetSpec changes it. Holders keep their slots, even if there are more
	// than the new limit.
	Spec() BulkheadSpec
	SetSpec(s BulkheadSpec) error
}

// Permit is a slot in a bulkhead. The zero Permit holds none.
type Permit struct {
	bulkhead   *Bulkhead
	occupancy  *occupancy
	slot       int32
	generation uint32
	remote     *redisPermit
}

// Release frees the slot. A second call does nothing, even if the slot has a new holder by then.
func (p Permit) Release() {
	if p.remote != nil {
		p.remote.release()
	}
	if p.bulkhead != nil {
		p.bulkhead.release(p)
	}
}

// Lost returns a channel that is closed when a slot held in Redis may have been given to another holder. It is nil for
// local slots, which cannot be lost.
func (p Permit) Lost() <-chan struct{} {
	if p.remote == nil {
		return nil
	}
	return p.remote.lost
}

const bulkheadShards = 16

// Bulkhead limits concurrency in this process.
type Bulkhead struct {
	seed   maphash.Seed
	shards [bulkheadShards]bulkheadShard
}

type bulkheadShard struct {
	mu    sync.Mutex
	spec  BulkheadSpec
	byKey map[string]*occupancy
	_     [64]byte
}

// occupancy is the holders and the queue of one key. Slots are numbered, and each has a generation, so that a late
// second Release cannot free the slot of another holder.
type occupancy struct {
	key         string
	generations []uint32 // of each slot: number of releases
	freeSlots   []int32
	running     int64
	queue       list.List // of *waiter, oldest first
}

type waiter struct {
	granted chan Permit // buffered, so that the granting goroutine never blocks
}

// NewBulkhead returns a Bulkhead.
func NewBulkhead(s BulkheadSpec) (*Bulkhead, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	b := &Bulkhead{seed: maphash.MakeSeed()}
	for i := range b.shards {
		b.shards[i].spec, b.shards[i].byKey = s, map[string]*occupancy{}
	}
	return b, nil
}

func (b *Bulkhead) shard(key string) *bulkheadShard {
	return &b.shards[maphash.String(b.seed, key)%bulkheadShards]
}

// Spec returns the current BulkheadSpec.
func (b *Bulkhead) Spec() BulkheadSpec {
	sh := &b.shards[0]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.spec
}

// SetSpec changes the limits. A higher limit admits queued callers at once.
func (b *Bulkhead) SetSpec(s BulkheadSpec) error {
	if err := s.validate(); err != nil {
		return err
	}
	for i := range b.shards {
		sh := &b.shards[i]
		sh.mu.Lock()
		sh.spec = s
		for _, o := range sh.byKey {
			sh.admit(b, o)
		}
		sh.mu.Unlock()
	}
	return nil
}

// Acquire acquires a slot; see ConcurrencyLimiter.
func (b *Bulkhead) Acquire(ctx context.Context, key string) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, context.Cause(ctx)
	}
	sh := b.shard(key)
	sh.mu.Lock()
	o := sh.byKey[key]
	if o == nil {
		o = &occupancy{key: key}
		sh.byKey[key] = o
	}
	if o.running < sh.spec.Limit && o.queue.Len() == 0 {
		p := o.take(b)
		sh.mu.Unlock()
		return p, nil
	}
	if sh.spec.MaxWait <= 0 || int64(o.queue.Len()) >= sh.spec.Queue {
		sh.mu.Unlock()
		return Permit{}, ErrQueueFull
	}
	w := &waiter{granted: make(chan Permit, 1)}
	element := o.queue.PushBack(w)
	wait := sh.spec.MaxWait
	sh.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	var err error
	select {
	case p := <-w.granted:
		return p, nil
	case <-timer.C:
		err = fmt.Errorf("%w: no slot free within %s", ErrLimited, wait)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	select {
	case p := <-w.granted: // granted at the same moment
		if ctx.Err() == nil {
			return p, nil
		}
		sh.release(b, p)
		return Permit{}, err
	default:
		o.queue.Remove(element)
		sh.dropIfIdle(o)
		return Permit{}, err
	}
}

func (o *occupancy) take(b *Bulkhead) Permit {
	o.running++
	var slot int32
	if n := len(o.freeSlots); n > 0 {
		slot, o.freeSlots = o.freeSlots[n-1], o.freeSlots[:n-1]
	} else {
		slot = int32(len(o.generations))
		o.generations = append(o.generations, 0)
	}
	return Permit{bulkhead: b, occupancy: o, slot: slot, generation: o.generations[slot]}
}

func (b *Bulkhead) release(p Permit) {
	sh := b.shard(p.occupancy.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.release(b, p)
}

func (sh *bulkheadShard) release(b *Bulkhead, p Permit) {
	o := p.occupancy
	if o.generations[p.slot] != p.generation {
		return // already released
	}
	o.generations[p.slot]++
	o.freeSlots = append(o.freeSlots, p.slot)
	o.running--
	sh.admit(b, o)
	sh.dropIfIdle(o)
}

// admit grants free slots to queued callers, oldest first.
func (sh *bulkheadShard) admit(b *Bulkhead, o *occupancy) {
	for o.running < sh.spec.Limit && o.queue.Len() > 0 {
		w := o.queue.Remove(o.queue.Front()).(*waiter)
		w.granted <- o.take(b)
	}
}

// dropIfIdle removes a key without holders and queue. Its permits keep pointing to the occupancy, so a late second
// Release is harmless. The occupancy of the key "" stays, because it would be created again soon.
func (sh *bulkheadShard) dropIfIdle(o *occupancy) {
	if o.running == 0 && o.queue.Len() == 0 && o.key != "" && sh.byKey[o.key] == o {
		delete(sh.byKey, o.key)
	}
}

// Running returns the number of holders and of queued callers of a key.
func (b *Bulkhead) Running(key string) (running, waiting int64) {
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if o := sh.byKey[key]; o != nil {
		return o.running, int64(o.queue.Len())
	}
	return 0, 0
}
