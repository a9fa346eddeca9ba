// Package publisher says things to the other services over the bus.
package publisher

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
)

const (
	// timeout bounds one message on its way to the broker.
	timeout = 10 * time.Second
	// maxKeys bounds what an operator may search a message by: brokers bound a message's properties.
	maxKeys = 64
)

// Publisher is the core's publisher on a bus.
type Publisher struct {
	bus bus.Publisher
	tel *telemetry.Telemetry
}

var _ core.Publisher = (*Publisher)(nil)

// New makes a publisher.
func New(b bus.Publisher, tel *telemetry.Telemetry) *Publisher { return &Publisher{bus: b, tel: tel} }

// Events implements core.Publisher.
func (p *Publisher) Events(ctx context.Context, events []contract.OrderEvent) error {
	return publish(ctx, p, contract.TopicOrderEvents, time.Time{}, events, func(e contract.OrderEvent) string { return e.OrderSN })
}

// Close implements core.Publisher. One message carries one closing, never more: it is delayed.
func (p *Publisher) Close(ctx context.Context, c contract.OrderClose, deliverAt time.Time) error {
	return publish(ctx, p, contract.TopicOrderClose, deliverAt, []contract.OrderClose{c}, nil)
}

// DeadLetters implements core.Publisher.
func (p *Publisher) DeadLetters(ctx context.Context, letters []contract.DeadLetter) error {
	return publish(ctx, p, contract.TopicDeadLetters, time.Time{}, letters, func(l contract.DeadLetter) string { return l.OrderSN })
}

func publish[T contract.Item](ctx context.Context, p *Publisher, topic string, at time.Time, items []T, key func(T) string) (err error) {
	ctx, end := p.tel.Span(ctx, "publish "+topic, trace.SpanKindProducer,
		telemetry.AttrTopic.String(topic), telemetry.AttrOperation.String("send"), telemetry.AttrBatchSize.Int(len(items)))
	defer func() { end(err) }()
	bodies, err := contract.Encode(items)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		m := bus.Message{Topic: topic, Body: body, DeliverAt: at, Keys: keys(items, key)}
		send, cancel := context.WithTimeout(ctx, timeout)
		err := p.bus.Publish(send, m)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", topic, err)
		}
	}
	return nil
}

func keys[T any](items []T, key func(T) string) []string {
	if key == nil {
		return nil
	}
	var found []string
	for _, it := range items {
		if k := key(it); k != "" && len(found) < maxKeys {
			found = append(found, k)
		}
	}
	return found
}
