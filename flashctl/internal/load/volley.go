package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/internal/latency"
)

// Volley is many requests over a fixed number of connections that are open before the clock starts. It is what every
// figure of the benchmarks is measured with, the bare handler's too.
type Volley struct {
	Addr  string // host:port
	Conns int    // requests under way at a time, one to a connection
	N     int    // requests; 0: as many as fit into For
	For   time.Duration
	// Rate is how many requests are due in a second, whether or not earlier ones have their answer (open loop, as long as a
	// connection is free); 0: each connection sends its next request when it has its answer (closed loop).
	Rate float64
	// Request appends request i to buf. It is called by many goroutines, for each i by one.
	Request func(i int, buf []byte) []byte
	// Answer takes the answer to request i; body is good during the call only. True has the same request sent again after
	// a pause, as an answer 503 asks for. Nil: every answer is good.
	Answer func(i, status int, body []byte) (again bool)
}

// Volleyed is what came of a Volley.
type Volleyed struct {
	Began    time.Time       `json:"began"`
	Took     time.Duration   `json:"took_ns"` // from the first request to the last answer
	Count    int             `json:"count"`   // requests answered for good
	PerSec   float64         `json:"per_s"`
	Latency  latency.Summary `json:"latency"` // of a request from when it was due, repetitions included
	Statuses map[int]int     `json:"statuses"`
	Repeated int             `json:"repeated"` // requests sent again after 503, a time-out or a broken connection
	GivenUp  int             `json:"given_up"` // requests without a final answer
	Example  string          `json:"example,omitempty"`
}

const (
	exchangeTimeout = 10 * time.Second
	maxAttempts     = 30
	firstPause      = 20 * time.Millisecond
	lastPause       = time.Second
)

// gunner is one connection and what it has seen.
type gunner struct {
	*wire
	v        *Volley
	buf      []byte
	took     []time.Duration
	statuses map[int]int
	repeated int
	givenUp  int
	example  string
}

// Fire opens the connections, sends the requests and waits for the answers.
func (v Volley) Fire(ctx context.Context) (Volleyed, error) {
	if v.Conns < 1 || v.N < 1 && v.For <= 0 {
		return Volleyed{}, fmt.Errorf("volley of %d requests for %s over %d connections", v.N, v.For, v.Conns)
	}
	gunners := make([]*gunner, v.Conns)
	for i := range gunners {
		gunners[i] = &gunner{wire: newWire(v.Addr, exchangeTimeout), v: &v, statuses: map[int]int{}}
		defer gunners[i].close()
		if err := gunners[i].dial(ctx); err != nil {
			return Volleyed{}, fmt.Errorf("connection %d of %d: %w", i+1, v.Conns, err)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, g := range gunners {
		wg.Go(func() { g.work(ctx, began, &next) })
	}
	wg.Wait()
	out := Volleyed{Began: began, Took: time.Since(began), Statuses: map[int]int{}}
	var all []time.Duration
	for _, g := range gunners {
		all = append(all, g.took...)
		for s, n := range g.statuses {
			out.Statuses[s] += n
		}
		out.Repeated += g.repeated
		out.GivenUp += g.givenUp
		if out.Example == "" {
			out.Example = g.example
		}
	}
	out.Count = len(all)
	out.PerSec = float64(out.Count) / out.Took.Seconds()
	out.Latency = latency.Of(all)
	return out, ctx.Err()
}

// work sends one request after the other until there is none left or the time is over.
func (g *gunner) work(ctx context.Context, began time.Time, next *atomic.Int64) {
	for ctx.Err() == nil {
		i := int(next.Add(1)) - 1
		if g.v.N > 0 && i >= g.v.N {
			return
		}
		due := time.Now()
		if g.v.Rate > 0 {
			due = began.Add(time.Duration(float64(i) / g.v.Rate * float64(time.Second)))
		}
		if g.v.For > 0 && due.Sub(began) >= g.v.For {
			return
		}
		if g.v.Rate > 0 {
			until(ctx, due)
		}
		g.shoot(ctx, i, due)
	}
}

func (g *gunner) shoot(ctx context.Context, i int, due time.Time) {
	g.buf = g.v.Request(i, g.buf[:0])
	pause := firstPause
	for attempt := 1; ; attempt++ {
		status, body, err := g.exchange(ctx, g.buf, time.Now())
		if err == nil {
			g.statuses[status]++
			if g.v.Answer == nil || !g.v.Answer(i, status, body) {
				g.took = append(g.took, time.Since(due))
				return
			}
			err = fmt.Errorf("status %d: %.200s", status, body)
		}
		if g.example == "" && !errors.Is(err, context.Canceled) {
			g.example = err.Error()
		}
		if attempt == maxAttempts || ctx.Err() != nil {
			g.givenUp++
			return
		}
		g.repeated++
		until(ctx, time.Now().Add(pause/2+rand.N(pause))) //nolint:gosec // no secret depends on it
		pause = min(2*pause, lastPause)
	}
}
