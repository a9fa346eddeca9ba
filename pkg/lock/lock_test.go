package lock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/lock"
)

func TestOneAtATimeWithRisingFences(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		var inside, runs atomic.Int32
		last := int64(0)
		var wg sync.WaitGroup
		for range 8 {
			l := locker(rdb, long)
			wg.Go(func() {
				for range 15 {
					err := l.Do(t.Context(), name, func(_ context.Context, fence int64) error {
						if inside.Add(1) != 1 {
							t.Error("two holders at a time")
						}
						if fence <= last {
							t.Errorf("fence %d after %d", fence, last)
						}
						last = fence
						runs.Add(1)
						time.Sleep(time.Millisecond)
						inside.Add(-1)
						return nil
					})
					if err != nil && !errors.Is(err, lock.ErrNotObtained) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.Positive(t, runs.Load())
		free(t, rdb, name)
	})
}

// Every caller that waits long enough gets the lock, in any process.
func TestEveryWaitingCallerGetsTheLock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		var inside, runs atomic.Int32
		last := int64(0)
		var wg sync.WaitGroup
		for range 3 {
			l := locker(rdb, long)
			for range 10 {
				wg.Go(func() {
					if err := l.DoWithin(t.Context(), patience, name, func(_ context.Context, fence int64) error {
						if inside.Add(1) != 1 {
							t.Error("two holders at a time")
						}
						if fence <= last {
							t.Errorf("fence %d after %d", fence, last)
						}
						last = fence
						runs.Add(1)
						inside.Add(-1)
						return nil
					}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		require.EqualValues(t, 30, runs.Load())
		free(t, rdb, name)
	})
}

func TestWorkErrorPanicAndRelease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l := locker(rdb, long)
		boom := errors.New("boom")
		err := l.Do(t.Context(), name, func(context.Context, int64) error { return boom })
		require.ErrorIs(t, err, boom)
		require.NotErrorIs(t, err, lock.ErrLost)
		free(t, rdb, name)
		require.Panics(t, func() { _ = l.Do(t.Context(), name, func(context.Context, int64) error { panic("x") }) })
		free(t, rdb, name)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = l.Do(t.Context(), name, func(context.Context, int64) error { runtime.Goexit(); return nil })
		}()
		<-done
		free(t, rdb, name)
		require.NoError(t, l.Do(t.Context(), name, func(context.Context, int64) error { return nil }), "the queue is empty")
	})
}

func TestCancelledContextStillReleases(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l := locker(rdb, long)
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Do(ctx, name, func(ctx context.Context, _ int64) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lock.ErrLost)
		free(t, rdb, name)
		require.ErrorIs(t, l.Do(ctx, name, func(context.Context, int64) error { t.Error("begun"); return nil }), context.Canceled)
		free(t, rdb, name)
	})
}

func TestLossCancelsTheWork(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l := locker(rdb, short)
		for _, c := range []struct {
			how  string
			lose func()
		}{
			{"deleted", func() { require.NoError(t, rdb.Del(t.Context(), key(name)).Err()) }},
			{"taken", func() { require.NoError(t, rdb.Set(t.Context(), key(name), "other", patience).Err()) }},
		} {
			err := l.DoWithin(t.Context(), patience, name, func(ctx context.Context, _ int64) error {
				c.lose()
				awaitLoss(ctx, t)
				require.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
				require.ErrorContains(t, context.Cause(ctx), name)
				return ctx.Err()
			})
			require.ErrorIs(t, err, lock.ErrLost, c.how)
			require.ErrorIs(t, err, context.Canceled, c.how)
		}
		value, err := rdb.Get(t.Context(), key(name)).Result()
		require.NoError(t, err)
		require.Equal(t, "other", value, "the lock of another process is not released")
		require.NoError(t, rdb.Del(t.Context(), key(name)).Err())
		// Lost at the very end, between two renewals: work has finished, but not under the lock.
		err = locker(rdb, long).Do(t.Context(), name, func(context.Context, int64) error { return rdb.Del(t.Context(), key(name)).Err() })
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

func TestRedisUnreachable(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		m.SetError("LOADING")
		none := func(context.Context, int64) error { t.Error("begun"); return nil }
		err := l.Do(t.Context(), "x", none)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, lock.ErrNotObtained)
		require.NotErrorIs(t, err, lock.ErrLost)

		// Redis does not respond: the call is bounded, and its error is not the end of the caller's context.
		w.inject(func(call) trouble { return trouble{before: time.Hour} })
		begin := time.Now()
		err = l.Do(t.Context(), "y", none)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(begin), ttl*4/5)
		w.inject(nil)
		w.late.Wait()

		// Redis is reachable again while a caller waits.
		begin = time.Now()
		time.AfterFunc(3*time.Second, func() { m.SetError("") })
		require.NoError(t, l.DoWithin(t.Context(), ttl, "z", func(context.Context, int64) error { return nil }))
		require.Less(t, time.Since(begin), 4*time.Second)

		m.SetError("LOADING")
		begin = time.Now()
		require.ErrorIs(t, l.DoWithin(t.Context(), ttl, "z", none), lock.ErrUnavailable)
		require.InDelta(t, ttl, time.Since(begin), float64(time.Second))
	})
}

