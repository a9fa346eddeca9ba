package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	mrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var (
	//go:embed lua/acquire.lua
	luaAcquire string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/release.lua
	luaRelease string

	scriptAcquire = newScript(luaAcquire)
	scriptRenew   = newScript(luaRenew)
	scriptRelease = newScript(luaRelease)
)

// RedisBulkhead limits concurrency across all processes. A slot is a lease: the process renews it at each heartbeat of
// its Conn, and it expires if the process dies.
type RedisBulkhead struct {
	conn      *Conn
	name      string
	onFailure FailurePolicy
	ttl       time.Duration
	local     *Bulkhead // has the common limit and the queue: callers queue here before one calls Redis
	fallback  *Bulkhead // this process's share, while Redis is unreachable
	spec      atomic.Pointer[BulkheadSpec]

	seq     atomic.Int64
	mu      sync.Mutex
	permits map[*redisPermit]struct{}
}

// redisPermit is a slot in Redis.
type redisPermit struct {
	b        *RedisBulkhead
	key      string // Redis key
	id       string
	until    time.Time // the slot is held for certain until then
	lost     chan struct{}
	released bool // released or lost; guarded by b.mu
}

// NewBulkhead returns a bulkhead that all processes share that use the same Redis and the same name. Slots of a
// process that died become free after ttl (0: ten heartbeats). Conn.Run must run, because it renews the slots.
func (c *Conn) NewBulkhead(
	name string, s BulkheadSpec, onFailure FailurePolicy, ttl time.Duration,
) (*RedisBulkhead, error) {
	local, err := NewBulkhead(s)
	if err != nil {
		return nil, err
	}
	b := &RedisBulkhead{
		conn: c, name: name, onFailure: onFailure, ttl: or(ttl, 10*c.o.HeartbeatEvery), local: local,
		permits: map[*redisPermit]struct{}{},
	}
	if b.fallback, err = NewBulkhead(b.shareOf(s)); err != nil {
		return nil, err
	}
	if b.ttl < 3*c.o.HeartbeatEvery {
		return nil, fmt.Errorf("ratelimit: slots with a ttl of %s cannot be renewed every %s", b.ttl,
			c.o.HeartbeatEvery)
	}
	b.spec.Store(&s)
	c.mu.Lock()
	c.onHeartbeat[b], c.onMissedHeartbeat[b] = b.renew, b.dropExpired
	c.mu.Unlock()
	return b, nil
}

// Close ends the renewal. Slots still held expire.
func (b *RedisBulkhead) Close() {
	b.conn.mu.Lock()
	delete(b.conn.onHeartbeat, b)
	delete(b.conn.onMissedHeartbeat, b)
	b.conn.mu.Unlock()
}

func (b *RedisBulkhead) shareOf(s BulkheadSpec) BulkheadSpec {
	s.Limit = max(1, s.Limit/int64(b.conn.Instances()))
	return s
}

// Spec returns the current BulkheadSpec.
func (b *RedisBulkhead) Spec() BulkheadSpec { return *b.spec.Load() }

// SetSpec changes the limits.
func (b *RedisBulkhead) SetSpec(s BulkheadSpec) error {
	if err := b.local.SetSpec(s); err != nil {
		return err
	}
	b.spec.Store(&s)
	return b.fallback.SetSpec(b.shareOf(s))
}

func (b *RedisBulkhead) redisKey(key string) string {
	return (&Redis{conn: b.conn, name: b.name}).key(&redisSpec{suffix: "c"}, key)
}

// Acquire acquires a slot; see ConcurrencyLimiter.
func (b *RedisBulkhead) Acquire(ctx context.Context, key string) (Permit, error) {
	deadline := time.Now().Add(b.Spec().MaxWait)
	p, err := b.local.Acquire(ctx, key)
	if err != nil {
		return p, err
	}
	id := b.conn.o.Instance + ":" + strconv.FormatInt(b.seq.Add(1), 10)
	h := &redisPermit{b: b, key: b.redisKey(key), id: id, lost: make(chan struct{})}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if !b.conn.breaker.allow() {
			return b.acquireWithoutRedis(ctx, key, p, ErrUnavailable)
		}
		start := time.Now()
		v, err := b.conn.call(ctx, scriptAcquire, []string{h.key}, []any{h.id, b.Spec().Limit, b.ttl.Milliseconds()})
		switch {
		case err != nil && ctx.Err() != nil:
			p.Release()
			return Permit{}, context.Cause(ctx)
		case err != nil: // if Redis did grant the slot, it expires
			return b.acquireWithoutRedis(ctx, key, p, err)
		case v[0] == 1:
			h.until = start.Add(b.ttl)
			b.mu.Lock()
			b.permits[h] = struct{}{}
			b.mu.Unlock()
			p.remote = h
			return p, nil
		}
		wait := pause/2 + mrand.N(pause) //nolint:gosec // jitter
		if time.Until(deadline) < wait {
			p.Release()
			return Permit{}, fmt.Errorf("%w: no slot free within %s", ErrLimited, b.Spec().MaxWait)
		}
		if err := sleep(ctx, wait); err != nil {
			p.Release()
			return Permit{}, err
		}
	}
}

// acquireWithoutRedis decides by the failure policy while Redis is unreachable. p is the local permit.
func (b *RedisBulkhead) acquireWithoutRedis(ctx context.Context, key string, p Permit, cause error) (Permit, error) {
	if b.onFailure == FailOpen {
		return p, nil // the local limit still holds
	}
	p.Release()
	if b.onFailure == FailClosed {
		return Permit{}, cause
	}
	if want := b.shareOf(b.Spec()); want != b.fallback.Spec() {
		if err := b.fallback.SetSpec(want); err != nil {
			return Permit{}, err
		}
	}
	return b.fallback.Acquire(ctx, key)
}

// renew extends all slots held; Conn.Run calls it after each heartbeat that reached Redis.
func (b *RedisBulkhead) renew(ctx context.Context) {
	byKey := map[string][]*redisPermit{}
	b.mu.Lock()
	for h := range b.permits {
		byKey[h.key] = append(byKey[h.key], h)
	}
	b.mu.Unlock()
	for key, hs := range byKey {
		args := []any{b.ttl.Milliseconds()}
		for _, h := range hs {
			args = append(args, h.id)
		}
		start := time.Now()
		v, err := b.conn.call(ctx, scriptRenew, []string{key}, args)
		b.mu.Lock()
		for i, h := range hs {
			switch {
			case err == nil && v[i] == 1:
				h.until = start.Add(b.ttl)
			case err == nil || time.Now().After(h.until):
				b.markLost(h)
			}
		}
		b.mu.Unlock()
	}
}

// markLost reports to the holder that the slot is lost. b.mu must be held.
func (b *RedisBulkhead) markLost(h *redisPermit) {
	if !h.released {
		h.released = true
		delete(b.permits, h)
		close(h.lost)
	}
}

// dropExpired marks slots lost that have expired; Conn.Run calls it after each heartbeat that did not reach Redis.
func (b *RedisBulkhead) dropExpired() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for h := range b.permits {
		if time.Now().After(h.until) {
			b.markLost(h)
		}
	}
}

func (h *redisPermit) release() {
	h.b.mu.Lock()
	if h.released {
		h.b.mu.Unlock()
		return
	}
	h.released = true
	delete(h.b.permits, h)
	h.b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), h.b.conn.o.Timeout)
	defer cancel()
	if h.b.conn.Up() {
		_, _ = h.b.conn.call(ctx, scriptRelease, []string{h.key}, []any{h.id}) // otherwise the slot expires
	}
}
