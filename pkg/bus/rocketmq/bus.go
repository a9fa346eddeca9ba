// Package rocketmq is the message bus on Apache RocketMQ 5, by the remoting protocol of its Go client.
//
// The client library is used for what it does well, sending and pulling; what it leaves to chance is done here: sends
// are bounded and their callers always come back, a consumer object is built only once its topic can be routed, and is
// replaced as soon as a broker that was lost answers again (by itself the client stays silent for up to half a minute).
//
// Each replaced consumer object leaves some sleeping goroutines of the client behind for up to 15 minutes and more; the
// pause between replacements grows to bound them.
package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"flashsale.internal/pkg/bus"
)

// Config says where RocketMQ is and how it is used.
type Config struct {
	NameServers []string // host:port; names are looked up at each connect
	// Prefix goes before the names of topics and groups in the broker, so that several systems or tests can share one.
	Prefix string
	// PublishTimeout bounds one Publish, waiting for its turn included. Default 3 s.
	PublishTimeout time.Duration
	// MaxSends bounds the sends under way, also those that nobody waits for any more. Default 64.
	MaxSends int
}

func (c Config) withDefaults() Config {
	if c.PublishTimeout == 0 {
		c.PublishTimeout = 3 * time.Second
	}
	if c.MaxSends == 0 {
		c.MaxSends = 64
	}
	return c
}

func (c Config) validate() error {
	if len(c.NameServers) == 0 {
		return errors.New("rocketmq: no name server is given")
	}
	for _, a := range c.NameServers {
		if !strings.Contains(a, ":") || strings.Contains(a, "/") {
			return fmt.Errorf("rocketmq: name server %q is not host:port", a)
		}
	}
	if c.PublishTimeout < 0 || c.MaxSends < 0 {
		return errors.New("rocketmq: publish timeout and number of sends must not be negative")
	}
	return nil
}

// Bus publishes to and consumes from RocketMQ.
type Bus struct {
	cfg    Config
	log    *slog.Logger
	sender *sender
	tune   func(*subscription) // for tests; may be nil

	mu     sync.Mutex
	closed bool
	subs   []*subscription
}

var _ bus.Bus = (*Bus)(nil)

// New makes a bus. It dials nothing, so it works while RocketMQ is away; an error means an invalid configuration. The
// client library has one logger in a process: it is the first bus's.
func New(cfg Config, log *slog.Logger) (*Bus, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	bridgeClientLog(log)
	s, err := newSender(cfg, log)
	if err != nil {
		return nil, err
	}
	return &Bus{cfg: cfg, log: log, sender: s}, nil
}

// Publish sends the message and waits until the broker has stored it.
func (b *Bus) Publish(ctx context.Context, m bus.Message) error {
	if time.Until(m.DeliverAt) > bus.MaxDelay {
		return fmt.Errorf("publish to %s: %w", m.Topic, bus.ErrTooFar)
	}
	if err := b.sender.send(ctx, m); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Topic, err)
	}
	return nil
}

// Subscribe starts consuming in the background. A new group begins with the oldest message that the broker has.
func (b *Bus) Subscribe(s bus.Subscription, h bus.Handler) error {
	if err := s.Validate(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return bus.ErrClosed
	}
	for _, other := range b.subs {
		if other.sub.Group == s.Group {
			return fmt.Errorf("bus: group %s is subscribed already", s.Group)
		}
	}
	sub := newSubscription(b.cfg, s.WithDefaults(), h, b.log)
	if b.tune != nil {
		b.tune(sub)
	}
	go sub.run()
	b.subs = append(b.subs, sub)
	return nil
}

// Close ends all subscriptions and then waits for the sends under way.
func (b *Bus) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	subs := b.subs
	b.subs = nil
	b.mu.Unlock()

	errs := make([]error, len(subs)+1)
	var ends sync.WaitGroup
	for i, s := range subs {
		ends.Go(func() { errs[i] = s.stop(ctx) })
	}
	ends.Wait()
	errs[len(subs)] = b.sender.stop(ctx)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the bus: %w", err)
	}
	return nil
}
