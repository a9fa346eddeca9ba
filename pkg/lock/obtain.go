package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
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

	// callFactor times the TTL bounds one call to Redis. redsync's own 0.05 gives up on a Redis that is merely busy when the
	// TTL is short. Safety does not hang on it: a lock counts as held from before the call was made.
	callFactor = 0.2
)

//go:embed lua/fence.lua
var fenceLua string

var fenceScript = redis.NewScript(fenceLua)

// errGone says that Redis knows for certain that a lock is not ours any more. redsync calls that "already taken", also when
// nobody has it.
var errGone = errors.New("it expired, was deleted, or is in other hands")

func (l *Locker) callTimeout() time.Duration { return time.Duration(float64(l.ttl) * callFactor) }

// hold is one lock in Redis that was obtained. Its redsync.Mutex is not safe for concurrent use: the lease renews and gives
// back one after the other.
type hold struct {
	name  string
	fence int64
	until time.Time // ours for certain until then, by the monotonic clock

	// renew makes it live for a TTL from now on, and says until when it is ours. It never takes a lock that is gone, also
	// when nobody has it: somebody may have had it in between. errGone is a loss for certain, other errors are no answer.
	renew func(ctx context.Context) (time.Time, error)
	// unlock gives back what is ours and nothing else. Errors as for renew.
	unlock func(ctx context.Context) error
}

// obtain asks Redis for the lock until the deadline, with growing pauses, and at least once.
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

// jittered is between half of d and d.
func jittered(d time.Duration) time.Duration {
	return d - rand.N(d/2+1) //nolint:gosec // not a secret
}

// try asks once. ctx must not be one that ends: redsync gives back a lock that it may have got with the context it was
// given, and with one that has ended the lock would stay for its TTL. Each call ends by callTimeout instead.
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
			if errors.Is(err, redsync.ErrExtendFailed) { // the answer took longer than the lock lives
				return time.Time{}, errGone
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
	case err == nil && h.fence == 0: // so slow that it had expired again
		return nil, fmt.Errorf("lock %s: %w", name, ErrNotObtained)
	case err != nil:
		// Not logged: should that fail too, it expires, and the caller hears that Redis is in trouble.
		_ = h.unlockWithin(ctx, l.callTimeout())
		return nil, unavailable(name, err)
	}
	return h, nil
}

// unavailable tells what went wrong without wrapping it: a time-out of ours must not look like the end of the caller's
// context.
func unavailable(name string, err error) error {
	return fmt.Errorf("lock %s: %w: %s", name, ErrUnavailable, err.Error())
}

// certain turns what redsync says when a lock is not ours into errGone.
func certain(err error) error {
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return errGone
	}
	return err
}

func (h *hold) unlockWithin(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return h.unlock(ctx)
}

// fence is the number of the one who holds key with that value, 0 if that is nobody.
func (l *Locker) fence(ctx context.Context, key, value string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.callTimeout())
	defer cancel()
	text, err := fenceScript.Run(ctx, l.rdb, []string{key, key + fenceSuffix}, value).Text()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// giveBack ends the lease and gives all its locks back. It tells whether they were held to this end.
func (l *Locker) giveBack(ctx context.Context, s *lease) error {
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
		gone := errors.Is(err, errGone)
		if !gone {
			left, failure = append(left, h.name), err
		}
		if lost == nil && (gone || time.Now().After(h.until)) {
			lost = lostBecause(h.name, err)
		}
	}
	if failure != nil {
		l.log.WarnContext(ctx, "locks not given back, they will expire", "locks", left, "error", failure)
	}
	return lost
}
