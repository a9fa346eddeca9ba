package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// Several services have the metrics of this file. Their description must be the same, or one process with all services
// could not show them on one page.

// Incidents returns the counter flashsale.incidents. Its callers add with one of the kinds as AttrKind, or without a
// label if there are none.
func (t *Telemetry) Incidents(kinds ...string) (metric.Int64Counter, error) {
	return NewCounter(t.Meter, "flashsale.incidents", "{incident}",
		"States that must not occur and need an operator. Each is logged as an error.", Series(AttrKind, kinds)...)
}

// CloseLateness returns the histogram flashsale.close.lateness.
func (t *Telemetry) CloseLateness() (metric.Float64Histogram, error) {
	return t.Meter.Float64Histogram("flashsale.close.lateness", metric.WithUnit("s"),
		metric.WithDescription("Time from an order's deadline to its closing (order), and to the release of its units "+
			"(inventory)."),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 30, 60, 120, 300, 1800))
}

// ObserveStreams exports the number of open event streams as the gauge flashsale.streams.open.
func (t *Telemetry) ObserveStreams(open func() int) error {
	_, err := t.Meter.Int64ObservableGauge("flashsale.streams.open", metric.WithUnit("{stream}"),
		metric.WithDescription("Open event streams."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(open()))
			return nil
		}))
	return err
}

// Differences is the gauge of what a service's latest comparison of two books has left.
func Differences() (name string, opts []metric.Int64ObservableGaugeOption) {
	return "flashsale.differences", []metric.Int64ObservableGaugeOption{
		metric.WithUnit("{difference}"),
		metric.WithDescription("Differences that the latest comparisons have left: of gate and ledger in inventory, with a " +
			"payment provider in order. No value while the database does not respond."),
	}
}

// Compared is the gauge of when a service has last compared two books.
func Compared() (name string, opts []metric.Int64ObservableGaugeOption) {
	return "flashsale.compared", []metric.Int64ObservableGaugeOption{
		metric.WithUnit("s"),
		metric.WithDescription("Seconds since 1970: end of the last round that compared every gate that was due in inventory, " +
			"start of the last completed comparison with a payment provider in order. No value while the database does not respond."),
	}
}
