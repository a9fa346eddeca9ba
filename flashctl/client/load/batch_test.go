package load_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/load"
)

func get(_ int, buf []byte) []byte { return append(buf, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"...) }

func TestBatchSendsEachRequestOnceAndReadsWholeResponses(t *testing.T) {
	var seen sync.Map
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, twice := seen.LoadOrStore(string(body), true); twice {
			t.Errorf("%s was received twice", body)
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "got "+string(body))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	var responses sync.Map
	out, err := load.Batch{
		Addr: server.Listener.Addr().String(), Conns: 7, N: 500,
		Request: func(i int, buf []byte) []byte {
			n := strings.Repeat("n", i+1)
			return append(buf, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: "+strconv.Itoa(len(n))+"\r\n\r\n"+n...)
		},
		Response: func(i int, r *load.Response) bool {
			responses.Store(i, string(r.Body))
			return r.Status != http.StatusAccepted
		},
	}.Send(t.Context())
	require.NoError(t, err)
	require.Equal(t, 500, out.First.Times.Count)
	require.Equal(t, map[string]int{"202": 500}, out.First.Outcomes)
	require.Zero(t, out.Repeated+out.GivenUp)
	require.EqualValues(t, 7, connections.Load())
	for i := range 500 {
		got, _ := responses.Load(i)
		require.Equal(t, "got "+strings.Repeat("n", i+1), got)
	}
}

func TestBatchRetries(t *testing.T) {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			panic(http.ErrAbortHandler) // a broken connection
		case 3:
			w.Header().Set("Connection", "close")
		}
	}))
	defer server.Close()
	out, err := load.Batch{
		Addr: server.Listener.Addr().String(), Conns: 1, N: 2, Request: get,
		Response: func(_ int, r *load.Response) bool { return r.Status == http.StatusServiceUnavailable },
	}.Send(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, out.First.Times.Count)
	require.Equal(t, 2, out.Repeated)
	require.Equal(t, map[string]int{"200": 2, "503": 1}, out.First.Outcomes)
	require.Contains(t, out.Example, "503")
}

func TestBatchEndsAfterItsTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	out, err := load.Batch{Addr: server.Listener.Addr().String(), Conns: 2, For: 500 * time.Millisecond, Request: get}.Send(t.Context())
	require.NoError(t, err)
	require.Positive(t, out.First.Times.Count)
	require.Zero(t, out.Late.Times.Count)
	require.GreaterOrEqual(t, out.Took, 500*time.Millisecond)

	// Open loop: the last of 20 requests at 200 a second is due after 95 ms.
	out, err = load.Batch{Addr: server.Listener.Addr().String(), Conns: 2, N: 20, Rate: 200, Request: get}.Send(t.Context())
	require.NoError(t, err)
	require.Equal(t, 20, out.First.Times.Count)
	require.Equal(t, 20, out.Late.Times.Count)
	require.GreaterOrEqual(t, out.Took, 95*time.Millisecond)
}

// A response that the client cannot parse is an error and is not measured.
func TestInvalidResponsesAreGivenUp(t *testing.T) {
	for name, response := range map[string]string{
		"not HTTP":       "hello\r\n\r\n",
		"chunks":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"no length":      "HTTP/1.1 200 OK\r\n\r\n",
		"wrong length":   "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"too many bytes": "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nabc",
		"too few bytes":  "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 4096))
					_, _ = io.WriteString(c, response)
					_ = c.Close()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			out, err := load.Batch{Addr: l.Addr().String(), Conns: 1, N: 1, Request: get}.Send(ctx)
			require.Error(t, err)
			require.Zero(t, out.First.Times.Count)
			require.Equal(t, 1, out.GivenUp)
			require.NoError(t, l.Close())
			<-done
		})
	}
}

func TestASecondRequestFollowsTheFirstOnTheSameConnection(t *testing.T) {
	var mu sync.Mutex
	first := map[string]string{} // the address of the caller, by request
	refused := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		step, i, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if step == "path" {
			first[i] = r.RemoteAddr
			w.WriteHeader(http.StatusCreated)
			return
		}
		if first[i] != r.RemoteAddr {
			t.Errorf("request %s came from %s and %s", i, first[i], r.RemoteAddr)
		}
		if !refused {
			refused = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	post := func(step string) func(i int, buf []byte) []byte {
		return func(i int, buf []byte) []byte {
			if step == "buy" && i%2 == 1 {
				return buf
			}
			return append(buf, "POST /"+step+"/"+strconv.Itoa(i)+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"...)
		}
	}
	out, err := load.Batch{
		Addr: server.Listener.Addr().String(), Conns: 3, N: 100,
		Request: post("path"), Second: post("buy"),
		SecondResponse: func(_ int, r *load.Response) bool { return r.Status == http.StatusServiceUnavailable },
	}.Send(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"201": 100}, out.First.Outcomes)
	require.Equal(t, map[string]int{"202": 50, "503": 1}, out.Second.Outcomes)
	require.Equal(t, 100, out.First.Times.Count)
	require.Equal(t, 50, out.Second.Times.Count)
	require.GreaterOrEqual(t, out.First.Times.Max, out.Second.Times.Max)
}
