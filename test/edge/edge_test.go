package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cacheable responds as seckill does for what is the same for every caller, and counts.
func cacheable(age int) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age="+strconv.Itoa(age))
		w.Header().Set("Traceparent", "00-of-the-first-caller")
		w.Header().Set("RateLimit", `"browse";r=1;t=1`)
		w.Header().Set("RateLimit-Policy", `"browse";q=2;w=1`)
		w.Header().Set("Vary", "Accept-Encoding, Cookie, Authorization")
		_, _ = fmt.Fprintf(w, "%s number %d", r.URL.RequestURI(), n.Add(1))
	}
}

func TestRoutes(t *testing.T) {
	e := start(t)
	for path, want := range map[string]*service{
		"/": e.seckill, "/sales/7": e.seckill, "/sales/7/": e.seckill, "/orders": e.seckill, "/orders/244837465837465837": e.seckill,
		"/console": e.seckill, "/console/operator": e.seckill, "/assets/board-1a2b.js": e.seckill, "/favicon.svg": e.seckill,
		"/auth/login?next=/sales/7": e.seckill, "/auth/session": e.seckill, "/elsewhere": e.seckill,
		"/v1/time": e.seckill, "/v1/config": e.seckill, "/v1/dev/tokens": e.seckill, "/v1/activities": e.seckill,
		"/v1/activities/7": e.seckill, "/v1/activities/7/reservations": e.seckill,
		"/v1/orders": e.order, "/v1/orders/1/payments": e.order, "/v1/payments/1": e.order, "/v1/payments/callbacks/shop": e.order,
		"/v1/merchant/activities": e.inventory, "/v1/merchant/activities/7/board/events": e.inventory,
	} {
		require.Equal(t, want.name, e.get(t, path).body, path)
	}
	for _, path := range []string{
		"/internal/v1/orders:close", "/metrics", "/livez", "/readyz", "/debug/pprof/", "/v1/../metrics", "//metrics", "/%6detrics",
	} {
		r := e.get(t, path)
		require.Equal(t, http.StatusNotFound, r.status, path)
		require.Contains(t, r.body, `"code":"not_found"`, path)
	}
	for _, s := range []*service{e.seckill, e.order, e.inventory} {
		require.Empty(t, s.requests("/internal"))
		require.Empty(t, s.requests("/metrics"))
	}
}

// A browser's Origin holds the port, so the service must see it in Host.
// A page is one document for all addresses; what is redirected keeps its address and its query.
func TestSharedLinksReachTheService(t *testing.T) {
	e := start(t)
	e.seckill.use(func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.Path) > 1 {
			w.Header().Set("Location", strings.TrimSuffix(r.URL.Path, "/")+"?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusPermanentRedirect)
		}
	})
	require.Equal(t, http.StatusOK, e.get(t, "/sales/7").status)
	require.Equal(t, http.StatusOK, e.get(t, "/orders").status)
	for path, want := range map[string]string{"/sales/7/?x=1": "/sales/7?x=1", "/orders/?x=1": "/orders?x=1"} {
		r := e.get(t, path)
		require.Equal(t, http.StatusPermanentRedirect, r.status, path)
		require.Equal(t, want, r.header.Get("Location"), path)
	}
}

func TestHostHasItsPort(t *testing.T) {
	e := start(t)
	e.do(t, http.MethodPost, "/auth/dev", "Host: shop.example:8090", "Cookie: flashsale=token", "X-Forwarded-For: 10.9.9.9")
	seen := e.seckill.requests("/auth/dev")
	require.Len(t, seen, 1)
	require.Equal(t, "shop.example:8090", seen[0].Host)
	require.Equal(t, "flashsale=token", seen[0].Header.Get("Cookie"))
	require.Equal(t, "127.0.0.1", seen[0].Header.Get("X-Forwarded-For"), "not what the caller writes")
	require.Equal(t, "http", seen[0].Header.Get("X-Forwarded-Proto"))
}

