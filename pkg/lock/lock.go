// Package lock runs work that one process should do at a time, under locks in Redis (redsync).
//
// A lock saves work; it is no guard of correctness. Redis may lose it in a failover or a restart, and a process may be
// paused at any line, for longer than the lock lives, and go on with its write. What must never happen twice is guarded
// where it is written: by compare-and-swap, or by the fencing number that work is given (write with WHERE fence < ?).
// Stock is never guarded by a lock.
//
// # What holds while work runs
//
//   - Inside one Locker nobody else has the name, whatever becomes of Redis.
//   - The lock in Redis lives for a TTL and is renewed when a third of that is over. When it is found gone or in other
//     hands, or could not be renewed until a tenth of the TTL before its end, the context of work is cancelled with a
//     cause that is ErrLost and tells which lock and why. Work has to heed its context; nothing can stop it.
//   - Time is measured by the monotonic clock from before each call to Redis, so a wall clock that is set makes no
//     difference here. A clock that is set in Redis ends locks early or late: early is noticed by the next renewal. A
//     suspended machine stops the monotonic clock too, which also is noticed by the next renewal.
//
// # Redis Cluster, Sentinel
//
// A client is one vote, a cluster behind it too: replication is asynchronous, so a failover may forget a lock that was
// just taken, and then two have it. Their fencing numbers differ. A lock and its fencing number share a hash tag, the
// locks of one DoAll do not: it works on a cluster, with calls to several nodes. Redis must not evict these keys
// (maxmemory-policy noeviction, or volatile-ttl with room to spare).
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
	// ErrNotObtained says that the lock is held by somebody else: another process, or another goroutine of this one. Work
	// was not begun.
	ErrNotObtained = errors.New("lock is held by somebody else")
	// ErrLost says that the lock went away while work ran; the cause of work's context is this too then. What work wrote
	// last may have been written beside another holder. It is also told when the lock was given back and Redis' answer to
	// that got lost on the way: the client asks again and hears that the lock is gone.
	ErrLost = errors.New("lock was lost")
	// ErrUnavailable says that Redis could not be asked. Work was not begun.
	ErrUnavailable = errors.New("locks are unavailable")
)

const (
	defaultTTL  = 10 * time.Second
	shortestTTL = 100 * time.Millisecond
	mostNames   = 64  // one connection each while they are renewed
	longestName = 200 // bytes
)

// Locker makes locks in one Redis. Have one per process: goroutines that want the same lock stand in line in the Locker,
// and only the first of them asks Redis. It is safe for concurrent use, starts nothing by itself, and has nothing to
// close.
type Locker struct {
	rdb   redis.UniversalClient
	rs    *redsync.Redsync
	log   *slog.Logger
	ttl   time.Duration
	lines lines
}

// Option changes a default of a Locker.
type Option func(*Locker)

// TTL sets how long a lock outlives its holder's death: 10 s by default, 100 ms at least (less is raised to that). It also
// bounds each call to Redis, to a fifth of it: below 2 s a slow moment of Redis begins to cost locks.
func TTL(d time.Duration) Option { return func(l *Locker) { l.ttl = max(d, shortestTTL) } }

// New makes a Locker. The client should heed contexts' deadlines (ContextTimeoutEnabled); with one that does not, calls may
// return as late as the client's own time-outs and retries allow. The log gets one line for a lock that could not be
// given back; all else is in the errors.
func New(rdb redis.UniversalClient, log *slog.Logger, opts ...Option) *Locker {
	l := &Locker{rdb: rdb, rs: redsync.New(goredis.NewPool(rdb)), log: log, ttl: defaultTTL}
	for _, o := range opts {
		o(l)
	}
	return l
}

