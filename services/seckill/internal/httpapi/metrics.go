package httpapi

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

type metrics struct {
	accepted, repeated, refused, paths metric.Int64Counter
}

func newMetrics(meter metric.Meter, openStreams func() int) (metrics, error) {
	var m metrics
	var all []error
	counter := func(name, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(what))
		all = append(all, err)
		return c
	}
	m.accepted = counter("flashsale.seckill.purchases.accepted", "Purchases taken by the gate")
	m.repeated = counter("flashsale.seckill.purchases.repeated", "Purchases posted again by a known path")
	m.refused = counter("flashsale.seckill.refused", "Path and purchase calls refused, by reason")
	m.paths = counter("flashsale.seckill.paths.issued", "Paths given out")
	_, err := meter.Int64ObservableGauge("flashsale.seckill.streams.open", metric.WithDescription("Event streams open"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(openStreams()))
			return nil
		}))
	return m, errors.Join(append(all, err)...)
}

func (m metrics) refuse(ctx context.Context, call string, err error) {
	m.refused.Add(ctx, 1, metric.WithAttributes(
		attribute.String("flashsale.call", call), telemetry.AttrReason.String(string(contract.CodeOf(err)))))
}
