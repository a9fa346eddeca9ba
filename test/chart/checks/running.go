package checks

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
	"flashsale.internal/test/rig/nginx"
)

// patience is how long a check waits for nginx.
const patience = 20 * time.Second

var upstream = regexp.MustCompile(`flashsale-[a-z]+:[0-9]+`)

// unpack writes the files of the edge's ConfigMap and a certificate to a folder, as they are for a service on this
// machine instead of all three.
func unpack(t *testing.T, r rendering, service string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tls"), 0o700))
	nginx.Certificate(t, filepath.Join(dir, "tls"))
	for name, text := range fieldTexts(pick(t, r.objects(t), "ConfigMap/flashsale-edge"), "data") {
		text = upstream.ReplaceAllString(text, service)
		text = strings.NewReplacer("/etc/nginx/flashsale", dir, "/etc/nginx/tls", dir+"/tls", "/tmp/", dir+"/",
			"'daemon off;'", "'"+nginx.Directives()+"'").Replace(text)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// Edge is the edge of a rendering, run by nginx on this machine.
type Edge struct {
	// Ports of the listeners, on all addresses of this machine.
	Plain, TLS string
	Dir        string // of its ConfigMap, and of the certificate in tls
	PID        int    // of its first process
}

// StartEdge runs the edge of values-production.yaml in front of a service, with values that differ from it and a
// certificate, until the end of the test. It starts as in its pod, but checks its certificate often.
func StartEdge(t *testing.T, service http.Handler, set ...string) *Edge {
	t.Helper()
	behind := httptest.NewServer(service)
	t.Cleanup(behind.Close)
	dir := unpack(t, production(append(set, "edge.tls.secretName=shop")...), behind.Listener.Addr().String())
	port := func() string {
		_, port, err := net.SplitHostPort(porttest.Free(t))
		require.NoError(t, err)
		return port
	}
	e := &Edge{Plain: port(), TLS: port(), Dir: dir}
	health := port()
	e.replace(t, "nginx.conf", "listen 8080 ", "listen "+e.Plain+" ", "[::]:8080 ", "[::]:"+e.Plain+" ", "listen 8443 ",
		"listen "+e.TLS+" ", "[::]:8443 ", "[::]:"+e.TLS+" ", "listen 8081;", "listen "+health+";", "[::]:8081;", "[::]:"+health+";")
	e.replace(t, "renew", "sleep 30", "sleep 0.1", "sleep 5", "sleep 0.5")
	e.PID = nginx.Run(t, dir, nginx.Command("sh", filepath.Join(dir, "start")))
	client := Client(t)
	require.Eventually(t, func() bool {
		resp, err := client.Get("http://[::1]:" + health + "/healthz")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, patience, 20*time.Millisecond)
	return e
}

// replace replaces parts of a file, each of which must be in it: was, is, ...
func (e *Edge) replace(t *testing.T, name string, parts ...string) {
	t.Helper()
	file := filepath.Join(e.Dir, name)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := 0; i < len(parts); i += 2 {
		require.Contains(t, string(text), parts[i])
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(parts...).Replace(string(text))), 0o600))
}

// Client returns a client that trusts any certificate, uses HTTP/2 where TLS offers it, and is closed at the end of the
// test. dialed are called for each connection.
func Client(t *testing.T, dialed ...func()) *http.Client {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 500,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			for _, f := range dialed {
				f()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// call makes a request and returns its response, whose body has been read.
func call(ctx context.Context, c *http.Client, method, url string, forwarded ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header["X-Forwarded-For"] = forwarded
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}
