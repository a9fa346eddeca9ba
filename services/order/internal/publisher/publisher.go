// Package publisher publishes the order service's messages on the bus.
package publisher

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/items"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
)

// Publisher implements core.Publisher on a bus.
type Publisher struct {
	bus bus.Publisher
	tel *telemetry.Telemetry
}

var _ core.Publisher = (*Publisher)(nil)

// New returns a publisher on a bus.
func New(b bus.Publisher, tel *telemetry.Telemetry) *Publisher { return &Publisher{bus: b, tel: tel} }

// Events implements core.Publisher.
func (p *Publisher) Events(ctx context.Context, events []contract.OrderEvent) error {
	return items.Publish(ctx, p.bus, p.tel, contract.TopicOrderEvents, time.Time{}, events)
}

// Close implements core.Publisher. Each message carries exactly one closing, since messages are delayed individually.
// The trace of each sampled order has a span of the publishing. The handling of the message belongs to the trace of
// the first sampled order.
func (p *Publisher) Close(
	ctx context.Context, c contract.OrderClose, traceparents []string, delay time.Duration,
) (err error) {
	var deliverAt time.Time
	if delay > 0 {
		deliverAt = time.Now().Add(delay) // the bus sends what is left of it, by the same clock
	}
	ctx, batch := p.tel.StartBatch(ctx, "publish "+contract.TopicOrderClose, trace.SpanKindProducer, traceparents,
		telemetry.AttrTopic.String(contract.TopicOrderClose), telemetry.AttrOperation.String("send"))
	defer func() { batch.End(err) }()
	for i := 0; i < len(traceparents) && c.Traceparent == ""; i++ {
		c.Traceparent = batch.Traceparent(i)
	}
	bodies, err := contract.Encode([]contract.OrderClose{c})
	if err != nil {
		return err
	}
	return items.Send(ctx, p.bus, bus.Message{Topic: contract.TopicOrderClose, Body: bodies[0], DeliverAt: deliverAt})
}

// DeadLetters implements core.Publisher.
func (p *Publisher) DeadLetters(ctx context.Context, deadLetters []contract.DeadLetter) error {
	return items.Publish(ctx, p.bus, p.tel, contract.TopicDeadLetters, time.Time{}, deadLetters)
}
