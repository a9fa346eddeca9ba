package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"flashsale.internal/pkg/ratelimit"
)

const much = 100_000_000 // permits per second; never refused

func limiterOf(a ratelimit.Algorithm, l ratelimit.Limit) (*ratelimit.Local, error) {
	return ratelimit.NewLocal(ratelimit.Spec{Algorithm: a, Limit: l})
}

// hit does what httprate does for a request, without its HTTP fields.
func hit(h *httprate.RateLimiter, key string) {
	if ok, _, _ := h.Status(key); ok {
		_ = h.Counter().IncrementBy(key, time.Now().UTC().Truncate(time.Second), 1)
	}
}

// local compares decisions within the process.
func local(ctx context.Context, rounds int) error {
	x := rate.NewLimiter(much, much)
	u := uber.New(1_000_000_000, uber.WithoutSlack)
	h := httprate.NewRateLimiter(much, time.Second)
	allowed := []*contender{
		{name: "x/time/rate", decide: func(int) { x.Allow() }},
		{name: "uber-go/ratelimit (cannot refuse)", decide: func(int) { u.Take() }},
		{name: "go-chi/httprate", decide: func(int) { hit(h, "k") }},
	}
	refused := rate.NewLimiter(rate.Every(24*time.Hour), 1)
	refused.Allow()
	denied := []*contender{{name: "x/time/rate", decide: func(int) { refused.Allow() }}}
	for _, a := range ratelimit.Algorithms() {
		l := ratelimit.PerSecond(much)
		switch a {
		case ratelimit.SlidingLog:
			l = ratelimit.Limit{Rate: 100_000, Period: time.Millisecond}
		case ratelimit.WarmUp, ratelimit.LeakyQueue:
			l = ratelimit.PerSecond(1_000_000_000)
		}
		yes, err := limiterOf(a, l)
		if err != nil {
			return err
		}
		no, err := limiterOf(a, ratelimit.Limit{Rate: 1, Period: 24 * time.Hour})
		if err != nil {
			return err
		}
		_, _ = no.Take(ctx, ratelimit.Request{N: 1})
		one := ratelimit.Request{N: 1}
		allowed = append(allowed, &contender{name: a.String(), decide: func(int) { _, _ = yes.Take(ctx, one) }})
		denied = append(denied, &contender{name: a.String(), decide: func(int) { _, _ = no.Take(ctx, one) }})
	}
	many, err := manyKeys(ctx)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		title      string
		goroutines int
		contenders []*contender
	}{
		{"one key, allowed, 1 goroutine", 1, allowed},
		{"one key, allowed, " + strconv.Itoa(runtime.NumCPU()) + " goroutines", runtime.NumCPU(), allowed},
		{"one key, refused, 1 goroutine", 1, denied},
		{"50,000 keys, 1 goroutine", 1, many},
	} {
		if err := localTable(ctx, t.title, rounds, t.goroutines, t.contenders); err != nil {
			return err
		}
	}
	return nil
}

// manyKeys returns contenders that have 50,000 keys.
func manyKeys(ctx context.Context) ([]*contender, error) {
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i)
	}
	limiter, err := limiterOf(ratelimit.TokenBucket, ratelimit.PerSecond(much))
	if err != nil {
		return nil, err
	}
	h := httprate.NewRateLimiter(much, time.Hour)
	for _, k := range keys {
		_, _ = limiter.Take(ctx, ratelimit.Request{Key: k, N: 1})
		hit(h, k)
	}
	at := func(i int) string { return keys[i*7919%len(keys)] }
	return []*contender{
		{name: "go-chi/httprate", decide: func(i int) { hit(h, at(i)) }},
		{name: "token_bucket", decide: func(i int) { _, _ = limiter.Take(ctx, ratelimit.Request{Key: at(i), N: 1}) }},
	}, nil
}

// ownTime returns the processor time used by this process.
func ownTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

func localTable(ctx context.Context, title string, rounds, goroutines int, contenders []*contender) error {
	for _, c := range contenders {
		c.spent, c.cpu = nil, nil
	}
	if err := takeTurns(ctx, rounds, 50_000, goroutines, ownTime, contenders); err != nil {
		return err
	}
	fmt.Printf("\nLocal, %s\n%-34s %8s %8s %7s  %s\n", title, "", "ns", "cpu ns", "allocs",
		"times as fast as "+contenders[0].name)
	for _, c := range contenders {
		allocs := testing.AllocsPerRun(1000, func() { c.decide(0) })
		fmt.Printf("%-34s %8.1f %8.1f %7.0f  %s\n", c.name, quantile(c.spent, 0.5), quantile(c.cpu, 0.5), allocs,
			c.against(contenders[0]))
	}
	return nil
}
