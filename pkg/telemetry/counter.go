package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// NewCounter returns a counter whose series begin at 0, those that are given, or the one without labels: increase() sees
// the first event only of a series that existed before.
func NewCounter(
	meter metric.Meter, name, unit, description string, series ...metric.MeasurementOption,
) (metric.Int64Counter, error) {
	c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	if err != nil {
		return nil, err
	}
	if len(series) == 0 {
		c.Add(context.Background(), 0)
	}
	for _, s := range series {
		c.Add(context.Background(), 0, s)
	}
	return c, nil
}

// Series returns a series for each value of a label. All of them have the other labels, too.
func Series[V ~string](label attribute.Key, values []V, more ...attribute.KeyValue) []metric.MeasurementOption {
	all := make([]metric.MeasurementOption, len(values))
	for i, v := range values {
		all[i] = metric.WithAttributeSet(attribute.NewSet(append([]attribute.KeyValue{label.String(string(v))}, more...)...))
	}
	return all
}
