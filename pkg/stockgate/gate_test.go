package stockgate

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

func TestCallsFailWithoutGate(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx, ending := t.Context(), []Ending{{OrderSN: "1", UserID: "ann", Lines: lines(1), Reason: "expired"}}
		for name, do := range map[string]func() error{
			"reserve": func() error {
				_, err := e.Reserve(ctx, e.activityID, []Request{{OrderSN: "1", UserID: "ann", Lines: lines(1)}})
				return err
			},
			"configure": func() error { return e.Configure(ctx, e.activityID, openConfig()) },
			"settle": func() error {
				return e.Settle(ctx, e.activityID, []Settlement{{OrderSN: "1", UserID: "ann", Lines: lines(1), Step: StepPaid}})
			},
			"release":   func() error { return e.Release(ctx, e.activityID, ending) },
			"drop":      func() error { return e.Drop(ctx, e.activityID, ending) },
			"rejournal": func() error { _, err := e.Rejournal(ctx, e.activityID, []string{"1"}); return err },
			"adjust":    func() error { return e.Adjust(ctx, e.activityID, Adjustment{ID: "a", SKUID: "1", Delta: 1}) },
			"undo":      func() error { return e.UndoAdjust(ctx, e.activityID, "a") },
			"lookup":    func() error { _, err := e.Lookup(ctx, e.activityID, []string{"1"}); return err },
			"buyer":     func() error { _, err := e.Purchases(ctx, e.activityID, "ann"); return err },
			"audit":     func() error { _, err := e.Audit(ctx, e.activityID); return err },
			"backlog":   func() error { _, err := e.Backlog(ctx, e.activityID); return err },
			"unlanded":  func() error { _, err := e.Unlanded(ctx, e.activityID, time.Time{}, time.Now(), 1); return err },
			"entries":   func() error { _, _, err := e.Entries(ctx, e.activityID, 0, 1); return err },
			"trim":      func() error { _, err := e.Trim(ctx, e.activityID, 1); return err },
			"left":      func() error { _, _, err := e.UnitsLeft(ctx, e.activityID); return err },
			"suspects": func() error {
				return e.AddSuspects(ctx, e.activityID, "a", time.Unix(60, 0), Suspects{Users: []Suspect{{Key: "ann", Early: 1}}})
			},
			"counts": func() error {
				return e.AddCounts(ctx, e.activityID, "a", RequestCounts{At: time.Unix(60, 0), Paths: 1})
			},
		} {
			require.ErrorIs(t, do(), ErrNoGate, name)
		}
		n, err := e.rdb.Exists(ctx, keysOf(e.activityID)...).Result()
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestConfigureObeysTheVersion(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx, c := t.Context(), openConfig()
		c.Version = 5
		e.open(c, 3)
		paused := c
		paused.State, paused.Version = GatePaused, 6
		for range 2 {
			require.NoError(t, e.Configure(ctx, e.activityID, paused))
			require.Equal(t, Paused, e.reserve("1", "ann", lines(1)).Outcome)
		}
		require.ErrorIs(t, e.Configure(ctx, e.activityID, c), ErrStaleVersion)
		require.Equal(t, Paused, e.reserve("1", "ann", lines(1)).Outcome)
		c.Version, c.PerUserLimit = 7, 1
		require.NoError(t, e.Configure(ctx, e.activityID, c))
		require.Equal(t, LimitReached, e.reserve("1", "ann", lines(2)).Outcome)
		a, err := e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, c, a.Config)
		c.State = "closed"
		require.Error(t, e.Configure(ctx, e.activityID, c))
	})
}

