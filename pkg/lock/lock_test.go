package lock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
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

func realRedis(t *testing.T) *redis.Client {
	addr := os.Getenv("REDIS_ADDRS")
	if addr == "" {
		addr = "127.0.0.1:16379"
	}
	rdb := redis.NewClient(&redis.Options{Addr: strings.Split(addr, ",")[0], DB: 4, ContextTimeoutEnabled: true, DialTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("no Redis answers at %s (REDIS_ADDRS): run `make test`, which starts one: %v", addr, err)
	}
	return rdb
}

func mini(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return m, rdb
}

// each gives the test a lock name of its own, on the real Redis and on miniredis (whose keys expire by FastForward only).
func each(t *testing.T, fn func(t *testing.T, rdb *redis.Client, name string)) {
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	name := "test-" + hex.EncodeToString(random)
	t.Run("redis", func(t *testing.T) {
		rdb := realRedis(t)
		t.Cleanup(func() { rdb.Del(context.Background(), key(name), key(name)+":fence") })
		fn(t, rdb, name)
	})
	t.Run("miniredis", func(t *testing.T) {
		_, rdb := mini(t)
		fn(t, rdb, name)
	})
}

func key(name string) string { return "fs:lock:{" + name + "}" }

func locker(rdb *redis.Client, ttl time.Duration) *lock.Locker {
	return lock.New(rdb, slog.New(slog.DiscardHandler), lock.TTL(ttl))
}

func free(t *testing.T, rdb *redis.Client, name string) {
	t.Helper()
	n, err := rdb.Exists(context.Background(), key(name)).Result()
	require.NoError(t, err)
	require.Zero(t, n, "the lock stayed behind")
}

func TestOneAtATimeWithRisingFences(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l := locker(rdb, 3*time.Second)
		var inside, runs atomic.Int32
		last := int64(0)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 15 {
					err := l.Do(t.Context(), name, func(_ context.Context, fence int64) error {
						if inside.Add(1) != 1 {
							t.Error("two at a time")
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
		// Redis forgets everything: fences go on rising.
		require.NoError(t, rdb.Del(t.Context(), key(name)+":fence").Err())
		require.NoError(t, l.Do(t.Context(), name, func(_ context.Context, fence int64) error {
			require.Greater(t, fence, last)
			return nil
		}))
	})
}

func TestWorkErrorPanicAndRelease(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l := locker(rdb, 3*time.Second)
		boom := errors.New("boom")
		err := l.Do(t.Context(), name, func(context.Context, int64) error { return boom })
		require.ErrorIs(t, err, boom)
		require.NotErrorIs(t, err, lock.ErrLost)
		free(t, rdb, name)
		require.Panics(t, func() { _ = l.Do(t.Context(), name, func(context.Context, int64) error { panic("x") }) })
		free(t, rdb, name)
	})
}

func TestCancelledContextStillReleases(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l := locker(rdb, 3*time.Second)
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

func TestRenewalOutlastsTheTTL(t *testing.T) {
	rdb := realRedis(t)
	name := "renewal-" + time.Now().Format("150405.000000")
	t.Cleanup(func() { rdb.Del(context.Background(), key(name)+":fence") })
	const ttl = 600 * time.Millisecond
	l := locker(rdb, ttl)
	require.NoError(t, l.Do(t.Context(), name, func(ctx context.Context, _ int64) error {
		for end := time.Now().Add(4 * ttl); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			require.NoError(t, ctx.Err())
			require.ErrorIs(t, l.Do(ctx, name, func(context.Context, int64) error { t.Error("second holder"); return nil }), lock.ErrNotObtained)
		}
		return nil
	}))
	free(t, rdb, name)
}

func TestLossCancelsTheWork(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		const ttl = 900 * time.Millisecond
		l := locker(rdb, ttl)
		for _, c := range []struct {
			how  string
			lose func()
		}{
			{"deleted", func() { require.NoError(t, rdb.Del(t.Context(), key(name)).Err()) }},
			{"taken", func() { require.NoError(t, rdb.Set(t.Context(), key(name), "other", time.Minute).Err()) }},
		} {
			how, lose := c.how, c.lose
			begin := time.Now()
			err := l.Do(t.Context(), name, func(ctx context.Context, _ int64) error {
				lose()
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Second):
					t.Error(how + ": never told")
				}
				require.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
				return ctx.Err()
			})
			require.ErrorIs(t, err, lock.ErrLost, how)
			require.ErrorIs(t, err, context.Canceled, how)
			require.Less(t, time.Since(begin), ttl, how)
		}
		value, err := rdb.Get(t.Context(), key(name)).Result()
		require.NoError(t, err)
		require.Equal(t, "other", value, "another one's lock is not released")
		require.NoError(t, rdb.Del(t.Context(), key(name)).Err())
		// Lost at the very end, between two renewals: the work is done, but not under the lock.
		err = l.Do(t.Context(), name, func(context.Context, int64) error { return rdb.Del(t.Context(), key(name)).Err() })
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

func TestRedisGone(t *testing.T) {
	m, rdb := mini(t)
	const ttl = 900 * time.Millisecond
	l := locker(rdb, ttl)
	begin := time.Now()
	err := l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
		m.SetError("LOADING")
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
		require.Less(t, time.Since(begin), ttl, "before anybody else can get it")
		return nil
	})
	require.ErrorIs(t, err, lock.ErrLost)

	err = l.Do(t.Context(), "y", func(context.Context, int64) error { t.Error("begun"); return nil })
	require.Error(t, err)
	require.NotErrorIs(t, err, lock.ErrNotObtained)
	require.NotErrorIs(t, err, lock.ErrLost)

	// A short outage costs nothing.
	m.SetError("")
	m.FlushAll()
	require.NoError(t, l.Do(t.Context(), "z", func(ctx context.Context, _ int64) error {
		m.SetError("LOADING")
		time.Sleep(ttl / 2)
		m.SetError("")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(ttl):
			return nil
		}
	}))
}
