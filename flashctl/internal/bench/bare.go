package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/go-chi/chi/v5"
)

// bareBody is the constant answer of the bare handler.
const bareBody = `{"status":"queued"}` + "\n"

// BareHandler is what the purchase route is measured against: the same route on the same router, the body read, a constant
// 202. It checks nobody, decides nothing and keeps nothing.
func BareHandler() http.Handler {
	r := chi.NewRouter()
	r.Post("/v1/activities/{activity_id}/paths/{path}/reservations", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, bareBody)
	})
	return r
}

// ServeBare serves the bare handler until ctx ends and prints its address first. Its server has none of the time-outs that
// a real one needs, as each of them costs a little.
func ServeBare(ctx context.Context, out io.Writer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: BareHandler()} //nolint:gosec // on the loopback for some minutes, see above
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startBare runs the bare handler as a process of its own, from this very program. stop ends it.
func startBare(ctx context.Context) (addr string, pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, err
	}
	cmd := exec.CommandContext(ctx, self, "load", "bare") //nolint:gosec // this program itself
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", 0, nil, fmt.Errorf("the bare handler does not start: %w", err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid, stop, nil
}
