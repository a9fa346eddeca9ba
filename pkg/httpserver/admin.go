package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"

	"flashsale.internal/pkg/lifecycle"
)

// Admin returns the listener for operators: /livez, /readyz, /metrics, and /debug/pprof/ if pprofOn. It goes before
// the other listeners in the list of components, so that /readyz responds 503 while they drain.
//
// ready may be nil. It returns an error if the service cannot accept callers, and it must not block.
func Admin(
	name, addr string, ready func() error, metrics http.Handler, pprofOn bool, log *slog.Logger,
) lifecycle.Component {
	return lifecycle.Component{Name: "listener " + name, Run: func(ctx context.Context) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("%s: cannot listen on %s: %w", name, addr, err)
		}
		return Serve(ctx, name, l, adminHandler(ctx, ready, metrics, pprofOn), log)
	}}
}

func adminHandler(ctx context.Context, ready func() error, metrics http.Handler, pprofOn bool) http.Handler {
	stopping := lifecycle.Stopping(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "live") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-stopping:
			plain(w, http.StatusServiceUnavailable, "stopping")
			return
		case <-ctx.Done():
			plain(w, http.StatusServiceUnavailable, "stopping")
			return
		default:
		}
		if ready != nil {
			if err := ready(); err != nil {
				plain(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		plain(w, http.StatusOK, "ready")
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	if pprofOn {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func plain(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // fails if the caller has disconnected
}
