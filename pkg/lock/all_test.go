package lock_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/lock"
)

func TestAllInOneOrderAndBack(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		require.NoError(t, l.DoAll(t.Context(), 0, []string{"c", "a", "b", "a"}, func(ctx context.Context, fences map[string]int64) error {
			require.Len(t, fences, 3)
			for _, name := range []string{"a", "b", "c"} {
				require.True(t, m.Exists(key(name)))
				require.Positive(t, fences[name])
			}
			time.Sleep(3 * ttl) // all are renewed in the same round
			return ctx.Err()
		}))
		require.Equal(t, []string{key("a"), key("b"), key("c")}, keysOf(w.made(take)))
		renewed := map[string]int{}
		for _, c := range w.made(renew) {
			renewed[c.key]++
		}
		require.Len(t, renewed, 3)
		require.InDelta(t, renewed[key("a")], renewed[key("c")], 2, "renewed equally often")
		for _, name := range []string{"a", "b", "c"} {
			require.False(t, m.Exists(key(name)))
		}

		begun := false
		require.NoError(t, l.DoAll(t.Context(), 0, nil, func(context.Context, map[string]int64) error { begun = true; return nil }))
		require.True(t, begun)
		many := make([]string, 65)
		for i := range many {
			many[i] = strconv.Itoa(i)
		}
		require.Error(t, l.DoAll(t.Context(), 0, many, nil))
		require.NoError(t, l.DoAll(t.Context(), 0, many[:64], func(context.Context, map[string]int64) error { return nil }))
	})
}

func keysOf(calls []call) (keys []string) {
	for _, c := range calls {
		keys = append(keys, c.key)
	}
	return keys
}

// If one lock is taken, those obtained before are released, also in the queues of this process.
func TestAllOrNone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		l, other := locker(rdb, long), locker(rdb, long)
		a, b, c := name+"a", name+"b", name+"c"
		t.Cleanup(func() { rdb.Del(context.Background(), key(a)+":fence", key(b)+":fence", key(c)+":fence") })
		run := func(context.Context, int64) error { return nil }
		for _, holder := range []*lock.Locker{other, l} {
			require.NoError(t, holder.Do(t.Context(), b, func(context.Context, int64) error {
				for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
					require.ErrorIs(t, l.DoAll(t.Context(), wait, []string{a, b, c}, nil), lock.ErrNotObtained)
					require.NoError(t, l.Do(t.Context(), a, run))
					require.NoError(t, l.Do(t.Context(), c, run))
				}
				return nil
			}))
		}
		for _, name := range []string{a, b, c} {
			free(t, rdb, name)
		}
	})
}

// While DoAll waits for the last lock, it renews the first ones. If one of them is lost meanwhile, work does not
// begin.
func TestAllRenewsWhileItWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, _ := process(t, m, ttl)
		other, _ := process(t, m, ttl)
		require.NoError(t, m.Set(key("b"), "third"))
		time.AfterFunc(10*time.Second*3, func() { m.Del(key("b")) })
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(5 * time.Second)
			for range 20 {
				if err := other.Do(t.Context(), "a", nil); !errors.Is(err, lock.ErrNotObtained) {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		})
		require.NoError(t, l.DoAll(t.Context(), time.Hour, []string{"b", "a"}, func(context.Context, map[string]int64) error { return nil }))
		wg.Wait()

		require.NoError(t, m.Set(key("b"), "third"))
		time.AfterFunc(time.Second, func() { m.Del(key("a")) })
		begin := time.Now()
		err := l.DoAll(t.Context(), time.Hour, []string{"a", "b"}, nil)
		require.ErrorIs(t, err, lock.ErrNotObtained)
		require.NotErrorIs(t, err, lock.ErrLost, "work has not run")
		require.ErrorContains(t, err, "lock a")
		require.Less(t, time.Since(begin), ttl)
	})
}

func TestAllIsLostWithOneLock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, rdb *redis.Client, name string) {
		a, b := name+"a", name+"b"
		t.Cleanup(func() { rdb.Del(context.Background(), key(a)+":fence", key(b)+":fence") })
		err := locker(rdb, short).DoAll(t.Context(), patience, []string{a, b}, func(ctx context.Context, _ map[string]int64) error {
			require.NoError(t, rdb.Del(t.Context(), key(b)).Err())
			awaitLoss(ctx, t)
			require.ErrorContains(t, context.Cause(ctx), b)
			return nil
		})
		require.ErrorIs(t, err, lock.ErrLost)
		free(t, rdb, a)
		free(t, rdb, b)
	})
}

// With overlapping sets, from several goroutines of several processes, no name has two holders and every call
// succeeds.
func TestAllOverlappingSetsSucceed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		set := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 4)
		sets := rapid.SliceOfN(set, 3, 12).Draw(rt, "sets")
		processes := rapid.IntRange(1, 3).Draw(rt, "processes")
		var failed atomic.Pointer[string]
		bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
			lockers := make([]*lock.Locker, processes)
			for i := range lockers {
				lockers[i], _ = process(t, m, ttl)
			}
			var mu sync.Mutex
			inside := map[string]bool{}
			fail := func(s string) { failed.Store(&s) }
			var wg sync.WaitGroup
			for i, set := range sets {
				wg.Go(func() {
					err := lockers[i%processes].DoAll(t.Context(), time.Hour, set, func(context.Context, map[string]int64) error {
						names := slices.Compact(slices.Sorted(slices.Values(set)))
						mu.Lock()
						for _, name := range names {
							if inside[name] {
								fail("two holders of " + name)
							}
							inside[name] = true
						}
						mu.Unlock()
						time.Sleep(3 * time.Second)
						mu.Lock()
						for _, name := range names {
							inside[name] = false
						}
						mu.Unlock()
						return nil
					})
					if err != nil {
						fail(err.Error())
					}
				})
			}
			wg.Wait()
			for _, k := range m.Keys() {
				if k[len(k)-1] == '}' {
					fail("not released: " + k)
				}
			}
		})
		if s := failed.Load(); s != nil {
			rt.Fatal(*s)
		}
	})
}

// The same on a real server in real time.
func TestAllOverlappingSetsOnRealRedis(t *testing.T) {
	t.Parallel()
	rdb := realRedis(t)
	base := fresh(t, rdb)
	names := []string{base + "a", base + "b", base + "c", base + "d"}
	for _, name := range names {
		t.Cleanup(func() { rdb.Del(context.Background(), key(name)+":fence") })
	}
	inside := make([]atomic.Int32, len(names))
	var runs atomic.Int32
	var wg sync.WaitGroup
	for range 2 {
		l := locker(rdb, long)
		for i := range names {
			wg.Go(func() {
				two := []int{i, (i + 1) % len(names)} // a ring: each needs the first lock of the next
				for range 5 {
					if err := l.DoAll(t.Context(), 2*patience, []string{names[two[0]], names[two[1]]}, func(context.Context, map[string]int64) error {
						for _, j := range two {
							if inside[j].Add(1) != 1 {
								t.Error("two holders at a time")
							}
						}
						time.Sleep(time.Millisecond)
						for _, j := range two {
							inside[j].Add(-1)
						}
						runs.Add(1)
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	require.EqualValues(t, 2*len(names)*5, runs.Load())
	for _, name := range names {
		free(t, rdb, name)
	}
}
