// Package record records the work of the service in metrics, spans and log lines.
package record

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// Recorder implements the recorders of all packages of the service.
type Recorder struct {
	tel             *telemetry.Telemetry
	system          string
	reservations    metric.Int64Counter
	lag             metric.Float64Histogram
	lateness        metric.Float64Histogram
	rebuilt         metric.Int64Counter
	resettled       metric.Int64Counter
	unreadable      metric.Int64Counter
	incidents       metric.Int64Counter
	redisless       metric.Int64Counter
	openDeadLetters *telemetry.Reading
	nextStart       *telemetry.Reading
	waitingDelivery *telemetry.Reading
	failingDelivery *telemetry.Reading
	differences     *telemetry.Reading
	compared        *telemetry.Reading
	repairs         metric.Int64Counter
	checks          metric.Int64Counter
}

// New makes the instruments. system is the database's name by OpenTelemetry's conventions.
func New(tel *telemetry.Telemetry, system string) (*Recorder, error) {
	r := &Recorder{tel: tel, system: system}
	var errs []error
	counter := func(dst *metric.Int64Counter, name, unit, text string, series ...metric.MeasurementOption) {
		var err error
		*dst, err = telemetry.NewCounter(tel.Meter, name, unit, text, series...)
		errs = append(errs, err)
	}
	counter(&r.reservations, "flashsale.inventory.reservations", "{reservation}",
		"Reservations by outcome: landed (new ledger rows that hold units), refused (accepted at the gate, rejected by "+
			"the ledger, with the reason), displaced (refused in an activity that has sold without Redis), restored "+
			"(their units are in the stock again).", reservationSeries()...)
	counter(&r.redisless, "flashsale.inventory.redisless", "{purchase}",
		"Purchases that the ledger decided without the gate, by outcome.",
		telemetry.Series(telemetry.AttrOutcome, contract.RedislessOutcomes)...)
	counter(&r.rebuilt, "flashsale.inventory.gate.rebuilds", "{gate}",
		"Gates built from the tables, the first build included.")
	counter(&r.resettled, "flashsale.inventory.gate.resettled", "{reservation}",
		"Ledger rows settled again before a refusal or after a change of the Redis master.")
	counter(&r.unreadable, "flashsale.inventory.ledger.unreadable", "{row}",
		"Ledger rows that were set aside because they cannot be read, counted again with each reading.")
	counter(&r.repairs, "flashsale.inventory.repairs", "{repair}", "Repairs by the reconciler, by kind.",
		telemetry.Series(attrRepair, reconcile.RepairKinds())...)
	counter(&r.checks, "flashsale.inventory.reconcile.checks", "{check}",
		"Checks by the reconciler's timer, by outcome. A comparison of all entries follows each that is not clean.",
		telemetry.Series(telemetry.AttrOutcome, reconcile.CheckOutcomes)...)
	var err error
	r.lag, err = tel.Meter.Float64Histogram("flashsale.inventory.landing.lag", metric.WithUnit("s"),
		metric.WithDescription("Time from a reservation's acceptance at the gate to its commit in the ledger."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 5, 10, 30, 60, 300, 1800))
	errs = append(errs, err)
	r.lateness, err = tel.CloseLateness()
	errs = append(errs, err)
	r.incidents, err = tel.Incidents()
	errs = append(errs, err)
	r.openDeadLetters, err = tel.Reading("flashsale.inventory.dead_letters.open", metric.WithUnit("{letter}"),
		metric.WithDescription("Open dead letters, which wait for an operator. No value while the database does not "+
			"respond."))
	errs = append(errs, err)
	r.nextStart, err = tel.Reading("flashsale.inventory.next_start", metric.WithUnit("s"),
		metric.WithDescription("Start of the next sale, in seconds since 1970. No value without one, and while the database "+
			"does not respond."))
	errs = append(errs, err)
	oldest, err := tel.Readings([]attribute.Set{
		attribute.NewSet(telemetry.AttrState.String("waiting")), attribute.NewSet(telemetry.AttrState.String("failing")),
	}, "flashsale.inventory.webhooks.oldest", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest webhook that has not been sent, or whose last attempt failed; 0 if there is none. "+
			"No value without WEBHOOK_KEYS, and while the database does not respond."))
	errs = append(errs, err)
	r.waitingDelivery, r.failingDelivery = oldest[0], oldest[1]
	name, opts := telemetry.Differences()
	r.differences, err = tel.Reading(name, opts...)
	errs = append(errs, err)
	name, opts = telemetry.Compared()
	r.compared, err = tel.Reading(name, opts...)
	return r, errors.Join(append(errs, err)...)
}

const attrRepair = attribute.Key("flashsale.repair")

// reservationSeries returns the series of reservations by outcome.
func reservationSeries() []metric.MeasurementOption {
	all := telemetry.Series(telemetry.AttrOutcome, []string{"landed", "restored"})
	for _, outcome := range []string{"refused", "displaced"} {
		all = append(all, telemetry.Series(telemetry.AttrReason, ledger.RefusalReasons, telemetry.AttrOutcome.String(outcome))...)
	}
	return all
}

// Span implements core.Recorder.
func (r *Recorder) Span(ctx context.Context, name string, database bool) (context.Context, func(error)) {
	if database {
		return r.tel.Span(ctx, name, trace.SpanKindClient, attribute.String("db.system", r.system),
			attribute.String("db.system.name", r.system))
	}
	return r.tel.Span(ctx, name, trace.SpanKindInternal)
}

