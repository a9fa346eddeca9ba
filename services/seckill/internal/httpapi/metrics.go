package httpapi

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

type metrics struct {
	accepted, repeated, refused, paths, flagged metric.Int64Counter
	reasons                                     *sync.Map // refusal -> []metric.AddOption; as many as calls and codes
}

type refusal struct {
	call string
	code contract.Code
}

func newMetrics(meter metric.Meter, openStreams func() int) (metrics, error) {
	m := metrics{reasons: &sync.Map{}}
	var all []error
	counter := func(name, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(what))
		all = append(all, err)
		return c
	}
	m.accepted = counter("flashsale.seckill.purchases.accepted", "Purchases taken by the gate")
	m.repeated = counter("flashsale.seckill.purchases.repeated", "Purchases posted again by a known path")
	m.refused = counter("flashsale.seckill.refused", "Path and purchase calls refused, by reason")
	m.flagged = counter("flashsale.seckill.flag.answered", "Path calls answered by the sold-out flag alone")
	m.paths = counter("flashsale.seckill.paths.issued", "Paths given out")
	_, err := meter.Int64ObservableGauge("flashsale.seckill.streams.open", metric.WithDescription("Event streams open"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(openStreams()))
			return nil
		}))
	return m, errors.Join(append(all, err)...)
}

func (m metrics) refuse(ctx context.Context, call string, err error) {
	key := refusal{call, contract.CodeOf(err)}
	opts, ok := m.reasons.Load(key)
	if !ok {
		opts, _ = m.reasons.LoadOrStore(key, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(
			attribute.String("flashsale.call", call), telemetry.AttrReason.String(string(key.code))))})
	}
	m.refused.Add(ctx, 1, opts.([]metric.AddOption)...)
}
