package ratelimit_test

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/ratelimit"
)

// A user may make 3 requests at once and one more per minute.
func ExampleNewLocal() {
	limiter, err := ratelimit.NewLocal(ratelimit.Spec{
		Algorithm: ratelimit.TokenBucket,
		Limit:     ratelimit.Limit{Rate: 1, Period: time.Minute, Burst: 3},
	})
	if err != nil {
		panic(err)
	}
	for range 4 {
		res, err := ratelimit.Allow(context.Background(), limiter, "user-42")
		if err != nil {
			panic(err)
		}
		fmt.Println(res.Allowed, res.Remaining, res.RetryAfter.Round(time.Second))
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

// Reserve returns permits for a later time, so the caller sees the wait before it starts.
func ExampleReserve() {
	limiter, err := ratelimit.NewLocal(ratelimit.Spec{
		Algorithm: ratelimit.LeakyQueue,
		Limit:     ratelimit.Limit{Rate: 10, Period: time.Minute, Burst: 100}, // one each 6 s, at most 100 in the queue
	})
	if err != nil {
		panic(err)
	}
	for range 3 {
		r, err := ratelimit.Reserve(context.Background(), limiter, "", 1, time.Minute)
		if err != nil {
			panic(err)
		}
		fmt.Println(r.Wait.Round(6 * time.Second))
	}
	// Output:
	// 0s
	// 6s
	// 12s
}

// Two limits that are charged together or not at all.
func ExampleTakeAll() {
	each, err := ratelimit.NewLocal(ratelimit.Spec{
		Algorithm: ratelimit.FixedWindow,
		Limit:     ratelimit.Limit{Rate: 1, Period: 24 * time.Hour},
	})
	if err != nil {
		panic(err)
	}
	all, err := ratelimit.NewLocal(ratelimit.Spec{
		Algorithm: ratelimit.FixedWindow,
		Limit:     ratelimit.Limit{Rate: 100, Period: 24 * time.Hour},
	})
	if err != nil {
		panic(err)
	}
	charges := []ratelimit.Charge{
		{Limiter: each, Request: ratelimit.Request{Key: "user-42", N: 1}},
		{Limiter: all, Request: ratelimit.Request{N: 1}},
	}
	results := make([]ratelimit.Result, len(charges))
	for range 3 {
		ok, err := ratelimit.TakeAll(context.Background(), charges, results)
		if err != nil {
			panic(err)
		}
		fmt.Println(ok, results[1].Remaining)
	}
	// Output:
	// true 99
	// false 99
	// false 99
}

// At most two concurrent holders.
func ExampleBulkhead() {
	b, err := ratelimit.NewBulkhead(ratelimit.BulkheadSpec{Limit: 2})
	if err != nil {
		panic(err)
	}
	first, _ := b.Acquire(context.Background(), "db")
	second, _ := b.Acquire(context.Background(), "db")
	_, err = b.Acquire(context.Background(), "db")
	fmt.Println(err)
	first.Release()
	_, err = b.Acquire(context.Background(), "db")
	fmt.Println(err)
	second.Release()
	// Output:
	// ratelimit: the queue is full
	// <nil>
}

// All processes that use this Redis share the limit. Each leases up to 1 % of it at a time. A refused key is refused
// locally until it can have a permit. While Redis is unreachable each process enforces its share.
func ExampleConn_NewRedis() {
	rdb := ratelimit.Connect([]string{"127.0.0.1:6379"}, 0)
	conn := ratelimit.NewConn(rdb, ratelimit.ConnOptions{})
	limiter, err := conn.NewRedis("path-total", ratelimit.Spec{
		Algorithm: ratelimit.TokenBucket,
		Limit:     ratelimit.PerSecond(1000),
	}, ratelimit.RedisOptions{Lease: 0.01, OnFailure: ratelimit.FailLocal})
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.Spec().Limit)
	// go conn.Run(ctx) counts the processes and returns idle leases.
	_ = rdb.Close()
	// Output: 1000/1s burst 1000
}
