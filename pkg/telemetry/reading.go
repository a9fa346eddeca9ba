package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// Reading is a gauge of a figure that a dependency holds. It has a sample only while the last reading succeeded: neither 0 nor
// an old figure stands for one that is unknown.
type Reading struct{ last atomic.Pointer[int64] }

// Reading makes a gauge that has no sample yet.
func (t *Telemetry) Reading(name string, opts ...metric.Int64ObservableGaugeOption) (*Reading, error) {
	r := &Reading{}
	_, err := t.Meter.Int64ObservableGauge(name, append(opts, metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		if n := r.last.Load(); n != nil {
			o.Observe(*n)
		}
		return nil
	}))...)
	return r, err
}

// Record sets the figure, or makes it unknown when reading it failed.
func (r *Reading) Record(n int64, err error) {
	if err != nil {
		r.last.Store(nil)
		return
	}
	r.last.Store(&n)
}
