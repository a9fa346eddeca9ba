package ordersn

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	leasesKey    = "fs:worker:leases"
	leaseFor     = 5 * time.Second
	renewEvery   = time.Second
	clockSlack   = 250 * time.Millisecond // by how much a promoted replica's clock may be behind the lost master's
	callTimeout  = time.Second
	acquirePause = 250 * time.Millisecond // first pause between attempts to acquire an id
	acquireMax   = 2 * time.Second
)

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/renew.lua
var renewLua string

var (
	acquireScript = redis.NewScript(acquireLua)
	renewScript   = redis.NewScript(renewLua)
)

// RedisLease leases a worker id in Redis. Every id has a high-water mark there, 5 s ahead of Redis TIME and advanced
// every second. Order_sns are issued only up to the last mark that Redis confirmed, and the next holder of the id
// begins after it. Nothing is issued within one lease (5 s) of an acquisition, and nothing before a renewal has
// confirmed it: a failover, or an emptied Redis, may have lost the acquisition of another holder of the id, whose marks
// end within that time.
//
// So two processes never share a millisecond of an id, however long one of them was paused and whatever a failover
// lost, on two conditions. Only one master at a time confirms writes: a master that is cut off from its replicas with
// some of its clients must refuse writes (min-replicas-to-write 1). And the clock of the Redis that takes over is at
// most 250 ms behind that of the lost one.
type RedisLease struct {
	rdb  redis.UniversalClient
	log  *slog.Logger
	key  string
	term time.Duration

	mu     sync.Mutex
	window window
	seen   int64 // highest mark ever confirmed
	held   bool
	// last known time of Redis in ms, and the time of this machine when it was received
	redisTime int64
	readAt    time.Time
}

// window is the confirmed lease: worker may issue for from <= ms <= high. The zero window permits nothing.
type window struct {
	owner      string
	worker     int
	from, high int64
}

// NewRedisLease returns a lease that holds no id until Run has acquired one.
func NewRedisLease(rdb redis.UniversalClient, log *slog.Logger) *RedisLease {
	return &RedisLease{rdb: rdb, log: log, key: leasesKey, term: leaseFor}
}

// Worker implements Lease.
func (l *RedisLease) Worker(ms int64) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ms < l.window.from || ms > l.window.high {
		return 0, false
	}
	l.held = true
	return l.window.worker, true
}

// Now returns the time of Redis: the last known one plus the time since, by this machine's monotonic clock. It may be
// behind by the latency of a call to Redis. Before the first successful call it is this machine's time.
func (l *RedisLease) Now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nowLocked()
}

func (l *RedisLease) nowLocked() time.Time {
	if l.redisTime == 0 {
		return time.Now().UTC()
	}
	return time.UnixMilli(l.redisTime).Add(time.Since(l.readAt)).UTC()
}

// Held reports whether a worker id has ever been usable, for readiness. It stays true after a loss.
func (l *RedisLease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		now := l.nowLocked().UnixMilli()
		l.held = now >= l.window.from && now <= l.window.high
	}
	return l.held
}

// Run acquires an id and renews its lease until ctx is done; then it returns nil. The id is free one lease after its
// high-water mark. While Redis is unreachable, Run retries.
func (l *RedisLease) Run(ctx context.Context) error {
	defer l.drop()
	failures := 0
	for ctx.Err() == nil {
		var wait time.Duration
		if l.holds() {
			err := l.renew(ctx)
			wait = renewEvery - renewEvery/10 + mathrand.N(renewEvery/5) //nolint:gosec // no secret depends on it
			switch {
			case errors.Is(err, errLost):
				l.log.WarnContext(ctx, "worker id lost, acquiring another one", "error", err)
				l.drop()
				wait = 0
			case err != nil && ctx.Err() == nil:
				failures++
				if failures == 1 {
					l.log.WarnContext(ctx, "renewal of worker id failed, will retry", "error", err)
				}
				wait /= 4 // four attempts a second, since the lease is short
			case err == nil && failures > 0:
				l.log.InfoContext(ctx, "worker id renewed after failures", "failures", failures)
				failures = 0
			}
		} else {
			err := l.acquire(ctx)
			wait = 0
			if err == nil {
				failures = 0
				wait = renewEvery
			} else if ctx.Err() == nil {
				failures++
				if failures == 1 {
					l.log.WarnContext(ctx, "acquisition of worker id failed, will retry", "error", err)
				}
				wait = min(acquireMax, acquirePause<<min(failures-1, 10))
				wait = wait/2 + mathrand.N(wait/2+1) //nolint:gosec // no secret depends on it
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

var (
	errLost     = errors.New("Redis has another holder of it, or none")
	errAllTaken = fmt.Errorf("all %d worker ids are taken", Workers)
)

func (l *RedisLease) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window.owner != ""
}

func (l *RedisLease) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window = window{}
}

func (l *RedisLease) acquire(ctx context.Context) error {
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	owner := hex.EncodeToString(random)
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	first := mathrand.IntN(Workers) //nolint:gosec // no secret depends on it
	n, err := l.run(ctx, acquireScript, 4, owner, l.term.Milliseconds(), first, Workers, seen,
		clockSlack.Milliseconds())
	if err != nil {
		return err
	}
	if n[0] < 0 {
		return errAllTaken
	}
	w := window{owner: owner, worker: int(n[0]), from: n[1], high: n[2]}
	l.mu.Lock()
	l.window = w
	l.confirm(n[2], n[3])
	l.mu.Unlock()
	l.log.InfoContext(ctx, "worker id acquired", "worker", w.worker,
		"usable_in", max(0, time.Duration(n[1]-n[3])*time.Millisecond))
	return nil
}

func (l *RedisLease) renew(ctx context.Context) error {
	l.mu.Lock()
	w := l.window
	l.mu.Unlock()
	n, err := l.run(ctx, renewScript, 2, w.owner, l.term.Milliseconds(), w.worker)
	if err != nil {
		return err
	}
	if n[0] == 0 {
		return errLost
	}
	l.mu.Lock()
	l.window.high = n[0]
	l.confirm(n[0], n[1])
	l.mu.Unlock()
	return nil
}

// confirm records a confirmed high-water mark and the time of Redis. Redis had that time now or earlier, so the clock
// derived from it is never ahead of Redis.
func (l *RedisLease) confirm(high, now int64) {
	l.seen = max(l.seen, high)
	l.redisTime, l.readAt = now, time.Now()
}

func (l *RedisLease) run(ctx context.Context, s *redis.Script, values int, args ...any) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	texts, err := s.Run(ctx, l.rdb, []string{l.key}, args...).StringSlice()
	if err != nil {
		return nil, err
	}
	if len(texts) != values {
		return nil, fmt.Errorf("script returned %d values instead of %d", len(texts), values)
	}
	numbers := make([]int64, len(texts))
	for i, text := range texts {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("parse script result: %w", err)
		}
	}
	return numbers, nil
}
