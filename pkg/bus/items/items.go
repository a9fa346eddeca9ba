// Package items publishes items in messages and unpacks them, each in the trace of its own purchase: publishing and
// processing an item are spans of that trace, and later spans are their children.
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

const sendTimeout = 10 * time.Second // of one Publish

// Publish publishes the items of one topic in as few messages as their bounds allow, for delivery at deliverAt (zero:
// now). After an error some items may have been sent, and the caller publishes all of them again.
func Publish[T contract.Item](
	ctx context.Context, to bus.Publisher, tel *telemetry.Telemetry, topic string, deliverAt time.Time, list []T,
) error {
	return publish(ctx, to, tel, topic, deliverAt, list, contract.Encode[T])
}

// PublishDeductions publishes deductions as Publish does. Each message describes the activities of its items, as far
// as they are in about.
func PublishDeductions(
	ctx context.Context, to bus.Publisher, tel *telemetry.Telemetry, list []contract.Deduction,
	about []contract.ActivityInfo,
) error {
	return publish(ctx, to, tel, contract.TopicDeductions, time.Time{}, list,
		func(list []contract.Deduction) ([][]byte, error) { return contract.EncodeDeductions(list, about) })
}

func publish[T contract.Item](
	ctx context.Context, to bus.Publisher, tel *telemetry.Telemetry, topic string, deliverAt time.Time, list []T,
	encode func([]T) ([][]byte, error),
) (err error) {
	ctx, batch := tel.StartBatch(ctx, "publish "+topic, trace.SpanKindProducer, traceparents(list),
		telemetry.AttrTopic.String(topic), telemetry.AttrOperation.String("send"))
	defer func() { batch.End(err) }()
	out := make([]T, len(list))
	for i, item := range list {
		out[i] = contract.Under(item, batch.Traceparent(i))
	}
	var keys []string // of several items none: the broker would index each
	if len(list) == 1 {
		if key := contract.KeyOf(list[0]); key != "" {
			keys = []string{key}
		}
	}
	bodies, err := encode(out)
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

// Open unpacks a delivery and starts a span for its processing in the trace of each item. The returned items carry
// these spans as their parents. bad are items that can never be processed. The caller calls end with the result of the
// handler.
func Open[T contract.Item](ctx context.Context, tel *telemetry.Telemetry, group string, d bus.Delivery) (
	_ context.Context, list []T, bad []contract.BadItem, end func(error),
) {
	list, bad = contract.Decode[T](d.Body)
	ctx, end = start(ctx, tel, group, d, list)
	return ctx, list, bad, end
}

// OpenDeductions unpacks a delivery of deductions as Open does. about are the descriptions of activities in it.
func OpenDeductions(ctx context.Context, tel *telemetry.Telemetry, group string, d bus.Delivery) (
	_ context.Context, list []contract.Deduction, bad []contract.BadItem, about []contract.ActivityInfo,
	end func(error),
) {
	list, bad, about = contract.DecodeDeductions(d.Body)
	ctx, end = start(ctx, tel, group, d, list)
	return ctx, list, bad, about, end
}

// start starts the spans of the items, which carry them as their parents from then on.
func start[T contract.Item](
	ctx context.Context, tel *telemetry.Telemetry, group string, d bus.Delivery, list []T,
) (context.Context, func(error)) {
	ctx, batch := tel.StartBatch(ctx, "process "+d.Topic, trace.SpanKindConsumer, traceparents(list),
		telemetry.AttrTopic.String(d.Topic), telemetry.AttrGroup.String(group),
		telemetry.AttrOperation.String("process"),
		telemetry.AttrAttempt.Int(d.Attempt))
	for i := range list {
		list[i] = contract.Under(list[i], batch.Traceparent(i))
	}
	return ctx, batch.End
}

func traceparents[T contract.Item](list []T) []string {
	found := make([]string, len(list))
	for i, item := range list {
		found[i] = contract.TraceparentOf(item)
	}
	return found
}
