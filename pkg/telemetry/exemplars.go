package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
)

// tracesOnly keeps exemplars to the ids of a trace. By default they also hold the attributes that a view dropped, which
// for the HTTP server are the caller's text, and too long for the metrics page.
func tracesOnly(agg sdkmetric.Aggregation) exemplar.ReservoirProvider {
	provider := sdkmetric.DefaultExemplarReservoirProviderSelector(agg)
	return func(attrs attribute.Set) exemplar.Reservoir { return bareReservoir{provider(attrs)} }
}

type bareReservoir struct{ exemplar.Reservoir }

func (r bareReservoir) Offer(ctx context.Context, t time.Time, v exemplar.Value, _ []attribute.KeyValue) {
	r.Reservoir.Offer(ctx, t, v, nil)
}
