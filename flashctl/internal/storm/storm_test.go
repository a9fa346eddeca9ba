package storm_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/internal/storm"
)

func TestMain(m *testing.M) {
	switch os.Getenv("STORM_PART") { // a process of a test
	case "serve":
		if err := storm.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "fail":
		fmt.Fprintln(os.Stderr, "the reason")
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// processes returns n processes that run this test's program.
func processes(t *testing.T, n int, part string) storm.Processes {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	return storm.Processes{N: n, Command: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), "STORM_PART="+part)
		return cmd
	}}
}

// run runs the plan in n processes.
func run(t *testing.T, n int, p storm.Plan) (load.Report, error) {
	t.Helper()
	report, err := processes(t, n, "serve").Run(t.Context(), p)
	report.Sum()
	return report, err
}

// tokens are named by their numbers from 0.
func tokens(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

func plan(target string, connections int) storm.Plan {
	return storm.Plan{
		Target: target, ActivityID: "7", Tokens: tokens(connections), Sources: 3, Within: 100 * time.Millisecond,
		Patience: 20 * time.Second, KeepOpen: true,
	}
}

func TestEveryConnectionIsCounted(t *testing.T) {
	var connections atomic.Int32
	var mu sync.Mutex
	users, sources := map[string]int{}, map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		user := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		mu.Lock()
		users[user]++
		sources[host]++
		mu.Unlock()
		n, _ := strconv.Atoi(user)
		switch {
		case r.Method+" "+r.URL.Path != "POST /v1/activities/7/paths":
			w.WriteHeader(http.StatusNotFound)
		case n%10 == 0:
			panic(http.ErrAbortHandler) // a closed connection
		case n%10 == 1:
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"code":"rate_limited"}`))
		case n%10 == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			w.(http.Flusher).Flush() // a response of unknown length
			_, _ = w.Write([]byte(`{"code":"overloaded"}`))
		default:
			w.WriteHeader(http.StatusCreated)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()

	report, err := run(t, 3, plan(server.URL, 100))
	require.NoError(t, err)
	response, begun := report.Step(storm.Responses), report.Step(storm.Begun).Times
	require.Equal(t, map[string]int{
		"201": 70, "429 rate_limited": 10, "503 overloaded": 10, "response: closed": 10,
	}, response.Outcomes)
	require.NotEmpty(t, response.Examples["response: closed"])
	require.Equal(t, 100, begun.Count)
	require.GreaterOrEqual(t, begun.Max, 97*time.Millisecond, "the last of a process is due after 33/34 of 100 ms")
	require.GreaterOrEqual(t, report.Took, begun.Max)
	require.Equal(t, 100, report.Step(storm.Connected).Times.Count)
	require.Equal(t, 90, response.Times.Count)
	require.GreaterOrEqual(t, response.Times.Max, report.Step(storm.Connected).Times.P50)
	require.Empty(t, report.Step(storm.Connected).Outcomes, "no TLS")
	require.EqualValues(t, 100, connections.Load())
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, users, 100)
	require.Len(t, sources, 3)
	require.Positive(t, sources["127.0.0.2"])
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	p := plan(server.URL, 40)

	p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	p.Returning = 50
	report, err := run(t, 1, p)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"201": 40}, report.Step(storm.Responses).Outcomes)
	require.Equal(t, map[string]int{storm.Resumed: 40}, report.Step(storm.Connected).Outcomes,
		"the first 50 of each 100 connections return")

	p.CA, p.Returning, p.Insecure = nil, 0, true
	report, err = run(t, 2, p)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"201": 40}, report.Step(storm.Responses).Outcomes)
	require.Equal(t, map[string]int{storm.NewSession: 40}, report.Step(storm.Connected).Outcomes)

	p.Insecure = false
	report, err = run(t, 2, p)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"tls: certificate": 40}, report.Step(storm.Responses).Outcomes)
	require.Zero(t, report.Step(storm.Responses).Times.Count)

	p.CA = []byte("none")
	_, err = processes(t, 1, "serve").Run(t.Context(), p)
	require.ErrorContains(t, err, "the CA file holds no certificate")
}

func TestHeldConnections(t *testing.T) {
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write(make([]byte, 4096))
			}))
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			server.Config.ReadHeaderTimeout = 3 * time.Second // of TLS handshakes, too
			server.Config.WriteTimeout = 3 * time.Second
			start := server.Start
			if secured {
				start = server.StartTLS
			}
			start()
			defer server.Close()
			p := plan(server.URL, 10)
			p.Insecure, p.Slow, p.HalfOpen, p.Watch = true, 3, 6, time.Minute
			report, err := run(t, 2, p)
			require.NoError(t, err)
			require.Equal(t, map[string]int{"201": 10}, report.Step(storm.Responses).Outcomes)
			for step, n := range map[string]int{storm.Slow: 3, storm.HalfOpen: 6} {
				held := report.Step(step)
				require.Equal(t, map[string]int{storm.Ended: n}, held.Outcomes, held.Examples)
				require.Equal(t, n, held.Times.Count)
			}
		})
	}
}

// A server without time-outs ends no held connection.
func TestHeldConnectionsThatStayOpen(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 4096))
	}))
	defer server.Close()
	p := plan(server.URL, 1)
	p.Slow, p.HalfOpen, p.Watch = 2, 2, 300*time.Millisecond
	report, err := run(t, 1, p)
	require.NoError(t, err)
	for _, step := range []string{storm.Slow, storm.HalfOpen} {
		require.Equal(t, map[string]int{storm.StillOpen: 2}, report.Step(step).Outcomes)
		require.Zero(t, report.Step(step).Times.Count)
	}
}

func TestConnectionsWithoutResponse(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := plan("http://"+l.Addr().String(), 5)
	p.Patience = 200 * time.Millisecond
	report, err := run(t, 1, p)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"response: time-out": 5}, report.Step(storm.Responses).Outcomes)

	require.NoError(t, l.Close())
	report, err = run(t, 1, p)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"connect: refused": 5}, report.Step(storm.Responses).Outcomes)
	require.Equal(t, 5, report.Step(storm.Begun).Times.Count)
	require.Zero(t, report.Step(storm.Connected).Times.Count)
}

func TestAProcessThatEndsIsAnError(t *testing.T) {
	_, err := processes(t, 2, "fail").Run(t.Context(), plan("http://127.0.0.1:1", 5))
	require.ErrorContains(t, err, "the reason")
}

func TestAnInterruptEndsTheProcesses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	received := make(chan struct{}, 10)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		received <- struct{}{}
		<-release
	}))
	defer server.Close()
	defer close(release)
	go func() {
		<-received
		cancel()
	}()
	_, err := processes(t, 2, "serve").Run(ctx, plan(server.URL, 5))
	require.ErrorIs(t, err, context.Canceled)
}
