package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/lock"
)

// Each of these tests covers a known trap of redsync 4.18, or of locks in Redis.

// redsync releases a possibly obtained lock with the context of the request: with a cancelled one the lock stays for
// its TTL.
func TestTrapCancelWhileLockingLeavesNoLock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		none := func(context.Context, int64) error { t.Error("begun"); return nil }
		for _, kind := range []string{take, fence} {
			for _, after := range []bool{false, true} { // before Redis gets the call, and between call and response
				rdb := redis.NewClient(rdb.Options())
				w := &wire{}
				rdb.AddHook(w)
				ctx, cancel := context.WithCancel(t.Context())
				w.inject(func(c call) trouble {
					if c.kind != kind {
						return trouble{}
					}
					if after {
						time.AfterFunc(20*time.Millisecond, cancel)
						return trouble{until: ctx.Done(), after: 80 * time.Millisecond}
					}
					cancel()
					return trouble{}
				})
				require.ErrorIs(t, locker(rdb, long).DoWithin(ctx, patience, name, none), context.Canceled)
				free(t, rdb, name)
				cancel()
				w.late.Wait()
				require.NoError(t, rdb.Close())
			}
		}
	})
}

// The same with a lost response: the lock is held, but the caller gets an error.
func TestTrapLostResponseLeavesNoLock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		w := &wire{}
		rdb.AddHook(w)
		l := locker(rdb, long)
		for _, kind := range []string{take, fence} {
			w.inject(func(c call) trouble { return trouble{cut: c.kind == kind} })
			require.ErrorIs(t, l.Do(t.Context(), name, func(context.Context, int64) error { t.Error("begun"); return nil }), lock.ErrUnavailable)
			w.late.Wait()
			free(t, rdb, name)
		}
	})
}

// The client retries a call by itself, and gets "taken" because of its own first attempt. That is no success and
// leaves no lock; a waiting caller gets it.
func TestTrapClientRetriesItsOwnLock(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		cuts := 1
		twice := func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if cmd.Name() == "set" && cuts > 0 {
				cuts--
				_ = next(ctx, cmd)
			}
			return next(ctx, cmd)
		}
		w.around(twice)
		require.ErrorIs(t, l.Do(t.Context(), "x", nil), lock.ErrNotObtained)
		require.False(t, m.Exists(key("x")))
		cuts = 1
		require.NoError(t, l.DoWithin(t.Context(), ttl, "x", func(context.Context, int64) error { return nil }))
	})
}

// redsync calls an expired lock "already taken" although it is free. Here the error is ErrLost, with the name and a
// reason.
func TestTrapExpiredIsNotCalledTaken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		err := locker(rdb, short).DoWithin(t.Context(), patience, name, func(ctx context.Context, _ int64) error {
			require.NoError(t, rdb.Del(t.Context(), key(name)).Err())
			awaitLoss(ctx, t)
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, lock.ErrNotObtained)
		require.NotContains(t, err.Error(), "already taken")
		require.ErrorContains(t, err, "it expired, was deleted, or is held by another process")
	})
}

// WithSetNXOnExtend obtains an expired lock again and calls that an extension, although another process may have held
// it in between.
func TestTrapRenewalNeverObtainsAnExpiredLock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l, other := locker(rdb, short), locker(rdb, long)
		err := l.DoWithin(t.Context(), patience, name, func(ctx context.Context, first int64) error {
			require.NoError(t, rdb.Del(t.Context(), key(name)).Err())
			require.NoError(t, other.Do(t.Context(), name, func(_ context.Context, second int64) error {
				require.Greater(t, second, first)
				return nil
			}))
			awaitLoss(ctx, t)
			free(t, rdb, name)
			return nil
		})
		require.ErrorIs(t, err, lock.ErrLost)
		free(t, rdb, name)
	})
}

// redsync has no watchdog: after the TTL another process gets the lock while work still runs.
func TestTrapWorkOutlastsTheTTL(t *testing.T) {
	t.Parallel()
	rdb := realRedis(t)
	name := fresh(t, rdb)
	l, other := locker(rdb, short), locker(rdb, short)
	require.NoError(t, l.DoWithin(t.Context(), patience, name, func(ctx context.Context, _ int64) error {
		for end := time.Now().Add(short * 3 / 2); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			require.NoError(t, ctx.Err())
			require.Error(t, other.Do(ctx, name, func(context.Context, int64) error { t.Error("second holder"); return nil }))
		}
		return nil
	}))
	free(t, rdb, name)
}

// A Mutex is not safe for concurrent use, and a renewal after Unlock could renew the lock of another holder. With the
// race detector, work ends at all moments of a renewal.
func TestTrapRenewalRacesRelease(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		w.inject(func(c call) trouble {
			if c.kind == renew {
				return trouble{before: 100 * time.Millisecond, after: 100 * time.Millisecond}
			}
			return trouble{}
		})
		for length := 3 * time.Second; length < 4*time.Second; length += 10 * time.Millisecond {
			require.NoError(t, l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
				time.Sleep(length)
				return ctx.Err()
			}))
			require.False(t, m.Exists(key("x")))
			calls := w.made("")
			require.Equal(t, give, calls[len(calls)-1].kind)
		}
		w.late.Wait()
		require.False(t, m.Exists(key("x")), "a late renewal has no effect")
	})
}

