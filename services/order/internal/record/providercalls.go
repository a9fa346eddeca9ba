package record

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
)

const attrCall = attribute.Key("flashsale.call")

var (
	calls   = []string{"begin", "cancel", "refund", "find_refund", "find_charge", "charges", "refunds"}
	results = []string{"ok", "busy", "declined", "failed"}
)

// ProviderCalls returns the counter of the calls to these providers, each series at 0.
func ProviderCalls(meter metric.Meter, providers []string) (metric.Int64Counter, error) {
	var all []metric.MeasurementOption
	for _, name := range slices.Sorted(slices.Values(providers)) {
		for _, call := range calls {
			all = append(all, telemetry.Series(telemetry.AttrOutcome, results,
				telemetry.AttrProvider.String(name), attrCall.String(call))...)
		}
	}
	return telemetry.NewCounter(meter, "flashsale.order.provider.calls", "{call}",
		"Calls to a payment provider that have ended, by call and outcome: ok, busy (429, 503), declined, failed. A call that "+
			"waits for its turn by PAYMENT_RATE is not made yet.", all...)
}

// Counted counts the calls to a provider by their results.
type Counted struct {
	core.Provider
	calls metric.Int64Counter
}

// CountCalls returns p with its calls counted.
func CountCalls(p core.Provider, calls metric.Int64Counter) *Counted { return &Counted{p, calls} }

func (c *Counted) count(ctx context.Context, call string, err error) {
	result := "failed"
	var busy *core.ProviderBusy
	switch {
	case err == nil:
		result = "ok"
	case errors.As(err, &busy):
		result = "busy"
	case errors.Is(err, core.ErrPaymentDeclined), errors.Is(err, core.ErrPaymentEnded),
		errors.Is(err, core.ErrRefundDeclined):
		result = "declined"
	}
	c.calls.Add(ctx, 1, metric.WithAttributes(telemetry.AttrProvider.String(c.Name()), attrCall.String(call),
		telemetry.AttrOutcome.String(result)))
}

// Begin implements core.Provider.
func (c *Counted) Begin(ctx context.Context, pay core.Payment, deadline time.Time) (core.Begun, error) {
	begun, err := c.Provider.Begin(ctx, pay, deadline)
	c.count(ctx, "begin", err)
	return begun, err
}

// Cancel implements core.Provider.
func (c *Counted) Cancel(ctx context.Context, pay core.Payment) error {
	err := c.Provider.Cancel(ctx, pay)
	c.count(ctx, "cancel", err)
	return err
}

// Refund implements core.Provider.
func (c *Counted) Refund(ctx context.Context, pay core.Payment) error {
	err := c.Provider.Refund(ctx, pay)
	c.count(ctx, "refund", err)
	return err
}

// FindRefund implements core.Provider.
func (c *Counted) FindRefund(ctx context.Context, pay core.Payment) (core.ProviderRefund, bool, error) {
	made, found, err := c.Provider.FindRefund(ctx, pay)
	c.count(ctx, "find_refund", err)
	return made, found, err
}

// FindCharge implements core.Provider.
func (c *Counted) FindCharge(ctx context.Context, p core.Payment) (core.Charge, bool, error) {
	made, found, err := c.Provider.FindCharge(ctx, p)
	c.count(ctx, "find_charge", err)
	return made, found, err
}

// Charges implements core.Provider.
func (c *Counted) Charges(
	ctx context.Context, since time.Time, cursor string, limit int,
) ([]core.Charge, string, error) {
	page, next, err := c.Provider.Charges(ctx, since, cursor, limit)
	c.count(ctx, "charges", err)
	return page, next, err
}

// Refunds implements core.Provider.
func (c *Counted) Refunds(
	ctx context.Context, since time.Time, cursor string, limit int,
) ([]core.ProviderRefund, string, error) {
	page, next, err := c.Provider.Refunds(ctx, since, cursor, limit)
	c.count(ctx, "refunds", err)
	return page, next, err
}
