// Package inproc is the message bus inside one process, for allinone and for tests. What it holds ends with the process.
package inproc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"flashsale.internal/pkg/bus"
)

// Options of a new bus. Zeros mean the defaults.
type Options struct {
	// Capacity bounds what is kept for one group, in bytes of memory, waiting, delayed and being handled. Default 256 MiB.
	Capacity int64
	// RetryMin is about the pause before the first redelivery; each further one doubles it, up to RetryMax. Defaults 1 s, 30 s.
	RetryMin, RetryMax time.Duration
}

// Bus is one member of an in-process broker. New makes the broker and its first member, Join further ones, so that each
// service of a process can close its own.
type Bus struct {
	broker *broker
	log    *slog.Logger

	mu      sync.Mutex
	closing bool // no more subscriptions
	closed  bool // nor messages
	subs    []*subscription
}

var _ bus.Bus = (*Bus)(nil)

// New makes a broker and its first member.
func New(o Options, log *slog.Logger) *Bus {
	if o.Capacity == 0 {
		o.Capacity = 256 << 20
	}
	if o.RetryMin == 0 {
		o.RetryMin = time.Second
	}
	if o.RetryMax == 0 {
		o.RetryMax = 30 * time.Second
	}
	return &Bus{broker: &broker{opts: o, topics: make(map[string]*topic)}, log: log}
}

// Join makes another member of the same broker.
func (b *Bus) Join() *Bus { return &Bus{broker: b.broker, log: b.log} }

// Publish puts the message before every group of its topic; while a topic has none, the first to come gets what was
// published before it. When there is no room it fails with ErrFull at once rather than block: a handler that publishes
// to the topic it consumes from must not wait for itself.
func (b *Bus) Publish(ctx context.Context, m bus.Message) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Topic, err)
	}
	if time.Until(m.DeliverAt) > bus.MaxDelay {
		return fmt.Errorf("publish to %s: %w", m.Topic, bus.ErrTooFar)
	}
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return bus.ErrClosed
	}
	return b.broker.publish(m)
}

// Subscribe starts the subscription's workers.
func (b *Bus) Subscribe(s bus.Subscription, h bus.Handler) error {
	if err := s.Validate(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return bus.ErrClosed
	}
	for _, other := range b.subs {
		if other.sub.Group == s.Group {
			return fmt.Errorf("bus: group %s is subscribed already", s.Group)
		}
	}
	b.subs = append(b.subs, subscribe(b.broker, s.WithDefaults(), h, b.log))
	return nil
}

// Close ends this member. Others, and what the broker holds, stay. The handlers under way may publish to their end.
func (b *Bus) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closing = true
	subs := b.subs
	b.subs = nil
	b.mu.Unlock()
	for _, s := range subs {
		s.refuse()
	}
	var err error
	for _, s := range subs {
		if e := s.stop(ctx); e != nil {
			err = fmt.Errorf("close the bus: handlers of %s are not done: %w", s.sub.Group, e)
		}
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return err
}
