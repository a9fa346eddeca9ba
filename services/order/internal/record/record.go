// Package record records the metrics of the order service and raises its incidents.
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
	log                                          *slog.Logger
	orders, refunds, resent, contacts, incidents metric.Int64Counter
	lag, lateness                                metric.Float64Histogram
}

var _ core.Recorder = (*Recorder)(nil)

// New returns a recorder. It fails if a metric cannot be created.
func New(tel *telemetry.Telemetry) (*Recorder, error) {
	var errs []error
	counter := func(name, unit, description string, series ...metric.MeasurementOption) metric.Int64Counter {
		c, err := telemetry.NewCounter(tel.Meter, name, unit, description, series...)
		errs = append(errs, err)
		return c
	}
	r := &Recorder{
		log: tel.Log,
		orders: counter("flashsale.order.orders", "{order}",
			"Orders that entered a state, each counted once: created, paid (by a payment), closed (with the reason).",
			append(telemetry.Series(telemetry.AttrState, []core.State{"created", core.Paid}),
				telemetry.Series(telemetry.AttrReason, core.CloseReasons, telemetry.AttrState.String("closed"))...)...),
		refunds: counter("flashsale.order.refunds", "{refund}", "Refunds that entered a state, by state.",
			telemetry.Series(telemetry.AttrState, core.RefundStates)...),
		resent: counter("flashsale.order.closings_resent", "{order}",
			"Overdue orders whose lost closing the sweep published again."),
		contacts: counter("flashsale.order.contacts_deleted", "{contact}",
			"Contacts that the sweep deleted, CONTACT_KEEP after the end of their activity."),
	}
	var err error
	r.lag, err = tel.Meter.Float64Histogram("flashsale.order.creation.lag", metric.WithUnit("s"),
		metric.WithDescription("Time from a purchase's acceptance, which its buyer reads as 202, to the creation of its order."),
		metric.WithExplicitBucketBoundaries(.05, .1, .25, .5, 1, 2, 3, 5, 10, 30, 60, 300, 1800))
	errs = append(errs, err)
	r.lateness, err = tel.CloseLateness()
	errs = append(errs, err)
	r.incidents, err = tel.Incidents(core.IncidentKinds...)
	return r, errors.Join(append(errs, err)...)
}

func (r *Recorder) count(ctx context.Context, n int, state string, more ...attribute.KeyValue) {
	r.orders.Add(ctx, int64(n), metric.WithAttributes(append(more, telemetry.AttrState.String(state))...))
}

// Created implements core.Recorder.
func (r *Recorder) Created(ctx context.Context, n int, lags []time.Duration) {
	if n > 0 {
		r.count(ctx, n, "created")
	}
	for _, d := range lags {
		r.lag.Record(ctx, max(0, d.Seconds()))
	}
}

// Paid implements core.Recorder.
func (r *Recorder) Paid(ctx context.Context) { r.count(ctx, 1, "paid") }

// Closed implements core.Recorder.
func (r *Recorder) Closed(ctx context.Context, reason string, n int) {
	r.count(ctx, n, "closed", telemetry.AttrReason.String(reason))
}

// Lateness implements core.Recorder.
func (r *Recorder) Lateness(ctx context.Context, d time.Duration) {
	r.lateness.Record(ctx, d.Seconds())
}

// Refund implements core.Recorder.
func (r *Recorder) Refund(ctx context.Context, state core.RefundState) {
	r.refunds.Add(ctx, 1, metric.WithAttributes(telemetry.AttrState.String(string(state))))
}

// ClosingsResent implements core.Recorder.
func (r *Recorder) ClosingsResent(ctx context.Context, n int) {
	r.resent.Add(ctx, int64(n))
	r.log.WarnContext(ctx, "overdue orders were not closed: closings published again", "orders", n)
}

// ContactsDeleted implements core.Recorder.
func (r *Recorder) ContactsDeleted(ctx context.Context, n int) { r.contacts.Add(ctx, int64(n)) }

// Incident implements core.Recorder.
func (r *Recorder) Incident(ctx context.Context, kind, message string, attrs ...any) {
	r.incidents.Add(ctx, 1, metric.WithAttributes(telemetry.AttrKind.String(kind)))
	r.log.ErrorContext(ctx, "incident", append([]any{"kind", kind, "what", message}, attrs...)...)
}
