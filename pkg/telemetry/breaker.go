package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// ObserveBreaker exports the state of the circuit breaker before a dependency as the gauge flashsale.breaker: 0 closed,
// 1 half open, 2 open.
func (t *Telemetry) ObserveBreaker(dependency string, state func() string) error {
	states := map[string]int64{"closed": 0, "half-open": 1, "open": 2}
	return t.observeDependency("flashsale.breaker", "State of the breaker before a dependency: 0 closed, 1 half open, 2 open.",
		dependency, func() int64 { return states[state()] })
}

// ObserveRepeats exports the budget for repeats of failed operations at a dependency as the gauge flashsale.repeats.left.
func (t *Telemetry) ObserveRepeats(dependency string, left func() int64) error {
	return t.observeDependency("flashsale.repeats.left", "Repeats of failed operations that the budget of this process "+
		"allows at a dependency. At 0, failed operations are not repeated.", dependency, left)
}

// observeDependency adds a value to a gauge that has one for each dependency. The callback is not an option of the gauge,
// of which only the first one counts.
func (t *Telemetry) observeDependency(name, description, dependency string, value func() int64) error {
	of := metric.WithAttributes(AttrDependency.String(dependency))
	gauge, err := t.Meter.Int64ObservableGauge(name, metric.WithDescription(description))
	if err != nil {
		return err
	}
	_, err = t.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(gauge, value(), of)
		return nil
	}, gauge)
	return err
}
