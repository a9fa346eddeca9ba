package httpserver

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// trustingPropagator treats callers as components of this system: their spans count as local parents.
type trustingPropagator struct{ propagation.TextMapPropagator }

func (t trustingPropagator) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	ctx = t.TextMapPropagator.Extract(ctx, c)
	if sc := trace.SpanContextFromContext(ctx); sc.IsRemote() {
		return trace.ContextWithSpanContext(ctx, sc.WithRemote(false))
	}
	return ctx
}
