// Package watch tells the outside what the core did: metrics, spans, log lines.
package watch

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
)

// Watch implements core.Watch.
type Watch struct {
	tel       *telemetry.Telemetry
	system    string
	landed    metric.Int64Counter
	lag       metric.Float64Histogram
	refused   metric.Int64Counter
	closed    metric.Int64Counter
	lateness  metric.Float64Histogram
	rebuilt   metric.Int64Counter
	resettled metric.Int64Counter
	incidents metric.Int64Counter
	letters   *telemetry.Reading
	repairs   metric.Int64Counter
}

var _ core.Watch = (*Watch)(nil)

// New makes the instruments. system is the database's name by OpenTelemetry's conventions.
func New(tel *telemetry.Telemetry, system string) (*Watch, error) {
	w := &Watch{tel: tel, system: system}
	var errs []error
	counter := func(dst *metric.Int64Counter, name, unit, text string) {
		var err error
		*dst, err = tel.Meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
	}
	seconds := func(dst *metric.Float64Histogram, name, text string) {
		var err error
		*dst, err = tel.Meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text),
			metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 5, 10, 30, 60, 300, 1800))
		errs = append(errs, err)
	}
	counter(&w.landed, "flashsale.inventory.landed", "{reservation}", "Reservations entered into the ledger.")
	counter(&w.refused, "flashsale.inventory.refused", "{reservation}", "Reservations that the gate took and the ledger refused.")
	counter(&w.closed, "flashsale.inventory.restored", "{reservation}", "Reservations whose pieces went back into the stock.")
	counter(&w.rebuilt, "flashsale.inventory.gate.rebuilds", "{gate}", "Gates built from the tables, first fillings included.")
	counter(&w.resettled, "flashsale.inventory.gate.resettled", "{reservation}", "Rows settled again after a refusal or a change of Redis's master.")
	counter(&w.repairs, "flashsale.inventory.repairs", "{repair}", "What the reconciler put right, by kind.")
	counter(&w.incidents, "flashsale.inventory.incidents", "{incident}", "What must not happen and did; each is in the log.")
	seconds(&w.lag, "flashsale.inventory.landing.lag", "From the gate's yes to the ledger's.")
	seconds(&w.lateness, "flashsale.inventory.close.lateness", "From the end of the pay window to the restored stock.")
	var err error
	w.letters, err = tel.Reading("flashsale.inventory.dead_letters.open", metric.WithUnit("{letter}"),
		metric.WithDescription("Dead letters that wait for a person. No value while the database does not respond."))
	return w, errors.Join(append(errs, err)...)
}

// Span implements core.Watch.
func (w *Watch) Span(ctx context.Context, name string, database bool) (context.Context, func(error)) {
	if database {
		return w.tel.Span(ctx, name, trace.SpanKindClient, attribute.String("db.system", w.system), attribute.String("db.system.name", w.system))
	}
	return w.tel.Span(ctx, name, trace.SpanKindInternal)
}

// Landed implements core.Watch.
func (w *Watch) Landed(ctx context.Context, n int, lags []time.Duration) {
	if n > 0 {
		w.landed.Add(ctx, int64(n))
	}
	for _, d := range lags {
		w.lag.Record(ctx, max(0, d.Seconds()))
	}
}

// Refused implements core.Watch.
func (w *Watch) Refused(ctx context.Context, reason string, n int) {
	w.refused.Add(ctx, int64(n), metric.WithAttributes(telemetry.AttrReason.String(reason)))
}

// Closed implements core.Watch.
func (w *Watch) Closed(ctx context.Context, n int, lateness time.Duration) {
	w.closed.Add(ctx, int64(n))
	w.lateness.Record(ctx, max(0, lateness.Seconds()))
}

// Rebuilt implements core.Watch.
func (w *Watch) Rebuilt(ctx context.Context, activityID string) {
	w.rebuilt.Add(ctx, 1)
	w.tel.Log.InfoContext(ctx, "gate filled from the tables", "activity_id", activityID)
}

// Resettled implements core.Watch.
func (w *Watch) Resettled(ctx context.Context, activityID string, rows int) {
	if rows == 0 {
		return
	}
	w.resettled.Add(ctx, int64(rows))
	w.tel.Log.InfoContext(ctx, "gate told again what the ledger holds", "activity_id", activityID, "rows", rows)
}

// Repaired implements core.Watch: in the trace of the purchase, where it has one, else in that of the reconciliation.
func (w *Watch) Repaired(ctx context.Context, activityID string, r core.Repair) {
	kind := attribute.String("flashsale.repair", string(r.Kind))
	w.repairs.Add(ctx, 1, metric.WithAttributes(kind))
	attrs := []any{"kind", r.Kind, "activity_id", activityID}
	of := []attribute.KeyValue{kind, telemetry.AttrActivityID.String(activityID)}
	if r.OrderSN != "" {
		attrs = append(attrs, "order_sn", r.OrderSN)
		of = append(of, telemetry.AttrOrderSN.String(r.OrderSN))
	}
	for _, d := range r.Deltas {
		if d.Delta != 0 {
			attrs = append(attrs, "left_"+d.SKUID, d.Delta)
		}
	}
	w.tel.Log.InfoContext(ctx, "repaired", attrs...)
	if r.Traceparent != "" {
		ctx = telemetry.WithTraceparent(ctx, r.Traceparent)
	}
	_, end := w.tel.Span(ctx, "repair", trace.SpanKindInternal, of...)
	end(nil)
}

// Incident implements core.Watch.
func (w *Watch) Incident(ctx context.Context, what string, attrs ...any) {
	w.incidents.Add(ctx, 1)
	w.tel.Log.ErrorContext(ctx, what, attrs...)
}

// Info implements core.Watch.
func (w *Watch) Info(ctx context.Context, what string, attrs ...any) {
	w.tel.Log.InfoContext(ctx, what, attrs...)
}

// Warn implements core.Watch.
func (w *Watch) Warn(ctx context.Context, what string, err error) {
	w.tel.Log.WarnContext(ctx, what, "error", err)
}

// OpenDeadLetters records how many dead letters wait, unless counting them failed.
func (w *Watch) OpenDeadLetters(n int64, err error) { w.letters.Record(n, err) }
