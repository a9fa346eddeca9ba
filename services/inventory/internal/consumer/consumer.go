// Package consumer handles the messages that inventory consumes: those of the other services and its own.
package consumer

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/items"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
)

// Consumer passes the items of each delivery to the core. Every handler is idempotent. After an error the bus
// redelivers the message, without a limit on redeliveries. An item that can never be handled becomes a dead letter.
type Consumer struct {
	core *core.Service
	tel  *telemetry.Telemetry
	now  func() time.Time
}

// New returns a consumer.
func New(svc *core.Service, tel *telemetry.Telemetry, now func() time.Time) *Consumer {
	return &Consumer{core: svc, tel: tel, now: now}
}

// Subscribe starts consuming. The subscriptions end when the bus closes.
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
		err := b.Subscribe(bus.Subscription{Topic: s.topic, Group: s.group, Concurrency: concurrency}, s.handler)
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", s.topic, err)
		}
	}
	return nil
}

// Reservations handles TopicReservations.
func (c *Consumer) Reservations(ctx context.Context, d bus.Delivery) (err error) {
	ctx, list, bad, end := items.Open[contract.Reservation](ctx, c.tel, contract.GroupInventoryReservations, d)
	defer func() { end(err) }()
	return c.core.Land(ctx, list, c.deadLetters(contract.TopicReservations, contract.GroupInventoryReservations, bad))
}

// OrderEvents handles TopicOrderEvents.
func (c *Consumer) OrderEvents(ctx context.Context, d bus.Delivery) (err error) {
	ctx, list, bad, end := items.Open[contract.OrderEvent](ctx, c.tel, contract.GroupInventoryOrderEvents, d)
	defer func() { end(err) }()
	return c.core.Follow(ctx, list, c.deadLetters(contract.TopicOrderEvents, contract.GroupInventoryOrderEvents, bad))
}

// OrderClose handles TopicOrderClose.
func (c *Consumer) OrderClose(ctx context.Context, d bus.Delivery) (err error) {
	ctx, list, bad, end := items.Open[contract.OrderClose](ctx, c.tel, contract.GroupInventoryOrderClose, d)
	defer func() { end(err) }()
	return c.core.CloseDue(ctx, list, c.deadLetters(contract.TopicOrderClose, contract.GroupInventoryOrderClose, bad))
}

// DeadLetters handles TopicDeadLetters. A dead letter that cannot be parsed is stored as a dead letter of this
// consumer.
func (c *Consumer) DeadLetters(ctx context.Context, d bus.Delivery) (err error) {
	ctx, list, bad, end := items.Open[contract.DeadLetter](ctx, c.tel, contract.GroupInventoryDeadLetters, d)
	defer func() { end(err) }()
	return c.core.AddDeadLetters(ctx,
		append(list, c.deadLetters(contract.TopicDeadLetters, contract.GroupInventoryDeadLetters, bad)...))
}

func (c *Consumer) deadLetters(topic, group string, bad []contract.BadItem) []contract.DeadLetter {
	deadLetters := make([]contract.DeadLetter, len(bad))
	for i, b := range bad {
		deadLetters[i] = contract.NewDeadLetter(group, topic, b.Raw, b.Err.Error(), c.now())
	}
	return deadLetters
}