// Viewers who reload cause one request a second for each response, whatever they send.
func TestViewersDoNotReachTheServices(t *testing.T) {
	e := start(t)
	e.seckill.use(cacheable(1))
	paths := []string{"/v1/activities", "/v1/activities/7", "/sales/7", "/v1/config"}
	variants := [][]string{
		nil,
		{"Cookie: flashsale=%d", "Accept-Language: zh"},
		{"Authorization: Bearer %d", "Cache-Control: no-cache", "Pragma: no-cache"},
		{"Host: %d.example", "User-Agent: %d", "If-None-Match: %d", "Origin: http://%d.example"},
	}
	const viewers, each = 16, 100
	began := time.Now()
	var wg sync.WaitGroup
	var wrong atomic.Pointer[string]
	for v := range viewers {
		wg.Go(func() {
			for i := range each {
				var headers []string
				for _, h := range variants[(v+i)%len(variants)] {
					headers = append(headers, strings.ReplaceAll(h, "%d", strconv.Itoa(v*each+i)))
				}
				path := paths[i%len(paths)]
				if path == "/v1/activities/7" || path == "/sales/7" || path == "/v1/config" {
					path += "?reload=" + strconv.Itoa(v*each+i)
				}
				if r, err := e.try(t.Context(), http.MethodGet, path, headers...); err != nil || r.status != http.StatusOK {
					text := fmt.Sprint(path, " ", r.status, " ", err)
					wrong.Store(&text)
				}
			}
		})
	}
	wg.Wait()
	if text := wrong.Load(); text != nil {
		t.Fatal(*text)
	}
	most := int(time.Since(began)/time.Second) + 2
	for path, want := range map[string]string{
		"/v1/activities": "/v1/activities", "/v1/config": "/v1/config", "/": "/",
	} {
		n := 0
		for _, r := range e.seckill.requests(path) {
			if path != "/" || r.URL.Path == "/" {
				n++
				require.Empty(t, r.URL.RawQuery, want)
			}
		}
		if path == "/v1/activities" {
			n = (n + 1) / 2 // the list and the sale
		}
		require.LessOrEqual(t, n, most, path)
		require.Positive(t, n, path)
	}
	require.Empty(t, e.seckill.requests("/sales"), "one document for every address")
}

// Neither does what the first caller sends reach the others, nor what seckill sends to it.
func TestCacheHoldsNothingOfACaller(t *testing.T) {
	e := start(t)
	e.seckill.use(cacheable(60))
	for _, path := range []string{"/", "/orders", "/sales/7?user=42", "/assets/a.js?x", "/v1/config", "/v1/activities", "/v1/activities/7"} {
		first := e.get(t, path, "Cookie: flashsale=secret", "Authorization: Bearer secret", "Host: evil.example",
			"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Forwarded-Host: evil.example",
			"Accept: application/json", "Accept-Language: secret", "X-Anything: secret", "Range: bytes=0-1")
		require.Contains(t, []int{http.StatusOK, http.StatusPartialContent}, first.status, path)
		for _, r := range []response{first, e.get(t, path)} {
			for _, header := range []string{"Traceparent", "Set-Cookie", "RateLimit", "RateLimit-Policy"} {
				require.Empty(t, r.header.Values(header), path)
			}
			require.NotEmpty(t, r.header.Get("Cache-Control"), "the browser may keep it too")
		}
	}
	seen := e.seckill.requests("/")
	require.Len(t, seen, 5, "the three pages are one")
	for _, r := range seen {
		require.Equal(t, "seckill", r.Host)
		require.NotContains(t, fmt.Sprint(r.Header), "secret")
		require.NotContains(t, fmt.Sprint(r.Header), "evil")
		for _, header := range []string{"Cookie", "Authorization", "Traceparent", "Range"} {
			require.Empty(t, r.Header.Get(header))
		}
	}
}

// A response with a cookie belongs to one caller: it is not kept, and the cookie is removed.
func TestCookiesAreNotCached(t *testing.T) {
	e := start(t)
	pages := cacheable(60)
	e.seckill.use(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "flashsale=secret")
		pages(w, r)
	})
	for range 2 {
		require.Empty(t, e.get(t, "/").header.Get("Set-Cookie"))
	}
	require.Len(t, e.seckill.requests("/"), 2)
}

