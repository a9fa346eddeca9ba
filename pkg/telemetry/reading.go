package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Reading is a gauge of a value that is read from a dependency. It has a sample only if the last read succeeded: an
// unknown value is neither 0 nor the old value.
type Reading struct{ last atomic.Pointer[int64] }

// Reading returns a gauge without a sample.
func (t *Telemetry) Reading(name string, opts ...metric.Int64ObservableGaugeOption) (*Reading, error) {
	list, err := t.Readings([]attribute.Set{*attribute.EmptySet()}, name, opts...)
	return list[0], err
}

// Readings returns gauges of one name, one for each set of attributes. A second gauge of a name would be ignored.
func (t *Telemetry) Readings(
	of []attribute.Set, name string, opts ...metric.Int64ObservableGaugeOption,
) ([]*Reading, error) {
	list := make([]*Reading, len(of))
	for i := range list {
		list[i] = &Reading{}
	}
	observe := func(_ context.Context, o metric.Int64Observer) error {
		for i, r := range list {
			if n := r.last.Load(); n != nil {
				o.Observe(*n, metric.WithAttributeSet(of[i]))
			}
		}
		return nil
	}
	_, err := t.Meter.Int64ObservableGauge(name, append(opts, metric.WithInt64Callback(observe))...)
	return list, err
}

// Record sets the value, or removes the sample if the read failed.
func (r *Reading) Record(n int64, err error) {
	if err != nil {
		r.last.Store(nil)
		return
	}
	r.last.Store(&n)
}
