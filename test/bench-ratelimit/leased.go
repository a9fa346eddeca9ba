package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/ratelimit"
)

// calls counts the commands of a client.
type calls struct{ n atomic.Int64 }

func (c *calls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

const processes, perSecond, lasts = 4, 10_000, 10 * time.Second

// leased measures the limiters of four processes on one limit, with times as many requests as the limit allows.
func leased(ctx context.Context, addr string, times float64) error {
	spec := ratelimit.Spec{Algorithm: ratelimit.TokenBucket, Limit: ratelimit.PerSecond(perSecond)}
	prefix := "bench-" + strconv.FormatInt(rand.Int64(), 36)
	count := &calls{}
	var limiters []*ratelimit.Redis
	for range processes {
		rdb, err := connect(ctx, addr)
		if err != nil {
			return err
		}
		defer rdb.Close()
		rdb.AddHook(count)
		c := ratelimit.NewConn(rdb,
			ratelimit.ConnOptions{Timeout: 10 * time.Second, Instances: processes, Prefix: prefix})
		l, err := c.NewRedis("all", spec, ratelimit.RedisOptions{Lease: 0.01})
		if err != nil {
			return err
		}
		limiters = append(limiters, l)
	}
	// Spend the burst first, to measure the rate.
	if _, err := limiters[0].Take(ctx, ratelimit.Request{N: perSecond}); err != nil {
		return err
	}
	count.n.Store(0)
	var requests, granted atomic.Int64
	took := make([][]time.Duration, 2*processes)
	every := time.Duration(float64(len(took)) / (times * perSecond) * float64(time.Second))
	start := time.Now()
	var wg sync.WaitGroup
	for g := range took {
		wg.Go(func() {
			for n := 0; time.Since(start) < lasts && ctx.Err() == nil; n++ {
				// a late request is followed by the next ones at once
				time.Sleep(time.Until(start.Add(time.Duration(n) * every)))
				at := time.Now()
				r, err := limiters[g%processes].Take(ctx, ratelimit.Request{N: 1})
				if n%16 == 0 {
					took[g] = append(took[g], time.Since(at))
				}
				if err == nil {
					granted.Add(r.Granted)
				}
				requests.Add(1)
			}
		})
	}
	wg.Wait()
	seconds := time.Since(start).Seconds()
	all := &contender{calls: took}
	fmt.Printf("\nRedis, 4 processes' limiters with leases of 1 %% and the deny cache, %d/s, "+
		"%.0f requests a second for %.0f s, after the burst\n", perSecond, float64(requests.Load())/seconds, seconds)
	fmt.Printf("%-34s %.0f\n", "decisions per call to Redis", float64(requests.Load())/float64(max(1, count.n.Load())))
	fmt.Printf("%-34s %.3f\n", "granted / limit", float64(granted.Load())/seconds/perSecond)
	fmt.Printf("%-34s %.0f\n", "grants per call to Redis", float64(granted.Load())/float64(max(1, count.n.Load())))
	fmt.Printf("%-34s %s, p99 %s\n", "time of a decision (median)", quantile(all.calls[0], 0.5), all.p99())
	return ctx.Err()
}
