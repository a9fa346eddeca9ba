// Package lock runs work under locks in Redis (redsync), so that one process at a time does it.
//
// A lock saves work; it does not guarantee correctness. Redis can lose it in a failover or a restart. A process can
// be paused at any line for longer than the lock lives, and then continue with its write. Guard a write that must not
// happen twice where it is written: by compare-and-swap, or by the fencing number that work gets (WHERE fence < ?).
// No lock guards stock.
//
// # Guarantees while work runs
//
//   - Inside one Locker, one goroutine at a time has the name, whatever happens to Redis.
//   - The lock in Redis lives for a TTL and is renewed after a third of it. The context of work is cancelled if a
//     renewal finds the lock missing or held by another process, or if no renewal succeeded until a tenth of the TTL
//     before the end. The cause is ErrLost and names the lock and the reason. Work must respect its context; nothing
//     can stop it.
//   - Time is measured by the monotonic clock from before each call to Redis, so a change of the wall clock has no
//     effect. A change of the clock of Redis ends locks early or late; the next renewal detects an early end. A
//     suspended machine stops the monotonic clock too; the next renewal detects that.
//
// # Redis Cluster, Sentinel
//
// A lock is held in one Redis, also with a cluster. Replication is asynchronous: a failover can lose a lock that was
// just obtained, and then two processes hold it. Their fencing numbers differ. A lock and its fencing number share a
// hash tag; the locks of one DoAll do not, so on a cluster DoAll calls several nodes. Redis must not evict these keys
// (maxmemory-policy noeviction, or volatile-ttl with enough memory).
package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	// ErrNotObtained reports that another process, or another goroutine of this one, holds the lock. Work was not
	// begun.
	ErrNotObtained = errors.New("lock is held by another process or goroutine")
	// ErrLost reports that the lock was lost while work ran; it is then also the cause of work's context. The last
	// writes of work may have overlapped with those of another holder. ErrLost is also returned if the response to
	// the release was lost: the client retries and finds the lock missing.
	ErrLost = errors.New("lock was lost")
	// ErrUnavailable reports that Redis is unreachable or refuses commands. Work was not begun.
	ErrUnavailable = errors.New("locks are unavailable")

	// errFull is part of an ErrUnavailable: Redis has reached maxmemory.
	errFull = errors.New("redis has reached maxmemory")
)

const (
	defaultTTL  = 10 * time.Second
	shortestTTL = 100 * time.Millisecond
	mostNames   = 64  // one connection each while they are renewed
	longestName = 200 // bytes
)

// Locker makes locks in one Redis. Use one per process: goroutines that request the same lock wait in a queue of the
// Locker, and only the first of them calls Redis. A Locker is safe for concurrent use, starts nothing by itself, and
// needs no Close.
type Locker struct {
	rdb    redis.UniversalClient
	rs     *redsync.Redsync
	log    *slog.Logger
	ttl    time.Duration
	atFull bool // see RunAtFullMemory
	queues queues
}

// Option changes a default of a Locker.
type Option func(*Locker)

// TTL sets the time after which the lock of a killed process expires: 10 s by default, at least 100 ms (less is
// raised to that). Each call to Redis is bounded by a fifth of it. Below 2 s, short delays of Redis can lose locks.
func TTL(d time.Duration) Option { return func(l *Locker) { l.ttl = max(d, shortestTTL) } }

// RunAtFullMemory lets work run without the lock in Redis while Redis refuses to store it, because it has reached
// maxmemory. Its fence is then 0. One goroutine of the Locker at a time still has the name. For work that frees memory
// and may run in several processes at once.
func RunAtFullMemory() Option { return func(l *Locker) { l.atFull = true } }

// New returns a Locker. The client should respect context deadlines (ContextTimeoutEnabled). Otherwise calls may last
// as long as the client's own time-outs and retries. A lock that could not be released is logged; everything else is
// returned as an error.
func New(rdb redis.UniversalClient, log *slog.Logger, opts ...Option) *Locker {
	l := &Locker{rdb: rdb, rs: redsync.New(goredis.NewPool(rdb)), log: log, ttl: defaultTTL}
	for _, o := range opts {
		o(l)
	}
	return l
}

