package gate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"flashsale.internal/services/seckill/internal/core"
)

// grouper lets many callers share one call. A group is what came for one key while the calls of that key were under way,
// so an idle gate answers at once and a busy one answers many with each call. A key's goroutines, one for each call that may
// be under way, live while there is work for them.
//
// A caller waits for nothing but its answer, which comes in time whatever happens: calls end by their time-out, one follows
// the other, and who has waited beyond its patience is told so instead. To wait for a timer and for the caller's leaving as
// well would cost each of a hundred thousand buyers more than their share of the call.
//
// Between idle and busy, calls of two or three callers would follow each other without a pause, and each costs about as much
// as one for fifty (a round trip, a write to disk): after a call that others waited behind, the next one gathers a little.
type grouper[Q, A any] struct {
	call     func(ctx context.Context, key string, asked []Q) ([]A, error)
	timeout  time.Duration // of one call, which heeds its context
	patience time.Duration // of one caller, until its call begins
	maxGroup int           // callers in one call
	maxQueue int           // callers waiting for one key
	maxKeys  int           // keys with callers
	calls    int           // of one key at a time; 0 is 1
	gather   time.Duration // how long a call waits for company after one that had some, unless enough are there

	mu     sync.Mutex
	queues map[string]*queue[Q, A]
	closed bool
	active sync.WaitGroup
	seats  sync.Pool // of chan answer[A]: where one caller waits, and afterwards another
}

type queue[Q, A any] struct {
	waiting []caller[Q, A]
	workers int // at least one while anybody waits
}

type caller[Q, A any] struct {
	asked  Q
	came   time.Time
	answer chan<- answer[A] // holds one: the worker never waits for a caller
}

type answer[A any] struct {
	value A
	err   error
}

var errClosed = errors.New("gate is closed")

// do asks for one caller and waits for its call at most g.patience, and for the call at most g.timeout. After an error the
// outcome may be unknown to the caller.
func (g *grouper[Q, A]) do(key string, asked Q) (A, error) {
	seat, ok := g.seats.Get().(chan answer[A])
	if !ok {
		seat = make(chan answer[A], 1)
	}
	if err := g.enqueue(key, caller[Q, A]{asked, time.Now(), seat}); err != nil {
		var none A
		return none, err
	}
	a := <-seat
	g.seats.Put(seat)
	return a.value, a.err
}

func (g *grouper[Q, A]) enqueue(key string, c caller[Q, A]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fmt.Errorf("%w: %w", core.ErrOverloaded, errClosed)
	}
	q := g.queues[key]
	if q == nil {
		if len(g.queues) >= g.maxKeys {
			return core.ErrOverloaded
		}
		if g.queues == nil {
			g.queues = map[string]*queue[Q, A]{}
		}
		q = &queue[Q, A]{}
		g.queues[key] = q
	}
	if len(q.waiting) >= g.maxQueue {
		return core.ErrOverloaded
	}
	q.waiting = append(q.waiting, c)
	if q.workers == 0 || q.workers < g.calls && len(q.waiting) >= enough {
		q.workers++
		g.active.Add(1)
		go g.work(key, q)
	}
	return nil
}

// enough callers are sent without gathering more, in a further call if there may be one.
const enough = 16

func (g *grouper[Q, A]) work(key string, q *queue[Q, A]) {
	defer g.active.Done()
	for served := 0; ; {
		g.mu.Lock()
		if n := len(q.waiting); g.gather > 0 && served > 1 && n > 0 && n < enough && !g.closed {
			g.mu.Unlock()
			time.Sleep(g.gather)
			g.mu.Lock()
		}
		n := min(g.maxGroup, len(q.waiting))
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
		served = n
		if group = g.dismissLate(group); len(group) > 0 {
			g.serve(key, group)
		}
	}
}

var errLate = fmt.Errorf("waiting for the gate: %w", context.DeadlineExceeded)

// dismissLate tells those of a group, which is in the order of their coming, who have waited too long, and returns the others.
func (g *grouper[Q, A]) dismissLate(group []caller[Q, A]) []caller[Q, A] {
	since := time.Now().Add(-g.patience)
	for len(group) > 0 && group[0].came.Before(since) {
		group[0].answer <- answer[A]{err: errLate}
		group = group[1:]
	}
	return group
}

func (g *grouper[Q, A]) serve(key string, group []caller[Q, A]) {
	asked := make([]Q, len(group))
	for i, c := range group {
		asked[i] = c.asked
	}
	answers, err := g.protected(key, asked)
	if err == nil && len(answers) != len(group) {
		err = fmt.Errorf("%d answers for %d callers", len(answers), len(group))
	}
	for i, c := range group {
		a := answer[A]{err: err}
		if err == nil {
			a.value = answers[i]
		}
		c.answer <- a
	}
}

func (g *grouper[Q, A]) protected(key string, asked []Q) (answers []A, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	// Detached on purpose: one caller's leaving must not end the call of the others.
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	return g.call(ctx, key, asked)
}

// close takes no further callers and waits for those who are there.
func (g *grouper[Q, A]) close(ctx context.Context) {
	g.mu.Lock()
	g.closed = true
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
