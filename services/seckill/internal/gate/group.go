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

// grouper lets many callers share one call. A group is what came for one key while the previous call of that key was
// under way, so an idle gate answers at once and a busy one answers many with each call. There is at most one call of a
// key at a time. A key's goroutine lives while there is work for it.
//
// Between idle and busy, calls of two or three callers would follow each other without a pause, and each costs about as much
// as one for fifty (a round trip, a write to disk): after a call that others waited behind, the next one gathers a little.
type grouper[Q, A any] struct {
	call     func(ctx context.Context, key string, asked []Q) ([]A, error)
	timeout  time.Duration // of one call
	wait     time.Duration // of one caller
	maxGroup int           // callers in one call
	maxQueue int           // callers waiting for one key
	maxKeys  int           // keys with callers
	gather   time.Duration // how long a call waits for company after one that had some, unless enough are there

	mu     sync.Mutex
	queues map[string]*queue[Q, A]
	closed bool
	active sync.WaitGroup
	idle   sync.Pool // of *seat[A]
}

// seat is where one caller waits. It is used again, but for one that a caller has left: its answer may still come.
type seat[A any] struct {
	answer chan answer[A] // holds one, so that the worker never waits for a caller that has left
	timer  *time.Timer
}

func (g *grouper[Q, A]) seat() *seat[A] {
	if s, ok := g.idle.Get().(*seat[A]); ok {
		s.timer.Reset(g.wait)
		return s
	}
	return &seat[A]{answer: make(chan answer[A], 1), timer: time.NewTimer(g.wait)}
}

type queue[Q, A any] struct{ waiting []caller[Q, A] }

type caller[Q, A any] struct {
	asked  Q
	answer chan<- answer[A]
}

type answer[A any] struct {
	value A
	err   error
}

var errClosed = errors.New("gate is closed")

// do asks for one caller and waits no longer than its ctx and g.wait. The call itself goes on then: its outcome is unknown
// to the caller.
func (g *grouper[Q, A]) do(ctx context.Context, key string, asked Q) (A, error) {
	var none A
	s := g.seat()
	if err := g.enqueue(key, caller[Q, A]{asked, s.answer}); err != nil {
		s.timer.Stop()
		return none, err
	}
	select {
	case a := <-s.answer:
		s.timer.Stop()
		g.idle.Put(s)
		return a.value, a.err
	case <-ctx.Done():
		s.timer.Stop()
		return none, fmt.Errorf("waiting for the gate: %w", ctx.Err())
	case <-s.timer.C:
		return none, fmt.Errorf("waiting for the gate: %w", context.DeadlineExceeded)
	}
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
		g.active.Add(1)
		go g.work(key, q)
	}
	if len(q.waiting) >= g.maxQueue {
		return core.ErrOverloaded
	}
	q.waiting = append(q.waiting, c)
	return nil
}

// enough callers are sent without gathering more.
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
			delete(g.queues, key)
			g.mu.Unlock()
			return
		}
		group := q.waiting[:n:n]
		q.waiting = q.waiting[n:]
		g.mu.Unlock()
		g.serve(key, group)
		served = n
	}
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
