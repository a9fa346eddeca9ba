package ordersn

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/lifecycle"
)

const (
	renewEvery   = time.Second
	callTimeout  = time.Second
	acquirePause = 250 * time.Millisecond // first pause between attempts to acquire an id
	acquireMax   = 2 * time.Second
)

// TermLease leases a worker id from a registry: in Redis, or from inventory while Redis is unavailable. Every id has a
// high-water mark there, one term (5 s in Redis) ahead of the registry's clock and advanced every second. Order_sns are
// issued only up to the last mark that the registry confirmed, and the next holder of the id begins after it. Nothing is
// issued within one term of an acquisition, and nothing before a renewal has confirmed it: a failover, or an emptied
// Redis, may have lost the acquisition of another holder of the id, whose marks end within that time.
//
// So two processes never share a millisecond of an id, however long one of them was paused and whatever a failover
// lost, on two conditions. Only one master at a time confirms writes: a master that is cut off from its replicas with
// some of its clients must refuse writes (min-replicas-to-write 1). And the clock of the Redis that takes over is at
// most 250 ms behind that of the lost one.
type TermLease struct {
	registry Registry
	log      *slog.Logger
	needed   func() bool // while it returns false, no id is acquired or held; nil: always

	mu     sync.Mutex
	window window
	seen   int64 // highest mark ever confirmed
	held   bool
	// last known time of the registry in ms, and the time of this machine when it was received
	registryTime int64
	readAt       time.Time
}

// window is the confirmed lease: worker may issue for from <= ms <= high. The zero window permits nothing.
type window struct {
	owner      string
	worker     int
	from, high int64
}

// NewRedisLease returns a lease that holds no id until Run has acquired one.
func NewRedisLease(rdb redis.UniversalClient, log *slog.Logger) *TermLease {
	return &TermLease{registry: &redisRegistry{rdb: rdb, key: leasesKey, term: leaseFor}, log: log}
}

// NewLease returns a lease from another registry. It holds no id while needed returns false.
func NewLease(registry Registry, log *slog.Logger, needed func() bool) *TermLease {
	return &TermLease{registry: registry, log: log, needed: needed}
}

// Registry keeps the leases of worker ids. All times are ms of its clock.
type Registry interface {
	// Acquire leases an id to a new owner, who may issue from the next renewal on, for from <= ms <= high, if that is not
	// empty then. seen is the highest ms that was ever confirmed to this process. worker is -1 if all ids are taken.
	Acquire(ctx context.Context, owner string, seen int64) (worker int, from, high, now int64, err error)
	// Renew advances the high-water mark. high is 0 if this owner does not hold the id.
	Renew(ctx context.Context, owner string, worker int) (high, now int64, err error)
}

// Worker implements Lease.
func (l *TermLease) Worker(ms int64) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ms < l.window.from || ms > l.window.high {
		return 0, false
	}
	l.held = true
	return l.window.worker, true
}

// Now returns the time of the registry: the last known one plus the time since, by this machine's monotonic clock. It may
// be behind by the latency of a call to the registry. Before the first successful call it is this machine's time.
func (l *TermLease) Now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nowLocked()
}

func (l *TermLease) nowLocked() time.Time {
	if l.registryTime == 0 {
		return time.Now().UTC()
	}
	return time.UnixMilli(l.registryTime).Add(time.Since(l.readAt)).UTC()
}

// Held reports whether a worker id has ever been usable, for readiness. It stays true after a loss.
func (l *TermLease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		now := l.nowLocked().UnixMilli()
		l.held = now >= l.window.from && now <= l.window.high
	}
	return l.held
}

// Run acquires an id and renews its lease until ctx is done; then it returns nil. The id is free one lease after its
// high-water mark. While the registry is unreachable, Run retries.
func (l *TermLease) Run(ctx context.Context) error {
	defer l.drop()
	var renewals, acquisitions lifecycle.Failures
	for ctx.Err() == nil {
		var wait time.Duration
		if l.needed != nil && !l.needed() {
			l.drop()
			renewals, acquisitions = lifecycle.Failures{}, lifecycle.Failures{}
			wait = renewEvery / 4
		} else if l.holds() {
			err := l.renew(ctx)
			wait = renewEvery - renewEvery/10 + mathrand.N(renewEvery/5) //nolint:gosec // no secret depends on it
			if errors.Is(err, errLost) {
				l.log.WarnContext(ctx, "worker id lost, acquiring another one", "error", err)
				l.drop()
				renewals, wait = lifecycle.Failures{}, 0
			} else if ctx.Err() == nil {
				renewals.Observe(ctx, l.log, "renewal of worker id", err)
				if err != nil {
					wait /= 4 // four attempts a second, since the lease is short
				}
			}
		} else {
			err := l.acquire(ctx)
			wait = renewEvery
			if ctx.Err() != nil {
				break
			}
			acquisitions.Observe(ctx, l.log, "acquisition of worker id", err)
			if err != nil {
				wait = min(acquireMax, acquirePause<<min(acquisitions.InARow()-1, 10))
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
	errLost     = errors.New("the registry has another holder of it, or none")
	errAllTaken = errors.New("all worker ids are taken")
)

func (l *TermLease) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window.owner != ""
}

func (l *TermLease) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window = window{}
}

func (l *TermLease) acquire(ctx context.Context) error {
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	owner := hex.EncodeToString(random)
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	worker, from, high, now, err := l.registry.Acquire(ctx, owner, seen)
	if err != nil {
		return err
	}
	if worker < 0 {
		return errAllTaken
	}
	w := window{owner: owner, worker: worker, from: from, high: high}
	l.mu.Lock()
	l.window = w
	l.confirm(high, now)
	l.mu.Unlock()
	l.log.InfoContext(ctx, "worker id acquired", "worker", w.worker,
		"usable_in", max(0, time.Duration(from-now)*time.Millisecond))
	return nil
}

func (l *TermLease) renew(ctx context.Context) error {
	l.mu.Lock()
	w := l.window
	l.mu.Unlock()
	high, now, err := l.registry.Renew(ctx, w.owner, w.worker)
	if err != nil {
		return err
	}
	if high == 0 {
		return errLost
	}
	l.mu.Lock()
	l.window.high = high
	l.confirm(high, now)
	l.mu.Unlock()
	return nil
}

// confirm records a confirmed high-water mark and the time of the registry. It had that time now or earlier, so the
// clock derived from it is never ahead.
func (l *TermLease) confirm(high, now int64) {
	l.seen = max(l.seen, high)
	l.registryTime, l.readAt = now, time.Now()
}
