// Package consumer handles the messages that the order service consumes.
package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/items"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
)

// Lander turns deductions into orders.
type Lander interface {
	Land(
		ctx context.Context, items []contract.Deduction, about []contract.ActivityInfo, bad []contract.BadItem,
	) error
}

// Consumer passes the deductions of each delivery to the core.
type Consumer struct {
	lander Lander
	tel    *telemetry.Telemetry
	pause  time.Duration
}

// New returns a consumer. pause is the first back-off after a transient error; 0 for 100 ms.
func New(l Lander, tel *telemetry.Telemetry, pause time.Duration) *Consumer {
	if pause <= 0 {
		pause = 100 * time.Millisecond
	}
	return &Consumer{lander: l, tel: tel, pause: pause}
}

var _ Lander = (*core.Service)(nil)

// Subscribe starts consuming. The subscription ends when the bus closes.
func (c *Consumer) Subscribe(b bus.Bus, concurrency int) error {
	err := b.Subscribe(bus.Subscription{
		Topic: contract.TopicDeductions, Group: contract.GroupOrderDeductions, Concurrency: concurrency,
	}, c.Deductions)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", contract.TopicDeductions, err)
	}
	return nil
}

// Deductions handles one message of TopicDeductions. It tries four times for up to 10 s. Then it returns the error,
// and the bus redelivers the message, without a limit on redeliveries. Every step is idempotent.
func (c *Consumer) Deductions(ctx context.Context, d bus.Delivery) (err error) {
	ctx, list, bad, about, end := items.OpenDeductions(ctx, c.tel, contract.GroupOrderDeductions, d)
	defer func() { end(err) }()
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, c.lander.Land(ctx, list, about, bad)
	},
		backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: c.pause, Multiplier: 2, MaxInterval: 2 * time.Second, RandomizationFactor: 0.5,
		}),
		backoff.WithMaxTries(4), backoff.WithMaxElapsedTime(10*time.Second))
	return err
}
