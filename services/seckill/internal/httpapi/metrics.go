package httpapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

type metrics struct {
	accepted, repeated, paths, flagged metric.Int64Counter
	refused                            *sync.Map // refusal -> *atomic.Int64; as many as calls and codes
}

type refusal struct {
	call string
	code contract.Code
}

func newMetrics(meter metric.Meter, openStreams func() int) (metrics, error) {
	m := metrics{refused: &sync.Map{}}
	var all []error
	counter := func(name, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(what))
		all = append(all, err)
		return c
	}
	m.accepted = counter("flashsale.seckill.purchases.accepted", "Purchases taken by the gate")
	m.repeated = counter("flashsale.seckill.purchases.repeated", "Purchases posted again by a known path")
	m.flagged = counter("flashsale.seckill.flag.answered", "Path calls answered by the sold-out flag alone")
	m.paths = counter("flashsale.seckill.paths.issued", "Paths given out")
	// Most buyers of a good sale are refused: they are counted here, and told when somebody asks.
	_, err := meter.Int64ObservableCounter("flashsale.seckill.refused", metric.WithDescription("Path and purchase calls refused, by reason"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			m.refused.Range(func(key, n any) bool {
				of := key.(refusal)
				o.Observe(n.(*atomic.Int64).Load(), metric.WithAttributes(
					attribute.String("flashsale.call", of.call), telemetry.AttrReason.String(string(of.code))))
				return true
			})
			return nil
		}))
	all = append(all, err)
	_, err = meter.Int64ObservableGauge("flashsale.seckill.streams.open", metric.WithDescription("Event streams open"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(openStreams()))
			return nil
		}))
	return m, errors.Join(append(all, err)...)
}

// noExemplar is what counters of the rush are given: to look whether a buyer's trace is recorded, in order to name it beside
// a sum, costs more than to count.
var noExemplar = context.Background()

func (m metrics) refuse(call string, err error) {
	key := refusal{call, contract.CodeOf(err)}
	n, ok := m.refused.Load(key)
	if !ok {
		n, _ = m.refused.LoadOrStore(key, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}
