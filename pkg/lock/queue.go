package lock

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// queues holds one queue per lock name, of the goroutines in this process that request the lock. Only the goroutine
// at the head of a queue calls Redis.
type queues struct {
	mu     sync.Mutex
	byName map[string]*queue // without empty queues
}

type queue struct {
	head chan struct{} // full while a goroutine is at the head; senders on a channel are served in their order
	in   int           // goroutines in the queue, including the head; guarded by queues.mu
}

// enter waits for the head of the queue until the deadline. After the deadline it returns at once. The error is
// ErrNotObtained or that of ctx. leave must be called once.
func (l *queues) enter(ctx context.Context, name string, deadline time.Time) (leave func(), err error) {
	q := l.join(name)
	defer func() {
		if err != nil {
			l.quit(name, q)
		}
	}()
	leave = func() {
		<-q.head
		l.quit(name, q)
	}
	select {
	case q.head <- struct{}{}:
		return leave, nil
	default:
	}
	busy := fmt.Errorf("lock %s: %w: in this process", name, ErrNotObtained)
	wait := time.Until(deadline)
	if wait <= 0 {
		return nil, busy
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case q.head <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, busy
	}
}

func (l *queues) join(name string) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byName[name]
	if q == nil {
		if l.byName == nil {
			l.byName = make(map[string]*queue)
		}
		q = &queue{head: make(chan struct{}, 1)}
		l.byName[name] = q
	}
	q.in++
	return q
}

func (l *queues) quit(name string, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.in--; q.in == 0 {
		delete(l.byName, name)
	}
}
