// Package httpserver holds what every HTTP API of the system shares: the router with its middleware, strict decoding
// of requests, listeners that drain, and the admin listener.
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

// MaxBody is the maximum length of a request's body in bytes, unless the router has LargeBodies.
const MaxBody = 64 << 10

type options struct {
	trusted bool
	maxBody int64
	page    func(w http.ResponseWriter, r *http.Request, status int) // nil without ErrorPages
}

// Option is an option of NewRouter.
type Option func(*options)

// Trusted is for listeners that only other services of the system reach: the caller's sampling decision applies.
func Trusted() Option { return func(o *options) { o.trusted = true } }

// LargeBodies raises the bound of request bodies to n bytes, for a listener with a route that needs it. JSON that
// ReadJSON and DecodeJSON read is still bounded by MaxBody.
func LargeBodies(n int64) Option { return func(o *options) { o.maxBody = n } }

// Router is a chi router behind the edge, which processes every request first. Serve the Router, not its Mux, and do
// not mount it in another router.
type Router struct {
	*chi.Mux
	edge     *edge
	contexts sync.Pool // of *chi.Context, each for one request at a time
}

// ServeHTTP implements http.Handler. The values of edge and router are put into the request's context together, since
// each copy of a request is expensive.
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

// NewRouter returns a router. Every response has security headers, a traceparent, and Cache-Control: no-store unless
// the handler sets another. Request bodies are bounded; requests are counted and traced; panics of handlers are
// recovered. Unknown routes and methods get problem documents. Middleware added with Use runs after all of that.
func NewRouter(tel *telemetry.Telemetry, opts ...Option) *Router {
	o := options{maxBody: MaxBody}
	for _, opt := range opts {
		opt(&o)
	}
	propagator := tel.Propagator
	if o.trusted {
		propagator = trustingPropagator{propagator}
	}
	r := &Router{Mux: chi.NewRouter(), edge: newEdge(tel, propagator)}
	r.edge.page, r.edge.maxBody = o.page, o.maxBody
	r.Use(middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		if o.page != nil && wantsPage(r) {
			o.page(w, r, http.StatusNotFound)
			return
		}
		problem.Write(w, r, tel.Log, contract.Refuse(contract.CodeNotFound, "There is nothing here."))
	})
	r.MethodNotAllowed(methodNotAllowed(tel, o.page))
	return r
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// methodNotAllowed responds with the methods of the route: 204 to OPTIONS, a refusal to other methods.
func methodNotAllowed(
	tel *telemetry.Telemetry, page func(w http.ResponseWriter, r *http.Request, status int),
) http.HandlerFunc {
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
		if page != nil && wantsPage(r) {
			page(w, r, http.StatusMethodNotAllowed)
			return
		}
		problem.Write(w, r, tel.Log,
			contract.Refuse(contract.CodeMethodNotAllowed, "Allowed here: "+strings.Join(allowed, ", ")+"."))
	}
}

// PathParam returns a parameter of the URL's path without escapes: %31 and 1 are one value.
func PathParam(r *http.Request, name string) string {
	v := r.PathValue(name)
	if r.URL.RawPath != "" { // chi routes by RawPath, so the value still has its escapes
		if plain, err := url.PathUnescape(v); err == nil {
			return plain
		}
	}
	return v
}

// Timeout is middleware that cancels a request's context after d.
func Timeout(d time.Duration) func(http.Handler) http.Handler {
	return TimeoutOf(func(*http.Request) time.Duration { return d })
}

// TimeoutOf is Timeout with a time-out that depends on the request.
func TimeoutOf(timeout func(*http.Request) time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), timeout(r))
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
