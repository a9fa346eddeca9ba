package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// ObserveBreaker exports the state of a circuit breaker as a gauge: 0 closed, 1 half open, 2 open.
func (t *Telemetry) ObserveBreaker(name, before string, state func() string) error {
	states := map[string]int64{"closed": 0, "half-open": 1, "open": 2}
	_, err := t.Meter.Int64ObservableGauge(name,
		metric.WithDescription("State of the breaker before "+before+": 0 closed, 1 half open, 2 open."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(states[state()])
			return nil
		}))
	return err
}

// ObserveRepeats exports the budget for repeats of failed operations as a gauge.
func (t *Telemetry) ObserveRepeats(name, at string, left func() int64) error {
	_, err := t.Meter.Int64ObservableGauge(name,
		metric.WithDescription("Repeats of failed operations that the budget of this process allows at "+at+
			". At 0, failed operations are not repeated."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(left())
			return nil
		}))
	return err
}
