package presence

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	mini := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr(), MaxRetries: -1, PoolSize: 7})
	t.Cleanup(func() { _ = rdb.Close() })
	return mini, rdb
}

func announcer(t *testing.T, rdb redis.UniversalClient, component string, ready error) *Announcer {
	return withClock(t, rdb, component, ready, time.Now)
}

// withClock is announcer for a process with this clock.
func withClock(
	t *testing.T, rdb redis.UniversalClient, component string, ready error, now func() time.Time,
) *Announcer {
	var measured []clocks.Clock
	if rdb != nil {
		measured = append(measured, clocks.Redis(rdb))
	}
	m, err := clocks.New(telemetry.Discard(t), now, measured...)
	require.NoError(t, err)
	return Announce(rdb, component, func() error { return ready }, func(ctx context.Context) (v Vitals) {
		v.AddBreaker("gate", "half-open")
		v.AddBreaker("none", "")
		if rdb != nil {
			v.AddRedis(rdb)
		}
		v.AddClocks(ctx, m)
		return v
	})
}

// A process that decides nothing by time reports that, and stays ready.
func TestAWrongClockIsAReason(t *testing.T) {
	_, rdb := connect(t)
	ahead := func() time.Time { return time.Now().Add(5 * time.Minute) }
	require.NoError(t, withClock(t, rdb, "order", nil, ahead).announce(t.Context()))
	list, err := List(t.Context(), rdb)
	require.NoError(t, err)
	require.True(t, list[0].Ready)
	require.Len(t, list[0].Reasons, 1)
	require.Contains(t, list[0].Reasons[0], "nothing is decided by time (redis +")
	require.InDelta(t, 300_000, list[0].ClockOffsetMS["redis"], 30_000)
}

func TestProcessesAreListedUntilTheyEndOrDie(t *testing.T) {
	mini, rdb := connect(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	order := announcer(t, rdb, "order", nil)
	go func() { ended <- order.Component().Run(ctx) }()
	dying := announcer(t, rdb, "inventory", errors.Join(errors.New("no worker id yet"), errors.New("no database")))
	require.NoError(t, dying.announce(t.Context()))
	var list []State
	require.Eventually(t, func() bool {
		var err error
		list, err = List(t.Context(), rdb)
		return err == nil && len(list) == 2
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"inventory", "order"}, []string{list[0].Component, list[1].Component})
	require.False(t, list[0].Ready)
	require.Equal(t, []string{"no worker id yet", "no database"}, list[0].Reasons)
	require.True(t, list[1].Ready)
	require.Equal(t, []Breaker{{"gate", "half-open"}}, list[1].Breakers)
	require.Equal(t, "redis", list[1].Pools[0].Name)
	require.Equal(t, 7, list[1].Pools[0].Max)
	require.Less(t, list[1].ClockOffsetMS["redis"], int64(10_000))
	require.NotEmpty(t, list[1].Instance)
	require.NotEmpty(t, list[1].Version)
	require.WithinDuration(t, time.Now(), list[1].At, time.Minute)
	require.Equal(t, ttl, mini.TTL(keyPrefix+order.member()))

	stop()
	require.NoError(t, <-ended)
	list, err := List(t.Context(), rdb)
	require.NoError(t, err)
	require.Len(t, list, 1, "one that ended withdraws its state")
	mini.FastForward(ttl + time.Second)
	list, err = List(t.Context(), rdb)
	require.NoError(t, err)
	require.Empty(t, list, "one that died expires")

	// The index drops processes that died, and keeps one that is only late.
	require.NoError(t, rdb.ZAdd(t.Context(), indexKey, redis.Z{Score: float64(time.Now().Add(-2 * forget).UnixMilli()), Member: "order:old"}).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), indexKey, redis.Z{Score: float64(time.Now().UnixMilli()), Member: "order:late"}).Err())
	_, err = List(t.Context(), rdb)
	require.NoError(t, err)
	members, err := rdb.ZRange(t.Context(), indexKey, 0, -1).Result()
	require.NoError(t, err)
	require.Contains(t, members, "order:late")
	require.NotContains(t, members, "order:old")
}

// Each announcement drops processes that were killed long ago from the index, also if no caller lists them.
func TestKilledProcessesAreDroppedWithoutACaller(t *testing.T) {
	_, rdb := connect(t)
	for member, age := range map[string]time.Duration{"order:killed": dropAfter + time.Minute, "order:other-clock": dropAfter - time.Minute} {
		require.NoError(t, rdb.ZAdd(t.Context(), indexKey, redis.Z{Score: float64(time.Now().Add(-age).UnixMilli()), Member: member}).Err())
	}
	a := announcer(t, rdb, "seckill", nil)
	require.NoError(t, a.announce(t.Context()))
	members, err := rdb.ZRange(t.Context(), indexKey, 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"order:other-clock", a.member()}, members)
}

// Without Redis a process still reads its own state, and its component waits for the end.
func TestWithoutRedis(t *testing.T) {
	a := announcer(t, nil, "seckill", nil)
	s := a.State(t.Context())
	require.Equal(t, "seckill", s.Component)
	require.Empty(t, s.ClockOffsetMS)
	require.NotNil(t, s.Pools)
	_, err := List(t.Context(), nil)
	require.ErrorIs(t, err, ErrNoRedis)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, a.Component().Run(ctx))
}

func TestWhileRedisIsUnreachable(t *testing.T) {
	mini, rdb := connect(t)
	mini.SetError("LOADING Redis is loading the dataset in memory")
	a := announcer(t, rdb, "seckill", nil)
	require.Error(t, a.announce(t.Context()))
	require.Empty(t, a.State(t.Context()).ClockOffsetMS, "a clock that cannot be read is left out")
	_, err := List(t.Context(), rdb)
	require.Error(t, err)
	mini.SetError("")
	require.NoError(t, a.announce(t.Context()))
	list, err := List(t.Context(), rdb)
	require.NoError(t, err)
	require.Len(t, list, 1)
}
