package ordersn_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ordersn"
)

const term = 1500 * time.Millisecond // renewals are a second apart

// server is a Redis and a key in it for this test only.
type server struct {
	rdb *redis.Client
	key string
}

func realRedis(t *testing.T) server {
	addr := os.Getenv("REDIS_ADDRS")
	if addr == "" {
		addr = "127.0.0.1:16379"
	}
	rdb := redis.NewClient(&redis.Options{Addr: strings.Split(addr, ",")[0], DB: 4, ContextTimeoutEnabled: true, DialTimeout: time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("no Redis at %s (REDIS_ADDRS): run `make test`, which starts one: %v", addr, err)
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	key := "fs:worker:test:" + hex.EncodeToString(random)
	t.Cleanup(func() { rdb.Del(context.Background(), key) })
	return server{rdb, key}
}

func each(t *testing.T, fn func(t *testing.T, s server)) {
	t.Run("redis", func(t *testing.T) { t.Parallel(); fn(t, realRedis(t)) })
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		m := miniredis.RunT(t)
		rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true})
		t.Cleanup(func() { _ = rdb.Close() })
		fn(t, server{rdb, "fs:worker:leases"})
	})
}

func lease(s server) *ordersn.TermLease {
	return ordersn.NewTestLease(ordersn.NewRedisLease(s.rdb, slog.New(slog.DiscardHandler)), s.key, term)
}

func start(t *testing.T, l *ordersn.TermLease) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
	t.Cleanup(stop)
	return stop
}

func usable(l *ordersn.TermLease) bool {
	_, ok := l.Worker(l.Now().UnixMilli())
	return ok
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, 5*time.Millisecond)
}

func TestAnAcquiredLeaseIssues(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		l := lease(s)
		require.False(t, l.Held())
		_, err := ordersn.NewGenerator(l, nil).Next("u")
		require.ErrorIs(t, err, ordersn.ErrNoLease)
		start(t, l)
		eventually(t, l.Held)
		_, err = ordersn.NewGenerator(l, nil).Next("u")
		require.NoError(t, err)

		second := lease(s)
		start(t, second)
		eventually(t, second.Held)
		a, _, _ := l.Window()
		b, _, _ := second.Window()
		require.NotEqual(t, a, b)
	})
}

func TestRenewedLeaseLastsAndFollowsRedisTime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		l := lease(s)
		start(t, l)
		eventually(t, l.Held)
		for began, last := time.Now(), time.Now(); time.Since(began) < 2*term; time.Sleep(time.Millisecond) {
			ok, now := usable(l), time.Now()
			if now.Sub(last) > term/6 { // the machine was slow, and the renewal perhaps too: proves nothing about the lease
				eventually(t, func() bool { return usable(l) })
				began, now = time.Now(), time.Now()
			} else {
				require.True(t, ok)
			}
			last = now
		}
		before := l.Now()
		redisTime, err := s.rdb.Time(t.Context()).Result()
		require.NoError(t, err)
		require.WithinRange(t, redisTime, before.Add(-200*time.Millisecond), l.Now().Add(200*time.Millisecond))
		// A machine with a wrong clock must not issue by it.
		_, err = ordersn.NewGenerator(l, func() time.Time { return time.Now().Add(-time.Hour) }).Next("u")
		require.ErrorIs(t, err, ordersn.ErrNoLease)
		_, err = ordersn.NewGenerator(l, func() time.Time { return time.Now().Add(term * 2) }).Next("u")
		require.ErrorIs(t, err, ordersn.ErrNoLease)
	})
}

// The id of a holder that was killed is leased to another process.
func TestStoppedHoldersWindowIsNeverShared(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		first := lease(s)
		stop := start(t, first)
		eventually(t, first.Held)
		id, _, high := first.Window()
		stop()
		require.False(t, usable(first))

		// All other ids are leased for long, so that the next process must get this one.
		all := map[string]any{}
		for w := range ordersn.RedisWorkers {
			if w != id {
				all[strconv.Itoa(w)] = "other 1 99999999999999"
			}
		}
		require.NoError(t, s.rdb.HSet(t.Context(), s.key, all).Err())
		begin := time.Now()
		second := lease(s)
		start(t, second)
		eventually(t, second.Held)
		got, from, _ := second.Window()
		require.Equal(t, id, got)
		require.Greater(t, from, high)
		require.GreaterOrEqual(t, time.Since(begin), term, "one lease after the high-water at the earliest")
		require.NoError(t, s.rdb.HDel(t.Context(), s.key, strconv.Itoa(id)).Err())
		eventually(t, func() bool { return !usable(second) }) // all ids are leased now
		require.True(t, second.Held(), "readiness is not taken back")
	})
}

