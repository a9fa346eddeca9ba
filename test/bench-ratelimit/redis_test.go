package benchratelimit

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/ratelimit"
)

func connect(b *testing.B) redis.UniversalClient {
	b.Helper()
	addrs := os.Getenv("REDIS_ADDRS")
	if addrs == "" {
		addrs = "127.0.0.1:16379"
	}
	rdb := ratelimit.Connect(strings.Split(addrs, ","), 6, func(o *redis.UniversalOptions) {
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = 10*time.Second, 10*time.Second, 10*time.Second
	})
	b.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Ping(b.Context()).Err(); err != nil {
		b.Fatalf("no Redis at %s (REDIS_ADDRS): %v", addrs, err)
	}
	return rdb
}

// raw does the same reads and writes as the arrival time script, and nothing else.
var raw = redis.NewScript(`
local t = redis.call('TIME')
local v = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '28036800557000.00000;1000.00000;1000000000.00000', 'PX', 1000)
return {1, 2, 3, 4, 5, 6, 7}`)

var run atomic.Int64

func name() string { return fmt.Sprintf("bench-%d-%d", time.Now().UnixNano(), run.Add(1)) }

// serverTime is the seconds of processor time that Redis has used.
func serverTime(b *testing.B, rdb redis.UniversalClient) (sum float64) {
	info, err := rdb.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && (name == "used_cpu_sys" || name == "used_cpu_user") {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// timed calls decide from so many goroutines and reports the latency that 99 of 100 decisions stay under.
func timed(b *testing.B, goroutines int, rdb redis.UniversalClient, decide func(i int)) {
	b.ReportAllocs()
	spent, server := processTime(), serverTime(b, rdb)
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	b.ResetTimer()
	for g := range goroutines {
		wg.Go(func() {
			mine := make([]time.Duration, 0, b.N/goroutines+1)
			for i := g; i < b.N; i += goroutines {
				begun := time.Now()
				decide(i)
				mine = append(mine, time.Since(begun))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(processTime()-spent)/float64(b.N), "cpu-ns/op")
	b.ReportMetric((serverTime(b, rdb)-server)*1e6/float64(b.N), "redis-cpu-us/op")
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// keys are 10,000 subjects, so that none is hot.
func keys() []string {
	out := make([]string, 10_000)
	for i := range out {
		out[i] = "user-" + strconv.Itoa(i)
	}
	return out
}

func BenchmarkRedisSingleDecision(b *testing.B) {
	ctx := context.Background()
	subjects := keys()
	for _, goroutines := range []int{1, 64} {
		at := fmt.Sprintf("%d/", goroutines)
		b.Run(at+"raw", func(b *testing.B) {
			rdb := connect(b)
			prefix := name()
			_ = raw.Load(ctx, rdb).Err()
			timed(b, goroutines, rdb, func(i int) {
				raw.EvalSha(ctx, rdb, []string{prefix + subjects[i%len(subjects)]}, 1, 1, 0, 0, 0, "1000.00000", "1000000.00000", 1000, 60000000, "", "1000.00000;1000000.00000")
			})
		})
		for _, a := range ratelimit.Algorithms() {
			b.Run(at+"flashsale/"+a.String(), func(b *testing.B) {
				spec := ratelimit.Spec{Algorithm: a, Limit: ratelimit.PerSecond(1000)}
				rdb := connect(b)
				l, err := ratelimit.NewConn(rdb, ratelimit.ConnOptions{Timeout: 10 * time.Second}).NewRedis(name(), spec, ratelimit.RedisOptions{DenyCache: -1})
				if err != nil {
					b.Fatal(err)
				}
				_, _ = l.Take(ctx, ratelimit.Request{Key: "-", N: 1})
				timed(b, goroutines, rdb, func(i int) { _, _ = l.Take(ctx, ratelimit.Request{Key: subjects[i%len(subjects)], N: 1}) })
			})
		}
		b.Run(at+"redis_rate", func(b *testing.B) {
			rdb := connect(b)
			l := redis_rate.NewLimiter(rdb)
			prefix := name()
			limit := redis_rate.PerSecond(1000)
			_, _ = l.Allow(ctx, prefix, limit)
			timed(b, goroutines, rdb, func(i int) { _, _ = l.Allow(ctx, prefix+subjects[i%len(subjects)], limit) })
		})
	}
}

type calls struct{ n atomic.Int64 }

func (c *calls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

// BenchmarkRedisLeased is four pods on one limit of 10,000/s which are asked for more than that.
func BenchmarkRedisLeased(b *testing.B) {
	const pods, perSecond = 4, 10_000
	ctx := context.Background()
	limit := name()
	spec := ratelimit.Spec{Algorithm: ratelimit.TokenBucket, Limit: ratelimit.PerSecond(perSecond)}
	count := &calls{}
	var limiters []*ratelimit.Redis
	for range pods {
		rdb := connect(b)
		rdb.AddHook(count)
		c := ratelimit.NewConn(rdb, ratelimit.ConnOptions{Timeout: 10 * time.Second, Instances: pods})
		l, err := c.NewRedis(limit, spec, ratelimit.RedisOptions{Lease: 0.01})
		if err != nil {
			b.Fatal(err)
		}
		limiters = append(limiters, l)
	}
	for _, l := range limiters { // spends the burst
		_, _ = l.Take(ctx, ratelimit.Request{N: perSecond / pods})
	}
	count.n.Store(0)
	var granted atomic.Int64
	begun := time.Now()
	timed(b, 2*pods, connect(b), func(i int) {
		if r, err := limiters[i%pods].Take(ctx, ratelimit.Request{N: 1}); err == nil {
			granted.Add(r.Granted)
		}
	})
	b.ReportMetric(float64(b.N)/float64(max(1, count.n.Load())), "decisions/call")
	b.ReportMetric(float64(granted.Load())/time.Since(begun).Seconds()/perSecond, "of-limit")
}
