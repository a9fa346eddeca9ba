package httpserver

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// kept are the attributes of a request that a server span may begin with. All others come from the caller: the URL's
// path holds purchase paths, its query tickets, and the rest is the caller's text or address.
var kept = []attribute.Key{"http.request.method", "url.scheme", "network.protocol.name", "network.protocol.version"}

// scrubbing starts spans with the kept attributes only.
type scrubbing struct{ trace.TracerProvider }

func (s scrubbing) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	return scrubbingTracer{s.TracerProvider.Tracer(name, opts...)}
}

type scrubbingTracer struct{ trace.Tracer }

func (s scrubbingTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(opts...)
	attrs := slices.DeleteFunc(slices.Clone(c.Attributes()), func(kv attribute.KeyValue) bool { return !slices.Contains(kept, kv.Key) })
	clean := []trace.SpanStartOption{trace.WithAttributes(attrs...), trace.WithSpanKind(c.SpanKind()), trace.WithLinks(c.Links()...)}
	if c.NewRoot() {
		clean = append(clean, trace.WithNewRoot())
	}
	if !c.Timestamp().IsZero() {
		clean = append(clean, trace.WithTimestamp(c.Timestamp()))
	}
	return s.Tracer.Start(ctx, name, clean...)
}

// trustingPropagator takes callers for parts of this system: their parents count as local ones.
type trustingPropagator struct{ propagation.TextMapPropagator }

func (t trustingPropagator) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	ctx = t.TextMapPropagator.Extract(ctx, c)
	if sc := trace.SpanContextFromContext(ctx); sc.IsRemote() {
		return trace.ContextWithSpanContext(ctx, sc.WithRemote(false))
	}
	return ctx
}
