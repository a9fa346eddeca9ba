package httpserver

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// trustingPropagator takes callers for parts of this system: their parents count as local ones.
type trustingPropagator struct{ propagation.TextMapPropagator }

func (t trustingPropagator) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	ctx = t.TextMapPropagator.Extract(ctx, c)
	if sc := trace.SpanContextFromContext(ctx); sc.IsRemote() {
		return trace.ContextWithSpanContext(ctx, sc.WithRemote(false))
	}
	return ctx
}
