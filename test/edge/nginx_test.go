package edge

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/test/rig"
)

const patience = 20 * time.Second

// The client of RocketMQ, which rig imports, begins a goroutine when the program begins.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// A service is a service behind the edge. It records requests and responds with its handler.
type service struct {
	name    string
	server  *httptest.Server
	mu      sync.Mutex
	seen    []*http.Request // without their bodies
	handler http.HandlerFunc
}

// use replaces the handler.
func (s *service) use(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

// requests returns the requests so far to paths with that prefix.
func (s *service) requests(prefix string) (found []*http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if strings.HasPrefix(r.URL.Path, prefix) {
			found = append(found, r)
		}
	}
	return found
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r)
	h := s.handler
	s.mu.Unlock()
	h(w, r)
}

// An edge is a running nginx in front of three services.
type edge struct {
	rig.Edge
	seckill, order, inventory *service
	client                    *http.Client
}

// start starts the edge, and stops it at the end of the test. The services respond with their names, uncached.
func start(t *testing.T) *edge {
	t.Helper()
	play := func(name string) *service {
		s := &service{name: name, handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }}
		s.server = httptest.NewServer(s)
		t.Cleanup(s.server.Close)
		return s
	}
	// No compression by the client: the test reads what the edge sends.
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	e := &edge{
		seckill: play("seckill"), order: play("order"), inventory: play("inventory"),
		client: &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
	e.Edge = rig.StartEdge(t, e.seckill.server.URL, e.order.server.URL, e.inventory.server.URL)
	return e
}

// A response is a response with its whole body.
type response struct {
	status int
	header http.Header
	body   string
}

// do makes a request with headers as "Name: value".
func (e *edge) do(t testing.TB, method, path string, headers ...string) response {
	t.Helper()
	r, err := e.try(t.Context(), method, path, headers...)
	require.NoError(t, err)
	return r
}

func (e *edge) get(t testing.TB, path string, headers ...string) response {
	t.Helper()
	return e.do(t, http.MethodGet, path, headers...)
}

func (e *edge) try(ctx context.Context, method, path string, headers ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.URL+path, nil)
	if err != nil {
		return response{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(body)}, err
}
