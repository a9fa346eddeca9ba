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

//go:embed lua/heartbeat.lua
var luaHeartbeat string

var scriptHeartbeat = newScript(luaHeartbeat)

// Connect returns a client with the time-outs that limiters need. They are short and there is no retry, because a
// limiter decides locally rather than wait. See package redisconn for addrs, db and tune. Give limiters a Redis, or a
// database, of their own with maxmemory-policy noeviction: an evicted key starts with nothing spent.
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

// ConnOptions are the options of a Conn. The zero value of a field means its default.
type ConnOptions struct {
	// Prefix begins every key (default "rl").
	Prefix string
	// Timeout bounds every call (default 50 ms; up to a quarter less, because calls that begin together end together).
	// No single call takes longer, whatever is wrong with Redis. A request to a limiter with leases may wait for several
	// calls one after the other.
	Timeout time.Duration
	// Failures is the number of failures in a row that open the breaker (default 3).
	Failures int
	// ProbeEvery is the pause between probes of an unreachable Redis (default 200 ms, with jitter).
	ProbeEvery time.Duration
	// Instances is the number of processes assumed at the start to share the limits (default 1). Run replaces it by
	// the number it counts. The local share is 1/Instances.
	Instances int
	// Peers names the group of processes that share limits, if not all processes with this Prefix do (default: all are
	// one group). Instances counts the processes with the same Peers, and this process has one share of them.
	Peers string
	// Instance is the unique name of this process (default: random).
	Instance string
	// HeartbeatEvery is the interval of heartbeats (default 1 s). A process without a heartbeat for three intervals
	// counts as dead.
	HeartbeatEvery time.Duration
	// OnState is called when the breaker opens, with the cause, and when it closes. It must not block.
	OnState func(up bool, cause error)
}

// Conn is the Redis that the limiters of one process share, with the circuit breaker and the count of processes.
type Conn struct {
	rdb      redis.UniversalClient
	o        ConnOptions
	cluster  bool
	breaker  breaker
	pipeline *pipeline

	instances         atomic.Int64
	latest            atomic.Pointer[deadline]
	lastHeartbeat     time.Time // of the last heartbeat that reached Redis; used by Run only
	mu                sync.Mutex
	fewer             int                               // heartbeats in a row that counted fewer processes
	onHeartbeat       map[any]func(ctx context.Context) // run after each heartbeat that reached Redis
	onMissedHeartbeat map[any]func()                    // run after each one that did not
}

