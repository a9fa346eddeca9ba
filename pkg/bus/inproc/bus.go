// Package inproc implements the message bus inside one process, for allinone and for tests. Its messages are lost when
// the process ends.
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
	// Capacity bounds the memory of the messages of one group, in bytes: waiting, delayed and being handled. Default
	// 256 MiB.
	Capacity int64
	// RetryMin is the approximate pause before the first redelivery. It doubles with each further one, up to RetryMax.
	// Defaults 1 s, 30 s.
	RetryMin, RetryMax time.Duration
}

// Bus is one member of an in-process broker. New creates the broker and its first member, and Join adds further
// members, so that each service of a process can close its own.
type Bus struct {
	broker *broker
	log    *slog.Logger

	mu      sync.Mutex
	closing bool // rejects new subscriptions
	closed  bool // rejects messages as well
	subs    []*subscription
}

var _ bus.Bus = (*Bus)(nil)

// New creates a broker and returns its first member.
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

// Join returns another member of the same broker.
func (b *Bus) Join() *Bus { return &Bus{broker: b.broker, log: b.log} }

// Publish adds the message to the queue of every group of its topic. While a topic has no group, the first group to
// subscribe gets the earlier messages. If a queue is full, Publish fails with ErrFull at once instead of blocking: a
// handler that publishes to the topic it consumes from must not wait for itself.
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

// Close ends this member. Other members and the messages of the broker stay. Running handlers may publish until they
// end.
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
			err = fmt.Errorf("close the bus: handlers of group %s are still running: %w", s.sub.Group, e)
		}
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return err
}
