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

// Batch sends many requests over a fixed number of connections, which it opens before the clock starts. Every figure
// of the benchmarks is measured with it, that of the bare handler too.
type Batch struct {
	Addr  string // host:port
	Conns int    // connections; each has at most one request in flight
	N     int    // number of requests; 0 means as many as fit into For
	For   time.Duration
	// Rate is the number of requests that become due each second, whether or not earlier ones have a response (open
	// loop, while a connection is free). 0 means that a connection sends its next request after the response (closed
	// loop).
	Rate float64
	// Request appends request i to buf. It is called concurrently, once for each i.
	Request func(i int, buf []byte) []byte
	// Response handles the response to request i; body is valid during the call only. If it returns true, the request
	// is sent again after a pause, as a 503 demands. If Response is nil, every response is final.
	Response func(i, status int, body []byte) (retry bool)
	// Second appends the request that follows the final response to request i, on the same connection. If it is nil, or
	// appends nothing, request i has no second request. A response to it is handled by SecondResponse, as by Response.
	Second         func(i int, buf []byte) []byte
	SecondResponse func(i, status int, body []byte) (retry bool)
}

// BatchResult is the result of a Batch.
type BatchResult struct {
	Began    time.Time       `json:"began"`
	Took     time.Duration   `json:"took_ns"` // from the first request to the last response
	Count    int             `json:"count"`   // requests with a final response, also to their second requests
	PerSec   float64         `json:"per_s"`
	Latency  latency.Summary `json:"latency"` // of a request, from the time it was due, including its retries
	Second   latency.Summary `json:"second"`  // of a second request alone, including its retries
	Statuses map[int]int     `json:"statuses"`
	Repeated int             `json:"repeated"` // retries after a 503, a time-out or a broken connection
	GivenUp  int             `json:"given_up"` // requests without a final response
	Example  string          `json:"example,omitempty"`
}

const (
	exchangeTimeout = 10 * time.Second
	maxAttempts     = 30
	firstPause      = 20 * time.Millisecond
	maxPause        = time.Second
)

// sender sends requests over one connection and records the responses.
type sender struct {
	*wire
	batch    *Batch
	buf      []byte
	took     []time.Duration
	second   []time.Duration
	statuses map[int]int
	repeated int
	givenUp  int
	example  string
}

// Send opens the connections, sends the requests and waits for the responses.
func (b Batch) Send(ctx context.Context) (BatchResult, error) {
	if b.Conns < 1 || b.N < 1 && b.For <= 0 {
		return BatchResult{}, fmt.Errorf("batch of %d requests for %s over %d connections", b.N, b.For, b.Conns)
	}
	senders := make([]*sender, b.Conns)
	for i := range senders {
		senders[i] = &sender{wire: newWire(b.Addr, exchangeTimeout), batch: &b, statuses: map[int]int{}}
		defer senders[i].close()
		if err := senders[i].dial(ctx); err != nil {
			return BatchResult{}, fmt.Errorf("connection %d of %d: %w", i+1, b.Conns, err)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, s := range senders {
		wg.Go(func() { s.run(ctx, began, &next) })
	}
	wg.Wait()
	out := BatchResult{Began: began, Took: time.Since(began), Statuses: map[int]int{}}
	var all, second []time.Duration
	for _, s := range senders {
		all, second = append(all, s.took...), append(second, s.second...)
		for status, n := range s.statuses {
			out.Statuses[status] += n
		}
		out.Repeated += s.repeated
		out.GivenUp += s.givenUp
		if out.Example == "" {
			out.Example = s.example
		}
	}
	out.Count = len(all)
	out.PerSec = float64(out.Count) / out.Took.Seconds()
	out.Latency, out.Second = latency.Of(all), latency.Of(second)
	return out, ctx.Err()
}

// run sends requests until none is left or the time is up.
func (s *sender) run(ctx context.Context, began time.Time, next *atomic.Int64) {
	for ctx.Err() == nil {
		i := int(next.Add(1)) - 1
		if s.batch.N > 0 && i >= s.batch.N {
			return
		}
		due := time.Now()
		if s.batch.Rate > 0 {
			due = began.Add(time.Duration(float64(i) / s.batch.Rate * float64(time.Second)))
		}
		if s.batch.For > 0 && due.Sub(began) >= s.batch.For {
			return
		}
		if s.batch.Rate > 0 {
			until(ctx, due)
		}
		s.send(ctx, i, due)
	}
}

// send sends request i and its second request.
func (s *sender) send(ctx context.Context, i int, due time.Time) {
	s.buf = s.batch.Request(i, s.buf[:0])
	if !s.deliver(ctx, i, s.batch.Response) {
		return
	}
	if s.batch.Second != nil {
		began := time.Now()
		if s.buf = s.batch.Second(i, s.buf[:0]); len(s.buf) > 0 {
			if !s.deliver(ctx, i, s.batch.SecondResponse) {
				return
			}
			s.second = append(s.second, time.Since(began))
		}
	}
	s.took = append(s.took, time.Since(due))
}

// deliver sends the request in s.buf until it has a final response, at most maxAttempts times. It returns false if
// there was none.
func (s *sender) deliver(ctx context.Context, i int, handle func(i, status int, body []byte) (retry bool)) bool {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		status, body, err := s.exchange(ctx, s.buf, time.Now())
		if err == nil {
			s.statuses[status]++
			if handle == nil || !handle(i, status, body) {
				return true
			}
			err = fmt.Errorf("status %d: %.200s", status, body)
		}
		if s.example == "" && !errors.Is(err, context.Canceled) {
			s.example = err.Error()
		}
		if attempt == maxAttempts || ctx.Err() != nil {
			s.givenUp++
			return false
		}
		s.repeated++
		until(ctx, time.Now().Add(pause/2+rand.N(pause))) //nolint:gosec // no secret depends on it
		pause = min(2*pause, maxPause)
	}
}
