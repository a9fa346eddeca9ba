// Package grouping combines the requests of many callers into few calls.
package grouping

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"flashsale.internal/services/seckill/internal/core"
)

// maxKeys bounds the keys with requests.
const maxKeys = 1024

// Bounds are the bounds of an installation.
type Bounds struct {
	CallTimeout time.Duration // of one call, which must observe its context
	// CallerWait bounds the wait of one caller, from its request to the end of its call; default 3 s. If CallTimeout is
	// more than three quarters of it, the bound is CallerWait/4 + CallTimeout instead.
	CallerWait time.Duration
	Queue      int // requests waiting for one key
}

// Options are the options of a Grouper.
type Options struct {
	Bounds
	Size    int  // requests in one call
	Calls   int  // calls in flight for one key; 0 means 1
	Gathers bool // whether calls wait for more requests

	// Waited, if set, is called before each call with the number of its requests and their mean wait for the call before.
	// It must not block.
	Waited func(n int, mean time.Duration)
	// Delay, if set, returns the time until the next call should begin. It must not block.
	Delay func() time.Duration
}

// Call makes one call for the requests of many callers. It returns a result for each, in their order.
type Call[Q, A any] func(ctx context.Context, key string, requests []Q) ([]A, error)

// Grouper combines the requests of many callers into few calls. A group is the requests for one key that arrive while
// the calls of that key are in flight. An idle Grouper therefore calls at once, and a busy one serves many requests
// with each call. The workers of a key, one for each call that may be in flight, live while there are requests.
//
// A caller waits for its reply only. It has no timer and does not watch its context: with a hundred thousand buyers,
// these would cost more for each caller than its share of the call. The wait is bounded nevertheless: each call ends by
// its time-out, the next one follows after a bounded pause, and a caller that waited longer than maxWait for its call
// gets an error. Method gathering decides on the pauses.
type Grouper[Q, A any] struct {
	Options
	call    Call[Q, A]
	maxWait time.Duration // of one caller, until its call begins

	mu      sync.Mutex
	queues  map[string]*queue[Q, A]
	closed  bool
	active  sync.WaitGroup
	replies sync.Pool // of chan reply[A], reused by later callers
}

// New returns a Grouper. Its goroutines live while callers wait.
func New[Q, A any](o Options, call Call[Q, A]) *Grouper[Q, A] {
	if o.CallerWait <= 0 {
		o.CallerWait = 3 * time.Second
	}
	return &Grouper[Q, A]{
		// CallerWait covers the wait in the queue and the call. At least a quarter of it is for the queue, also if
		// CallTimeout equals CallerWait. In that case a caller may wait for longer than CallerWait.
		Options: o, call: call, maxWait: max(o.CallerWait-o.CallTimeout, o.CallerWait/4),
	}
}

type queue[Q, A any] struct {
	waiting []waiter[Q, A]
	workers int           // at least one while requests wait
	enough  int           // number of waiting requests that ends the pause of a worker; 0 means that none pauses
	filled  chan struct{} // ends that pause
}

// waiter is one request in the queue.
type waiter[Q, A any] struct {
	request  Q
	enqueued time.Time
	reply    chan<- reply[A] // has a buffer of one, so that the worker never blocks
}

type reply[A any] struct {
	value A
	err   error
}

var errClosed = errors.New("calls are closed")

// Do sends one request with a group and returns its reply. It waits at most maxWait for the call to begin and CallTimeout
// for its end. After an error the outcome may be unknown.
func (g *Grouper[Q, A]) Do(key string, request Q) (A, error) {
	ch, ok := g.replies.Get().(chan reply[A])
	if !ok {
		ch = make(chan reply[A], 1)
	}
	if err := g.enqueue(key, waiter[Q, A]{request, time.Now(), ch}); err != nil {
		var none A
		return none, err
	}
	r := <-ch
	g.replies.Put(ch)
	return r.value, r.err
}

func (g *Grouper[Q, A]) enqueue(key string, w waiter[Q, A]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fmt.Errorf("%w: %w", core.ErrOverloaded, errClosed)
	}
	q := g.queues[key]
	if q == nil {
		if len(g.queues) >= maxKeys {
			return core.ErrOverloaded
		}
		if g.queues == nil {
			g.queues = map[string]*queue[Q, A]{}
		}
		q = &queue[Q, A]{filled: make(chan struct{}, 1)}
		g.queues[key] = q
	}
	if len(q.waiting) >= g.Queue {
		return core.ErrOverloaded
	}
	q.waiting = append(q.waiting, w)
	if q.enough > 0 && len(q.waiting) >= q.enough {
		q.endPause()
	}
	if q.workers == 0 || q.workers < g.Calls && len(q.waiting) >= largeGroup {
		q.workers++
		g.active.Add(1)
		go g.work(key, q)
	}
	return nil
}

