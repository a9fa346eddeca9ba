package ratelimit

import (
	"context"
	"time"
)

// deadline is the end of all calls to Redis that began at about the same time. They share one timer: a timer for each
// would cost as much as the rest of the work of this package in a call.
type deadline struct {
	at   time.Time
	done chan struct{}
}

// deadline returns the deadline of a call that begins now: after the time-out, or up to a quarter earlier.
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

// callContext is the context of one call. It ends at the deadline and not with the caller's context: the reply to a
// call that was sent is still useful.
type callContext struct {
	context.Context
	*deadline
}

// Deadline returns the deadline of the call.
func (b callContext) Deadline() (time.Time, bool) { return b.at, true }

// Done returns a channel that is closed at the deadline.
func (b callContext) Done() <-chan struct{} { return b.done }

// Err returns context.DeadlineExceeded after the deadline.
func (b callContext) Err() error {
	select {
	case <-b.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
