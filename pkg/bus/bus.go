// Package bus defines the message bus between the services: delivery at least once, without order, at once or at a
// later time. Package inproc implements it inside one process, package rocketmq on Apache RocketMQ, and package brokerless
// calls the receiver; all pass the conformance suite in package bustest.
//
// A message may be redelivered at any time, also after it was acknowledged. A handler must therefore be idempotent by
// a key of its own: neither Delivery.ID nor Delivery.Attempt distinguishes two deliveries of one message from those of
// two messages.
package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Defaults of a Subscription.
const (
	DefaultConcurrency = 4
	DefaultTimeout     = 30 * time.Second
)

// MaxDelay is the longest time from Publish to DeliverAt. The broker keeps no timer for longer, and the longest pay
// window is one day.
const MaxDelay = 48 * time.Hour

var (
	// ErrClosed means that the bus was closed.
	ErrClosed = errors.New("bus is closed")
	// ErrTooFar means that DeliverAt is more than MaxDelay in the future. A retry cannot succeed.
	ErrTooFar = errors.New("bus: delivery time is too far in the future")
)

// Message is a message to be published.
type Message struct {
	Topic string
	Keys  []string // for operators to search by; the bus does not use them
	Body  []byte   // must not be changed after the call of Publish
	// DeliverAt is a time by the clock of this process, and what is left of it at each send is the delay that the broker
	// gets. Zero or past: deliver at once; else not before it, and normally within 1 s after it. In a Delivery it is a
	// time by the clock of the broker, and may be rounded down.
	DeliverAt time.Time
}

// Delivery is one delivery of a message to a handler.
type Delivery struct {
	Message
	ID      string // of the published message, for logs
	Attempt int    // from 1; may omit failed attempts of consumers that were lost before they reported them
}

// Handler handles one delivery and must not change it. nil acknowledges it. After an error or a panic the bus logs it
// and redelivers the message after a growing pause, without a cap on the number of attempts. While no message of the
// subscription is handled, the bus assumes that a dependency is down, and may keep the pause short. ctx ends with the
// subscription's Timeout; a handler that ignores it still counts as one of the Concurrency calls.
type Handler func(ctx context.Context, d Delivery) error

// Subscription defines which messages are consumed and how. All subscribers of one group share the messages of a topic;
// every group gets all of them. A group subscribes to one topic only.
type Subscription struct {
	Topic, Group string
	Concurrency  int           // handler calls at a time; 0 = DefaultConcurrency
	Timeout      time.Duration // of one handler call; 0 = DefaultTimeout
}

// WithDefaults returns s with zero fields replaced by their defaults.
func (s Subscription) WithDefaults() Subscription {
	if s.Concurrency == 0 {
		s.Concurrency = DefaultConcurrency
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	return s
}

// Validate returns an error if s is invalid.
func (s Subscription) Validate() error {
	switch {
	case s.Topic == "" || s.Group == "":
		return errors.New("bus: a subscription needs a topic and a group")
	case s.Concurrency < 0 || s.Timeout < 0:
		return errors.New("bus: a subscription's concurrency and timeout must not be negative")
	}
	return nil
}

// Handle calls h with the timeout of s and converts a panic into an error. Implementations of Bus use it.
func (s Subscription) Handle(ctx context.Context, h Handler, d Delivery) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return h(ctx, d)
}

// Publisher publishes messages.
type Publisher interface {
	// Publish returns nil only once the broker has confirmed the message. After an error the outcome is unknown, and
	// the caller publishes again, except after ErrTooFar and ErrClosed. It returns when ctx ends, at the latest.
	Publish(ctx context.Context, m Message) error
}

// Bus publishes and consumes.
type Bus interface {
	Publisher
	// Subscribe returns at once; deliveries begin when broker and topic are available. It fails only for an invalid
	// subscription, a group that this bus has already subscribed, and a closed bus.
	Subscribe(s Subscription, h Handler) error
	// Close stops the intake, waits for the running handlers so that their results count, and frees all resources.
	// Messages whose result did not reach the broker are redelivered, as after a crash. When ctx ends first, Close
	// cancels the contexts of the handlers, and their results may no longer count.
	Close(ctx context.Context) error
}
