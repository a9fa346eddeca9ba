package grouping

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
)

// BenchmarkReserve compares numbers of callers, each of which begins its next purchase thinks after the last one.
// ns/op is per purchase. redis-us/op is the processor time of Redis for each purchase, us/purchase the mean time of a
// purchase, and purchases/call the size of a group.
func BenchmarkReserve(b *testing.B) {
	addrs := os.Getenv("REDIS_ADDRS")
	if addrs == "" {
		addrs = "127.0.0.1:16379"
	}
	rdb := stockgate.Connect(strings.Split(addrs, ","), 2)
	b.Cleanup(func() { _ = rdb.Close() })
	require.NoErrorf(b, rdb.Ping(b.Context()).Err(), "no Redis at %s (REDIS_ADDRS)", addrs)
	for _, c := range []struct {
		callers int
		thinks  time.Duration
	}{{1, 0}, {8, time.Millisecond}, {64, 0}, {64, 3 * time.Millisecond}, {64, 30 * time.Millisecond}, {256, 0}} {
		b.Run("callers="+strconv.Itoa(c.callers)+"/thinks="+c.thinks.String(), func(b *testing.B) {
			benchmarkReserve(b, rdb, c.callers, c.thinks)
		})
	}
}

func benchmarkReserve(b *testing.B, rdb redis.UniversalClient, callers int, thinks time.Duration) {
	ctx := context.Background()
	gates := stockgate.New(rdb, stockgate.Options{JournalMax: 1 << 40})
	activityID := strconv.FormatInt(time.Now().UnixNano(), 10)
	now := time.Now()
	require.NoError(b, gates.Preload(ctx, activityID, stockgate.Snapshot{
		Config: stockgate.Config{
			State: stockgate.GateOpen, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), PerUserLimit: 1, Version: 1,
		},
		Stock: map[string]int64{"1": 1 << 40}, Totals: map[string]int64{"1": 1 << 40},
	}))
	counted := &countedRedis{Gate: gates}
	g := New(Options{
		Bounds: Bounds{CallTimeout: 10 * time.Second, CallerWait: 20 * time.Second, Queue: 10_000},
		Size:   stockgate.MaxGroup, Gathers: true,
	}, counted.Reserve)
	defer g.Close(ctx)
	var next, took atomic.Int64
	before := processorTime(b, rdb)
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				began := time.Now()
				request := stockgate.Request{
					OrderSN: strconv.FormatInt(n, 10), UserID: "u" + strconv.FormatInt(n, 10),
					Lines: []contract.Line{{SKUID: "1", Qty: 1}},
				}
				if _, err := g.Do(activityID, request); err != nil {
					b.Error(err)
					return
				}
				took.Add(int64(time.Since(began)))
				time.Sleep(thinks)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b, rdb)-before).Microseconds())/float64(b.N), "redis-us/op")
	b.ReportMetric(float64(took.Load())/1000/float64(b.N), "us/purchase")
	b.ReportMetric(float64(b.N)/float64(counted.calls.Load()), "purchases/call")
}

// countedRedis counts the calls that reserve.
type countedRedis struct {
	*stockgate.Gate
	calls atomic.Int64
}

func (r *countedRedis) Reserve(
	ctx context.Context, activityID string, requests []stockgate.Request,
) ([]stockgate.Verdict, error) {
	r.calls.Add(1)
	return r.Gate.Reserve(ctx, activityID, requests)
}

var cpuField = regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`)

// processorTime returns the processor time that Redis has used.
func processorTime(b *testing.B, rdb redis.UniversalClient) time.Duration {
	info, err := rdb.Info(b.Context(), "cpu").Result()
	require.NoError(b, err)
	sum := 0.0
	for _, m := range cpuField.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		require.NoError(b, err)
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second))
}
