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

// MaxTraced bounds the items of one batch that are traced. It is as many as a message may hold.
const MaxTraced = 256

// Traceparent is the W3C header of ctx's span, for an item of a message or a journal entry to carry. It is empty when
// the span is not sampled, as then there is nothing to continue.
func Traceparent(ctx context.Context) string { return traceparent(trace.SpanContextFromContext(ctx)) }

func traceparent(sc trace.SpanContext) string {
	if !sc.IsValid() || !sc.IsSampled() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
}

// WithTraceparent continues a trace that our own message, journal entry or row carries. Its decision about sampling
// holds, as opposed to that of a caller's header. A ctx with an empty or malformed tp comes back as it is.
func WithTraceparent(ctx context.Context, tp string) context.Context {
	sc, ok := parse(tp)
	if !ok {
		return ctx
	}
	if ctx.Value(batchKey{}) != nil {
		ctx = context.WithValue(ctx, batchKey{}, nil) // one trace from here on
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

// spans are the open spans of one piece of work, one for each traced item. A batch without traced items has none.
type spans []trace.Span

// Batch is work done for many items at once, seen in the trace of each sampled one.
type Batch struct {
	spans  spans
	ofItem []int // item -> its span, -1 for an item without a trace
}

// StartBatch begins work for the items whose traceparents are given, in their order ("" for an item without one). It
// opens one span in each sampled item's trace; items that share a parent share the span. Span, called with the returned
// context, does the same one level deeper, while other instrumentation sees the first sampled item's span. When no item
// is sampled nothing is recorded at all, and nothing below begins a trace of its own.
func (t *Telemetry) StartBatch(ctx context.Context, name string, kind trace.SpanKind, traceparents []string, attrs ...attribute.KeyValue) (context.Context, *Batch) {
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

// unsampled is the beginning of a trace that nobody records. Its id still ties log lines together.
func unsampled() trace.SpanContext {
	var tid trace.TraceID
	var sid trace.SpanID
	binary.NativeEndian.PutUint64(tid[:8], rand.Uint64()|1) //nolint:gosec // an id, no secret
	binary.NativeEndian.PutUint64(tid[8:], rand.Uint64())   //nolint:gosec // an id, no secret
	binary.NativeEndian.PutUint64(sid[:], rand.Uint64()|1)  //nolint:gosec // an id, no secret
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: tid, SpanID: sid})
}

// Traceparent is what item i must carry onward: its span in this batch, "" when it is not sampled.
func (b *Batch) Traceparent(i int) string { return traceparent(b.Item(i).SpanContext()) }

// Item is item i's span, for attributes and events of its own. Without a trace it takes everything and keeps nothing.
func (b *Batch) Item(i int) trace.Span {
	if b == nil || i < 0 || i >= len(b.ofItem) || b.ofItem[i] < 0 {
		return trace.SpanFromContext(context.Background())
	}
	return b.spans[b.ofItem[i]]
}

// ItemContext is ctx narrowed to item i: work begun with it, and lines logged with it, belong to that item's trace only.
func (b *Batch) ItemContext(ctx context.Context, i int) context.Context {
	span := b.Item(i)
	if !span.SpanContext().IsValid() {
		ctx = context.WithValue(ctx, batchKey{}, spans{})
		return trace.ContextWithSpanContext(ctx, unsampled())
	}
	ctx = context.WithValue(ctx, batchKey{}, spans{span})
	return trace.ContextWithSpan(ctx, span)
}

// End closes the batch's spans, as failed when err is not nil.
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

// Span begins a piece of work and returns what ends it. In the context of a batch it is one child in each sampled
// item's trace; else it is a plain child of ctx's span, or the beginning of a trace.
func (t *Telemetry) Span(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, func(error)) {
	// Nobody records the trace, which was decided where it began: no span of it needs an id of its own. The span around a batch
	// is one that is recorded, if any is. Nor do its attributes leave the caller's stack: only copies of them are kept.
	if around := trace.SpanFromContext(ctx); around.SpanContext().IsValid() && !around.SpanContext().IsSampled() && !around.IsRecording() {
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
	opts := []trace.SpanStartOption{trace.WithTimestamp(time.Now()), trace.WithSpanKind(kind), trace.WithAttributes(slices.Clone(attrs)...)}
	children := make(spans, len(parents))
	for i, p := range parents {
		_, children[i] = t.Tracer.Start(trace.ContextWithSpan(ctx, p), name, opts...)
	}
	ctx = context.WithValue(ctx, batchKey{}, children)
	return trace.ContextWithSpan(ctx, children[0]), children.end
}

func unrecorded(error) {}
