package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
)

const (
	keyPrefix   = "fs:lock:{"
	keySuffix   = "}"
	fenceSuffix = ":fence"

	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond

	// callFactor times the TTL is the time-out of one call to Redis. With a short TTL, redsync's default of 0.05
	// fails on a busy Redis. Safety does not depend on it: the TTL counts from before the call.
	callFactor = 0.2
)

//go:embed lua/fence.lua
var fenceLua string

var fenceScript = redis.NewScript(fenceLua)

// errNotHeld reports that, according to Redis, the lock is no longer held here. redsync reports "already taken" for
// that, also when the lock is free.
var errNotHeld = errors.New("it expired, was deleted, or is held by another process")

func (l *Locker) callTimeout() time.Duration { return time.Duration(float64(l.ttl) * callFactor) }

// hold is one obtained lock. Its redsync.Mutex is not safe for concurrent use: the lease never renews and releases it
// at the same time.
type hold struct {
	name  string
	fence int64
	until time.Time // end of the time in which it is certainly held, by the monotonic clock

	// renew extends the lock to a full TTL and returns its new end. It never takes an expired lock again, even if it
	// is free: another process may have held it in between. errNotHeld is a certain loss; after other errors the
	// state is unknown.
	renew func(ctx context.Context) (time.Time, error)
	// unlock deletes the lock only if it is still held here. Errors as for renew.
	unlock func(ctx context.Context) error
}

// obtain requests the lock from Redis until the deadline, with growing pauses, and at least once.
func (l *Locker) obtain(ctx context.Context, name string, deadline time.Time) (*hold, error) {
	pause := firstPause
	for {
		h, err := l.try(context.WithoutCancel(ctx), name)
		left := time.Until(deadline)
		if err == nil || left <= 0 {
			return h, err
		}
		timer := time.NewTimer(min(jittered(pause), left))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, lastPause)
	}
}

// jittered returns a random duration between half of d and d.
func jittered(d time.Duration) time.Duration {
	return d - rand.N(d/2+1) //nolint:gosec // not a secret
}

// try requests the lock once. ctx must not end: redsync releases a lock that it may have obtained with the same
// context, and with an ended context the lock would stay for its TTL. callTimeout bounds each call instead.
func (l *Locker) try(ctx context.Context, name string) (*hold, error) {
	key := keyPrefix + name + keySuffix
	m := l.rs.NewMutex(key, redsync.WithExpiry(l.ttl), redsync.WithTries(1), redsync.WithTimeoutFactor(callFactor))
	if err := m.TryLockContext(ctx); err != nil {
		if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
			return nil, fmt.Errorf("lock %s: %w", name, ErrNotObtained)
		}
		return nil, unavailable(name, err)
	}
	h := &hold{
		name:  name,
		until: m.Until(),
		renew: func(ctx context.Context) (time.Time, error) {
			_, err := m.ExtendContext(ctx)
			if errors.Is(err, redsync.ErrExtendFailed) { // the response took longer than the TTL
				return time.Time{}, errNotHeld
			}
			return m.Until(), certain(err)
		},
		unlock: func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return certain(err)
		},
	}
	var err error
	switch h.fence, err = l.fence(ctx, key, m.Value()); {
	case err == nil && h.fence == 0: // so slow that the lock has expired
		return nil, fmt.Errorf("lock %s: %w", name, ErrNotObtained)
	case err != nil:
		// Not logged: if the release fails too, the lock expires, and the caller gets ErrUnavailable.
		_ = h.unlockWithin(ctx, l.callTimeout())
		return nil, unavailable(name, err)
	}
	return h, nil
}

// unavailable does not wrap err: a time-out of this package must not be mistaken for the end of the caller's context.
func unavailable(name string, err error) error {
	if strings.Contains(err.Error(), "OOM command not allowed") { // redsync joins the errors of its servers
		return fmt.Errorf("lock %s: %w: %w: %s", name, ErrUnavailable, errFull, err.Error())
	}
	return fmt.Errorf("lock %s: %w: %s", name, ErrUnavailable, err.Error())
}

// certain maps the errors of redsync for a lock that is not held here to errNotHeld.
func certain(err error) error {
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return errNotHeld
	}
	return err
}

func (h *hold) unlockWithin(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return h.unlock(ctx)
}

// fence returns a new fencing number for the holder of key with that value, 0 if it is not held with that value.
func (l *Locker) fence(ctx context.Context, key, value string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	text, err := fenceScript.Run(ctx, l.rdb, []string{key, key + fenceSuffix}, value).Text()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// release ends the lease and releases its locks. It returns ErrLost with a reason if one of them was not held to the
// end.
func (l *Locker) release(ctx context.Context, s *lease) error {
	held, lost := s.end()
	errs := make([]error, len(held))
	var wg sync.WaitGroup
	for i, h := range held {
		wg.Go(func() { errs[i] = h.unlockWithin(ctx, l.callTimeout()) })
	}
	wg.Wait()
	var left []string
	var failure error
	for i, h := range held {
		err := errs[i]
		if err == nil {
			continue
		}
		notHeld := errors.Is(err, errNotHeld)
		if !notHeld {
			left, failure = append(left, h.name), err
		}
		if lost == nil && (notHeld || time.Now().After(h.until)) {
			lost = lostBecause(h.name, err)
		}
	}
	if failure != nil {
		l.log.WarnContext(ctx, "release of locks failed, they will expire", "locks", left, "error", failure)
	}
	return lost
}