func TestKeysExpireWhenFinishedAndEmpty(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		expires := func() bool {
			t.Helper()
			var with, without []string
			for _, key := range keysOf(e.activityID) {
				ttl, err := e.rdb.PTTL(ctx, key).Result()
				require.NoError(t, err)
				switch {
				case ttl == -1:
					without = append(without, key)
				case ttl > 0:
					require.InDelta(t, 24*time.Hour, ttl, float64(time.Minute), key)
					with = append(with, key)
				}
			}
			if len(with) > 0 {
				require.Empty(t, without, "one key would outlive the others")
			}
			return len(with) > 0
		}
		c := openConfig()
		require.NoError(t, e.PutSale(ctx, Sale{ActivityID: e.activityID, Version: 1}))
		e.open(c, 3)
		e.reserve("1", "ann", lines(1))
		e.reserve("2", "bob", lines(1))
		e.release("1", "ann", lines(1), "expired")
		require.False(t, expires())
		c.State, c.Version = GateEnded, 2
		require.NoError(t, e.Configure(ctx, e.activityID, c))
		require.False(t, expires(), "bob's is unpaid")
		e.settle("2", "bob", lines(1), StepPaid)
		require.True(t, expires())
		e.drop("3", "cat", lines(1), "system")
		require.NoError(t, e.PutSale(ctx, Sale{ActivityID: e.activityID, Version: 2}))
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "a", SKUID: "1", Delta: 1}))
		e.add("a", RequestCounts{At: time.Now().Truncate(time.Second), Paths: 1})
		require.True(t, expires(), "also keys that were created later")
		require.NoError(t, e.rdb.Del(ctx, keyOf(e.activityID, "buyers")).Err())
		for sn, user := range map[string]string{"1": "ann", "2": "bob", "3": "cat"} {
			changed, err := e.RebuildBuyer(ctx, e.activityID, user, []string{sn})
			require.NoError(t, err)
			require.True(t, changed)
		}
		require.True(t, expires(), "also keys that were created again")
		e.settle("4", "dan", lines(1), StepLanded)
		require.False(t, expires(), "an adoption keeps the gate")
		e.release("4", "dan", lines(1), "expired")
		require.True(t, expires())
		c.State, c.Version = GateOpen, 3
		require.NoError(t, e.Configure(ctx, e.activityID, c))
		require.False(t, expires(), "open again")

		c.EndsAt, c.Version = time.Now().Add(20*time.Millisecond), 4 // ended by the clock; only the gate controller calls
		require.NoError(t, e.Configure(ctx, e.activityID, c))
		require.Eventually(t, func() bool {
			_, err := e.Trim(ctx, e.activityID, 10)
			return err == nil && expires()
		}, 30*time.Second, 10*time.Millisecond)
	})
}

