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
	return t.ReadingOf(nil, name, opts...)
}

// ReadingOf is Reading with attributes, by which readings of the same name differ.
func (t *Telemetry) ReadingOf(
	attrs []attribute.KeyValue, name string, opts ...metric.Int64ObservableGaugeOption,
) (*Reading, error) {
	r := &Reading{}
	of := metric.WithAttributes(attrs...)
	observe := func(_ context.Context, o metric.Int64Observer) error {
		if n := r.last.Load(); n != nil {
			o.Observe(*n, of)
		}
		return nil
	}
	_, err := t.Meter.Int64ObservableGauge(name, append(opts, metric.WithInt64Callback(observe))...)
	return r, err
}

// Record sets the value, or removes the sample if the read failed.
func (r *Reading) Record(n int64, err error) {
	if err != nil {
		r.last.Store(nil)
		return
	}
	r.last.Store(&n)
}
