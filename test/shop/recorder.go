package shop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/test/rig"
)

// Recorder carries requests and records those that fail. It repeats a request once if its connection was cut, over a
// new connection. A request that is sent a third time fails, also if http.Transport repeats it by itself.
type Recorder struct {
	mu       sync.Mutex
	next     *connections
	requests int
	repeated int
	failed   []string
}

// NewRecorder returns a recorder that has recorded nothing.
func NewRecorder(t *testing.T) *Recorder {
	t.Helper()
	r := &Recorder{next: newConnections()}
	t.Cleanup(r.CloseIdleConnections)
	return r
}

// connections are closed after the last request in flight: http.Transport may break a request whose connection becomes
// idle while CloseIdleConnections runs. There are few, as the buyers share the machine with the services.
type connections struct {
	transport *http.Transport
	inFlight  int
	retired   bool
}

func newConnections() *connections {
	return &connections{transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

// acquire returns the connections for a request, which releases them.
func (r *Recorder) acquire() *connections {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next.inFlight++
	return r.next
}

func (r *Recorder) release(c *connections) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.inFlight--; c.retired && c.inFlight == 0 {
		c.transport.CloseIdleConnections()
	}
}

// CloseIdleConnections is called by http.Client. Later requests use new connections.
func (r *Recorder) CloseIdleConnections() {
	r.mu.Lock()
	old := r.next
	old.inFlight++
	old.retired, r.next = true, newConnections()
	r.mu.Unlock()
	r.release(old)
}

// RoundTrip implements http.RoundTripper.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	var sent atomic.Int64 // times, with those at which the transport repeats a request by itself
	out := req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Add(1) },
	}))
	resp, err := r.send(out, body)
	if err != nil && req.Context().Err() == nil {
		r.CloseIdleConnections() // others may be cut too
		resp, err = r.send(out, body)
	}
	if !errors.Is(req.Context().Err(), context.Canceled) { // otherwise the caller gave up
		r.record(req.Method+" "+req.URL.Path, resp, err, sent.Load())
	}
	return resp, err
}

// record records the result of a request that was sent so many times.
func (r *Recorder) record(what string, resp *http.Response, err error, sent int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if sent > 1 {
		r.repeated++
	}
	switch {
	case err != nil:
		r.failed = append(r.failed, what+": "+err.Error())
	case resp.StatusCode >= http.StatusBadRequest:
		r.failed = append(r.failed, what+": "+resp.Status)
	case sent > 2:
		r.failed = append(r.failed, fmt.Sprintf("%s: sent %d times", what, sent))
	}
}

// send returns a response whose body has arrived.
func (r *Recorder) send(req *http.Request, body []byte) (*http.Response, error) {
	conns := r.acquire()
	defer r.release(conns)
	out := req.Clone(req.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		out.Body = nil
	}
	resp, err := conns.transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(got))
	return resp, err
}

// Failures returns the requests that failed, with their errors.
func (r *Recorder) Failures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Count returns the number of requests.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// String returns the numbers of requests.
func (r *Recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d requests, %d failed, %d repeated after a cut connection", r.requests, len(r.failed), r.repeated)
}

// Client returns a client of the rig whose requests are recorded. It makes so many attempts of a call; each counts.
func (r *Recorder) Client(t *testing.T, services *rig.Rig, secret string, attempts int) *client.Client {
	t.Helper()
	out := client.New(services.Client.Origins(), client.Options{Secret: secret, Attempts: attempts, Transport: r})
	t.Cleanup(out.Close)
	return out
}

// RecordedCalls is a proxy that records the calls between services.
type RecordedCalls struct {
	*Recorder
	URL string
}

// RecordCalls starts a proxy to target.
func RecordCalls(t *testing.T, target string) RecordedCalls {
	t.Helper()
	to, err := url.Parse(strings.TrimRight(target, "/"))
	require.NoError(t, err)
	c := RecordedCalls{Recorder: NewRecorder(t)}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(to) },
		Transport: c.Recorder,
	})
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}
