package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Batch sends many requests over a fixed number of connections, which it opens before the clock starts.
type Batch struct {
	Addr  string // host:port
	Conns int    // connections; each has at most one request in flight
	N     int    // number of requests; 0 means as many as fit into For
	For   time.Duration
	// Rate is the number of requests that become due each second, whether or not earlier ones have a response (open
	// loop, while a connection is free). 0 means that a connection sends its next request after the response (closed
	// loop).
	Rate     float64
	Attempts int // of a request; 0 means 30
	// Request appends request i to buf. It is called concurrently, once for each i.
	Request func(i int, buf []byte) []byte
	// Response handles the response to request i. If it returns true, the request is sent again after a pause, as a 503
	// demands. If Response is nil, every response is final.
	Response func(i int, r *Response) (retry bool)
	// Second appends the request that follows the final response to request i, on the same connection. If it is nil, or
	// appends nothing, request i has no second request. A response to it is handled by SecondResponse, as by Response.
	Second         func(i int, buf []byte) []byte
	SecondResponse func(i int, r *Response) (retry bool)
}

// BatchResult is the result of a Batch.
type BatchResult struct {
	Took time.Duration // from the first request to the last response
	// First counts the responses to requests by status. Its times are from the moment at which a request was due to its
	// final response, with retries and the second request.
	First Step
	// Second counts the responses to second requests by status. Its times are those of a second request alone, with
	// retries.
	Second   Step
	Late     Step   // only times: from the moment at which a request was due until it was sent
	Repeated int    // retries after a 503, a time-out or a broken connection
	GivenUp  int    // requests without a final response
	Example  string // why a request was repeated or given up, the first reason
}

// PerSec returns the number of requests with a final response per second.
func (r *BatchResult) PerSec() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.First.Times.Count) / r.Took.Seconds()
}

const (
	maxAttempts = 30
	firstPause  = 20 * time.Millisecond
	maxPause    = time.Second
)

// sender sends requests over one connection and records the responses.
type sender struct {
	*Conn
	batch               *Batch
	buf                 []byte
	took, second, late  []time.Duration
	statuses, statuses2 map[int]int // of the responses to first and second requests
	repeated, givenUp   int
	example             string
}

// Send opens the connections, sends the requests and waits for the responses.
func (b Batch) Send(ctx context.Context) (BatchResult, error) {
	if b.Conns < 1 || b.N < 1 && b.For <= 0 {
		return BatchResult{}, fmt.Errorf("batch of %d requests for %s over %d connections", b.N, b.For, b.Conns)
	}
	senders := make([]*sender, b.Conns)
	for i := range senders {
		senders[i] = &sender{Conn: NewConn(b.Addr), batch: &b, statuses: map[int]int{}, statuses2: map[int]int{}}
		defer senders[i].Close()
		if err := senders[i].Dial(ctx); err != nil {
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
	out := BatchResult{Took: time.Since(began)}
	var took, second, late []time.Duration
	for _, s := range senders {
		took, second, late = append(took, s.took...), append(second, s.second...), append(late, s.late...)
		for status, n := range s.statuses {
			out.First.Count(strconv.Itoa(status), n)
		}
		for status, n := range s.statuses2 {
			out.Second.Count(strconv.Itoa(status), n)
		}
		out.Repeated += s.repeated
		out.GivenUp += s.givenUp
		out.Example = cmp.Or(out.Example, s.example)
	}
	out.First.Times, out.Second.Times, out.Late.Times = Summarize(took), Summarize(second), Summarize(late)
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
			if Until(ctx, due) != nil {
				return
			}
			s.late = append(s.late, max(0, time.Since(due)))
		}
		s.send(ctx, i, due)
	}
}

// send sends request i and its second request.
func (s *sender) send(ctx context.Context, i int, due time.Time) {
	s.buf = s.batch.Request(i, s.buf[:0])
	if !s.deliver(ctx, i, s.statuses, s.batch.Response) {
		return
	}
	if s.batch.Second != nil {
		began := time.Now()
		if s.buf = s.batch.Second(i, s.buf[:0]); len(s.buf) > 0 {
			if !s.deliver(ctx, i, s.statuses2, s.batch.SecondResponse) {
				return
			}
			s.second = append(s.second, time.Since(began))
		}
	}
	s.took = append(s.took, time.Since(due))
}

// deliver sends the request in s.buf until it has a final response, at most Attempts times. It returns false if there
// was none.
func (s *sender) deliver(
	ctx context.Context, i int, statuses map[int]int, handle func(i int, r *Response) (retry bool),
) bool {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		r, err := s.Exchange(ctx, s.buf)
		if err == nil {
			statuses[r.Status]++
			if handle == nil || !handle(i, &r) {
				return true
			}
			err = fmt.Errorf("status %d: %.200s", r.Status, r.Body)
		}
		if s.example == "" && !errors.Is(err, context.Canceled) {
			s.example = err.Error()
		}
		if attempt == cmp.Or(s.batch.Attempts, maxAttempts) || ctx.Err() != nil {
			s.givenUp++
			return false
		}
		s.repeated++
		_ = Until(ctx, time.Now().Add(pause/2+rand.N(pause))) //nolint:gosec // no secret depends on it
		pause = min(2*pause, maxPause)
	}
}

// Until returns at t, or when ctx ends with the error of ctx.
func Until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
