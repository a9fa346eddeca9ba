package brokerless

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/telemetry"
)

// Self in place of a URL means that this process consumes the topic. Its own handlers then run.
const Self = "self"

// unsentKept is the time after the latest unsent message was due for which DelayedUnsent is true: the second path may
// need several rounds.
const unsentKept = time.Minute

// attrTransport is the label of a message's transport in metrics.
const attrTransport = attribute.Key("flashsale.transport")

var (
	viaBroker     = attrTransport.String("broker")
	viaBrokerless = attrTransport.String("brokerless")
	viaNone       = attrTransport.String("none") // delayed, and counted as sent
)

// errNotTried is the error of the broker for a message that was not sent to it, because earlier ones failed.
var errNotTried = errors.New("broker is unavailable")

// Config is the configuration of the brokerless transport.
type Config struct {
	// After is the time for which publishing must have failed before messages are calls. 0 switches this off.
	After time.Duration
	// Consumers holds, for each topic that this process may publish by calls, the URLs of the internal listeners of all
	// services that consume it, or Self.
	Consumers map[string][]string
	// SecondPath holds the topics whose delayed messages count as sent while the broker is unavailable, since something
	// else does their work. Other delayed messages fail.
	SecondPath []string
	// Secrets are those of internal calls. The first is sent, and the others only to a process that does not accept it.
	Secrets []string
}

// Publisher publishes to a broker, or by calls while the broker is unavailable.
type Publisher struct {
	cfg       Config
	broker    bus.Publisher
	self      *Listener
	client    *client
	breaker   *breaker
	slots     map[string]chan struct{} // by topic, one element for each brokerless call in flight
	published metric.Int64Counter
	switched  signals

	mu     sync.Mutex
	unsent time.Time // when the latest delayed message was due that counted as sent
}

// Publish sends the message to the broker. If publishing has failed for Config.After, it posts the message to the
// internal listener of each of its consumers instead, and returns nil once all have handled it.
func (p *Publisher) Publish(ctx context.Context, m bus.Message) error {
	consumers := p.cfg.Consumers[m.Topic]
	if p.cfg.After == 0 || len(consumers) == 0 {
		return p.count(ctx, m, viaBroker, p.broker.Publish(ctx, m))
	}
	delay := time.Until(m.DeliverAt) // when the message is sent, not after an attempt that takes as long
	if delay > bus.MaxDelay {
		return fmt.Errorf("publish to %s: %w", m.Topic, bus.ErrTooFar)
	}
	brokerErr := errNotTried
	if try, probe := p.breaker.attempt(); try {
		brokerless, err := p.publishToBroker(ctx, m, probe)
		if !brokerless {
			return p.count(ctx, m, viaBroker, err)
		}
		brokerErr = err
	}
	if delay > 0 {
		return p.leaveUnsent(ctx, m, brokerErr)
	}
	return p.count(ctx, m, viaBrokerless, p.publishByCall(ctx, m, consumers))
}

// publishToBroker returns whether the message is to be a call, and the broker's error.
func (p *Publisher) publishToBroker(ctx context.Context, m bus.Message, probe bool) (brokerless bool, err error) {
	arrived := hasArrivedByCall(ctx)
	call := ctx
	if probe || arrived {
		var cancel context.CancelFunc
		call, cancel = context.WithTimeout(ctx, probeTimeout)
		defer cancel()
	}
	if probe {
		defer p.breaker.probed()
	}
	err = p.broker.Publish(call, m)
	switch {
	case err == nil:
		p.breaker.succeeded()
		return false, nil
	case errors.Is(err, bus.ErrClosed), errors.Is(err, bus.ErrTooFar), ctx.Err() != nil:
		return false, err // not a failure of the broker
	}
	return p.breaker.failed(arrived, err), err
}

// leaveUnsent counts a delayed message as sent if its topic has a second path.
func (p *Publisher) leaveUnsent(ctx context.Context, m bus.Message, brokerErr error) error {
	for _, topic := range p.cfg.SecondPath {
		if topic != m.Topic {
			continue
		}
		p.mu.Lock()
		if m.DeliverAt.After(p.unsent) {
			p.unsent = m.DeliverAt
		}
		p.mu.Unlock()
		return p.count(ctx, m, viaNone, nil)
	}
	return fmt.Errorf("publish delayed message to %s: %w", m.Topic, brokerErr)
}

// publishByCall calls all consumers, one after the other.
func (p *Publisher) publishByCall(ctx context.Context, m bus.Message, consumers []string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case p.slots[m.Topic] <- struct{}{}:
		defer func() { <-p.slots[m.Topic] }()
	case <-ctx.Done():
		return fmt.Errorf("publish by a call to %s: all %d calls are in flight: %w", m.Topic, maxCalls, ctx.Err())
	}
	for _, consumer := range consumers {
		var err error
		if consumer == Self {
			err = p.self.deliver(ctx, bus.Delivery{Message: m, ID: "self", Attempt: 1})
		} else {
			err = p.client.post(ctx, consumer, m)
		}
		if err != nil {
			return fmt.Errorf("publish by a call to %s: %w", m.Topic, err)
		}
	}
	return nil
}

// count counts a published message. It returns err.
func (p *Publisher) count(ctx context.Context, m bus.Message, via attribute.KeyValue, err error) error {
	if err == nil {
		p.published.Add(ctx, 1, metric.WithAttributes(telemetry.AttrTopic.String(m.Topic), via))
	}
	return err
}

// DelayedUnsent reports whether delayed messages may be due that did not reach the broker, or that it cannot deliver:
// while the broker is unavailable, and until those that counted as sent have been due for a minute.
func (p *Publisher) DelayedUnsent() bool {
	if p.breaker.state() != "closed" {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.unsent.IsZero() && time.Since(p.unsent) < unsentKept
}

// Breaker returns the state of the breaker before the broker: closed, half-open or open. While it is not closed,
// messages are calls.
func (p *Publisher) Breaker() string { return p.breaker.state() }
