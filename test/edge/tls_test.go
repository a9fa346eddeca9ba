package edge

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection with TLS reaches the services as another one does, and they learn the scheme. A client that returns
// resumes its session.
func TestTLS(t *testing.T) {
	e := start(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		sessions := tls.NewLRUClientSessionCache(1)
		visit := func() tls.ConnectionState {
			conn, err := tls.Dial("tcp", e.Secure, &tls.Config{
				InsecureSkipVerify: true,
				ServerName:         "localhost", MinVersion: version, MaxVersion: version, ClientSessionCache: sessions,
			})
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
			_, err = io.WriteString(conn, "GET /v1/time HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n")
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, "seckill", string(body))
			return conn.ConnectionState()
		}
		require.False(t, visit().DidResume)
		// Each worker can resume a session of another one.
		for range 4 {
			require.True(t, visit().DidResume, tls.VersionName(version))
		}
	}
	for _, r := range e.seckill.requests("/v1/time") {
		require.Equal(t, "https", r.Header.Get("X-Forwarded-Proto"))
		require.Equal(t, "shop.test", r.Host)
	}
	_, err := tls.Dial("tcp", e.Secure, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
	require.Error(t, err, "TLS 1.1 is not offered")
}

// A request of HTTP/2 reaches the services as another one does: with the host and its port, and its cookies in one line.
func TestHTTP2(t *testing.T) {
	e := start(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+e.Secure+"/v1/activities/7/paths",
		strings.NewReader(strings.Repeat("x", 32<<10)))
	require.NoError(t, err)
	req.Host = "shop.test:8443"
	req.Header["Cookie"] = []string{"a=1", "b=2"}
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 2, resp.ProtoMajor)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	seen := e.seckill.requests("/v1/activities/7/paths")
	require.Len(t, seen, 1)
	require.Equal(t, "shop.test:8443", seen[0].Host)
	require.Equal(t, []string{"a=1; b=2"}, seen[0].Header["Cookie"])
	require.Equal(t, "https", seen[0].Header.Get("X-Forwarded-Proto"))
	require.EqualValues(t, 32<<10, seen[0].ContentLength)
}