// At maxmemory Redis stores no lock. Work with the option runs without one, and in one goroutine of the process.
func TestAtFullMemory(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		m.SetError("OOM command not allowed when used memory > 'maxmemory'.")
		l, _ := process(t, m, ttl)
		none := func(context.Context, int64) error { t.Error("begun"); return nil }
		require.ErrorIs(t, l.Do(t.Context(), "x", none), lock.ErrUnavailable)

		l = lock.New(piped(t, m), quiet, lock.TTL(ttl), lock.RunAtFullMemory())
		begun := 0
		require.NoError(t, l.Do(t.Context(), "x", func(_ context.Context, fence int64) error {
			begun++
			require.Zero(t, fence)
			require.ErrorIs(t, l.Do(t.Context(), "x", none), lock.ErrNotObtained)
			return nil
		}))
		require.Equal(t, 1, begun)
		m.SetError("LOADING")
		require.ErrorIs(t, l.Do(t.Context(), "x", none), lock.ErrUnavailable, "only at full memory")
		m.SetError("")
		require.NoError(t, l.Do(t.Context(), "x", func(_ context.Context, fence int64) error {
			require.Positive(t, fence)
			return nil
		}))
	})
}

// If the fencing number cannot be obtained, the lock is released and work does not begin.
func TestNoFenceNoWork(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		none := func(context.Context, int64) error { t.Error("begun"); return nil }
		w.inject(func(c call) trouble { return trouble{refuse: c.kind == fence} })
		require.ErrorIs(t, l.Do(t.Context(), "x", none), lock.ErrUnavailable)
		require.False(t, m.Exists(key("x")))
		// The number arrives so late that the lock has expired.
		w.inject(func(c call) trouble {
			if c.kind == fence {
				m.FastForward(ttl)
			}
			return trouble{}
		})
		require.ErrorIs(t, l.Do(t.Context(), "x", none), lock.ErrNotObtained)
	})
}

// A failed release is logged in one line and is no error. A lost lock is an error and is not logged.
func TestFailedReleasesAreLoggedInOneLine(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		rdb := piped(t, m)
		w := &wire{}
		rdb.AddHook(w)
		var out bytes.Buffer
		l := lock.New(rdb, slog.New(slog.NewTextHandler(&out, nil)), lock.TTL(ttl))
		w.inject(func(c call) trouble { return trouble{refuse: c.kind == give} })
		require.NoError(t, l.DoAll(t.Context(), 0, []string{"a", "b", "c"}, func(context.Context, map[string]int64) error { return nil }))
		require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		require.Contains(t, out.String(), "[a b c]")
		require.True(t, m.Exists(key("a")))
		time.Sleep(ttl)
		require.False(t, m.Exists(key("a")))

		out.Reset()
		w.inject(nil)
		require.ErrorIs(t, l.Do(t.Context(), "a", func(context.Context, int64) error { m.Del(key("a")); return nil }), lock.ErrLost)
		require.Empty(t, out.String())

		// Work outlived the lock, and Redis is unreachable, so that the state of the lock is unknown.
		w.inject(func(c call) trouble { return trouble{refuse: c.kind == give || c.kind == renew} })
		require.ErrorIs(t, l.Do(t.Context(), "a", func(context.Context, int64) error { time.Sleep(2 * ttl); return nil }), lock.ErrLost)
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	_, rdb := mini(t)
	l := locker(rdb, ttl)
	for _, name := range []string{"", "a{b", "a}b", strings.Repeat("x", 201)} {
		require.ErrorContains(t, l.Do(t.Context(), name, nil), "not a valid lock name", name)
	}
	require.NoError(t, l.Do(t.Context(), strings.Repeat("x", 200), func(context.Context, int64) error { return nil }))
}

// A TTL below the minimum is raised.
func TestLeastTTL(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, _ := process(t, m, 0)
		require.NoError(t, l.Do(t.Context(), "x", func(context.Context, int64) error {
			require.Equal(t, 100*time.Millisecond, m.TTL(key("x")))
			return nil
		}))
	})
}
