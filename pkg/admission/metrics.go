package admission

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/ratelimit/rules"
	"flashsale.internal/pkg/telemetry"
)

const (
	attrRule   = attribute.Key("flashsale.limit")
	attrSource = attribute.Key("flashsale.source")
)

// The outcomes of a reload.
const (
	takenOver = "taken over"
	refused   = "refused"
)

// metrics holds the metrics of the limits. The rules count their decisions; observe reads those counts at each scrape.
type metrics struct {
	wait    metric.Float64Histogram
	reloads metric.Int64Counter
	sources [ratelimit.SourceFallback + 1]atomic.Int64
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{}
	var err, more error
	m.wait, err = meter.Float64Histogram("flashsale.limits.wait", metric.WithUnit("s"),
		metric.WithDescription("Time that an admitted request waited in the queue of a limit, from arrival to "+
			"admission."),
		metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2, 5, 10, 30))
	m.reloads, more = telemetry.NewCounter(meter, "flashsale.limits.reloads", "",
		"Rule sets read from the file or Redis, by source and outcome (taken over, refused).", slices.Concat(
			telemetry.Series(attrSource, []string{"file", "redis"}, telemetry.AttrOutcome.String(takenOver)),
			telemetry.Series(attrSource, []string{"file", "redis"}, telemetry.AttrOutcome.String(refused)))...)
	return m, errors.Join(err, more)
}

func (m *metrics) decided(_ string, _ rules.Outcome, source ratelimit.Source) {
	m.sources[source].Add(1)
}

func (m *metrics) waited(rule string, wait time.Duration) {
	m.wait.Record(context.Background(), wait.Seconds(), metric.WithAttributes(attrRule.String(rule)))
}

func (m *metrics) reloaded(source string, err error) {
	outcome := takenOver
	if err != nil {
		outcome = refused
	}
	m.reloads.Add(context.Background(), 1,
		metric.WithAttributes(attrSource.String(source), telemetry.AttrOutcome.String(outcome)))
}

// observe registers the metrics that are read at each scrape.
func (m *metrics) observe(meter metric.Meter, l *Limits) error {
	decisions, err := meter.Int64ObservableCounter("flashsale.limits.decisions",
		metric.WithDescription("Decisions of the limits, by rule and outcome."))
	sources, more := meter.Int64ObservableCounter("flashsale.limits.decided",
		metric.WithDescription("Decisions of the limits, by source: local, redis, lease, deny_cache, fallback."))
	instances, last := meter.Int64ObservableGauge("flashsale.limits.instances",
		metric.WithDescription("Processes of this service that share the limits, by the count of this process."))
	if err = errors.Join(err, more, last); err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range l.List() {
			for outcome, n := range map[rules.Outcome]int64{
				rules.Allowed: s.Allowed, rules.Waited: s.Waited, rules.Refused: s.Refused,
				rules.Shadow: s.Shadowed, rules.Failed: s.Failed,
			} {
				o.ObserveInt64(decisions, n, metric.WithAttributes(attrRule.String(s.Rule.Name),
					telemetry.AttrOutcome.String(string(outcome))))
			}
		}
		for source := range m.sources {
			o.ObserveInt64(sources, m.sources[source].Load(),
				metric.WithAttributes(attrSource.String(ratelimit.Source(source).String())))
		}
		if l.conn != nil {
			o.ObserveInt64(instances, int64(l.conn.Instances()))
		}
		return nil
	}, decisions, sources, instances)
	return err
}
