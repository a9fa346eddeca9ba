package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/telemetry"
)

// process runs components until stop is called.
func process(t *testing.T, drain time.Duration, comps ...lifecycle.Component) (stop context.CancelFunc, ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() { ended <- lifecycle.Run(ctx, slog.New(slog.DiscardHandler), drain, comps...) }()
	t.Cleanup(func() { cancel(); http.DefaultClient.CloseIdleConnections() })
	return cancel, ended
}

func get(url string) (int, error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func eventually(t *testing.T, url string, want int) {
	t.Helper()
	require.Eventually(t, func() bool { got, err := get(url); return err == nil && got == want }, 30*time.Second, 5*time.Millisecond)
}

func wait(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(90 * time.Second):
		t.Fatal("not ended")
		return nil
	}
}

func TestListenFinishesRequestsInFlightAndEndsStreams(t *testing.T) {
	tel := telemetry.Discard(t)
	started, goOn := make(chan struct{}, 2), make(chan struct{})
	r := NewRouter(tel)
	r.Get("/ok", func(http.ResponseWriter, *http.Request) {})
	r.Get("/slow", func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-goOn
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	streamOver := make(chan struct{})
	r.With(Streaming).Get("/stream", func(w http.ResponseWriter, r *http.Request) {
		defer close(streamOver)
		LiftDeadlines(w)
		_, _ = io.WriteString(w, "event: status\n\n")
		_ = http.NewResponseController(w).Flush()
		started <- struct{}{}
		<-r.Context().Done()
		_, _ = io.WriteString(w, "event: end\n\n")
	})
	addr, admin := porttest.Free(t), porttest.Free(t)
	stop, ended := process(t, time.Minute,
		Admin("ADMIN_ADDR", admin, nil, tel.Metrics, false, tel.Log), Listen("HTTP_ADDR", addr, r, tel.Log))
	eventually(t, "http://"+addr+"/ok", 200)
	eventually(t, "http://"+admin+"/readyz", 200)

	slow := make(chan int, 1)
	go func() {
		status, _ := get("http://" + addr + "/slow")
		slow <- status
	}()
	stream, err := http.Get("http://" + addr + "/stream")
	require.NoError(t, err)
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	require.True(t, lines.Scan())
	require.Equal(t, "event: status", lines.Text())
	<-started
	<-started

	stop()
	<-streamOver
	rest, err := io.ReadAll(stream.Body)
	require.NoError(t, err)
	require.Contains(t, "event: end\n\n", string(rest)) // the scanner may have read ahead
	eventually(t, "http://"+admin+"/readyz", 503)
	eventually(t, "http://"+admin+"/livez", 200)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, 30*time.Second, 5*time.Millisecond, "no new connections are taken")
	close(goOn)
	require.Equal(t, 200, <-slow)
	require.NoError(t, wait(t, ended))
}

func TestListenClosesConnectionsAfterTheDrainTime(t *testing.T) {
	tel := telemetry.Discard(t)
	started := make(chan struct{})
	r := NewRouter(tel)
	r.Get("/hang", func(_ http.ResponseWriter, r *http.Request) { close(started); <-r.Context().Done() })
	addr := porttest.Free(t)
	stop, ended := process(t, 10*time.Second, Listen("HTTP_ADDR", addr, r, tel.Log))
	require.Eventually(t, func() bool { _, err := get("http://" + addr + "/"); return err == nil }, 30*time.Second, 5*time.Millisecond)
	hung := make(chan error, 1)
	go func() { _, err := get("http://" + addr + "/hang"); hung <- err }()
	<-started
	stop()
	require.NoError(t, wait(t, ended), "closing them is part of an orderly end")
	<-hung
}

func TestAnAddressInUseStopsTheStartAndNamesTheVariable(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, ended := process(t, time.Minute, Listen("HTTP_ADDR", taken.Addr().String(), http.NotFoundHandler(), slog.New(slog.DiscardHandler)))
	err = wait(t, ended)
	require.ErrorContains(t, err, "HTTP_ADDR: cannot listen on "+taken.Addr().String())
	require.ErrorContains(t, err, "address already in use")
}

func TestAdmin(t *testing.T) {
	tel, _ := telemetry.Recording()
	addr := porttest.Free(t)
	why := errors.New("no worker id yet")
	ready := make(chan error, 1)
	check := func() error {
		select {
		case why = <-ready:
		default:
		}
		return why
	}
	stop, ended := process(t, time.Minute, Admin("ADMIN_ADDR", addr, check, tel.Metrics, true, tel.Log))
	eventually(t, "http://"+addr+"/livez", 200)
	eventually(t, "http://"+addr+"/readyz", 503)
	ready <- nil
	eventually(t, "http://"+addr+"/readyz", 200)
	eventually(t, "http://"+addr+"/metrics", 200)
	eventually(t, "http://"+addr+"/debug/pprof/", 200)
	stop()
	require.NoError(t, wait(t, ended))
}

func TestAdminServesNoPProfByDefault(t *testing.T) {
	addr := porttest.Free(t)
	stop, ended := process(t, time.Minute, Admin("ADMIN_ADDR", addr, nil, nil, false, slog.New(slog.DiscardHandler)))
	eventually(t, "http://"+addr+"/livez", 200)
	eventually(t, "http://"+addr+"/debug/pprof/", 404)
	eventually(t, "http://"+addr+"/debug/pprof/cmdline", 404)
	stop()
	require.NoError(t, wait(t, ended))
}

func TestStreamsOutliveTheDeadlinesOfTheConnection(t *testing.T) {
	r := NewRouter(telemetry.Discard(t))
	r.With(Streaming).Get("/", func(w http.ResponseWriter, r *http.Request) {
		LiftDeadlines(w)
		beat := time.NewTicker(50 * time.Millisecond)
		defer beat.Stop()
		for range 8 {
			select {
			case <-r.Context().Done():
				return
			case <-beat.C:
				_, _ = io.WriteString(w, "beat\n")
				_ = http.NewResponseController(w).Flush()
			}
		}
		_, _ = io.WriteString(w, "end\n")
	})
	server := httptest.NewUnstartedServer(r)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 100*time.Millisecond, 150*time.Millisecond
	server.Start()
	defer server.Close()
	require.Eventually(t, func() bool { // on a slow machine the deadline may pass before it is lifted
		resp, err := http.Get(server.URL)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(body), "end")
	}, 30*time.Second, time.Millisecond)
}
