package ratelimit

import (
	"context"
	"time"
)

// deadline is when calls to Redis that began about the same time have to be over. They share one timer: a timer for each
// would cost as much as all else that this package does for a call.
type deadline struct {
	at   time.Time
	done chan struct{}
}

// deadline is for a call that begins now: the time-out, or up to a quarter less.
func (c *Conn) deadline() *deadline {
	now := time.Now()
	if d := c.latest.Load(); d != nil && d.at.Sub(now) > c.o.Timeout*3/4 {
		return d
	}
	d := &deadline{at: now.Add(c.o.Timeout), done: make(chan struct{})}
	time.AfterFunc(c.o.Timeout, func() { close(d.done) })
	c.latest.Store(d)
	return d
}

// callContext is a caller's context for one call. It ends by the deadline and not with the caller: a call that was sent is worth
// its answer.
type callContext struct {
	context.Context
	*deadline
}

// Deadline is when the call is given up.
func (b callContext) Deadline() (time.Time, bool) { return b.at, true }

// Done is closed then.
func (b callContext) Done() <-chan struct{} { return b.done }

// Err is set then.
func (b callContext) Err() error {
	select {
	case <-b.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
