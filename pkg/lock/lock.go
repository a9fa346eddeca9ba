// Package lock runs work that only one process should do at a time, under a lock in Redis (redsync).
//
// The lock saves work; it is no guard of correctness: Redis may lose it in a failover, and a process may be paused at any
// line. What must never happen twice is guarded by the database, or by the fencing number that work is given: write
// with WHERE fence < ?.
package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	// ErrNotObtained says that somebody else holds the lock. The work was not begun.
	ErrNotObtained = errors.New("lock is held by somebody else")
	// ErrLost says that the lock went away while the work ran; it is also the cause of the work's context then.
	ErrLost = errors.New("lock was lost")
)

const (
	defaultTTL = 10 * time.Second
	keyPrefix  = "fs:lock:{"
	keySuffix  = "}"
)

//go:embed lua/fence.lua
var fenceLua string

var fenceScript = redis.NewScript(fenceLua)

// Locker makes locks in one Redis.
type Locker struct {
	rdb redis.UniversalClient
	rs  *redsync.Redsync
	log *slog.Logger
	ttl time.Duration
}

// Option changes a default of a Locker.
type Option func(*Locker)

// TTL sets how long a lock outlives its holder's death (10 s). It is renewed every third of that.
func TTL(d time.Duration) Option { return func(l *Locker) { l.ttl = d } }

// New makes a Locker. It starts nothing. The client should heed contexts' deadlines (ContextTimeoutEnabled); with one
// that does not, Do may return as late as the client's own time-outs allow.
func New(rdb redis.UniversalClient, log *slog.Logger, opts ...Option) *Locker {
	l := &Locker{rdb: rdb, rs: redsync.New(goredis.NewPool(rdb)), log: log, ttl: defaultTTL}
	for _, o := range opts {
		o(l)
	}
	return l
}

// Do tries once to get the lock, runs work while holding it, and lets go of it. The lock is renewed while work runs,
// however long; when it cannot be, or is found in other hands, work's context is cancelled with the cause ErrLost before
// anybody else can get the lock, and Do returns ErrLost together with work's own error. fence is larger than that of all
// earlier holders.
//
// An error that is neither work's own nor ErrNotObtained nor ErrLost means that Redis could not be asked; work was not
// begun then.
func (l *Locker) Do(ctx context.Context, name string, work func(ctx context.Context, fence int64) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	key := keyPrefix + name + keySuffix
	m := l.rs.NewMutex(key, redsync.WithExpiry(l.ttl), redsync.WithTries(1), redsync.WithTimeoutFactor(0.1))
	// redsync gives back a lock that it half got under the context it was given: with a cancelled one the lock would stay
	// for its whole TTL. The call is bounded by its own time-out instead, a tenth of the TTL.
	detached := context.WithoutCancel(ctx)
	if err := m.TryLockContext(detached); err != nil {
		if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
			return ErrNotObtained
		}
		return fmt.Errorf("lock %s: %w", name, err)
	}
	h := &holding{mutex: m, ttl: l.ttl, until: m.Until()}
	defer func() { err = errors.Join(err, l.release(detached, name, h)) }()
	fence, err := l.fence(detached, key, m.Value())
	if err != nil {
		return fmt.Errorf("lock %s: fencing number: %w", name, err)
	}
	if fence == 0 {
		return nil // release reports the loss
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	wctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	stop := h.keep(detached, lose)
	defer stop()
	return work(wctx, fence)
}

func (l *Locker) fence(ctx context.Context, key, value string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/10)
	defer cancel()
	text, err := fenceScript.Run(ctx, l.rdb, []string{key, key + ":fence"}, value).Text()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// release gives the lock back, and tells ErrLost when it was not held to the end.
func (l *Locker) release(ctx context.Context, name string, h *holding) error {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/5)
	defer cancel()
	ours, err := h.mutex.UnlockContext(ctx)
	switch taken := (*redsync.ErrTaken)(nil); {
	case h.lost, err != nil && (errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired)):
		l.log.WarnContext(ctx, "lock lost", "lock", name)
		return fmt.Errorf("lock %s: %w", name, ErrLost)
	case !ours && time.Now().After(h.until):
		return fmt.Errorf("lock %s: %w: %w", name, ErrLost, err)
	case !ours:
		// It was ours to the end, only Redis cannot be told; it goes by itself.
		l.log.WarnContext(ctx, "lock not released, it will expire", "lock", name, "error", err)
	}
	return nil
}

// holding is a lock in hand. A redsync.Mutex is not safe for concurrent use: keep's goroutine has it until stopped.
type holding struct {
	mutex *redsync.Mutex
	ttl   time.Duration
	until time.Time // held for certain until then
	lost  bool
}

// keep renews the lock until stop is called, which waits for it. lose is called on a loss, or a tenth of the TTL before
// the lock may have expired, whichever comes first.
func (h *holding) keep(ctx context.Context, lose context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	margin := h.ttl / 10
	// A timer of its own: a call that hangs must not delay the end.
	alarm := time.AfterFunc(time.Until(h.until)-margin, func() { lose(ErrLost) })
	go func() {
		defer close(done)
		wait := h.ttl / 3
		for {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			cctx, ccancel := context.WithTimeout(ctx, h.ttl/5)
			ok, err := h.mutex.ExtendContext(cctx)
			ccancel()
			switch taken := (*redsync.ErrTaken)(nil); {
			case ok:
				if !alarm.Stop() { // too late, work was told already
					h.lost = true
					return
				}
				h.until = h.mutex.Until()
				alarm.Reset(time.Until(h.until) - margin)
				wait = h.ttl / 3
			case errors.As(err, &taken) || errors.Is(err, redsync.ErrExtendFailed) || time.Now().After(h.until.Add(-margin)):
				if ctx.Err() == nil {
					h.lost = true
					lose(ErrLost)
				}
				return
			default: // Redis does not answer: sooner again
				wait = h.ttl / 15
			}
		}
	}()
	return func() {
		cancel()
		<-done
		if !alarm.Stop() {
			h.lost = true
		}
	}
}
