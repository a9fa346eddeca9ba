// Package brokerless is the transport of messages while the broker is unavailable. A publisher posts the body of a
// message to the internal listeners of the services that consume its topic. They run the same handlers, and 204 means
// that the message is handled: a message that is published is never lost, as with the broker.
//
// A message that fails is published again by its publisher, as a whole. A handler publishes what follows from a
// message before it returns, so a brokerless call includes the calls that follow from it. All of them share its
// deadline. The topics of such calls form no circle, and each has its own bounds on both sides, so calls never wait for
// each other in one.
//
// Delayed messages have no brokerless form. Those of Config.SecondPath count as sent.
package brokerless

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/telemetry"
)

// NewPublisher returns a publisher for a process that consumes nothing. transport carries the brokerless calls; nil for
// one of its own.
func NewPublisher(
	cfg Config, broker bus.Publisher, tel *telemetry.Telemetry, transport http.RoundTripper,
) (*Publisher, error) {
	for topic, consumers := range cfg.Consumers {
		if slices.Contains(consumers, Self) {
			return nil, fmt.Errorf("brokerless: a publisher does not consume %s itself", topic)
		}
	}
	return newPublisher(cfg, broker, nil, tel, transport)
}

func newPublisher(
	cfg Config, broker bus.Publisher, self *Listener, tel *telemetry.Telemetry, transport http.RoundTripper,
) (*Publisher, error) {
	if cfg.After < 0 {
		return nil, errors.New("brokerless: After must not be negative")
	}
	if transport == nil {
		transport = newTransport()
	}
	p := &Publisher{
		cfg: cfg, broker: broker, self: self, client: newClient(cfg.Secrets, tel.Transport(transport)),
		slots: make(map[string]chan struct{}, len(cfg.Consumers)),
	}
	p.breaker = &breaker{after: cfg.After, log: tel.Log.Warn, opens: p.switched.send}
	for topic := range cfg.Consumers {
		p.slots[topic] = make(chan struct{}, maxCalls)
	}
	var err error
	p.published, err = telemetry.NewCounter(tel.Meter, "flashsale.bus.published", "{message}",
		"Published messages by topic and transport: broker, brokerless (handled by the consuming service while the broker "+
			"was unavailable), none (delayed, counted as sent; a sweep does its work)", publishedSeries(cfg)...)
	if err == nil {
		err = tel.ObserveBreaker("rocketmq", p.Breaker)
	}
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return p, nil
}

// publishedSeries returns the series of published messages by topic and transport.
func publishedSeries(cfg Config) []metric.MeasurementOption {
	topics := slices.Sorted(maps.Keys(cfg.Consumers))
	return slices.Concat(
		telemetry.Series(telemetry.AttrTopic, topics, viaBroker), telemetry.Series(telemetry.AttrTopic, topics, viaBrokerless),
		telemetry.Series(telemetry.AttrTopic, cfg.SecondPath, viaNone))
}

// Bus is a broker with the brokerless transport for the time when it is unavailable. Its subscriptions get the messages
// of both.
type Bus struct {
	*Publisher
	broker   bus.Bus
	listener *Listener
	closed   atomic.Bool
}

var _ bus.Bus = (*Bus)(nil)

// New returns a bus. transport carries the brokerless calls; nil for one of its own.
func New(cfg Config, broker bus.Bus, tel *telemetry.Telemetry, transport http.RoundTripper) (*Bus, error) {
	listener := newListener(tel.Log)
	p, err := newPublisher(cfg, broker, listener, tel, transport)
	if err != nil {
		return nil, err
	}
	listener.begins = p.switched.send
	return &Bus{Publisher: p, broker: broker, listener: listener}, nil
}

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, m bus.Message) error {
	if b.closed.Load() {
		return bus.ErrClosed
	}
	return b.Publisher.Publish(ctx, m)
}

// Listener returns the handler of contract.MessagesPath + "{topic}". Serve it on an internal listener, behind the
// check of the internal secret and with httpserver.LargeBodies(contract.MaxBrokerlessBytes).
func (b *Bus) Listener() http.Handler { return b.listener }

// Subscribe implements bus.Bus.
func (b *Bus) Subscribe(s bus.Subscription, h bus.Handler) error {
	if err := b.broker.Subscribe(s, h); err != nil {
		return err
	}
	b.listener.subscribe(s, h)
	return nil
}

// DelayedUnsent is that of the Publisher. It is also true for a minute after a message has arrived by a call: its
// sender could not reach the broker. This process may have published nothing meanwhile.
func (b *Bus) DelayedUnsent() bool {
	return b.Publisher.DelayedUnsent() || b.listener.arrivedWithin(unsentKept)
}

// BrokerlessFor returns for how long messages have been calls, more than 0; 0 while RocketMQ takes them. They are calls
// while those of this process are, and for 10 s after one has arrived by a call: its sender could not reach the broker.
func (b *Bus) BrokerlessFor() time.Duration {
	return max(b.breaker.openFor(), b.listener.arrivingFor())
}

// Switched returns a channel that gets a value when messages become calls. Each call returns another channel. A value
// that is not received stands for all that follow.
func (b *Bus) Switched() <-chan struct{} { return b.switched.add() }

// Close implements bus.Bus. Handlers that the broker waits for may still publish. The server of the listener waits for
// the brokerless messages that are handled.
func (b *Bus) Close(ctx context.Context) error {
	defer b.closed.Store(true)
	return b.broker.Close(ctx)
}
