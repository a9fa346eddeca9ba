package ratelimit

import (
	"context"
	"testing"
	"time"
)

// benchmarkTakeAll charges two limiters made by limiter for each request.
func benchmarkTakeAll(b *testing.B, limiter func(Spec) Limiter) {
	spec := Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1_000_000_000, Period: time.Second}}
	charges := []Charge{
		{Limiter: limiter(spec), Request: Request{Key: "k", N: 1}},
		{Limiter: limiter(spec), Request: Request{Key: "k", N: 1}},
	}
	results := make([]Result, len(charges))
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := TakeAll(context.Background(), charges, results); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkTakeAllLocal(b *testing.B) {
	benchmarkTakeAll(b, func(s Spec) Limiter {
		l, err := NewLocal(s)
		if err != nil {
			b.Fatal(err)
		}
		return l
	})
}

// BenchmarkTakeAllRedis decides about both limiters in one script.
func BenchmarkTakeAllRedis(b *testing.B) {
	rdb := realRedis(b)
	c := NewConn(rdb, ConnOptions{Timeout: patience, Prefix: "bench"})
	benchmarkTakeAll(b, func(s Spec) Limiter {
		l, err := c.NewRedis(uniqueName(b), s, RedisOptions{OnFailure: FailLocal})
		if err != nil {
			b.Fatal(err)
		}
		return l
	})
}

// BenchmarkTakeAllMixed charges a local limiter and one on Redis that decides from its lease.
func BenchmarkTakeAllMixed(b *testing.B) {
	rdb := realRedis(b)
	c := NewConn(rdb, ConnOptions{Timeout: patience, Prefix: "bench"})
	n := 0
	benchmarkTakeAll(b, func(s Spec) Limiter {
		var l Limiter
		var err error
		if n++; n == 1 {
			l, err = NewLocal(s)
		} else {
			l, err = c.NewRedis(uniqueName(b), s, RedisOptions{Lease: 0.01})
		}
		if err != nil {
			b.Fatal(err)
		}
		return l
	})
}

func BenchmarkTakeRedis(b *testing.B) {
	l := newBenchRedis(b)
	b.ReportAllocs()
	for b.Loop() {
		if res, err := l.Take(context.Background(), Request{Key: "k", N: 1}); !res.Allowed || err != nil {
			b.Fatal(res, err)
		}
	}
}

func newBenchRedis(b *testing.B) *Redis {
	c := NewConn(realRedis(b), ConnOptions{Timeout: patience, Prefix: "bench"})
	l, err := c.NewRedis(uniqueName(b), Spec{
		Algorithm: TokenBucket,
		Limit:     Limit{Rate: 1_000_000_000, Period: time.Second},
	}, RedisOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func BenchmarkTakeLocal(b *testing.B) {
	l, err := NewLocal(Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1_000_000_000, Period: time.Second}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if res, err := l.Take(context.Background(), Request{Key: "k", N: 1}); !res.Allowed || err != nil {
			b.Fatal(res, err)
		}
	}
}