func TestLossStopsIssuing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		l := lease(s)
		start(t, l)
		eventually(t, l.Held)
		id, _, high := l.Window()
		// Another process is the owner now, as after a failover that lost this lease.
		require.NoError(t, s.rdb.HSet(t.Context(), s.key, strconv.Itoa(id), "other 1 99999999999999").Err())
		eventually(t, func() bool { w, from, _ := l.Window(); return w != id && from > high })
		eventually(t, func() bool { return usable(l) })
	})
}

func TestFlushWaitsOneLease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		l := lease(s)
		start(t, l)
		eventually(t, l.Held)
		_, _, high := l.Window()
		flushed := time.Now()
		require.NoError(t, s.rdb.Del(t.Context(), s.key).Err())
		eventually(t, func() bool { _, from, _ := l.Window(); return from > high })
		require.False(t, usable(l))
		eventually(t, func() bool { return usable(l) })
		require.GreaterOrEqual(t, time.Since(flushed), term)
	})
}

func TestUnreachableRedisStopsIssuingWithinTheLease(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	l := lease(server{rdb, "fs:worker:leases"})
	start(t, l)
	eventually(t, l.Held)
	m.SetError("LOADING")
	stopped := time.Now()
	var last time.Time // before the last successful call
	eventually(t, func() bool {
		asked := time.Now()
		if !usable(l) {
			return true
		}
		last = asked
		return false
	})
	require.LessOrEqual(t, last.Sub(stopped), term+200*time.Millisecond)
	require.True(t, l.Held())
	m.SetError("")
	eventually(t, func() bool { return usable(l) })
}

// TestNoMillisecondOfAnIDIsShared issues from many processes while some are started and killed and Redis is flushed.
func TestNoMillisecondOfAnIDIsShared(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		var mu sync.Mutex
		owner := map[string]int{} // worker id and millisecond -> process
		seen := map[string]bool{}
		issued := 0
		deadline := time.Now().Add(6 * term)
		goOn := func() bool { // a slow machine needs longer to issue many
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Before(deadline) || issued <= 500 && time.Now().Before(deadline.Add(time.Minute))
		}
		var wg sync.WaitGroup
		for p := range 6 {
			wg.Go(func() {
				for life := 0; goOn(); life++ {
					l := lease(s)
					ctx, cancel := context.WithCancel(context.Background())
					var run sync.WaitGroup
					run.Go(func() { _ = l.Run(ctx) })
					g := ordersn.NewGenerator(l, nil)
					for end := time.Now().Add(2*term + time.Duration(p)*100*time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
						text, err := g.Next("u")
						if err != nil {
							continue
						}
						sn, _ := ordersn.Parse(text)
						slot := strconv.Itoa(sn.Worker) + "@" + sn.Time.String()
						mu.Lock()
						if who, ok := owner[slot]; ok && who != p*1000+life {
							t.Errorf("%s issued for by two processes", slot)
						}
						if seen[text] {
							t.Errorf("%s twice", text)
						}
						owner[slot], seen[text] = p*1000+life, true
						issued++
						mu.Unlock()
					}
					cancel()
					run.Wait()
				}
			})
		}
		// Few ids, so that processes compete for them.
		few := map[string]any{}
		for w := 4; w < ordersn.RedisWorkers; w++ {
			few[strconv.Itoa(w)] = "other 1 99999999999999"
		}
		for i := 0; goOn(); i++ {
			require.NoError(t, s.rdb.HSet(t.Context(), s.key, few).Err())
			time.Sleep(100 * time.Millisecond)
			if i == 40 {
				require.NoError(t, s.rdb.Del(t.Context(), s.key).Err())
			}
		}
		wg.Wait()
		require.Greater(t, issued, 500)
	})
}