// The calls of one person, and refusals, are never cached.
func TestOtherResponsesAreNotCached(t *testing.T) {
	e := start(t)
	e.seckill.use(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Traceparent", "00-mine")
		if strings.HasPrefix(r.URL.Path, "/v1/activities/9") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for _, path := range []string{"/v1/time", "/auth/session", "/v1/activities/7/reservations", "/console", "/v1/activities/9"} {
		for range 2 {
			r := e.get(t, path)
			if path != "/v1/activities/9" {
				require.Equal(t, "00-mine", r.header.Get("Traceparent"), path)
			}
		}
		require.Len(t, e.seckill.requests(path), 2, path)
	}
}

// However a browser writes Accept-Encoding, there are three responses.
func TestEncodings(t *testing.T) {
	e := start(t)
	e.seckill.use(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Vary", "Accept-Encoding")
		if encoding := r.Header.Get("Accept-Encoding"); encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		_, _ = io.WriteString(w, "as "+r.Header.Get("Accept-Encoding"))
	})
	for accepted, want := range map[string]string{
		"gzip, deflate, br, zstd": "br", "br": "br", "br;q=1.0, gzip;q=0.8, *;q=0.1": "br", "gzip;q=0.5,br;q=0.1": "br",
		"gzip, deflate": "gzip", "GZIP": "gzip", "gzip, br;q=0": "gzip", "br; q=0.000, gzip": "gzip",
		"": "", "identity": "", "deflate": "", "gzip;q=0": "", "brotli, xgzip": "",
	} {
		r := e.get(t, "/sales/7", "Accept-Encoding: "+accepted)
		require.Equal(t, "as "+want, r.body, accepted)
		require.Equal(t, want, r.header.Get("Content-Encoding"), accepted)
		require.Contains(t, r.header.Values("Vary"), "Accept-Encoding", accepted)
	}
	require.Len(t, e.seckill.requests("/"), 3)
}

// A page stays available while seckill is not. A sale does not: an old number of units is worse than a refusal.
func TestStalePages(t *testing.T) {
	e := start(t)
	e.seckill.use(cacheable(1))
	pages := []string{"/", "/assets/a.js", "/v1/config"}
	for _, path := range append(pages, "/v1/activities/7") {
		require.Equal(t, http.StatusOK, e.get(t, path).status)
	}
	var failures sync.Map // requests that seckill got since, by path
	e.seckill.use(func(w http.ResponseWriter, r *http.Request) {
		failures.Store(r.URL.Path, true)
		if r.URL.Path == "/v1/config" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		panic(http.ErrAbortHandler)
	})
	for _, path := range pages {
		for began, tried := time.Now(), false; !tried; _, tried = failures.Load(path) {
			require.Less(t, time.Since(began), patience, "the copy of %s does not expire", path)
			require.Equal(t, http.StatusOK, e.get(t, path).status, path)
		}
		require.Equal(t, http.StatusOK, e.get(t, path).status, path)
	}
	require.Eventually(t, func() bool {
		r, err := e.try(t.Context(), http.MethodGet, "/v1/activities/7")
		return err == nil && r.status == http.StatusServiceUnavailable
	}, patience, 50*time.Millisecond)
}

// Without a response a browser gets a page, and a program a problem document.
func TestNoResponse(t *testing.T) {
	e := start(t)
	for _, s := range []*service{e.seckill, e.order, e.inventory} {
		s.use(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}
	for _, path := range []string{"/", "/sales/7", "/console", "/auth/login?next=/orders", "/auth/callback?code=x&state=y"} {
		r := e.get(t, path)
		require.Equal(t, http.StatusServiceUnavailable, r.status, path)
		require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"), path)
		require.Equal(t, "no-store", r.header.Get("Cache-Control"), path)
		require.Contains(t, r.body, "We try again in 5 s", path)
		require.Contains(t, r.body, "秒后重试", path)
	}
	for _, path := range []string{"/v1/activities", "/v1/activities/7", "/v1/orders", "/v1/merchant/products", "/auth/session"} {
		r := e.get(t, path)
		require.Equal(t, http.StatusServiceUnavailable, r.status, path)
		require.Contains(t, r.body, `"code":"unavailable"`, path)
		require.Equal(t, "1", r.header.Get("Retry-After"), path)
	}
}

// Each response is reported, also that of a service that does not respond.
func TestResponsesAreReported(t *testing.T) {
	e := start(t)
	e.order.use(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for path, status := range map[string]int{"/v1/activities": http.StatusOK, "/v1/orders": http.StatusServiceUnavailable} {
		require.Equal(t, status, e.get(t, path).status)
		want := fmt.Sprintf(" edge: %d - -", status)
		require.NoError(t, e.Reports.SetReadDeadline(time.Now().Add(patience)))
		for buf, text := make([]byte, 512), ""; !strings.HasSuffix(text, want); {
			n, _, err := e.Reports.ReadFrom(buf)
			require.NoError(t, err, want)
			text = string(buf[:n])
		}
	}
}

// A browser gets a page that tries again also when seckill limits its sign-ins. Other pages of seckill stay as they are.
func TestLimitedSignIns(t *testing.T) {
	e := start(t)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusForbidden} {
		e.seckill.use(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "of seckill")
		})
		for _, path := range []string{"/auth/login", "/auth/callback?code=x&state=y"} {
			r := e.get(t, path)
			require.Equal(t, status, r.status, path)
			if status == http.StatusTooManyRequests {
				require.Contains(t, r.body, "We try again in 5 s", path)
			} else {
				require.Equal(t, "of seckill", r.body, path)
			}
		}
	}
}

