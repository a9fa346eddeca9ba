package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/lock"
)

func numberOf(t require.TestingT, l *lock.Locker, name string) (n int64) {
	require.NoError(t, l.Do(context.Background(), name, func(_ context.Context, fence int64) error { n = fence; return nil }))
	return n
}

// Numbers rise after Redis has lost the last one, because of its clock.
func TestFenceOutlivesItsKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l := locker(rdb, long)
		last := int64(0)
		for range 10 {
			n := numberOf(t, l, name)
			require.Greater(t, n, last)
			last = n
			require.NoError(t, rdb.Del(t.Context(), key(name)+":fence").Err())
		}
		left, err := rdb.PTTL(t.Context(), key(name)).Result()
		require.NoError(t, err)
		require.Negative(t, left)
	})
}

// The numbers of unused names expire.
func TestFenceExpiresAfterADay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		numberOf(t, locker(rdb, long), name)
		left, err := rdb.PTTL(t.Context(), key(name)+":fence").Result()
		require.NoError(t, err)
		require.InDelta(t, 24*time.Hour, left, float64(10*time.Minute))
	})
	m, rdb := mini(t)
	l := locker(rdb, long)
	// The clock was a year ahead for a while: the number is kept until the clock has reached it.
	now := time.Now()
	m.SetTime(now.Add(365 * 24 * time.Hour))
	ahead := numberOf(t, l, "x")
	m.SetTime(now)
	require.Equal(t, ahead+1, numberOf(t, l, "x"))
	require.InDelta(t, 366*24*time.Hour, m.TTL(key("x")+":fence"), float64(time.Minute))
}

// An invalid value in the key does not prevent locking.
func TestFenceAfterAnInvalidValue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		require.NoError(t, rdb.Set(t.Context(), key(name)+":fence", "invalid", 0).Err())
		require.Positive(t, numberOf(t, locker(rdb, long), name))
	})
}

// Numbers rise whatever happens to the clock and the data of Redis, unless a number is lost while the clock is behind
// it.
func TestFenceRises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := miniredis.NewMiniRedis()
		require.NoError(rt, m.Start())
		defer m.Close()
		clock := time.Unix(1_800_000_000, 0)
		m.SetTime(clock)
		m.ClockTTL(true)
		rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: noNotifications})
		defer rdb.Close()
		l := locker(rdb, long)
		last := int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"lock": func(rt *rapid.T) {
				n := numberOf(rt, l, "x")
				require.Greater(rt, n, last)
				require.GreaterOrEqual(rt, n, clock.UnixMicro(), "at least the time")
				last = n
			},
			"tick": func(rt *rapid.T) {
				clock = clock.Add(time.Duration(rapid.IntRange(0, 10).Draw(rt, "µs")) * time.Microsecond)
				m.SetTime(clock)
			},
			"days": func(rt *rapid.T) {
				clock = clock.Add(time.Duration(rapid.IntRange(0, 48).Draw(rt, "hours")) * time.Hour)
				m.SetTime(clock)
			},
			"back": func(rt *rapid.T) {
				back := clock.Add(-time.Duration(rapid.IntRange(0, 60_000_000).Draw(rt, "µs")) * time.Microsecond)
				if !m.Exists(key("x")+":fence") && back.UnixMicro() <= last {
					return
				}
				clock = back
				m.SetTime(clock)
			},
			"forget": func(*rapid.T) {
				if clock.UnixMicro() > last {
					m.Del(key("x") + ":fence")
				}
			},
		})
	})
}
