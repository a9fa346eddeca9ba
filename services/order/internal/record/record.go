// Package record records the metrics of the order service and raises its alarms.
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

// Recorder implements core.Recorder with OpenTelemetry metrics and the log.
type Recorder struct {
	log                                            *slog.Logger
	created, paid, closed, refunds, resent, alarms metric.Int64Counter
	contactsDeleted                                metric.Int64Counter
	lateness                                       metric.Float64Histogram
}

var _ core.Recorder = (*Recorder)(nil)

// New returns a recorder. It fails if a metric cannot be created.
func New(tel *telemetry.Telemetry) (*Recorder, error) {
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := tel.Meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	r := &Recorder{
		log:     tel.Log,
		created: counter("flashsale.order.created", "{order}", "Orders committed, each counted once."),
		paid:    counter("flashsale.order.paid", "{order}", "Orders that a payment moved to paid."),
		closed:  counter("flashsale.order.closed", "{order}", "Orders moved to closed, by reason."),
		refunds: counter("flashsale.order.refunds", "{refund}", "Refunds that entered a state, by state."),
		resent: counter("flashsale.order.closings_resent", "{order}",
			"Overdue orders whose lost closing the sweep published again."),
		contactsDeleted: counter("flashsale.order.contacts_deleted", "{contact}",
			"Contacts that the sweep deleted, CONTACT_KEEP after the end of their activity."),
		alarms: counter("flashsale.order.alarms", "{alarm}", "Faults that need an operator, by kind."),
	}
	var err error
	r.lateness, err = tel.Meter.Float64Histogram("flashsale.order.close_lateness", metric.WithUnit("s"),
		metric.WithDescription("Time from an order's deadline to its closing for that deadline."),
		metric.WithExplicitBucketBoundaries(0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 60, 120, 300, 1800))
	return r, errors.Join(append(errs, err)...)
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
	r.log.WarnContext(ctx, "overdue orders were not closed: closings published again", "orders", n)
}

// ContactsDeleted implements core.Recorder.
func (r *Recorder) ContactsDeleted(ctx context.Context, n int) { r.contactsDeleted.Add(ctx, int64(n)) }

// Alarm implements core.Recorder.
func (r *Recorder) Alarm(ctx context.Context, kind, message string, attrs ...any) {
	r.alarms.Add(ctx, 1, metric.WithAttributes(attribute.String("flashsale.kind", kind)))
	r.log.ErrorContext(ctx, "alarm", append([]any{"kind", kind, "what", message}, attrs...)...)
}