func TestStockLevelsOfManyGates(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx, c := t.Context(), openConfig()
		e.open(c, 3, 0)
		e.settle("1", "ann", lines(0, 1), StepLanded)
		e.settle("2", "bob", lines(1, 0), StepPaid)
		other := newEnv(t, e.rdb, Options{})
		defer other.wipe()
		levels, err := e.StockLevels(ctx, e.activityID, other.activityID, e.activityID)
		require.NoError(t, err)
		want := StockLevel{
			ActivityID: e.activityID, Found: true, State: GateOpen, StartsAt: c.StartsAt, EndsAt: c.EndsAt,
			Left: map[string]int64{"1": 2, "2": -1}, Unpaid: map[string]time.Time{"2": {}},
		}
		require.Equal(t, []StockLevel{want, {ActivityID: other.activityID}, want}, levels)
		deadline := c.EndsAt.Add(-time.Minute)
		require.NoError(t, e.Settle(ctx, e.activityID, []Settlement{
			{OrderSN: "1", UserID: "ann", Lines: lines(0, 1), Step: StepCreated, ExpiresAt: deadline},
		}))
		levels, err = e.StockLevels(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, map[string]time.Time{"2": deadline}, levels[0].Unpaid)
		left, state, err := e.UnitsLeft(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, want.Left, left)
		require.Equal(t, GateOpen, state)
		none, err := e.StockLevels(ctx)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

func TestSales(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		s := Sale{
			ActivityID: e.activityID, Title: "a | title, with {everything}", State: GateOpen, StartsAt: openConfig().StartsAt,
			EndsAt: openConfig().EndsAt, PerUserLimit: 1, Version: 3,
			Description: "<b>\n所有", ImageURL: "/assets/a.jpg", PayWithinS: 900,
			Seller: &SaleSeller{Name: "所有", TermsURL: "https://example.com/terms", Delivery: "a\nb"},
			Notice: &SaleNotice{Text: "n", At: openConfig().StartsAt},
			Items: []SaleItem{{
				SKUID: "9223372036854775807", Name: "n", ImageURL: "https://example.com/n.jpg", Price: 100_000_000_000,
				ListPrice: 100_000_000_000, Currency: "EUR", Total: 5,
			}},
		}
		_, err := e.Sale(ctx, s.ActivityID)
		require.ErrorIs(t, err, ErrNoSale)
		require.NoError(t, e.PutSale(ctx, s))
		older := s
		older.Version, older.Title = 2, "old"
		require.NoError(t, e.PutSale(ctx, older))
		got, err := e.Sale(ctx, s.ActivityID)
		require.NoError(t, err)
		require.Equal(t, s, got)

		earlier := s
		earlier.ActivityID, earlier.StartsAt = newEnv(t, e.rdb, Options{}).activityID, s.StartsAt.Add(-time.Hour)
		require.NoError(t, e.PutSale(ctx, earlier))
		mine := func() []Sale {
			all, err := e.Sales(ctx)
			require.NoError(t, err)
			return slices.DeleteFunc(all, func(o Sale) bool {
				return o.ActivityID != s.ActivityID && o.ActivityID != earlier.ActivityID
			})
		}
		require.Equal(t, []Sale{earlier, s}, mine())
		require.NoError(t, e.Unregister(ctx, earlier.ActivityID))
		require.Equal(t, []Sale{s}, mine())
		require.NoError(t, e.rdb.Del(ctx, keyOf(earlier.ActivityID, "sale")).Err())
	})
}

func TestServer(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		now, err := e.Now(ctx)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), now, time.Minute)
		id, err := e.ReplicationID(ctx)
		require.NoError(t, err)
		again, err := e.ReplicationID(ctx)
		require.NoError(t, err)
		require.Equal(t, id, again)
		if id != "" { // miniredis has none
			require.Len(t, id, 40)
		}
		require.NoError(t, e.rdb.Del(ctx, keyReady).Err())
		ready, err := e.Ready(ctx)
		require.NoError(t, err)
		require.False(t, ready)
		require.NoError(t, e.MarkReady(ctx))
		ready, err = e.Ready(ctx)
		require.NoError(t, err)
		require.True(t, ready)
	})
}

// A master that was replaced and later reinstated lacks the writes made in between, although it is the same process.
func TestReplicationIDOfReinstatedMaster(t *testing.T) {
	ctx := t.Context()
	one, two := startRedis(t), startRedis(t)
	gate := New(one, Options{})
	replicate := func(from, to *redis.Client) {
		host, port, err := net.SplitHostPort(from.Options().Addr)
		require.NoError(t, err)
		require.NoError(t, to.ReplicaOf(ctx, host, port).Err())
		require.Eventually(t, func() bool {
			return strings.Contains(to.Info(ctx, "replication").Val(), "master_link_status:up")
		}, 20*time.Second, 20*time.Millisecond)
	}
	promote := func(c *redis.Client) { require.NoError(t, c.ReplicaOf(ctx, "NO", "ONE").Err()) }
	replicate(one, two)
	before, err := gate.ReplicationID(ctx)
	require.NoError(t, err)
	promote(two)
	replicate(two, one)
	promote(one)
	after, err := gate.ReplicationID(ctx)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
}

