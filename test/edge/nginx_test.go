package edge

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/porttest"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	url                       string
	secure                    string // address of the listener with TLS
	dir                       string // of the caches and temporary files
	seckill, order, inventory *service
	client                    *http.Client
}

// start starts the edge, and stops it at the end of the test. The services respond with their names, uncached.
func start(t *testing.T) *edge {
	t.Helper()
	conf, err := os.ReadFile("../../scripts/dev/edge.conf.in")
	require.NoError(t, err)
	addr, secure, dir := porttest.Free(t), porttest.Free(t), t.TempDir()
	port := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		return port
	}
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
		url: "http://" + addr, secure: secure, dir: dir, seckill: play("seckill"), order: play("order"), inventory: play("inventory"),
		client: &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
	places := []string{"@EDGE_PORT@", port(addr), "@EDGE_TLS_PORT@", port(secure), "@EDGE_DIR@", dir}
	certificate(t, dir)
	for name, s := range map[string]*service{"SECKILL": e.seckill, "ORDER": e.order, "INVENTORY": e.inventory} {
		places = append(places, "@"+name+"_PORT@", port(s.server.Listener.Addr().String()))
	}
	file := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(places...).Replace(string(conf))), 0o600))
	run(t, dir, file)
	require.Eventually(t, func() bool {
		resp, err := e.client.Get(e.url + "/livez")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusNotFound
	}, patience, 20*time.Millisecond)
	return e
}

// certificate writes a certificate as scripts/dev/edge.sh makes it.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: signed}, "tls.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// run runs nginx until the end of the test.
func run(t *testing.T, dir, conf string) {
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx" // where Debian puts it
	}
	directives := "daemon off;"
	if os.Getuid() == 0 {
		directives += " user root root;" // or its workers could not enter the folder
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }() // nginx has its own descriptor
	cmd := exec.Command(nginx, "-e", "/dev/stderr", "-p", dir, "-c", conf, "-g", directives)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start(), "run make deps")
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		if t.Failed() {
			t.Logf("nginx wrote:\n%s", text)
		}
		require.NotContains(t, string(text), "[warn]")
	})
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
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, nil)
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
