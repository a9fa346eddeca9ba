package httpserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
)

// edge processes every request before it is routed: default headers, a bound on the body, a span, metrics, the
// traceparent of the response, and recovery from panics. It replaces otelhttp and five middlewares because in the
// first second of a sale most of the time of a request is spent here. Generic middlewares copy the request several
// times and build all attributes of spans that are not recorded.
//
// Spans and metrics have the names and attributes of OpenTelemetry's semantic conventions. Values that the caller
// chooses (path, query, Host, addresses, User-Agent) are no attributes: paths hold secrets, and the number of labels
// would be unbounded.
type edge struct {
	tel        *telemetry.Telemetry
	propagator propagation.TextMapPropagator
	active     *atomic.Int64
	duration   metric.Float64Histogram
	page       func(w http.ResponseWriter, r *http.Request, status int) // nil without ErrorPages
	maxBody    int64

	mu     sync.Mutex
	series atomic.Pointer[map[seriesKey][]metric.RecordOption] // copied on write: as many as routes and statuses
}

type seriesKey struct {
	method, route string
	status        int
}

func newEdge(tel *telemetry.Telemetry, propagator propagation.TextMapPropagator) *edge {
	e := &edge{tel: tel, propagator: propagator, maxBody: MaxBody}
	e.series.Store(&map[seriesKey][]metric.RecordOption{})
	var err, more error
	e.active, err = tel.Level("http.server.active_requests",
		metric.WithUnit("{request}"), metric.WithDescription("HTTP requests in flight."))
	e.duration, more = tel.Meter.Float64Histogram("http.server.request.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Time from the arrival of an HTTP request to the end of its handler."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	if err = errors.Join(err, more); err != nil {
		tel.Log.Warn("create HTTP metrics failed", "error", err)
	}
	return e
}

// Values of the default headers, shared by all responses: handlers replace the slices and never write into them.
// Other recommended headers, about frames and referrers, concern documents shown by a browser. The API has none, and
// each header would be copied, sorted and sent with every response.
var (
	noSniff = []string{"nosniff"}
	noStore = []string{"no-store"}
)

// serve passes a request to next, the router. routing is the router's context for the request.
func (e *edge) serve(w http.ResponseWriter, r *http.Request, routing *chi.Context, next http.Handler) {
	began := time.Now()
	h := w.Header()
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	if r.ContentLength < 0 || r.ContentLength > e.maxBody { // the server itself reads no more than what was announced
		r.Body = http.MaxBytesReader(w, r.Body, e.maxBody)
	}
	e.active.Add(1)
	defer e.active.Add(-1)

	method := r.Method
	if !known(method) {
		method = "_OTHER"
	}
	ctx, span := e.start(r, method)
	defer span.End()
	resp := &responseWriter{ResponseWriter: w}
	if sc := span.SpanContext(); sc.IsValid() {
		resp.traceparent[0] = traceparentOf(sc)
		h["Traceparent"] = resp.traceparent[:]
	}
	r = r.WithContext(context.WithValue(ctx, chi.RouteCtxKey, routing))
	defer e.finish(resp, r, span, method, began)
	next.ServeHTTP(resp, r)
}

// finish records the request's span and metrics, and responds 500 internal after a panic.
func (e *edge) finish(resp *responseWriter, r *http.Request, span trace.Span, method string, began time.Time) {
	p := recover()
	ctx := r.Context()
	// The request is recorded in every case, also if this function panics.
	defer func() { e.record(ctx, resp, span, method, began) }()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	err := fmt.Errorf("panic: %v", p)
	span.RecordError(err)
	span.SetStatus(codes.Error, "panic")
	e.tel.Log.ErrorContext(ctx, "panic in a handler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if resp.status != 0 {
		panic(http.ErrAbortHandler) // the response has begun, so only closing the connection signals the failure
	}
	if e.page != nil && wantsPage(r) {
		e.page(resp, r, http.StatusInternalServerError)
		return
	}
	problem.Write(resp, r, discard, contract.Refuse(contract.CodeInternal, "Something went wrong on our side."))
}

// start begins the span. A span that is not recorded gets no attributes.
func (e *edge) start(r *http.Request, method string) (context.Context, trace.Span) {
	ctx := r.Context()
	if r.Header["Traceparent"] != nil {
		ctx = e.propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	name := method
	if name == "_OTHER" {
		name = "HTTP"
	}
	ctx, span := e.tel.Tracer.Start(ctx, name, serverSpan...)
	if span.IsRecording() {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("url.scheme", scheme),
			attribute.String("network.protocol.version", strconv.Itoa(r.ProtoMajor)+"."+strconv.Itoa(r.ProtoMinor)))
	}
	return ctx, span
}

var serverSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

func (e *edge) record(ctx context.Context, resp *responseWriter, span trace.Span, method string, began time.Time) {
	status := resp.status
	if status == 0 {
		status = http.StatusOK
	}
	route := ""
	if rctx := chi.RouteContext(ctx); rctx != nil {
		route = rctx.RoutePattern()
	}
	measured := context.Background()
	if span.IsRecording() {
		if route != "" {
			name := method
			if name == "_OTHER" {
				name = "HTTP"
			}
			span.SetName(name + " " + route)
			span.SetAttributes(telemetry.AttrRoute.String(route))
		}
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		measured = context.WithoutCancel(ctx) // for the exemplar
	}
	e.duration.Record(measured, time.Since(began).Seconds(), e.optionsOf(seriesKey{method, route, status})...)
}

// optionsOf returns the attributes of a series. They are cached, since building them costs more than counting.
func (e *edge) optionsOf(key seriesKey) []metric.RecordOption {
	if opts, ok := (*e.series.Load())[key]; ok {
		return opts
	}
	attrs := []attribute.KeyValue{
		attribute.String("http.request.method", key.method), attribute.Int("http.response.status_code", key.status),
	}
	if key.route != "" {
		attrs = append(attrs, telemetry.AttrRoute.String(key.route))
	}
	opts := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
	e.mu.Lock()
	defer e.mu.Unlock()
	all := maps.Clone(*e.series.Load())
	all[key] = opts
	e.series.Store(&all)
	return opts
}

func known(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return true
	}
	return false
}

