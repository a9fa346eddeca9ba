package main

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

// bareBody is the constant response of the bare handler.
const bareBody = `{"status":"queued"}` + "\n"

// bareHandler returns the handler that the purchase route is compared with: the same route on the same router, which
// reads the body and responds with a constant 202. It does not authenticate, decide or store anything.
func bareHandler() http.Handler {
	r := chi.NewRouter()
	r.Post("/v1/activities/{activity_id}/paths/{path}/reservations", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, bareBody)
	})
	return r
}

// serveBare prints its address to out and serves the bare handler until ctx ends. Its server has no time-outs, because
// each one costs a little.
func serveBare(ctx context.Context, out io.Writer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: bareHandler()}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startBare runs the bare handler as a separate process of this program. stop ends it.
func startBare(ctx context.Context) (addr string, pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-bare")
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
		return "", 0, nil, fmt.Errorf("start bare handler: %w", err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid, stop, nil
}