// A provider's code is valid once: a second callback would refuse the buyer. The beginning of a sign-in may be repeated.
func TestCallbacksAreNotRepeated(t *testing.T) {
	e := start(t)
	e.seckill.use(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	e.get(t, "/auth/callback?code=x&state=y")
	require.Len(t, e.seckill.requests("/auth/callback"), 1)
	e.get(t, "/auth/login")
	require.Len(t, e.seckill.requests("/auth/login"), 2)
}

// An answer to a challenge counts once, and joining a room takes a place. Other calls of a buyer may be repeated.
func TestAnswersAndJoiningsAreNotRepeated(t *testing.T) {
	e := start(t)
	e.seckill.use(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for path, times := range map[string]int{
		"/v1/activities/7/room": 1, "/v1/activities/7/captchas/x/answers": 1, "/v1/activities/7/captchas": 2, "/v1/activities/7/paths": 2,
	} {
		r := e.do(t, http.MethodPost, path)
		require.Equal(t, http.StatusServiceUnavailable, r.status, path)
		sent := slices.DeleteFunc(e.seckill.requests(path), func(r *http.Request) bool { return r.URL.Path != path })
		require.Len(t, sent, times, path)
	}
}

// However many slow readers a list of draw tickets has, it is read from seckill once and takes the disk of one.
func TestSlowReadersOfTickets(t *testing.T) {
	e := start(t)
	list := strings.Repeat(strings.Repeat("0123456789abcdef", 4)+"\n", 400_000)
	e.seckill.use(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "public, max-age=10")
		w.Header().Set("Content-Length", strconv.Itoa(len(list)))
		_, _ = io.WriteString(w, list)
	})
	const path = "/v1/activities/7/room/tickets"
	for range 12 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.example\r\n\r\n", path)
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 100)) // and no more
		require.NoError(t, err)
	}
	require.Equal(t, list, e.get(t, path+"?reader=13").body)
	require.Len(t, e.seckill.requests(path), 1)
	require.Equal(t, "seckill", e.seckill.requests(path)[0].Host)
	require.Less(t, e.Bytes(t, ""), int64(len(list)*3/2))

	// A response that is not for the cache takes no disk at all.
	e.order.use(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list) })
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /v1/orders HTTP/1.1\r\nHost: shop.example\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1<<20))
	require.NoError(t, err)
	require.Zero(t, e.Bytes(t, "proxy"))
}

// Each event reaches the browser when it is sent.
func TestStreamsAreNotBuffered(t *testing.T) {
	e := start(t)
	for path, s := range map[string]*service{
		"/v1/activities/7/reservations/1/events?ticket=x": e.seckill, "/v1/merchant/activities/7/board/events": e.inventory,
	} {
		next, done := make(chan string), make(chan struct{})
		s.use(func(w http.ResponseWriter, r *http.Request) {
			defer close(done)
			w.Header().Set("Content-Type", "text/event-stream")
			for event := range next {
				_, _ = io.WriteString(w, event+"\n")
				_ = http.NewResponseController(w).Flush()
			}
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Accept-Encoding", "gzip, br")
		go func() { next <- "data: 1" }()
		resp, err := e.client.Do(req)
		require.NoError(t, err)
		lines := bufio.NewScanner(resp.Body)
		for i := range 3 {
			if i > 0 {
				next <- "data: " + strconv.Itoa(i+1)
			}
			require.True(t, lines.Scan(), path) // the handler waits meanwhile
			require.Equal(t, "data: "+strconv.Itoa(i+1), lines.Text())
		}
		close(next)
		<-done
		require.NoError(t, resp.Body.Close())
	}
}
