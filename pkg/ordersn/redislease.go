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
	callTimeout  = time.Second
	acquirePause = 250 * time.Millisecond // first pause between attempts to get an id
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

// RedisLease leases a worker id in Redis. Every id has a high-water time there, 5 s ahead of Redis TIME and moved on every
// second; order_sns are issued only up to the last high-water that Redis confirmed, and whoever takes the id later
// begins behind it. So two processes never share a millisecond of an id, however long one of them was paused.
// A Redis that was empty issues to nobody for one lease, because an unknown holder may still be at work.
//
// Windows are compared in Redis time. When Redis is replaced by an empty one whose clock is more than a lease behind,
// the guarantee needs the processes that go on (they remember what they saw); hosts are expected to keep time by NTP.
type RedisLease struct {
	rdb  redis.UniversalClient
	log  *slog.Logger
	key  string
	term time.Duration

	mu     sync.Mutex
	window window
	seen   int64 // highest high-water ever confirmed
	held   bool
	// Redis time as last told, and this machine's monotonic reading then
	told   int64
	toldAt time.Time
}

// window is what Redis confirmed: worker may issue for from <= ms <= high. high 0: nothing.
type window struct {
	owner      string
	worker     int
	from, high int64
}

// NewRedisLease makes a lease that holds nothing until Run runs.
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

// Now is Redis time: as last told, plus what has passed since by this machine's monotonic clock. It may be behind by
// the time an answer of Redis takes. Before Redis answered for the first time it is this machine's time.
func (l *RedisLease) Now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nowLocked()
}

func (l *RedisLease) nowLocked() time.Time {
	if l.told == 0 {
		return time.Now().UTC()
	}
	return time.UnixMilli(l.told).Add(time.Since(l.toldAt)).UTC()
}

// Held tells whether a worker id was ever usable: it is for readiness, and no loss takes it back.
func (l *RedisLease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		now := l.nowLocked().UnixMilli()
		l.held = now >= l.window.from && now <= l.window.high
	}
	return l.held
}

// Run takes an id and keeps it until ctx is done; then it returns nil, and the id is free one lease after its
// high-water. While Redis is away it keeps trying.
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
				l.log.WarnContext(ctx, "worker id lost, taking another one", "error", err)
				l.drop()
				wait = 0
			case err != nil && ctx.Err() == nil:
				failures++
				if failures == 1 {
					l.log.WarnContext(ctx, "worker id not renewed, trying again", "error", err)
				}
				wait /= 4 // four attempts a second: the lease is short
			case err == nil && failures > 0:
				l.log.InfoContext(ctx, "worker id renewed again", "failures", failures)
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
					l.log.WarnContext(ctx, "no worker id yet, trying again", "error", err)
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
	errLost     = errors.New("Redis knows another holder or none")
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
	n, err := l.run(ctx, acquireScript, 4, owner, l.term.Milliseconds(), mathrand.IntN(Workers), Workers, seen) //nolint:gosec // no secret depends on it
	if err != nil {
		return err
	}
	if n[0] < 0 {
		return errAllTaken
	}
	w := window{owner: owner, worker: int(n[0]), from: n[1], high: n[2]}
	l.mu.Lock()
	l.window = w
	l.tell(n[2], n[3])
	l.mu.Unlock()
	l.log.InfoContext(ctx, "worker id taken", "worker", w.worker, "usable_in", max(0, time.Duration(n[1]-n[3])*time.Millisecond))
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
	l.tell(n[0], n[1])
	l.mu.Unlock()
	return nil
}

// tell notes what Redis confirmed and its time. Redis had that time at the latest now, so the clock made of it is never
// ahead of Redis.
func (l *RedisLease) tell(high, now int64) {
	l.seen = max(l.seen, high)
	l.told, l.toldAt = now, time.Now()
}

func (l *RedisLease) run(ctx context.Context, s *redis.Script, answers int, args ...any) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	texts, err := s.Run(ctx, l.rdb, []string{l.key}, args...).StringSlice()
	if err != nil {
		return nil, err
	}
	if len(texts) != answers {
		return nil, fmt.Errorf("script answered %d values", len(texts))
	}
	numbers := make([]int64, len(texts))
	for i, text := range texts {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("script answered: %w", err)
		}
	}
	return numbers, nil
}