// work makes calls for one key until no request waits.
func (g *Grouper[Q, A]) work(key string, q *queue[Q, A]) {
	defer g.active.Done()
	var last lastCall
	for {
		ready := time.Now() // from now on, requests wait because of a pause and not because of a call
		g.pause(q, last)
		g.mu.Lock()
		n := min(g.Size, len(q.waiting))
		if n == 0 {
			if q.workers--; q.workers == 0 {
				delete(g.queues, key)
			}
			g.mu.Unlock()
			return
		}
		group := q.waiting[:n:n]
		q.waiting = q.waiting[n:]
		g.mu.Unlock()
		last = lastCall{requests: n}
		if group = g.rejectLate(group); len(group) > 0 {
			if g.Waited != nil {
				g.Waited(len(group), meanWait(group, ready))
			}
			began := time.Now()
			g.callGroup(key, group)
			last.took = time.Since(began)
		}
	}
}

// pause waits before the next call of a worker, while requests wait.
func (g *Grouper[Q, A]) pause(q *queue[Q, A], last lastCall) {
	g.mu.Lock()
	n := len(q.waiting)
	if n == 0 || g.closed {
		g.mu.Unlock()
		return
	}
	enough, d := g.gathering(last, n)
	if g.Delay != nil && n < g.Queue/4 {
		// Only as long as the requests are still called in good time, and while the queue has room for more.
		paced := min(g.Delay(), g.maxWait/4-time.Since(q.waiting[0].enqueued))
		if paced > d {
			enough, d = g.Queue/4, paced
		}
	}
	if d <= 0 {
		g.mu.Unlock()
		return
	}
	q.enough = enough
	g.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.filled:
	}
	g.mu.Lock()
	q.enough = 0
	select { // the pause may have ended by both
	case <-q.filled:
	default:
	}
	g.mu.Unlock()
}

// endPause ends the pause of a worker. The caller holds the lock.
func (q *queue[Q, A]) endPause() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// meanWait returns the mean time that requests waited until then.
func meanWait[Q, A any](group []waiter[Q, A], until time.Time) time.Duration {
	var sum time.Duration
	for _, w := range group {
		sum += max(until.Sub(w.enqueued), 0)
	}
	return sum / time.Duration(len(group))
}

var errLate = fmt.Errorf("waiting for a call: %w", context.DeadlineExceeded)

// rejectLate replies errLate to the requests that waited longer than maxWait and returns the others. The group is
// ordered by arrival.
func (g *Grouper[Q, A]) rejectLate(group []waiter[Q, A]) []waiter[Q, A] {
	since := time.Now().Add(-g.maxWait)
	for len(group) > 0 && group[0].enqueued.Before(since) {
		group[0].reply <- reply[A]{err: errLate}
		group = group[1:]
	}
	return group
}

// callGroup makes one call and replies to each waiter of the group.
func (g *Grouper[Q, A]) callGroup(key string, group []waiter[Q, A]) {
	requests := make([]Q, len(group))
	for i, w := range group {
		requests[i] = w.request
	}
	results, err := g.callRecovering(key, requests)
	if err == nil && len(results) != len(group) {
		err = fmt.Errorf("%d results for %d requests", len(results), len(group))
	}
	for i, w := range group {
		r := reply[A]{err: err}
		if err == nil {
			r.value = results[i]
		}
		w.reply <- r
	}
}

// callRecovering makes one call and converts a panic to an error.
func (g *Grouper[Q, A]) callRecovering(key string, requests []Q) (results []A, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	// Not the context of a caller: if one caller leaves, the call must go on for the others.
	ctx, cancel := context.WithTimeout(context.Background(), g.CallTimeout)
	defer cancel()
	return g.call(ctx, key, requests)
}

// Close refuses new requests and waits for those in flight until ctx ends.
func (g *Grouper[Q, A]) Close(ctx context.Context) {
	g.mu.Lock()
	g.closed = true
	for _, q := range g.queues {
		q.endPause()
	}
	g.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		g.active.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

const (
	// gather is the longest pause of a call that waits for more requests. A call with few requests costs about as much as
	// one with fifty: a round trip and a write to disk.
	gather = 2 * time.Millisecond
	// largeGroup is the number of waiting requests from which a call no longer waits for others to arrive by chance, and
	// from which a further worker starts, up to Options.Calls.
	largeGroup = 16
	// fullGroup is the number of requests from which a larger call costs hardly less for each of them.
	fullGroup = 64
)

// lastCall describes the last call of a worker. It is zero for the first one.
type lastCall struct {
	requests int
	took     time.Duration
}

// gathering returns how long the next call waits while that many requests wait, and the number of requests that ends
// the wait early. The first call of a worker and one that follows a single request do not wait: an idle key is called
// at once.
//
// While fewer than largeGroup wait, the call waits for gather at most. While more wait, one call at a time serves a
// closed loop: the callers of the last call return while the next one is in flight, and groups alternate between the
// two halves of the callers. Then the call waits for three quarters of both, for at most half as long as the last call
// took.
func (g *Grouper[Q, A]) gathering(last lastCall, waiting int) (enough int, wait time.Duration) {
	if !g.Gathers || last.requests < 2 {
		return 0, 0
	}
	enough = largeGroup
	if g.Calls <= 1 {
		enough = min(max((last.requests+waiting)*3/4, largeGroup), fullGroup, g.Size)
	}
	switch {
	case waiting >= enough:
		return 0, 0
	case waiting < largeGroup:
		return enough, gather
	}
	return enough, min(last.took/2, gather)
}
