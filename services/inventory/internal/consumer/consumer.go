// Package consumer takes in the messages of the other services and of inventory itself.
package consumer

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
)

// Consumer turns deliveries into calls of the core. Every handler may be repeated at any time; an error brings the
// message again, without a cap. What can never be handled is put apart as a dead letter.
type Consumer struct {
	core *core.Service
	tel  *telemetry.Telemetry
	now  func() time.Time
}

// New makes the consumer.
func New(svc *core.Service, tel *telemetry.Telemetry, now func() time.Time) *Consumer {
	return &Consumer{core: svc, tel: tel, now: now}
}

// Subscribe begins to consume; it ends with the bus.
func (c *Consumer) Subscribe(b bus.Bus, concurrency int) error {
	for _, s := range []struct {
		topic, group string
		handler      bus.Handler
	}{
		{contract.TopicReservations, contract.GroupInventoryReservations, c.Reservations},
		{contract.TopicOrderEvents, contract.GroupInventoryOrderEvents, c.OrderEvents},
		{contract.TopicOrderClose, contract.GroupInventoryOrderClose, c.OrderClose},
		{contract.TopicDeadLetters, contract.GroupInventoryDeadLetters, c.DeadLetters},
	} {
		if err := b.Subscribe(bus.Subscription{Topic: s.topic, Group: s.group, Concurrency: concurrency}, s.handler); err != nil {
			return fmt.Errorf("subscribe to %s: %w", s.topic, err)
		}
	}
	return nil
}

// Reservations handles TopicReservations.
func (c *Consumer) Reservations(ctx context.Context, d bus.Delivery) (err error) {
	items, bad := contract.Decode[contract.Reservation](d.Body)
	ctx, batch := start(ctx, c, d, contract.TopicReservations, contract.GroupInventoryReservations, items, func(r contract.Reservation) string { return r.Traceparent })
	defer func() { batch.End(err) }()
	for i := range items {
		items[i].Traceparent = batch.Traceparent(i)
	}
	return c.core.Land(ctx, items, c.letters(contract.TopicReservations, contract.GroupInventoryReservations, bad))
}

// OrderEvents handles TopicOrderEvents.
func (c *Consumer) OrderEvents(ctx context.Context, d bus.Delivery) (err error) {
	items, bad := contract.Decode[contract.OrderEvent](d.Body)
	ctx, batch := start(ctx, c, d, contract.TopicOrderEvents, contract.GroupInventoryOrderEvents, items, func(e contract.OrderEvent) string { return e.Traceparent })
	defer func() { batch.End(err) }()
	return c.core.Follow(ctx, items, c.letters(contract.TopicOrderEvents, contract.GroupInventoryOrderEvents, bad))
}

// OrderClose handles TopicOrderClose.
func (c *Consumer) OrderClose(ctx context.Context, d bus.Delivery) (err error) {
	items, bad := contract.Decode[contract.OrderClose](d.Body)
	ctx, batch := start(ctx, c, d, contract.TopicOrderClose, contract.GroupInventoryOrderClose, items, func(o contract.OrderClose) string { return o.Traceparent })
	defer func() { batch.End(err) }()
	return c.core.CloseDue(ctx, items, c.letters(contract.TopicOrderClose, contract.GroupInventoryOrderClose, bad))
}

// DeadLetters handles TopicDeadLetters. A letter that cannot be read is kept as the letter of this consumer.
func (c *Consumer) DeadLetters(ctx context.Context, d bus.Delivery) (err error) {
	items, bad := contract.Decode[contract.DeadLetter](d.Body)
	ctx, batch := start(ctx, c, d, contract.TopicDeadLetters, contract.GroupInventoryDeadLetters, items, func(l contract.DeadLetter) string { return l.Traceparent })
	defer func() { batch.End(err) }()
	return c.core.AddDeadLetters(ctx, append(items, c.letters(contract.TopicDeadLetters, contract.GroupInventoryDeadLetters, bad)...))
}

func start[T any](ctx context.Context, c *Consumer, d bus.Delivery, topic, group string, items []T, traceparent func(T) string) (context.Context, *telemetry.Batch) {
	parents := make([]string, len(items))
	for i, it := range items {
		parents[i] = traceparent(it)
	}
	return c.tel.StartBatch(ctx, "process "+topic, trace.SpanKindConsumer, parents,
		telemetry.AttrTopic.String(topic), telemetry.AttrGroup.String(group), telemetry.AttrOperation.String("process"), telemetry.AttrAttempt.Int(d.Attempt))
}

func (c *Consumer) letters(topic, group string, bad []contract.BadItem) []contract.DeadLetter {
	letters := make([]contract.DeadLetter, len(bad))
	for i, b := range bad {
		orderSN, activityID := core.LetterIDs(b.Raw)
		letters[i] = contract.DeadLetter{
			Where: group, Topic: topic, OrderSN: orderSN, ActivityID: activityID, Why: b.Err.Error(), Item: b.Raw, At: c.now().UTC(),
		}
	}
	return letters
}
