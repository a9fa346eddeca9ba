package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// MaxTraced bounds the traced items of one batch. A message holds as many items.
const MaxTraced = 256

// Traceparent returns the W3C header of ctx's span, for an item of a message or a journal entry. It is empty if the
// span is not sampled, since there is nothing to continue.
func Traceparent(ctx context.Context) string { return traceparent(trace.SpanContextFromContext(ctx)) }

func traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() || !sc.IsSampled() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
}

// WithTraceparent continues the trace of a message, journal entry or row of this system. Its sampling decision
// applies, unlike that of a caller's header. With an empty or malformed tp it returns ctx.
func WithTraceparent(ctx context.Context, tp string) context.Context {
	sc, ok := parse(tp)
	if !ok {
		return ctx
	}
	if ctx.Value(batchKey{}) != nil {
		ctx = context.WithValue(ctx, batchKey{}, nil) // a single trace from here on
	}
	return trace.ContextWithSpanContext(ctx, sc)
}

func parse(tp string) (trace.SpanContext, bool) {
	if tp == "" {
		return trace.SpanContext{}, false
	}
	carried := propagation.MapCarrier{"traceparent": tp}
	sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carried))
	return sc.WithRemote(false), sc.IsValid()
}

type batchKey struct{}

// spans holds the open spans of one operation, one for each traced item. A batch without traced items has none.
type spans []trace.Span

// Batch is one operation on many items. The trace of each sampled item has a span of it.
type Batch struct {
	spans  spans
	ofItem []int // index of each item's span, -1 for an item without a trace
}

// StartBatch begins an operation on items. traceparents holds those of the items in order, "" for an item without
// one. It opens one span in each sampled item's trace; items with the same parent share the span. Span, called with
// the returned context, does the same one level deeper; other instrumentation continues the first sampled item's
// span. If no item is sampled, nothing is recorded, and no operation below begins a new trace.
func (t *Telemetry) StartBatch(
	ctx context.Context, name string, kind trace.SpanKind, traceparents []string, attrs ...attribute.KeyValue,
) (context.Context, *Batch) {
	b := &Batch{ofItem: make([]int, len(traceparents))}
	var start time.Time
	var opts []trace.SpanStartOption
	var seen map[string]int
	for i, tp := range traceparents {
		b.ofItem[i] = -1
		if tp == "" {
			continue
		}
		if at, ok := seen[tp]; ok {
			b.ofItem[i] = at
			continue
		}
		parent, ok := parse(tp)
		if !ok || !parent.IsSampled() || len(b.spans) == MaxTraced {
			continue
		}
		if seen == nil {
			seen = make(map[string]int)
			start = time.Now()
			opts = []trace.SpanStartOption{
				trace.WithTimestamp(start), trace.WithSpanKind(kind),
				trace.WithAttributes(attrs...), trace.WithAttributes(AttrBatchSize.Int(len(traceparents))),
			}
		}
		_, span := t.Tracer.Start(trace.ContextWithSpanContext(ctx, parent), name, opts...)
		seen[tp] = len(b.spans)
		b.ofItem[i] = len(b.spans)
		b.spans = append(b.spans, span)
	}
	ctx = context.WithValue(ctx, batchKey{}, b.spans)
	if len(b.spans) > 0 {
		return trace.ContextWithSpan(ctx, b.spans[0]), b
	}
	return trace.ContextWithSpanContext(ctx, unsampled()), b
}

// unsampled returns the root of a trace that is not recorded. Its id still connects log lines.
func unsampled() trace.SpanContext {
	var tid trace.TraceID
	var sid trace.SpanID
	binary.NativeEndian.PutUint64(tid[:8], rand.Uint64()|1) //nolint:gosec // an id, no secret
	binary.NativeEndian.PutUint64(tid[8:], rand.Uint64())   //nolint:gosec // an id, no secret
	binary.NativeEndian.PutUint64(sid[:], rand.Uint64()|1)  //nolint:gosec // an id, no secret
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: tid, SpanID: sid})
}

// Traceparent returns the traceparent that item i must carry on: its span in this batch, "" if it is not sampled.
func (b *Batch) Traceparent(i int) string { return traceparent(b.Item(i).SpanContext()) }

// Item returns the span of item i, for attributes and events of that item. Without a trace the span is a no-op.
func (b *Batch) Item(i int) trace.Span {
	if b == nil || i < 0 || i >= len(b.ofItem) || b.ofItem[i] < 0 {
		return trace.SpanFromContext(context.Background())
	}
	return b.spans[b.ofItem[i]]
}

// ItemContext returns ctx restricted to item i: operations and log lines with it belong to that item's trace only.
func (b *Batch) ItemContext(ctx context.Context, i int) context.Context {
	span := b.Item(i)
	if !span.SpanContext().IsValid() {
		ctx = context.WithValue(ctx, batchKey{}, spans{})
		return trace.ContextWithSpanContext(ctx, unsampled())
	}
	ctx = context.WithValue(ctx, batchKey{}, spans{span})
	return trace.ContextWithSpan(ctx, span)
}

// End ends the spans of the batch, as failed if err is not nil.
func (b *Batch) End(err error) {
	if b != nil {
		b.spans.end(err)
	}
}

func (s spans) end(err error) {
	if len(s) == 0 {
		return
	}
	now := trace.WithTimestamp(time.Now())
	for _, span := range s {
		if err != nil {
			span.RecordError(err, now)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End(now)
	}
}

// Span begins an operation and returns the function that ends it. In the context of a batch it opens one child in each
// sampled item's trace, else a child of ctx's span, or the root of a new trace.
func (t *Telemetry) Span(
	ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue,
) (context.Context, func(error)) {
	// The trace is not recorded, as was decided at its root, so its spans need no ids. The span of a batch is a
	// recorded one, if any is. The attributes do not escape to the heap here, since only copies of them are kept
	// below.
	around := trace.SpanFromContext(ctx)
	if sc := around.SpanContext(); sc.IsValid() && !sc.IsSampled() && !around.IsRecording() {
		return ctx, unrecorded
	}
	parents, batch := ctx.Value(batchKey{}).(spans)
	if !batch {
		ctx, span := t.Tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(slices.Clone(attrs)...))
		return ctx, spans{span}.end
	}
	if len(parents) == 0 {
		return ctx, unrecorded
	}
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(time.Now()), trace.WithSpanKind(kind), trace.WithAttributes(slices.Clone(attrs)...),
	}
	children := make(spans, len(parents))
	for i, p := range parents {
		_, children[i] = t.Tracer.Start(trace.ContextWithSpan(ctx, p), name, opts...)
	}
	ctx = context.WithValue(ctx, batchKey{}, children)
	return trace.ContextWithSpan(ctx, children[0]), children.end
}

func unrecorded(error) {}
