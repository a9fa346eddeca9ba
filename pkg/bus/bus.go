// Package bus is the message bus between the services, as they see it: at least once, unordered, with delivery at a
// time to come. Package inproc is the one inside a process, package rocketmq the real one; both pass package bustest.
//
// Everything is delivered at least once. A message may come again at any time, also after it was acknowledged, so a
// handler must be idempotent on a key of its own: neither Delivery.ID nor Delivery.Attempt tells two deliveries of one
// message from those of two messages.
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

// MaxDelay is how far in the future a message's DeliverAt may lie. The broker keeps no timer for longer, and the
// longest pay window is one day.
const MaxDelay = 48 * time.Hour

var (
	// ErrClosed says that the bus was closed.
	ErrClosed = errors.New("bus is closed")
	// ErrTooFar says that DeliverAt is more than MaxDelay away. Publishing the message again is of no use.
	ErrTooFar = errors.New("bus: delivery time is too far away")
)

// Message is what is published.
type Message struct {
	Topic     string
	Keys      []string  // what an operator may search for; no meaning to the bus
	Body      []byte    // not to be changed after Publish was called
	DeliverAt time.Time // zero or past: at once; else not before, and normally within 1 s after
}

// Delivery is one attempt to have a message handled.
type Delivery struct {
	Message
	ID      string // of the published message, for logs
	Attempt int    // from 1; counts the failed attempts that are known where it comes from, so a lost consumer's do not count
}

// Handler handles one delivery and does not change it. nil acknowledges it; an error or a panic is logged by the bus and
// has it delivered again after a growing pause, without a cap on the number of times. While no message of the subscription
// is handled, what all of them need is taken to be away, and the pause may stay short. ctx ends with the subscription's
// Timeout; a handler that does not heed it keeps its place among the Concurrency calls.
type Handler func(ctx context.Context, d Delivery) error

// Subscription names what is consumed and how. All subscribers of one group share the messages of a topic; every group
// gets all of them. A group subscribes to one topic only.
type Subscription struct {
	Topic, Group string
	Concurrency  int           // handler calls at a time; 0 = DefaultConcurrency
	Timeout      time.Duration // of one handler call; 0 = DefaultTimeout
}

// WithDefaults returns s with the defaults in the place of zeros.
func (s Subscription) WithDefaults() Subscription {
	if s.Concurrency == 0 {
		s.Concurrency = DefaultConcurrency
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	return s
}

// Validate tells what is wrong with s.
func (s Subscription) Validate() error {
	switch {
	case s.Topic == "" || s.Group == "":
		return errors.New("bus: a subscription needs a topic and a group")
	case s.Concurrency < 0 || s.Timeout < 0:
		return errors.New("bus: a subscription's concurrency and timeout must not be negative")
	}
	return nil
}

// Handle calls h as s demands: with its timeout, and with a panic turned into an error. It is for implementations of Bus.
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
	// Publish returns nil only once the broker has confirmed the message. After any error the outcome is unknown:
	// publish again (ErrTooFar and ErrClosed excepted). It returns when ctx ends, at the latest.
	Publish(ctx context.Context, m Message) error
}

// Bus publishes and consumes.
type Bus interface {
	Publisher
	// Subscribe returns at once; deliveries begin when broker and topic are there. It fails only for an invalid
	// subscription, a group that this bus has subscribed before, and a closed bus.
	Subscribe(s Subscription, h Handler) error
	// Close stops the intake, waits for the handlers under way so that their results count, and frees everything. What the
	// broker did not hear of any more comes again, as after a crash.
	// It is bounded by ctx: then the handlers' contexts are cancelled and their results may no longer count.
	Close(ctx context.Context) error
}
