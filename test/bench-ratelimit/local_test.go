package benchratelimit

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"flashsale.internal/pkg/ratelimit"
)

const much = 100_000_000 // per second: never refused

func local(b *testing.B, a ratelimit.Algorithm, l ratelimit.Limit) *ratelimit.Local {
	b.Helper()
	limiter, err := ratelimit.NewLocal(ratelimit.Spec{Algorithm: a, Limit: l})
	if err != nil {
		b.Fatal(err)
	}
	return limiter
}

// processTime is what this process has used of the processors: unlike the time on the wall, it says something on a machine
// that has other things to do as well.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// each runs a decision one after the other and on all processors.
func each(b *testing.B, name string, decide func(i int)) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		spent := processTime()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				decide(i)
			}
		})
		b.ReportMetric(float64(processTime()-spent)/float64(b.N), "cpu-ns/op")
	})
}

// hit is what httprate does for a request, without its HTTP fields.
func hit(h *httprate.RateLimiter, key string) {
	if ok, _, _ := h.Status(key); ok {
		_ = h.Counter().IncrementBy(key, time.Now().UTC().Truncate(time.Second), 1)
	}
}

func BenchmarkLocalAllowed(b *testing.B) {
	ctx := context.Background()
	for _, a := range ratelimit.Algorithms() {
		l := ratelimit.PerSecond(much)
		switch a {
		case ratelimit.SlidingLog:
			l = ratelimit.Limit{Rate: 100_000, Period: time.Millisecond}
		case ratelimit.WarmUp, ratelimit.LeakyQueue:
			l = ratelimit.PerSecond(1_000_000_000)
		}
		limiter := local(b, a, l)
		each(b, "flashsale/"+a.String(), func(int) { _, _ = limiter.Take(ctx, ratelimit.Request{N: 1}) })
	}
	x := rate.NewLimiter(much, much)
	each(b, "x-time-rate", func(int) { x.Allow() })
	u := uber.New(1_000_000_000, uber.WithoutSlack)
	each(b, "uber-ratelimit", func(int) { u.Take() })
	h := httprate.NewRateLimiter(much, time.Second)
	each(b, "httprate", func(int) { hit(h, "k") })
}

func BenchmarkLocalDenied(b *testing.B) {
	ctx := context.Background()
	for _, a := range ratelimit.Algorithms() {
		limiter := local(b, a, ratelimit.Limit{Rate: 1, Period: 24 * time.Hour})
		_, _ = limiter.Take(ctx, ratelimit.Request{N: 1})
		each(b, "flashsale/"+a.String(), func(int) { _, _ = limiter.Take(ctx, ratelimit.Request{N: 1}) })
	}
	x := rate.NewLimiter(rate.Every(24*time.Hour), 1)
	x.Allow()
	each(b, "x-time-rate", func(int) { x.Allow() })
}

func BenchmarkLocalManyKeys(b *testing.B) {
	ctx := context.Background()
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i)
	}
	limiter := local(b, ratelimit.TokenBucket, ratelimit.PerSecond(much))
	for _, k := range keys {
		_, _ = limiter.Take(ctx, ratelimit.Request{Key: k, N: 1})
	}
	each(b, "flashsale/token_bucket", func(i int) { _, _ = limiter.Take(ctx, ratelimit.Request{Key: keys[i*7919%len(keys)], N: 1}) })
	h := httprate.NewRateLimiter(much, time.Second)
	each(b, "httprate", func(i int) { hit(h, keys[i*7919%len(keys)]) })
}
