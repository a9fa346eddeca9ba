package stockgate

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// setMaxMemory changes the limit of the test's own server until the end of the test.
func (e *env) setMaxMemory(bytes int64) {
	e.t.Helper()
	require.NoError(e.t, e.rdb.ConfigSet(e.t.Context(), "maxmemory", fmt.Sprint(bytes)).Err())
	e.full = bytes == 1
}

func fullServer(t *testing.T, opts Options) *env {
	e := newEnv(t, clusterRedis(t), opts)
	t.Cleanup(func() {
		require.NoError(t, e.rdb.ConfigSet(context.Background(), "maxmemory", "0").Err())
		e.wipe()
	})
	return e
}

func sn(n int) string { return strconv.Itoa(1000 + n) }

// A Redis that is full lets every purchase come to its end, so that it can drain.
func TestAtFullMemoryEveryPurchaseEnds(t *testing.T) {
	e := fullServer(t, Options{})
	e.open(openConfig(), 100)
	for i := range 6 {
		require.Equal(t, Accepted, e.reserve(sn(i), fmt.Sprint("u", i), lines(1)).Outcome)
	}
	e.setMaxMemory(1)
	require.ErrorContains(t, e.rdb.HSet(t.Context(), keyOf(e.activityID, "gate"), "x", "y").Err(), "OOM", "the server is full")

	journal, _, err := e.ReadJournal(t.Context(), e.activityID, "relay", 10)
	require.NoError(t, err)
	require.Len(t, journal, 6)
	for _, entry := range journal {
		require.NoError(t, e.Ack(t.Context(), e.activityID, []string{entry.ID}))
	}
	e.check()
	journaled, err := e.Rejournal(t.Context(), e.activityID, []string{sn(0), sn(1)})
	require.NoError(t, err)
	require.Equal(t, 2, journaled, "messages that were lost are published again")
	for i := range 5 {
		e.settle(sn(i), fmt.Sprint("u", i), lines(1), StepLanded)
	}
	for i := range 4 {
		e.settle(sn(i), fmt.Sprint("u", i), lines(1), StepCreated)
	}
	e.settle(sn(0), "u0", lines(1), StepPaid)
	e.release(sn(1), "u1", lines(1), "expired")
	e.release(sn(2), "u2", lines(1), "cancelled")
	e.drop(sn(5), "u5", lines(1), "sold_out")
	require.Equal(t, StatusPaid, e.entry(sn(0)).Status)
	require.Equal(t, StatusClosed, e.entry(sn(1)).Status)
	require.Equal(t, StatusFailed, e.entry(sn(5)).Status)

	// The merchant and the repairs are not locked out either.
	require.NoError(t, e.Adjust(t.Context(), e.activityID, Adjustment{ID: "1", SKUID: "1", Delta: -3}))
	c := openConfig()
	c.State, c.Version = GatePaused, 2
	require.NoError(t, e.Configure(t.Context(), e.activityID, c))
	require.NoError(t, e.PutSale(t.Context(), Sale{ActivityID: e.activityID, Version: 2}))
	require.NoError(t, e.Register(t.Context(), e.activityID))
	const other = "4242"
	require.NoError(t, e.Register(t.Context(), other), "one that was lost")
	activityIDs, err := e.Registered(t.Context())
	require.NoError(t, err)
	require.Contains(t, activityIDs, e.activityID)
	require.Contains(t, activityIDs, other)
	require.NoError(t, e.Unregister(t.Context(), other))
	e.check()
}

