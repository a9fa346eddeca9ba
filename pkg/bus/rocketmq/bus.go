// Package rocketmq implements the message bus on Apache RocketMQ 5, with the remoting protocol of its Go client.
//
// The client library sends and pulls. This package adds what the library does not guarantee. Sends are bounded and
// their callers always return. A consumer object is created only once its topic has a route, and is replaced as soon
// as a lost broker responds again; without that, the client may consume nothing for up to half a minute.
//
// Each replaced consumer object leaves some sleeping goroutines of the client behind, for 15 minutes or longer. The
// pause between replacements grows, which bounds their number.
package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/lifecycle"
)

// Config is the configuration of a Bus.
type Config struct {
	NameServers []string // host:port; host names are resolved at each connect
	// Prefix is prepended to the names of topics and groups in the broker, so that several systems or tests can share
	// one broker.
	Prefix string
	// PublishTimeout bounds one Publish, including the wait for a send slot. Default 3 s.
	PublishTimeout time.Duration
	// AccessKey and SecretKey are those of a user of the brokers' ACL. Without them requests are not signed. The client
	// library keeps them for good.
	AccessKey, SecretKey string
	// Publishes holds the topics whose right to publish is checked at the start.
	Publishes []string
	// Incidents counts the denials of the brokers, once a minute; nil for no count.
	Incidents metric.Int64Counter
	// MaxSends bounds the sends in flight, including those whose caller has returned. Default 64.
	MaxSends int
}

func (c Config) withDefaults() Config {
	if c.PublishTimeout == 0 {
		c.PublishTimeout = 3 * time.Second
	}
	if c.MaxSends == 0 {
		c.MaxSends = 64
	}
	if c.Incidents == nil {
		c.Incidents = noop.Int64Counter{}
	}
	return c
}

func (c Config) login() primitive.Credentials {
	return primitive.Credentials{AccessKey: c.AccessKey, SecretKey: c.SecretKey}
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
	access *lifecycle.Access
	tune   func(*subscription) // for tests; may be nil

	endCheck context.CancelFunc // of checkPublishing
	checked  chan struct{}      // closed when it has returned

	mu     sync.Mutex
	closed bool
	subs   []*subscription
}

var _ bus.Bus = (*Bus)(nil)

// New returns a bus. It needs no connection, so it works while RocketMQ is down; an error means an invalid
// configuration. The client library has one logger in a process, which is that of the first bus.
func New(cfg Config, log *slog.Logger) (*Bus, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	bridgeClientLog(log)
	access := lifecycle.NewAccess("rocketmq", "", log, cfg.Incidents)
	s, err := newSender(cfg, log, access)
	if err != nil {
		return nil, err
	}
	b := &Bus{cfg: cfg, log: log, sender: s, access: access, checked: make(chan struct{})}
	ctx, end := context.WithCancel(context.Background())
	b.endCheck = end
	go func() {
		defer close(b.checked)
		if len(cfg.Publishes) > 0 {
			b.checkPublishing(ctx)
		}
	}()
	return b, nil
}

// Ready returns the denial while the brokers deny a process that has just started what it publishes or consumes; see
// lifecycle.Access.
func (b *Bus) Ready() error { return b.access.Ready() }

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
	sub := newSubscription(b.cfg, s.WithDefaults(), h, b.access, b.log)
	if b.tune != nil {
		b.tune(sub)
	}
	go sub.run()
	b.subs = append(b.subs, sub)
	return nil
}

// Close ends all subscriptions and then waits for the sends in flight.
func (b *Bus) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	subs := b.subs
	b.subs = nil
	b.mu.Unlock()
	b.endCheck()
	<-b.checked // each of its requests ends with the context

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