// traceparentOf returns the W3C header in the form of propagation.TraceContext.
func traceparentOf(sc trace.SpanContext) string {
	tid, sid := sc.TraceID(), sc.SpanID()
	out := make([]byte, 0, 55)
	out = append(out, "00-"...)
	out = appendHex(out, tid[:])
	out = append(out, '-')
	out = appendHex(out, sid[:])
	if sc.IsSampled() {
		return string(append(out, "-01"...))
	}
	return string(append(out, "-00"...))
}

func appendHex(out, raw []byte) []byte {
	const digits = "0123456789abcdef"
	for _, b := range raw {
		out = append(out, digits[b>>4], digits[b&15])
	}
	return out
}

// responseWriter records the status. Unwrap lets http.ResponseController reach the connection.
type responseWriter struct {
	http.ResponseWriter
	status      int
	refusal     contract.Code // "" unless the response is a refusal
	shared      bool          // only limits that all callers share can refuse the request any more
	traceparent [1]string     // the header's value
}

// Refused implements problem.Recorder.
func (w *responseWriter) Refused(code contract.Code) { w.refusal = code }

// RefusalCode returns the code of the refusal that was written to w, the ResponseWriter that the router passes to the
// middleware of a route. It is "" if the response is none.
func RefusalCode(w http.ResponseWriter) contract.Code {
	if rec, ok := w.(*responseWriter); ok {
		return rec.refusal
	}
	return ""
}

// MarkShared notes that the request has passed the limits of its caller: a limit that refuses it from now on is one that
// all callers share. w is the ResponseWriter that the router passes to the middleware of a route.
func MarkShared(w http.ResponseWriter) {
	if rec, ok := w.(*responseWriter); ok {
		rec.shared = true
	}
}

// IsShared reports whether MarkShared was called.
func IsShared(w http.ResponseWriter) bool {
	rec, ok := w.(*responseWriter)
	return ok && rec.shared
}

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) { // others are only informational
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
