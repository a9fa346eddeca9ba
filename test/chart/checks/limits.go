package checks

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig/nginx"
)

// responds is a service that responds 204 to everything.
var responds = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

// callbacksHaveNoLimit checks that the edge passes all callbacks of a payment provider, which has one address, while it
// limits other calls from there.
func callbacksHaveNoLimit(t *testing.T) {
	t.Parallel()
	e := StartEdge(t, responds)
	client := Client(t)
	const total, each = 2000, 5 * time.Millisecond // 200 a second
	var passed atomic.Int64
	var wg sync.WaitGroup
	tick := time.NewTicker(each)
	defer tick.Stop()
	for range total {
		<-tick.C
		wg.Go(func() {
			resp, err := call(t.Context(), client, http.MethodPost, "http://127.0.0.1:"+e.Plain+"/v1/payments/callbacks/shop")
			if assert.NoError(t, err) && resp.StatusCode == http.StatusNoContent {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, total, passed.Load())
	for _, path := range []string{"/v1/payments/callbacks", "/v1/payments/callbacks/shop/x", "/v1/payments/7"} {
		for sent, limited := 0, false; !limited; sent++ {
			require.Less(t, sent, 5000, path)
			resp, err := call(t.Context(), client, http.MethodPost, "http://127.0.0.1:"+e.Plain+path)
			require.NoError(t, err)
			limited = resp.StatusCode == http.StatusTooManyRequests
		}
	}
}

// theEdgeLimitsAddresses checks which addresses share a limit of 20 requests a second with a burst of 40: each caller of
// a row makes 60 requests.
func theEdgeLimitsAddresses(t *testing.T) {
	t.Parallel()
	const rate, burst = 20, 40
	limits := []string{"edge.limits.requestsPerSecond=20", "edge.limits.burst=40"}
	e := StartEdge(t, responds, append(limits, "edge.trustedProxies={127.0.0.1,::1}")...)
	client := Client(t)
	calls := func(n int, url string, forwarded ...string) (passed int) {
		for range n {
			resp, err := call(t.Context(), client, http.MethodGet, url, forwarded...)
			require.NoError(t, err)
			if resp.StatusCode == http.StatusNoContent {
				passed++
				continue
			}
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		}
		return passed
	}
	url := "http://127.0.0.1:" + e.Plain + "/v1/orders"
	for _, row := range []struct {
		first, then string
		one         bool // they are one caller
	}{
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::2", true},
		{"2001:db8:2::1", "2001:db8:2:0:5::1", true},
		{"2001:db8::5", "2001:db8::1:2:3:4:5", false},
		{"::ffff:203.0.113.9", "203.0.113.9", true},
		{"6.6.6.6, 203.0.113.10", "7.7.7.7, 203.0.113.10", true},
		{"203.0.113.11, 6.6.6.6", "203.0.113.11, 7.7.7.7", false},
		{"203.0.113.12, 8.8.8.8, 127.0.0.1", "8.8.8.8", true},
		{"203.0.113.13", "203.0.113.14", false},
	} {
		began := time.Now()
		first, then := calls(60, url, row.first), calls(60, url, row.then)
		most := burst + 1 + int(rate*time.Since(began).Seconds()) + 1
		require.Greater(t, first, burst, row.first)
		require.LessOrEqual(t, first, most, row.first)
		if row.one {
			require.LessOrEqual(t, first+then, most, "%s, then %s", row.first, row.then)
		} else {
			require.Greater(t, then, burst, "%s, then %s", row.first, row.then)
		}
	}
	// Callers that have no proxy count as well: the key is empty for none of them, which would be no limit.
	for _, host := range []string{"http://[::1]:" + e.Plain, "http://127.0.0.1:" + e.Plain, "https://[::1]:" + e.TLS} {
		began := time.Now()
		passed := calls(120, host+"/v1/orders")
		require.LessOrEqual(t, passed, burst+1+int(rate*time.Since(began).Seconds())+1, host)
	}
}

// aBrowserHasItsStreams checks that one HTTP/2 connection has 100 requests in flight with the limits of
// values-production.yaml, and that limits count each of its requests.
func aBrowserHasItsStreams(t *testing.T) {
	t.Parallel()
	const streams = 100
	var waiting atomic.Int64
	all := make(chan struct{})
	e := StartEdge(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/orders/all" {
			if waiting.Add(1) == streams {
				close(all)
			}
			select {
			case <-all:
			case <-r.Context().Done():
				return
			}
		}
		responds(w, r)
	}))
	for _, host := range []string{"https://127.0.0.1:", "https://[::1]:"} {
		var connections, passed, limited atomic.Int64
		client := Client(t, func() { connections.Add(1) })
		get := func(path string) *http.Response {
			resp, err := call(t.Context(), client, http.MethodGet, host+e.TLS+path)
			if err != nil {
				t.Error(err)
				return &http.Response{}
			}
			assert.Equal(t, 2, resp.ProtoMajor)
			switch resp.StatusCode {
			case http.StatusNoContent:
				passed.Add(1)
			case http.StatusTooManyRequests:
				limited.Add(1)
			}
			return resp
		}
		get("/v1/orders") // the others use its connection
		var wg sync.WaitGroup
		if host == "https://127.0.0.1:" {
			for range streams {
				wg.Go(func() { get("/v1/orders/all") })
			}
			wg.Wait()
			require.EqualValues(t, streams+1, passed.Load())
		} else {
			for range streams {
				wg.Go(func() {
					for range 5 {
						get("/v1/orders")
					}
				})
			}
			wg.Wait()
			require.Positive(t, limited.Load())
			require.EqualValues(t, 5*streams+1, passed.Load()+limited.Load())
		}
		require.EqualValues(t, 1, connections.Load())

		// HTTP/2 has no header Connection: a browser refuses a response with one.
		for _, file := range []string{"leaving", "renewing"} {
			require.NoError(t, os.WriteFile(filepath.Join(e.Dir, file), nil, 0o600))
			require.Empty(t, get("/metrics").Header.Values("Connection"))
			resp, err := call(t.Context(), Client(t), http.MethodGet, "http://127.0.0.1:"+e.Plain+"/metrics")
			require.NoError(t, err)
			require.True(t, resp.Close, file)
			require.NoError(t, os.Remove(filepath.Join(e.Dir, file)))
		}
	}
}

// theHookWaitsForCallers checks that the preStop hook ends nginx when the last connection is closed, one of IPv6 here,
// and not earlier.
func theHookWaitsForCallers(t *testing.T) {
	t.Parallel()
	e := StartEdge(t, responds, "drain.pauseSeconds=0")
	port, err := strconv.Atoi(e.Plain)
	require.NoError(t, err)
	e.replace(t, "leave", "*:1F90/01", fmt.Sprintf("*:%04X/01", port))
	conn, err := net.Dial("tcp", "[::1]:"+e.Plain)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- nginx.Command("sh", filepath.Join(e.Dir, "leave")).Run() }()
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(e.Dir, name))
		return err == nil
	}
	require.Eventually(t, func() bool { return exists("leaving") }, patience, 10*time.Millisecond)
	require.Never(t, func() bool { return !exists("nginx.pid") }, 1500*time.Millisecond, 50*time.Millisecond)
	require.NoError(t, conn.Close())
	require.NoError(t, <-ended)
	require.False(t, exists("nginx.pid"))
}