// Do tries once to get the lock, runs work while holding it, and gives it back. The lock is renewed while work runs,
// however long; see the package for what happens when it is lost. fence is larger than that of all earlier holders of the
// name; README.md says when that can fail.
//
// Errors: work's own, joined with ErrLost when the lock did not last to the end of work. ErrNotObtained, ErrUnavailable,
// or that of ctx: work was not begun. ErrNotObtained may be told although nobody keeps the lock, when Redis' first
// answer got lost on the way.
//
// A ctx that ends reaches work, and never keeps the lock from being given back. Before work begins it is heeded between
// calls to Redis, so Do returns within four fifths of the TTL even when Redis does not answer.
//
// Work must not ask for a lock that it has (it would stand in line behind itself), and with another lock in hand it
// should only ask with Do: to have several locks is what DoAll is for. A name is a constant, or made of ids: it
// appears in errors and logs. It has 1 to 200 bytes and no braces.
func (l *Locker) Do(ctx context.Context, name string, work func(ctx context.Context, fence int64) error) error {
	return l.DoWithin(ctx, 0, name, work)
}

// DoWithin is Do, and waits for the lock up to the given time. Goroutines of this Locker get it in the order they came,
// one of them at a time asking Redis, with growing jittered pauses: ten times in the first second, and at most ten times in
// each later one; the last time when the wait is over. Processes get it in no order. A Redis that does not answer is
// asked again too.
func (l *Locker) DoWithin(ctx context.Context, wait time.Duration, name string, work func(ctx context.Context, fence int64) error) error {
	return l.do(ctx, wait, []string{name}, func(ctx context.Context, fences map[string]int64) error {
		return work(ctx, fences[name])
	})
}

// DoAll is DoWithin for all of the names (64 at most; the same one twice counts once). Every caller takes locks in the order
// of their names, so sets that overlap cannot wait for each other in a circle. The locks it has are renewed while it waits
// for the rest. The loss of one cancels work as the loss of all would, and all are released together. fences has the number
// of each name. Without names work runs at once.
//
// It is for a change of several activities, such as moving stock from one activity of a merchant to another: with the lock
// of each it keeps their reconciliations out while it works, and two moves in opposite directions both come through. No
// service calls it yet, as every change today is of one activity.
func (l *Locker) DoAll(ctx context.Context, wait time.Duration, names []string, work func(ctx context.Context, fences map[string]int64) error) error {
	return l.do(ctx, wait, names, work)
}

func (l *Locker) do(ctx context.Context, wait time.Duration, names []string, work func(ctx context.Context, fences map[string]int64) error) (err error) {
	names, err = inOrder(names)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline := time.Now().Add(wait)
	// All places in the lines come before all locks: with a lock in hand one then only waits for other processes, and those
	// for us only in the order of the names.
	for _, name := range names {
		leave, err := l.lines.enter(ctx, name, deadline)
		if err != nil {
			return err
		}
		defer leave()
	}
	wctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	// Giving back and renewing outlast ctx; each call has a time-out of its own.
	detached := context.WithoutCancel(ctx)
	s := newLease(detached, l.ttl, lose)
	begun := false
	defer func() {
		if lost := l.giveBack(detached, s); begun {
			err = errors.Join(err, lost)
		}
	}()
	fences := make(map[string]int64, len(names))
	for _, name := range names {
		h, err := l.obtain(wctx, name, deadline)
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

// stopped says why work does not begin: ctx has ended, or a lock that was taken first was lost before the last one was
// there, or else err.
func stopped(ctx, wctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case wctx.Err() != nil: // not ErrLost: nothing was done under it
		return fmt.Errorf("%w: %s", ErrNotObtained, context.Cause(wctx).Error())
	}
	return err
}

// inOrder gives each name once, in the order in which everybody takes them.
func inOrder(names []string) ([]string, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > mostNames {
		return nil, fmt.Errorf("%d locks at once, %d are allowed", len(names), mostNames)
	}
	for _, name := range names {
		// A brace would end the hash tag that keeps lock and fencing number on one node.
		if name == "" || len(name) > longestName || strings.ContainsAny(name, "{}") {
			return nil, fmt.Errorf("%q is no name for a lock: 1 to %d bytes without braces", name, longestName)
		}
	}
	return names, nil
}
