package ratelimit

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	mrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/redisconn"
)

//go:embed lua/present.lua
var luaPresent string

var scriptPresent = newScript(luaPresent)

// Connect makes a client with the time-outs that limiters need: a limiter decides locally rather than wait, so they are
// short and there is no retry. Package redisconn says how addrs, db and tune are used. Give limiters a Redis, or a
// database, of their own with maxmemory-policy noeviction: an evicted key is a quota that begins anew.
func Connect(addrs []string, db int, tune ...func(*redis.UniversalOptions)) redis.UniversalClient {
	return redisconn.New(redis.UniversalOptions{
		Addrs:        addrs,
		DB:           db,
		DialTimeout:  250 * time.Millisecond,
		ReadTimeout:  250 * time.Millisecond,
		WriteTimeout: 250 * time.Millisecond,
		PoolTimeout:  100 * time.Millisecond,
		MaxRetries:   -1,
	}, tune...)
}

// ConnOptions says how limiters of a process use Redis. The zero value of a field means its default.
type ConnOptions struct {
	// Prefix begins every key (default "rl").
	Prefix string
	// Timeout bounds every call (default 50 ms; up to a quarter less, as calls that begin together end together). A caller
	// waits no longer, whatever is wrong with Redis.
	Timeout time.Duration
	// Failures in a row that open the breaker (default 3).
	Failures int
	// ProbeEvery is the pause between two attempts to reach a Redis that is gone (default 200 ms, with jitter).
	ProbeEvery time.Duration
	// Instances is how many processes share the limits as far as is known at the start (default 1); what Run finds out
	// replaces it. The local share is 1/Instances.
	Instances int
	// Peers names those who use the same limits, where only some of the processes with this Prefix do: a process counts, and
	// shares with, those of its own Peers (default: all).
	Peers string
	// Instance names this process among them (default: random).
	Instance string
	// BeatEvery is how often a process shows that it is there (default 1 s). One that is silent for three beats is gone.
	BeatEvery time.Duration
	// OnState is told when Redis is given up and when it is back. It must not block.
	OnState func(up bool, cause error)
}

// Conn is Redis as the limiters of one process share it: a breaker, and who else is there.
type Conn struct {
	rdb      redis.UniversalClient
	o        ConnOptions
	cluster  bool
	breaker  breaker
	pipeline *pipeline

	instances atomic.Int64
	latest    atomic.Pointer[deadline]
	beaten    time.Time // when a beat reached Redis last; Run's
	mu        sync.Mutex
	fewer     int                               // beats in a row that saw fewer processes
	onBeat    map[any]func(ctx context.Context) // what limiters do at each beat that reached Redis
	onMiss    map[any]func()                    // and at each that did not
}