// Do tries once to obtain the lock, runs work while holding it, and releases it. The lock is renewed as long as work
// runs; the package comment describes its loss. fence is larger than that of all earlier holders of the name;
// README.md lists when that can fail.
//
// Errors: that of work, joined with ErrLost if the lock did not last to the end of work. With ErrNotObtained,
// ErrUnavailable or the error of ctx, work was not begun. ErrNotObtained may be returned for a free lock if the first
// response of Redis was lost.
//
// The end of ctx reaches work and never prevents the release. Before work begins, ctx is checked between calls to
// Redis, so Do returns within four fifths of the TTL even if Redis is unreachable.
//
// Work must not request a lock that it holds: it would wait behind itself. While it holds a lock, it should request
// others only with Do; use DoAll for several locks. A name is a constant or made of ids, since it appears in errors
// and logs. It has 1 to 200 bytes and no braces.
func (l *Locker) Do(ctx context.Context, name string, work func(ctx context.Context, fence int64) error) error {
	return l.DoWithin(ctx, 0, name, work)
}

// DoWithin is Do with a time to wait for the lock. Goroutines of this Locker get it in the order of their calls. One
// of them at a time calls Redis, with growing jittered pauses: about ten times in the first second, at most ten times
// in each later one, and a last time at the end of the wait. Processes get the lock in no order. Calls to an
// unreachable Redis are retried too.
func (l *Locker) DoWithin(
	ctx context.Context, wait time.Duration, name string, work func(ctx context.Context, fence int64) error,
) error {
	return l.do(ctx, wait, []string{name}, func(ctx context.Context, fences map[string]int64) error {
		return work(ctx, fences[name])
	})
}

// DoAll is DoWithin for all names (at most 64; duplicates count once). Every caller obtains locks in the order of
// their names, so overlapping sets cannot deadlock. The locks obtained first are renewed while it waits for the rest.
// The loss of one lock cancels work, and all are released together. fences holds the number of each name. Without
// names work runs at once.
//
// It is for a change of several activities, such as moving stock from one activity to another: it holds the locks of
// both, so that they are not reconciled meanwhile, and two moves in opposite directions both succeed. No service
// calls it yet, since every change today concerns one activity.
func (l *Locker) DoAll(
	ctx context.Context, wait time.Duration, names []string,
	work func(ctx context.Context, fences map[string]int64) error,
) error {
	return l.do(ctx, wait, names, work)
}

func (l *Locker) do(
	ctx context.Context, wait time.Duration, names []string,
	work func(ctx context.Context, fences map[string]int64) error,
) (err error) {
	names, err = inOrder(names)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline := time.Now().Add(wait)
	// Enter all queues before obtaining any lock: a holder of a lock then waits only for other processes, in the
	// order of the names.
	for _, name := range names {
		leave, err := l.queues.enter(ctx, name, deadline)
		if err != nil {
			return err
		}
		defer leave()
	}
	wctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	// Release and renewal continue after ctx has ended; each call has its own time-out.
	detached := context.WithoutCancel(ctx)
	s := newLease(detached, l.ttl, lose)
	begun := false
	defer func() {
		if lost := l.release(detached, s); begun {
			err = errors.Join(err, lost)
		}
	}()
	fences := make(map[string]int64, len(names))
	for _, name := range names {
		h, err := l.obtain(wctx, name, deadline)
		if l.atFull && errors.Is(err, errFull) {
			fences[name] = 0
			continue
		}
		if err != nil {
			return stopped(ctx, wctx, err)
		}
		s.add(h)
		fences[name] = h.fence
	}
	if err := stopped(ctx, wctx, nil); err != nil {
		return err
	}
	begun = true
	return work(wctx, fences)
}

// stopped returns why work does not begin: the error of ctx, or the loss of a lock while the others were requested,
// or else err.
func stopped(ctx, wctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case wctx.Err() != nil: // not ErrLost: work has not run
		return fmt.Errorf("%w: %s", ErrNotObtained, context.Cause(wctx).Error())
	}
	return err
}

// inOrder returns the sorted names without duplicates, the order in which all callers obtain them.
func inOrder(names []string) ([]string, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > mostNames {
		return nil, fmt.Errorf("%d locks requested, at most %d are allowed", len(names), mostNames)
	}
	for _, name := range names {
		// A brace would end the hash tag that keeps lock and fencing number on one node.
		if name == "" || len(name) > longestName || strings.ContainsAny(name, "{}") {
			return nil, fmt.Errorf("%q is not a valid lock name: 1 to %d bytes without braces", name, longestName)
		}
	}
	return names, nil
}