// NewConn returns a Conn. It starts nothing; see Run. The client should come from Connect.
func NewConn(rdb redis.UniversalClient, o ConnOptions) *Conn {
	o.Prefix = or(o.Prefix, "rl")
	o.Timeout = or(o.Timeout, 50*time.Millisecond)
	o.Failures = or(o.Failures, 3)
	o.ProbeEvery = or(o.ProbeEvery, 200*time.Millisecond)
	o.Instances = max(1, o.Instances)
	o.Instance = or(o.Instance, rand.Text())
	o.HeartbeatEvery = or(o.HeartbeatEvery, time.Second)
	if o.OnState == nil {
		o.OnState = func(bool, error) {}
	}
	_, cluster := rdb.(*redis.ClusterClient)
	c := &Conn{
		rdb: rdb, o: o, cluster: cluster, pipeline: newPipeline(cluster),
		onHeartbeat: map[any]func(context.Context){}, onMissedHeartbeat: map[any]func(){},
	}
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

// Up reports whether the breaker is closed, that is, whether calls go to Redis.
func (c *Conn) Up() bool { return !c.breaker.open.Load() }

// Instances returns the number of processes that share the limits, as counted by this one.
func (c *Conn) Instances() int { return int(c.instances.Load()) }

// Instance returns the name of this process.
func (c *Conn) Instance() string { return c.o.Instance }

// Run sends heartbeats, counts the processes, returns idle leases, renews bulkhead slots and probes an unreachable
// Redis, until ctx ends. Without it limiters work too, but callers do the probes and Instances does not change.
func (c *Conn) Run(ctx context.Context) error {
	c.breaker.runProbes.Store(true)
	defer c.breaker.runProbes.Store(false)
	for {
		rec, err := c.heartbeat(ctx, true)
		if err == nil && !c.Up() && sleep(ctx, rec.wait) == nil {
			if rec, err = c.heartbeat(ctx, true); err == nil {
				c.breaker.close(rec.others > 0)
			}
		}
		for _, do := range c.hooks(err == nil) {
			do(ctx)
		}
		pause := c.o.HeartbeatEvery
		if !c.Up() {
			pause = c.o.ProbeEvery
		}
		if err := sleep(ctx, pause*3/4+mrand.N(pause/2)); err != nil { //nolint:gosec // jitter
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Timeout)
	defer cancel()
	for _, l := range c.allLeases() {
		l.returnAll(ctx)
	}
	_, _ = c.heartbeat(ctx, false) // if it fails, this process expires in Redis after three intervals
	return nil
}

// updateInstances sets the number of processes that a heartbeat counted. A higher number applies at once. A lower one
// applies after four heartbeats in a row that counted fewer, one more than the intervals after which a process counts
// as dead. Otherwise, when Redis comes back empty and the processes return one by one, each would count only itself.
func (c *Conn) updateInstances(n int64) {
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

func (c *Conn) allLeases() (out []*leases) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.onHeartbeat {
		if l, ok := l.(*Redis); ok {
			out = append(out, l.leases)
		}
	}
	return out
}

// hooks returns the functions to run after a heartbeat.
func (c *Conn) hooks(reached bool) (out []func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reached {
		for _, do := range c.onHeartbeat {
			out = append(out, do)
		}
		return out
	}
	for _, do := range c.onMissedHeartbeat {
		out = append(out, func(context.Context) { do() })
	}
	return out
}

// recovery is what a process that had lost Redis learns when it reaches it again.
type recovery struct {
	// wait is how long its callers continue without Redis: until a time set by the first process that reached it. So
	// all processes change from their shares to the common limit at the same time. If they returned one by one, the
	// first would have the whole limit while the others still had their shares.
	wait   time.Duration
	others int64 // processes that could reach Redis meanwhile: it was not down for all
}

// heartbeat reports that this process is alive (or leaves) and counts the processes.
func (c *Conn) heartbeat(ctx context.Context, stay bool) (r recovery, err error) {
	ttl, outage := 3*c.o.HeartbeatEvery, int64(-1)
	if !stay {
		ttl = 0
	}
	if !c.Up() {
		outage = (c.breaker.clock.now() - c.breaker.openedAt.Load()) / int64(time.Millisecond)
	}
	settle := 3*c.o.ProbeEvery/2 + 2*c.o.Timeout // within this time a probe of every process succeeds
	peers := c.o.Prefix + ":{instances}" + c.o.Peers
	args := []any{c.o.Instance, ttl.Milliseconds(), outage, settle.Milliseconds()}
	v, err := c.call(ctx, scriptHeartbeat, []string{peers, peers + ":back"}, args)
	if err != nil || !stay {
		return r, err
	}
	c.updateInstances(max(1, v[0]))
	if v[1] == 0 && time.Since(c.lastHeartbeat) < 2*c.o.HeartbeatEvery {
		c.breaker.newGeneration() // Redis has lost this process, so it has lost all data
	}
	c.lastHeartbeat = time.Now()
	return recovery{wait: time.Duration(v[2]) * time.Millisecond, others: v[3]}, nil
}

// call runs a script once, within the time-out, and records the outcome in the breaker. It does not check whether the
// breaker is open.
func (c *Conn) call(ctx context.Context, s *script, keys []string, args []any) ([]int64, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	reply, err := c.pipeline.call(ctx, c.rdb, s, keys, args, c.deadline())
	switch {
	case err == nil:
		c.breaker.record(nil)
		return reply, nil
	case ctx.Err() != nil: // the caller's context ended, so the error is no evidence about Redis
		return nil, context.Cause(ctx)
	default:
		c.breaker.record(err)
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}

// CheckEviction returns an error if maxmemory-policy is volatile-lru, volatile-lfu, volatile-random or allkeys-*: such
// a Redis may evict any limit in force. It accepts noeviction, and volatile-ttl, which evicts the keys that expire
// soonest. With volatile-ttl a Redis that is out of memory can still evict a limit in force; that key starts with
// nothing spent. The error is ErrUnavailable if Redis cannot be queried.
func (c *Conn) CheckEviction(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	v, err := c.rdb.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	policy := v["maxmemory-policy"]
	switch policy {
	case "volatile-lru", "volatile-lfu", "volatile-random":
	default:
		if !strings.HasPrefix(policy, "allkeys-") {
			return nil
		}
	}
	return fmt.Errorf("ratelimit: maxmemory-policy %s may evict limits in force; use noeviction", policy)
}
