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

// Each of these is a trap of redsync 4.18, or of locks in Redis, that people have fallen into.

// redsync gives back what it half got with the context it was given: with a cancelled one the lock stays for its TTL.
func TestTrapCancelWhileLockingLeavesNoLock(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		none := func(context.Context, int64) error { t.Error("begun"); return nil }
		for _, kind := range []string{take, fence} {
			for _, after := range []bool{false, true} { // before Redis has the call, and between call and answer
				rdb := redis.NewClient(rdb.Options())
				w := &wire{}
				rdb.AddHook(w)
				ctx, cancel := context.WithCancel(t.Context())
				w.upset(func(c call) trouble {
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

// The same with the answer cut off: we have it, and do not know.
func TestTrapLostAnswerLeavesNoLock(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		w := &wire{}
		rdb.AddHook(w)
		l := locker(rdb, long)
		for _, kind := range []string{take, fence} {
			w.upset(func(c call) trouble { return trouble{cut: c.kind == kind} })
			require.ErrorIs(t, l.Do(t.Context(), name, func(context.Context, int64) error { t.Error("begun"); return nil }), lock.ErrUnavailable)
			w.late.Wait()
			free(t, rdb, name)
		}
	})
}

// The client repeats a call by itself, and hears "taken" from its own first attempt. That is no success, and leaves no lock;
// who waits gets it.
func TestTrapClientRetriesItsOwnLock(t *testing.T) {
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

// redsync calls a lock that expired "already taken", though nobody has it. Here it is lost, and says which one and how.
func TestTrapExpiredIsNotCalledTaken(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		err := locker(rdb, short).DoWithin(t.Context(), patience, name, func(ctx context.Context, _ int64) error {
			require.NoError(t, rdb.Del(t.Context(), key(name)).Err())
			told(ctx, t)
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, lock.ErrNotObtained)
		require.NotContains(t, err.Error(), "already taken")
		require.ErrorContains(t, err, "it expired, was deleted, or is in other hands")
	})
}

// WithSetNXOnExtend takes an expired lock anew and calls that an extension, although another had it in between.
func TestTrapRenewalNeverTakesItAgain(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l, other := locker(rdb, short), locker(rdb, long)
		err := l.DoWithin(t.Context(), patience, name, func(ctx context.Context, first int64) error {
			require.NoError(t, rdb.Del(t.Context(), key(name)).Err())
			require.NoError(t, other.Do(t.Context(), name, func(_ context.Context, second int64) error {
				require.Greater(t, second, first)
				return nil
			}))
			told(ctx, t)
			free(t, rdb, name)
			return nil
		})
		require.ErrorIs(t, err, lock.ErrLost)
		free(t, rdb, name)
	})
}

// redsync has no watchdog: after its TTL the lock is somebody else's while work goes on.
func TestTrapWorkOutlastsTheTTL(t *testing.T) {
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

// A Mutex is not safe for concurrent use, and a renewal after Unlock would be one of a lock that another may have. The race
// detector watches; works end at all moments of a renewal.
func TestTrapRenewalRacesRelease(t *testing.T) {
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		w.upset(func(c call) trouble {
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
		require.False(t, m.Exists(key("x")), "renewals that arrive late renew nothing")
	})
}

// Nor is it given back while a renewal is under way, however long that pays no heed to its context.
func TestTrapReleaseDuringRenewal(t *testing.T) {
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
					t.Error("given back meanwhile")
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

// One client is a quorum of one, and its replica may not have heard of the lock, nor of the last fencing number, when it
// takes over. Two hold the lock then, and the fencing numbers tell them apart.
func TestTrapFailoverGivesItToTwo(t *testing.T) {
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
			require.NoError(t, rdb.Del(t.Context(), key(name), key(name)+":fence").Err()) // the new primary knows nothing
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

// redsync gives each call 5 % of the TTL, 25 ms of 500 ms: a Redis that is merely busy looks dead.
func TestTrapShortTTLWithBusyRedis(t *testing.T) {
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		const ttl = 500 * time.Millisecond
		l, w := process(t, m, ttl)
		w.upset(func(call) trouble { return trouble{after: 30 * time.Millisecond} })
		for range 20 {
			require.NoError(t, l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
				time.Sleep(2 * ttl)
				return ctx.Err()
			}))
		}
	})
}

// redsync says ErrFailed for a cancelled context.
func TestTrapCancelWhileWaitingTellsSo(t *testing.T) {
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, _ := process(t, m, ttl)
		require.NoError(t, m.Set(key("x"), "other"))
		for _, front := range []bool{false, true} { // with another goroutine in front in the second round
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

// redsync polls 32 times, 50 to 250 ms apart, for each goroutine by itself. Here one goroutine per process asks, with
// growing pauses, until a time that the caller names.
func TestTrapGoroutinesHammerRedis(t *testing.T) {
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
						t.Error("two at a time")
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

		// The wait is kept to, in the line as at Redis.
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

// They are served in the order they came.
func TestTrapUnfairWithinAProcess(t *testing.T) {
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
