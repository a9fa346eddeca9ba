package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/problem"
)

const (
	// For header and body together: one limit saves each request a timer, and 96 KiB do not take longer.
	readTimeout    = 10 * time.Second
	writeTimeout   = 60 * time.Second // of one response; LiftDeadlines removes it
	idleTimeout    = 90 * time.Second // longer than the load balancer keeps its connections
	maxHeaderBytes = 32 << 10
)

type stoppingKey struct{}

// Stopping returns a channel that is closed when the shutdown of the request's listener begins. Without Listen it is
// nil, thus never ready.
func Stopping(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return c
}

// Streaming is middleware for routes with long-lived responses. It refuses requests with a body. It cancels the
// request's context when the shutdown of the listener begins, while other requests may finish. The handler calls
// LiftDeadlines.
func Streaming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			refuseAnyBody(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if stopping := Stopping(ctx); stopping != nil {
			done := make(chan struct{})
			defer close(done)
			go func() {
				select {
				case <-stopping:
					cancel()
				case <-done:
				}
			}()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refuseAnyBody responds at once, without waiting for a body that may never arrive, and closes the connection.
func refuseAnyBody(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	// After the response the server reads the rest of the body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	problem.Write(w, r, discard, contract.InvalidField("body", "must be absent"))
}

// LiftDeadlines removes the read and write deadlines of the request's connection. A handler calls it after the last
// check that can refuse the request: a response not begun, or a body not read, would hold the connection forever.
func LiftDeadlines(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	// A writer without a connection (tests) has no deadlines.
	_ = control.SetWriteDeadline(time.Time{})
	_ = control.SetReadDeadline(time.Time{})
}

// Listen returns a component that serves h on addr. On shutdown it accepts no new connections, ends streams, and
// waits for the requests in flight for three quarters of the drain time; then it closes their connections. name is
// the variable that holds addr, for error messages.
func Listen(name, addr string, h http.Handler, log *slog.Logger) lifecycle.Component {
	return lifecycle.Component{Name: "listener " + name, Run: func(ctx context.Context) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("%s: cannot listen on %s: %w", name, addr, err)
		}
		return Serve(ctx, name, l, h, log)
	}}
}

// Serve serves h as Listen does, on an open listener, which it closes.
func Serve(ctx context.Context, name string, l net.Listener, h http.Handler, log *slog.Logger) error {
	base, cut := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, ctx.Done()))
	defer cut()
	server := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	log.InfoContext(ctx, "listening", "name", name, "addr", l.Addr().String())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("%s: %w", name, err)
	case <-ctx.Done():
	}

	out, cancel := lifecycle.DrainContext(ctx)
	defer cancel()
	if deadline, ok := out.Deadline(); ok {
		var cancelShare context.CancelFunc
		out, cancelShare = context.WithTimeout(out, time.Until(deadline)*3/4)
		defer cancelShare()
	}
	err := server.Shutdown(out)
	if err != nil {
		cut()
		_ = server.Close() // closes the connections that Shutdown left open
		log.WarnContext(ctx, "requests cut off by the end of the drain time", "name", name)
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", name, e)
	}
	return nil
}
