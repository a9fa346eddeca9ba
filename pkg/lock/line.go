package lock

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// lines are the goroutines of this process that want a lock, one line per name. Who is at the head deals with Redis.
type lines struct {
	mu     sync.Mutex
	byName map[string]*line // only those with somebody in them
}

type line struct {
	head chan struct{} // holds one item while somebody is at the head; a channel lets in those who wait in their order
	in   int           // how many stand in it, the head counted; guarded by lines.mu
}

// enter waits for the head of the line until the deadline; with one that is over it only looks. The error is
// ErrNotObtained or that of ctx. leave must be called once.
func (l *lines) enter(ctx context.Context, name string, deadline time.Time) (leave func(), err error) {
	q := l.join(name)
	defer func() {
		if err != nil {
			l.part(name, q)
		}
	}()
	leave = func() {
		<-q.head
		l.part(name, q)
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

func (l *lines) join(name string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byName[name]
	if q == nil {
		if l.byName == nil {
			l.byName = make(map[string]*line)
		}
		q = &line{head: make(chan struct{}, 1)}
		l.byName[name] = q
	}
	q.in++
	return q
}

func (l *lines) part(name string, q *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.in--; q.in == 0 {
		delete(l.byName, name)
	}
}
