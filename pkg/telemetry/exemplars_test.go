package telemetry

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestExemplarsHoldTheTraceAndNoCallersText(t *testing.T) {
	tel, _ := Recording()
	ctx, end := tel.Span(t.Context(), "request", 0)
	defer end(nil)
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(httpServerView()))
	h, err := provider.Meter(scope).Float64Histogram("http.server.request.duration")
	require.NoError(t, err)
	h.Record(ctx, 1, metric.WithAttributes(attribute.String("server.address", "chosen-by-the-caller"), AttrRoute.String("/x")))

	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	point := got.ScopeMetrics[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints[0]
	require.Equal(t, []attribute.KeyValue{AttrRoute.String("/x")}, point.Attributes.ToSlice())
	require.Len(t, point.Exemplars, 1)
	require.NotEmpty(t, point.Exemplars[0].TraceID)
	require.Empty(t, point.Exemplars[0].FilteredAttributes)
}