func (r *Recorder) count(ctx context.Context, n int, outcome string, more ...attribute.KeyValue) {
	r.reservations.Add(ctx, int64(n), metric.WithAttributes(append(more, telemetry.AttrOutcome.String(outcome))...))
}

// Landed implements core.Recorder.
func (r *Recorder) Landed(ctx context.Context, n int, lags []time.Duration) {
	if n > 0 {
		r.count(ctx, n, "landed")
	}
	for _, d := range lags {
		r.lag.Record(ctx, max(0, d.Seconds()))
	}
}

// Refused implements core.Recorder.
func (r *Recorder) Refused(ctx context.Context, reason string, n int) {
	r.count(ctx, n, "refused", telemetry.AttrReason.String(reason))
}

// Displaced implements core.Recorder.
func (r *Recorder) Displaced(ctx context.Context, reason string) {
	r.count(ctx, 1, "displaced", telemetry.AttrReason.String(reason))
}

// SoldRedisless implements redisless.Recorder.
func (r *Recorder) SoldRedisless(ctx context.Context, results []contract.RedislessResult) {
	for _, result := range results {
		r.redisless.Add(ctx, 1, metric.WithAttributes(telemetry.AttrOutcome.String(string(result.Outcome))))
	}
}

// Closed implements core.Recorder.
func (r *Recorder) Closed(ctx context.Context, n int, lateness time.Duration) {
	r.count(ctx, n, "restored")
	r.lateness.Record(ctx, max(0, lateness.Seconds()))
}

// Rebuilt implements gates.Recorder.
func (r *Recorder) Rebuilt(ctx context.Context, activityID string, b gates.BuildReport) {
	r.rebuilt.Add(ctx, 1)
	r.tel.Log.InfoContext(ctx, "gate built from the tables", "activity_id", activityID, "rows", b.Rows,
		"took", b.Took.String(), "locked", b.Locked.String())
}

// Resettled implements gates.Recorder.
func (r *Recorder) Resettled(ctx context.Context, activityID string, rows int) {
	if rows == 0 {
		return
	}
	r.resettled.Add(ctx, int64(rows))
	r.tel.Log.InfoContext(ctx, "gate settled again from the ledger", "activity_id", activityID, "rows", rows)
}

// Unreadable implements core.Recorder.
func (r *Recorder) Unreadable(ctx context.Context, rows int) { r.unreadable.Add(ctx, int64(rows)) }

// Repaired implements reconcile.Recorder: in the trace of the purchase, where it has one, else in that of the
// reconciliation.
func (r *Recorder) Repaired(ctx context.Context, activityID string, rep reconcile.Repair) {
	kind := attrRepair.String(string(rep.Kind))
	r.repairs.Add(ctx, 1, metric.WithAttributes(kind))
	attrs := []any{"kind", rep.Kind, "activity_id", activityID}
	of := []attribute.KeyValue{kind, telemetry.AttrActivityID.String(activityID)}
	if rep.OrderSN != "" {
		attrs = append(attrs, "order_sn", rep.OrderSN)
		of = append(of, telemetry.AttrOrderSN.String(rep.OrderSN))
	}
	for _, d := range rep.Deltas {
		if d.Delta != 0 {
			attrs = append(attrs, "left_"+d.SKUID, d.Delta)
		}
	}
	r.tel.Log.InfoContext(ctx, "repaired", attrs...)
	if rep.Traceparent != "" {
		ctx = telemetry.WithTraceparent(ctx, rep.Traceparent)
	}
	_, end := r.tel.Span(ctx, "repair", trace.SpanKindInternal, of...)
	end(nil)
}

// Checked implements reconcile.Recorder.
func (r *Recorder) Checked(ctx context.Context, outcome reconcile.CheckOutcome) {
	r.checks.Add(ctx, 1, metric.WithAttributes(telemetry.AttrOutcome.String(string(outcome))))
}

// Incident implements core.Recorder.
func (r *Recorder) Incident(ctx context.Context, what string, attrs ...any) {
	r.incidents.Add(ctx, 1)
	r.tel.Log.ErrorContext(ctx, what, attrs...)
}

// Info implements gates.Recorder.
func (r *Recorder) Info(ctx context.Context, what string, attrs ...any) {
	r.tel.Log.InfoContext(ctx, what, attrs...)
}

// Warn implements core.Recorder.
func (r *Recorder) Warn(ctx context.Context, what string, err error) {
	r.tel.Log.WarnContext(ctx, what, "error", err)
}

// OpenDeadLetters records the number of open dead letters, or no value if counting them failed.
func (r *Recorder) OpenDeadLetters(n int64, err error) { r.openDeadLetters.Record(n, err) }

// NextStart records the start of the next sale. The zero time means that there is none.
func (r *Recorder) NextStart(at time.Time, err error) {
	if err == nil && at.IsZero() {
		err = errNoSale
	}
	r.nextStart.Record(at.Unix(), err)
}

// OldestDelivery implements webhooks.Recorder.
func (r *Recorder) OldestDelivery(waiting, failing time.Duration, err error) {
	r.waitingDelivery.Record(int64(waiting/time.Second), err)
	r.failingDelivery.Record(int64(failing/time.Second), err)
}

var errNoSale = errors.New("no sale is scheduled")

// Compared implements reconcile.Recorder.
func (r *Recorder) Compared(at time.Time, differences int) {
	r.compared.Record(at.Unix(), nil)
	r.differences.Record(int64(differences), nil)
}
