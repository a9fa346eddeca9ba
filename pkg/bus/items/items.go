// Package items carries the items of messages over the bus, each in the trace of its own purchase: what publishes and
// what consumes an item are spans of that trace, and what follows hangs below them.
package items

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

const (
	sendTimeout = 10 * time.Second // of one message on its way to the broker
	// maxKeys bounds what an operator may search a message by, as brokers bound a message's properties.
	maxKeys = 64
)

// Publish sends the items of one topic in as few messages as their bounds allow, to be delivered at deliverAt (zero:
// now). After an error some of them may have been sent: all are to be published again.
func Publish[T contract.Item](ctx context.Context, to bus.Publisher, tel *telemetry.Telemetry, topic string, deliverAt time.Time, list []T) (err error) {
	ctx, batch := tel.StartBatch(ctx, "publish "+topic, trace.SpanKindProducer, traceparents(list),
		telemetry.AttrTopic.String(topic), telemetry.AttrOperation.String("send"))
	defer func() { batch.End(err) }()
	out := make([]T, len(list))
	var keys []string
	for i, item := range list {
		out[i] = contract.Under(item, batch.Traceparent(i))
		if key := contract.KeyOf(item); key != "" && len(keys) < maxKeys {
			keys = append(keys, key)
		}
	}
	bodies, err := contract.Encode(out)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		if err := Send(ctx, to, bus.Message{Topic: topic, Keys: keys, Body: body, DeliverAt: deliverAt}); err != nil {
			return err
		}
	}
	return nil
}

// Send publishes one message, bounded by 10 s, without a span of its own.
func Send(ctx context.Context, to bus.Publisher, m bus.Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := to.Publish(ctx, m); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Topic, err)
	}
	return nil
}

// Open unpacks a delivery and begins the span of its handling in each item's trace; end is to be called with the
// handler's error. The items come back below those spans. bad are those that can never be processed.
func Open[T contract.Item](ctx context.Context, tel *telemetry.Telemetry, group string, d bus.Delivery) (_ context.Context, list []T, bad []contract.BadItem, end func(error)) {
	list, bad = contract.Decode[T](d.Body)
	ctx, batch := tel.StartBatch(ctx, "process "+d.Topic, trace.SpanKindConsumer, traceparents(list),
		telemetry.AttrTopic.String(d.Topic), telemetry.AttrGroup.String(group), telemetry.AttrOperation.String("process"),
		telemetry.AttrAttempt.Int(d.Attempt))
	for i := range list {
		list[i] = contract.Under(list[i], batch.Traceparent(i))
	}
	return ctx, list, bad, batch.End
}

func traceparents[T contract.Item](list []T) []string {
	found := make([]string, len(list))
	for i, item := range list {
		found[i] = contract.TraceparentOf(item)
	}
	return found
}