// A lock is not released while a renewal is in flight, even if the renewal ignores its context.
func TestTrapReleaseDuringRenewal(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		var renewing, renewed atomic.Bool
		w.around(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			switch len(cmd.Args()) {
			case 6:
				renewing.Store(true)
				time.Sleep(time.Second)
				err := next(context.WithoutCancel(ctx), cmd)
				renewing.Store(false)
				renewed.Store(true)
				return err
			case 5:
				if renewing.Load() {
					t.Error("released during a renewal")
				}
			}
			return next(ctx, cmd)
		})
		require.NoError(t, l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
			for !renewing.Load() {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			return ctx.Err()
		}))
		require.True(t, renewed.Load())
		require.False(t, m.Exists(key("x")))
	})
}

// One client is a quorum of one. Its replica may not have the lock, nor the last fencing number, when it takes over.
// Then two processes hold the lock, and the fencing numbers distinguish them.
func TestTrapFailoverGivesItToTwo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l, other := locker(rdb, long), locker(rdb, long)
		stored := int64(0)
		write := func(fence int64) bool { // UPDATE ... WHERE fence < ?
			if fence <= stored {
				return false
			}
			stored = fence
			return true
		}
		err := l.Do(t.Context(), name, func(_ context.Context, first int64) error {
			require.NoError(t, rdb.Del(t.Context(), key(name), key(name)+":fence").Err()) // the new primary has no data
			require.NoError(t, other.Do(t.Context(), name, func(_ context.Context, second int64) error {
				require.True(t, write(second))
				require.False(t, write(first), "too late")
				require.True(t, write(second+1))
				return nil
			}))
			return nil
		})
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

// redsync gives each call 5 % of the TTL, 25 ms of 500 ms: calls to a busy Redis time out.
func TestTrapShortTTLWithBusyRedis(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		const ttl = 500 * time.Millisecond
		l, w := process(t, m, ttl)
		w.inject(func(call) trouble { return trouble{after: 30 * time.Millisecond} })
		for range 20 {
			require.NoError(t, l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
				time.Sleep(2 * ttl)
				return ctx.Err()
			}))
		}
	})
}

// redsync returns ErrFailed for a cancelled context.
func TestTrapCancelWhileWaitingReturnsTheContextError(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, _ := process(t, m, ttl)
		require.NoError(t, m.Set(key("x"), "other"))
		for _, front := range []bool{false, true} { // in the second round with another goroutine ahead in the queue
			var wg sync.WaitGroup
			if front {
				wg.Go(func() {
					if err := l.DoWithin(t.Context(), 2*ttl, "x", nil); !errors.Is(err, lock.ErrNotObtained) {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			begin := time.Now()
			err := l.DoWithin(ctx, time.Hour, "x", nil)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 3*time.Second, time.Since(begin), "at once")
			wg.Wait()
		}
		value, err := m.Get(key("x"))
		require.NoError(t, err)
		require.Equal(t, "other", value)
	})
}

// redsync polls 32 times, 50 to 250 ms apart, in each goroutine. Here one goroutine per process polls, with growing
// pauses, until a deadline of the caller.
func TestTrapGoroutinesDoNotFloodRedis(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		require.NoError(t, m.Set(key("x"), "other"))
		time.AfterFunc(5*time.Second, func() { m.Del(key("x")) })
		var inside, runs atomic.Int32
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := l.DoWithin(t.Context(), time.Minute, "x", func(context.Context, int64) error {
					if inside.Add(1) != 1 {
						t.Error("two holders at a time")
					}
					time.Sleep(time.Millisecond)
					runs.Add(1)
					inside.Add(-1)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		polls := len(w.made(take))
		require.LessOrEqual(t, polls, 5*10+10, "pauses of at least 100 ms, after the first few")
		require.GreaterOrEqual(t, polls, 5*5)
		begin := time.Now()
		wg.Wait()
		require.EqualValues(t, 100, runs.Load())
		require.Less(t, time.Since(begin), time.Second, "one after the other without pauses")
		require.LessOrEqual(t, len(w.made(take)), polls+101)

		// The wait is bounded, in the queue as well as at Redis.
		require.NoError(t, m.Set(key("x"), "other"))
		begin = time.Now()
		for range 10 {
			wg.Go(func() {
				if err := l.DoWithin(t.Context(), 3*time.Second, "x", nil); !errors.Is(err, lock.ErrNotObtained) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 3*time.Second, time.Since(begin))
	})
}

// Goroutines get the lock in the order of their calls.
func TestTrapUnfairWithinAProcess(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, _ := process(t, m, ttl)
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := l.DoWithin(t.Context(), time.Minute, "x", func(context.Context, int64) error {
					time.Sleep(time.Second)
					order = append(order, i)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		require.IsIncreasing(t, order)
	})
}