// NewConn makes a Conn. It starts nothing; see Run. The client should be one of Connect.
func NewConn(rdb redis.UniversalClient, o ConnOptions) *Conn {
	o.Prefix = or(o.Prefix, "rl")
	o.Timeout = or(o.Timeout, 50*time.Millisecond)
	o.Failures = or(o.Failures, 3)
	o.ProbeEvery = or(o.ProbeEvery, 200*time.Millisecond)
	o.Instances = max(1, o.Instances)
	o.Instance = or(o.Instance, rand.Text())
	o.BeatEvery = or(o.BeatEvery, time.Second)
	if o.OnState == nil {
		o.OnState = func(bool, error) {}
	}
	_, cluster := rdb.(*redis.ClusterClient)
	c := &Conn{rdb: rdb, o: o, cluster: cluster, pipeline: newPipeline(cluster), onBeat: map[any]func(context.Context){}, onMiss: map[any]func(){}}
	c.breaker.threshold, c.breaker.probeEvery, c.breaker.clock = int64(o.Failures), o.ProbeEvery, newClock(nil)
	c.breaker.onChange = o.OnState
	c.instances.Store(int64(o.Instances))
	return c
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Up says whether Redis is asked now.
func (c *Conn) Up() bool { return !c.breaker.open.Load() }

// Instances is how many processes share the limits, as far as is known.
func (c *Conn) Instances() int { return int(c.instances.Load()) }

// Instance is this process's name among those.
func (c *Conn) Instance() string { return c.o.Instance }

// Run shows that this process is there, looks who else is, gives idle leases back, and probes a Redis that is gone, until
// ctx ends. Without it the limiters work too; then callers probe, and Instances stays what it was.
func (c *Conn) Run(ctx context.Context) error {
	c.breaker.runProbes.Store(true)
	defer c.breaker.runProbes.Store(false)
	for {
		seen, err := c.beat(ctx, true)
		if err == nil && !c.Up() && sleep(ctx, seen.wait) == nil {
			if seen, err = c.beat(ctx, true); err == nil {
				c.breaker.close(seen.others > 0)
			}
		}
		for _, do := range c.after(err == nil) {
			do(ctx)
		}
		pause := c.o.BeatEvery
		if !c.Up() {
			pause = c.o.ProbeEvery
		}
		if err := sleep(ctx, pause*3/4+mrand.N(pause/2)); err != nil { //nolint:gosec // jitter
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Timeout)
	defer cancel()
	for _, l := range c.leasing() {
		l.returnAll(ctx)
	}
	_, _ = c.beat(ctx, false) // the others learn it in three beats anyway
	return nil
}

// saw takes how many processes a beat has seen. More hold at once; fewer only after as many beats as it takes to be given up:
// a Redis that comes back empty sees the others one by one, and each process would think that it is alone.
func (c *Conn) saw(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n >= c.instances.Load() {
		c.fewer = 0
		c.instances.Store(n)
		return
	}
	if c.fewer++; c.fewer >= 4 {
		c.fewer = 0
		c.instances.Store(n)
	}
}

func (c *Conn) leasing() (out []*leases) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.onBeat {
		if l, ok := l.(*Redis); ok {
			out = append(out, l.leases)
		}
	}
	return out
}

// after is what is to be done after a beat.
func (c *Conn) after(reached bool) (out []func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reached {
		for _, do := range c.onBeat {
			out = append(out, do)
		}
		return out
	}
	for _, do := range c.onMiss {
		out = append(out, func(context.Context) { do() })
	}
	return out
}

// seen is what a process that had lost Redis learns when it reaches it again.
type seen struct {
	// wait is how long its callers go on without Redis: until a moment that the first one who reached it has set, so that
	// all go on from their shares to the common limit at the same time. One after the other, the first would have the limit
	// and the others still their shares.
	wait   time.Duration
	others int64 // who were in reach of Redis meanwhile: it was not gone for all
}

// beat says that this process is there (or leaves) and learns how many are.
func (c *Conn) beat(ctx context.Context, stay bool) (s seen, err error) {
	ttl, without := 3*c.o.BeatEvery, int64(-1)
	if !stay {
		ttl = 0
	}
	if !c.Up() {
		without = (c.breaker.clock.now() - c.breaker.openedAt.Load()) / int64(time.Millisecond)
	}
	settle := 3*c.o.ProbeEvery/2 + 2*c.o.Timeout // within which every probe of a process comes through
	peers := c.o.Prefix + ":{instances}" + c.o.Peers
	v, err := c.call(ctx, scriptPresent, []string{peers, peers + ":back"}, []any{c.o.Instance, ttl.Milliseconds(), without, settle.Milliseconds()})
	if err != nil || !stay {
		return s, err
	}
	c.saw(max(1, v[0]))
	if v[1] == 0 && time.Since(c.beaten) < 2*c.o.BeatEvery {
		c.breaker.newGeneration() // Redis has forgotten this process, and everything else
	}
	c.beaten = time.Now()
	return seen{wait: time.Duration(v[2]) * time.Millisecond, others: v[3]}, nil
}

// call runs a script once, within the time-out, and tells the breaker. It does not ask the breaker.
func (c *Conn) call(ctx context.Context, s *script, keys []string, args []any) ([]int64, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	reply, err := c.pipeline.call(ctx, c.rdb, s, keys, args, c.deadline())
	switch {
	case err == nil:
		c.breaker.record(nil)
		return reply, nil
	case ctx.Err() != nil: // the caller has gone, which says nothing about Redis
		return nil, context.Cause(ctx)
	default:
		c.breaker.record(err)
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}

// CheckEviction says whether this Redis may forget what keys have spent before they expire.
func (c *Conn) CheckEviction(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	v, err := c.rdb.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if p := v["maxmemory-policy"]; strings.HasPrefix(p, "allkeys-") || p == "volatile-lru" || p == "volatile-lfu" || p == "volatile-random" {
		return fmt.Errorf("ratelimit: maxmemory-policy %s may evict limits in force; use noeviction or volatile-ttl", p)
	}
	return nil
}