func startRedis(t *testing.T) *redis.Client {
	addr := porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "",
		"--repl-diskless-sync-delay", "0")
	require.NoError(t, cmd.Start())
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() {
		_ = rdb.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, 20*time.Second, 20*time.Millisecond)
	return rdb
}

func TestRepliesOfUnavailableRedis(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := Connect([]string{m.Addr()}, 0)
	defer func() { _ = rdb.Close() }()
	e := newEnv(t, rdb, Options{BreakerFailures: 2})
	e.open(openConfig(), 1)
	for _, reply := range []string{
		"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
		"CLUSTERDOWN The cluster is down", "MASTERDOWN Link with MASTER is down",
		"NOREPLICAS Not enough good replicas to write.",
		"OOM command not allowed when used memory > 'maxmemory'.", "MISCONF Errors writing to the AOF file",
		"BUSY Redis is busy running a script.",
	} {
		m.SetError(reply)
		_, err := e.Audit(t.Context(), e.activityID)
		require.ErrorIs(t, err, ErrUnavailable, reply)
	}
	require.Equal(t, "closed", e.Breaker(), "error replies do not open the breaker")
	m.SetError("ERR something else")
	_, err := e.Audit(t.Context(), e.activityID)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnavailable)
	m.SetError("")
	_, err = e.Audit(t.Context(), e.activityID)
	require.NoError(t, err)
}

// silentServer accepts connections and never replies. It returns its address.
func silentServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { _, _ = io.Copy(io.Discard, c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// commands counts the calls of a client.
type commands struct{ n atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}

func TestSilentRedisOpensBreaker(t *testing.T) {
	rdb := Connect([]string{silentServer(t)}, 0)
	defer func() { _ = rdb.Close() }()
	e := newEnv(t, rdb, Options{Timeout: 50 * time.Millisecond, BreakerFailures: 3, BreakerOpenFor: time.Hour})

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 { // a cancelled call is no failure of Redis
		_, err := e.Audit(cancelled, e.activityID)
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, "closed", e.Breaker())

	for range 3 {
		_, err := e.Audit(t.Context(), e.activityID)
		require.ErrorIs(t, err, ErrUnavailable)
	}
	require.Equal(t, "open", e.Breaker())
	calls := &commands{}
	rdb.AddHook(calls)
	for range 1000 {
		_, err := e.Audit(t.Context(), e.activityID)
		require.ErrorIs(t, err, ErrUnavailable)
	}
	require.Zero(t, calls.n.Load(), "rejected at once, without a call")
}

func TestBreakerClosesAfterProbe(t *testing.T) {
	m := miniredis.NewMiniRedis()
	require.NoError(t, m.StartAddr(porttest.Free(t))) // no other process takes the port meanwhile
	defer m.Close()
	rdb := Connect([]string{m.Addr()}, 0)
	defer func() { _ = rdb.Close() }()
	var mu sync.Mutex
	var changes []string
	e := newEnv(t, rdb, Options{BreakerFailures: 2, BreakerOpenFor: 100 * time.Millisecond, OnBreaker: func(_, to string) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, to)
	}})
	e.open(openConfig(), 1)
	m.Close()
	require.Eventually(t, func() bool {
		_, err := e.Audit(t.Context(), e.activityID)
		return errors.Is(err, ErrUnavailable) && e.Breaker() == "open"
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, m.Restart())
	require.Eventually(t, func() bool {
		_, err := e.Audit(t.Context(), e.activityID)
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "closed", e.Breaker())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, "open", changes[0])
	require.Equal(t, "closed", changes[len(changes)-1])
}

// TestScriptsAreReloaded calls a script on a Redis that has lost all scripts, as after a restart.
func TestScriptsAreReloaded(t *testing.T) {
	e := newEnv(t, clusterRedis(t), Options{})
	defer e.wipe()
	e.open(openConfig(), 1)
	require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err())
	require.Equal(t, Accepted, e.reserve("1", "ann", lines(1)).Outcome)
}
