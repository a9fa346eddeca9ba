// Package record counts what the order service does, and raises its alarms.
package record

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
)

// Recorder is the core's recorder on OpenTelemetry metrics and the log.
type Recorder struct {
	log                                            *slog.Logger
	created, paid, closed, refunds, resent, alarms metric.Int64Counter
	lateness                                       metric.Float64Histogram
}

var _ core.Recorder = (*Recorder)(nil)

// New makes a recorder.
func New(tel *telemetry.Telemetry) (*Recorder, error) {
	var all []error
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := tel.Meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		all = append(all, err)
		return c
	}
	r := &Recorder{
		log:     tel.Log,
		created: counter("flashsale.order.created", "{order}", "Orders created."),
		paid:    counter("flashsale.order.paid", "{order}", "Orders paid."),
		closed:  counter("flashsale.order.closed", "{order}", "Orders closed, by reason."),
		refunds: counter("flashsale.order.refunds", "{refund}", "Refunds that reached a state."),
		resent:  counter("flashsale.order.closings_resent", "{order}", "Orders whose lost closing was published again."),
		alarms:  counter("flashsale.order.alarms", "{alarm}", "Things that a person should look at, by kind."),
	}
	var err error
	r.lateness, err = tel.Meter.Float64Histogram("flashsale.order.close_lateness", metric.WithUnit("s"),
		metric.WithDescription("From an order's deadline to its closing."),
		metric.WithExplicitBucketBoundaries(0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 60, 120, 300, 1800))
	return r, errors.Join(append(all, err)...)
}

// Created implements core.Recorder.
func (r *Recorder) Created(ctx context.Context, n int) {
	if n > 0 {
		r.created.Add(ctx, int64(n))
	}
}

// Paid implements core.Recorder.
func (r *Recorder) Paid(ctx context.Context) { r.paid.Add(ctx, 1) }

// Closed implements core.Recorder.
func (r *Recorder) Closed(ctx context.Context, reason string, n int) {
	r.closed.Add(ctx, int64(n), metric.WithAttributes(telemetry.AttrReason.String(reason)))
}

// Lateness implements core.Recorder.
func (r *Recorder) Lateness(ctx context.Context, d time.Duration) {
	r.lateness.Record(ctx, d.Seconds())
}

// Refund implements core.Recorder.
func (r *Recorder) Refund(ctx context.Context, state core.RefundState) {
	r.refunds.Add(ctx, 1, metric.WithAttributes(attribute.String("flashsale.state", string(state))))
}

// ClosingsResent implements core.Recorder.
func (r *Recorder) ClosingsResent(ctx context.Context, n int) {
	r.resent.Add(ctx, int64(n))
	r.log.WarnContext(ctx, "orders past their deadline were not closed; their closings were published again", "orders", n)
}

// Alarm implements core.Recorder.
func (r *Recorder) Alarm(ctx context.Context, kind, message string, attrs ...any) {
	r.alarms.Add(ctx, 1, metric.WithAttributes(attribute.String("flashsale.kind", kind)))
	r.log.ErrorContext(ctx, "alarm", append([]any{"kind", kind, "what", message}, attrs...)...)
}
