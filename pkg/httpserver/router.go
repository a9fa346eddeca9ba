// Package httpserver holds what every HTTP surface of the system shares: the router with its middleware, strict
// decoding of requests, listeners that drain, and the admin listener.
package httpserver

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

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

// Router is a chi router within the edge, which sees every request first: serve the Router, not its Mux, and mount it
// nowhere.
type Router struct {
	*chi.Mux
	edge     *edge
	contexts sync.Pool // of *chi.Context, each for one request at a time
}

// ServeHTTP implements http.Handler. It puts into the request's context what the edge and what the router keep there at
// once, as each copy of a request costs more than what is put into it.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routing, ok := rt.contexts.Get().(*chi.Context)
	if !ok {
		routing = chi.NewRouteContext()
	}
	routing.Reset()
	routing.Routes = rt.Mux
	rt.edge.serve(w, r, routing, rt.Mux)
	rt.contexts.Put(routing)
}

// NewRouter is a router whose every answer has security headers, Cache-Control: no-store unless the handler says
// otherwise, and a traceparent; whose bodies are bounded; which counts, traces and survives its handlers; and which
// answers unknown routes and methods with problem documents. Middleware added with Use comes after all of that.
func NewRouter(tel *telemetry.Telemetry, opts ...Option) *Router {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	propagator := tel.Propagator
	if o.trusted {
		propagator = trustingPropagator{propagator}
	}
	r := &Router{Mux: chi.NewRouter(), edge: newEdge(tel, propagator)}
	r.Use(middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r, tel.Log, contract.Refuse(contract.CodeNotFound, "There is nothing here."))
	})
	r.MethodNotAllowed(methodNotAllowed(tel))
	return r
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

// PathParam is a parameter of the URL's path as the caller meant it, without escapes: %31 and 1 are one value.
func PathParam(r *http.Request, name string) string {
	v := r.PathValue(name)
	if r.URL.RawPath != "" { // chi routes by that, so the value has its escapes still
		if plain, err := url.PathUnescape(v); err == nil {
			return plain
		}
	}
	return v
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
