package order

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/store"
)

// comparisons exports what the comparisons with the payment providers have found, as gauges by provider.
type comparisons struct {
	last atomic.Pointer[map[string]store.Compared] // nil if the last read failed
}

// newComparisons returns the gauges of these providers.
func newComparisons(tel *telemetry.Telemetry, providers []string) (*comparisons, error) {
	name, opts := telemetry.Differences()
	differences, err := tel.Meter.Int64ObservableGauge(name, opts...)
	if err != nil {
		return nil, err
	}
	name, opts = telemetry.Compared()
	compared, err := tel.Meter.Int64ObservableGauge(name, opts...)
	if err != nil {
		return nil, err
	}
	c := &comparisons{}
	_, err = tel.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		all := c.last.Load()
		if all == nil {
			return nil
		}
		for _, name := range providers {
			if of, known := (*all)[name]; known {
				label := metric.WithAttributes(telemetry.AttrProvider.String(name))
				o.ObserveInt64(differences, of.Differences, label)
				o.ObserveInt64(compared, of.To.Unix(), label)
			}
		}
		return nil
	}, differences, compared)
	return c, err
}

// readComparisons returns the component that reads the gauges.
func (s *Service) readComparisons() lifecycle.Component {
	return lifecycle.Every("order payment differences count", 5*time.Second, s.deps.Telemetry.Log,
		func(ctx context.Context) error {
			all, err := s.store.Compared(ctx)
			if err != nil {
				s.comparisons.last.Store(nil)
				return err
			}
			s.comparisons.last.Store(&all)
			return nil
		})
}
