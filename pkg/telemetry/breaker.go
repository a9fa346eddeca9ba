package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// ObserveBreaker makes the state of a circuit breaker a metric: 0 closed, 1 half open, 2 open.
func (t *Telemetry) ObserveBreaker(name, before string, state func() string) error {
	states := map[string]int64{"closed": 0, "half-open": 1, "open": 2}
	_, err := t.Meter.Int64ObservableGauge(name,
		metric.WithDescription("Breaker before "+before+": 0 closed, 1 half open, 2 open"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(states[state()])
			return nil
		}))
	return err
}

// ObserveRepeats makes a metric of how often what failed may be tried again at present.
func (t *Telemetry) ObserveRepeats(name, at string, left func() int64) error {
	_, err := t.Meter.Int64ObservableGauge(name,
		metric.WithDescription("Repeats that the budget of this process allows at "+at+" now. 0: what fails is not tried again at once"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(left())
			return nil
		}))
	return err
}
