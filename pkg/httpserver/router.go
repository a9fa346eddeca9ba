// Package httpserver holds what every HTTP surface of the system shares: the router with its middleware, strict
// decoding of requests, listeners that drain, and the admin listener.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
)

// MaxBody is the most bytes a request's body may have.
const MaxBody = 64 << 10

type options struct{ trusted bool }

// Option of NewRouter.
type Option func(*options)

// Trusted is for listeners that only our own services reach: their callers' decision about sampling holds.
func Trusted() Option { return func(o *options) { o.trusted = true } }

// NewRouter is a router whose every answer has security headers, Cache-Control: no-store unless the handler says
// otherwise, and a traceparent; whose bodies are bounded; which counts, traces and survives its handlers; and which
// answers unknown routes and methods with problem documents. Middleware added with Use comes after all of that.
func NewRouter(tel *telemetry.Telemetry, opts ...Option) *chi.Mux {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	propagator := tel.Propagator
	if o.trusted {
		propagator = trustingPropagator{propagator}
	}
	r := chi.NewRouter()
	r.Use(
		defaultHeaders,
		boundBody,
		inFlight(tel),
		// The last that copies the request, else it does not see the route that chi finds (it would name spans by the
		// method only).
		otelhttp.NewMiddleware("http",
			otelhttp.WithTracerProvider(scrubbing{TracerProvider: tel.TracerProvider}),
			otelhttp.WithMeterProvider(tel.MeterProvider),
			otelhttp.WithPropagators(propagator)),
		middleware.GetHead,
		tagAndRecover(tel),
	)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r, tel.Log, contract.Refuse(contract.CodeNotFound, "There is nothing here."))
	})
	r.MethodNotAllowed(methodNotAllowed(tel))
	return r
}

func defaultHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func boundBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		}
		next.ServeHTTP(w, r)
	})
}

func inFlight(tel *telemetry.Telemetry) func(http.Handler) http.Handler {
	active, err := tel.Meter.Int64UpDownCounter("http.server.active_requests",
		metric.WithUnit("{request}"), metric.WithDescription("Requests being served right now."))
	if err != nil {
		tel.Log.Warn("metric not available", "metric", "http.server.active_requests", "error", err)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := context.WithoutCancel(r.Context())
			active.Add(ctx, 1)
			defer active.Add(ctx, -1)
			next.ServeHTTP(w, r)
		})
	}
}

// tagAndRecover gives span and metrics the route, answers with the traceparent, and turns a panic into 500 internal.
// It does not copy the request.
func tagAndRecover(tel *telemetry.Telemetry) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			span := trace.SpanFromContext(ctx)
			if span.SpanContext().IsValid() {
				tel.Propagator.Inject(ctx, propagation.HeaderCarrier(w.Header()))
			}
			answer := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			defer func() {
				if route := chi.RouteContext(ctx).RoutePattern(); route != "" {
					r.Pattern = route // otelhttp names the span by it; a subrouter behind a copy set it on the copy only
					attr := telemetry.AttrRoute.String(route)
					span.SetAttributes(attr)
					if labeler, ok := otelhttp.LabelerFromContext(ctx); ok {
						labeler.Add(attr)
					}
				}
				p := recover()
				if p == nil {
					return
				}
				if e, ok := p.(error); ok && errors.Is(e, http.ErrAbortHandler) {
					panic(p)
				}
				err := fmt.Errorf("panic: %v", p)
				span.RecordError(err)
				span.SetStatus(codes.Error, "panic")
				tel.Log.ErrorContext(ctx, "panic in a handler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if answer.Status() != 0 {
					panic(http.ErrAbortHandler) // the answer has begun; only cutting it tells the caller
				}
				problem.Write(answer, r, discard, contract.Refuse(contract.CodeInternal, "Something went wrong on our side."))
			}()
			next.ServeHTTP(answer, r)
		})
	}
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// methodNotAllowed says which methods the route has; to OPTIONS that is the answer, to others a refusal.
func methodNotAllowed(tel *telemetry.Telemetry) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rctx := chi.RouteContext(r.Context())
		path := r.URL.Path
		if r.URL.RawPath != "" {
			path = r.URL.RawPath
		}
		allowed := []string{http.MethodOptions}
		if rctx.Routes != nil {
			for _, m := range methods {
				get := m == http.MethodHead && rctx.Routes.Match(chi.NewRouteContext(), http.MethodGet, path)
				if get || rctx.Routes.Match(chi.NewRouteContext(), m, path) {
					allowed = append(allowed, m)
				}
			}
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		problem.Write(w, r, tel.Log, contract.Refuse(contract.CodeMethodNotAllowed, "Allowed here: "+strings.Join(allowed, ", ")+"."))
	}
}

// Timeout ends a request's context after d, so that what it waits for ends too.
func Timeout(d time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
