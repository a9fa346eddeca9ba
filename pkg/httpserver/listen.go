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
	// Header and body. One limit for both spares each request a timer; nobody needs longer for 96 KiB.
	readTimeout    = 10 * time.Second
	writeTimeout   = 60 * time.Second // of one answer; LiftDeadlines lifts it
	idleTimeout    = 90 * time.Second // longer than the edge keeps its connections
	maxHeaderBytes = 32 << 10
)

type stoppingKey struct{}

// Stopping is closed when the listener that took the request is told to end. It is nil, thus never ready, where
// Listen is not in use.
func Stopping(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return c
}

// Streaming is for routes whose answer goes on for long. It refuses requests with a body, and ends the request's context
// when the listener is told to end, which other requests may outlive. The handler calls LiftDeadlines.
func Streaming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			refuseAnyBody(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if stopping := Stopping(ctx); stopping != nil {
			over := make(chan struct{})
			defer close(over)
			go func() {
				select {
				case <-stopping:
					cancel()
				case <-over:
				}
			}()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refuseAnyBody answers at once, without waiting for a body that may never come, and ends the connection.
func refuseAnyBody(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // the server reads what is left of a body after the answer
	problem.Write(w, r, discard, contract.InvalidField("body", "must be absent"))
}

// LiftDeadlines lifts the read and write deadlines of the request's connection. A handler calls it once nothing can refuse
// the request any more: an answer that is not begun, or a body that was not read, would hold the connection forever.
func LiftDeadlines(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	// A writer without a connection (tests) has no deadlines.
	_ = control.SetWriteDeadline(time.Time{})
	_ = control.SetReadDeadline(time.Time{})
}

// Listen serves h on addr. When told to end it takes no new connections, tells streams to end, and waits for the
// requests in flight for three quarters of the time to drain; then it cuts them. name is the variable that holds addr,
// for the sentence that says what is wrong with it.
func Listen(name, addr string, h http.Handler, log *slog.Logger) lifecycle.Component {
	return lifecycle.Component{Name: "listener " + name, Run: func(ctx context.Context) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("%s: cannot listen on %s: %w", name, addr, err)
		}
		return Serve(ctx, name, l, h, log)
	}}
}

// Serve is Listen on a listener that is there already; it closes it.
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
		_ = server.Close() // what is still open is what Shutdown gave up on
		log.WarnContext(ctx, "requests cut", "name", name)
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", name, e)
	}
	return nil
}