// All units of a sale are paid and nothing has ended: only trim lets its keys expire, which frees them all.
func TestAtFullMemoryAFinishedGateExpires(t *testing.T) {
	e := fullServer(t, Options{})
	e.open(openConfig(), 1)
	require.Equal(t, Accepted, e.reserve(sn(0), "u0", lines(1)).Outcome)
	e.settle(sn(0), "u0", lines(1), StepPaid)
	past := time.Now().Add(-time.Second).UnixMilli()
	require.NoError(t, e.rdb.HSet(t.Context(), keyOf(e.activityID, "gate"), "ends", past).Err())
	e.setMaxMemory(1)
	_, err := e.Trim(t.Context(), e.activityID, 10)
	require.NoError(t, err)
	require.Positive(t, e.rdb.PTTL(t.Context(), keyOf(e.activityID, "gate")).Val())
	require.Positive(t, e.rdb.PTTL(t.Context(), keyOf(e.activityID, "held")).Val())
}

// A purchase is refused before Redis is full, and a refusal writes nothing.
func TestPurchasesLeaveAReserveOfMemory(t *testing.T) {
	e := fullServer(t, Options{MemoryReserve: 50})
	e.open(openConfig(), 100)
	require.Equal(t, Accepted, e.reserve(sn(0), "u0", lines(1)).Outcome)
	e.setMaxMemory(1 << 40)
	memory := func() Memory {
		all, err := e.MeasureMemory(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		return all[0]
	}
	m := memory()
	require.False(t, m.Full)
	require.Equal(t, Accepted, e.reserve(sn(1), "u1", lines(1)).Outcome)

	e.setMaxMemory(m.Used + m.Used/2) // a third is left, and half is to be
	require.True(t, memory().Full)
	before := e.image()
	require.Equal(t, JournalFull, e.reserve(sn(2), "u2", lines(1)).Outcome)
	require.Equal(t, Known, e.reserve(sn(1), "u1", lines(1)).Outcome, "a repeat gets its state")
	require.Equal(t, before, e.image())

	e.setMaxMemory(0)
	require.False(t, memory().Full)
	require.Equal(t, Accepted, e.reserve(sn(2), "u2", lines(1)).Outcome)
}

// A master that does not reply delays the measurement of no other.
func TestMemoryIsMeasuredThoughAMasterHangs(t *testing.T) {
	addr, rdb, _ := startServer(t)
	live := nodeName(t, addr)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	hung, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never reads
	require.NoError(t, err)
	defer hung.Close()
	dialed := make(chan struct{})
	var once sync.Once
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: live}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: nodeName(t, hung.Addr().String())}}},
			}, nil
		},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == live { // its call is made while that to the other master waits
				select {
				case <-dialed:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			} else {
				once.Do(func() { close(dialed) })
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
		ContextTimeoutEnabled: true, MaxRetries: -1, MaxRedirects: -1, ReadTimeout: patience, WriteTimeout: patience,
	})
	defer cluster.Close()
	all, err := New(cluster, Options{Timeout: 3 * time.Second}).MeasureMemory(t.Context())
	require.ErrorIs(t, err, ErrUnavailable)
	require.Len(t, all, 1)
	require.Equal(t, live, all[0].Addr)
	require.True(t, all[0].Full)
}

// Memory may run out between two measurements.
func TestReserveAtFullMemoryIsRefusedAndWritesNothing(t *testing.T) {
	e := fullServer(t, Options{Timeout: 5 * time.Second})
	e.open(openConfig(), 100)
	require.Equal(t, Accepted, e.reserve(sn(0), "u0", lines(1)).Outcome)
	before := e.image()
	e.setMaxMemory(1)
	vs, err := e.Reserve(t.Context(), e.activityID, []Request{
		{OrderSN: sn(0), UserID: "u0", Lines: lines(1)}, {OrderSN: sn(1), UserID: "u1", Lines: lines(1)},
	})
	require.NoError(t, err)
	require.Equal(t, Known, vs[0].Outcome)
	require.Equal(t, JournalFull, vs[1].Outcome)
	require.Equal(t, before, e.image())
}

func TestMemoryOfAServerThatDoesNotReportIt(t *testing.T) {
	e := newEnv(t, miniRedis(t), Options{})
	all, err := e.MeasureMemory(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}
