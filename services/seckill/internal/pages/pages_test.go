package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/andybalholm/brotli"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/web"
)

var long = strings.Repeat("<p>some text that compresses</p>\n", 50)

// site serves pages as seckill does.
func site(t *testing.T, provider ...string) http.Handler {
	t.Helper()
	p, err := New(fstest.MapFS{
		"index.html":           {Data: []byte("<style>b{}</style><script>go()</script><script>go()</script>" + long)},
		"console.html":         {Data: []byte(`<script type="module" crossorigin src="/assets/console-1.js"></script>` + long)},
		"favicon.svg":          {Data: []byte("<svg/>")},
		"assets/console-1.js":  {Data: []byte("export const x = 1;" + long)},
		"assets/picture-1.png": {Data: []byte(long)},
		"challenge.html":       {Data: []byte(`<script type="module" crossorigin src="/assets/challenge-1.js"></script>` + long)},
	}, []string{"https://img.example.com"}, provider)
	require.NoError(t, err)
	r := httpserver.NewRouter(telemetry.Discard(t), httpserver.ErrorPages(Error))
	p.Mount(r)
	r.Get("/panics", func(http.ResponseWriter, *http.Request) { panic("oops") })
	return r
}

func get(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const html = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"

func TestRoutesOfThePages(t *testing.T) {
	h := site(t)
	for path, want := range map[string]struct{ has, caching string }{
		"/": {"go()", documentCaching}, "/sales/7": {"go()", documentCaching}, "/sales/7?x=1": {"go()", documentCaching},
		"/orders": {"go()", documentCaching}, "/orders/123": {"go()", documentCaching},
		"/console": {"console-1.js", documentCaching}, "/console/operator/limits": {"console-1.js", documentCaching},
		"/assets/console-1.js": {"export", assetCaching}, "/favicon.svg": {"<svg/>", iconCaching},
	} {
		w := get(h, http.MethodGet, path, "Accept", html)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Contains(t, w.Body.String(), want.has, path)
		require.Equal(t, want.caching, w.Header().Get("Cache-Control"), path)
		require.NotEmpty(t, w.Header().Get("ETag"), path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		require.Equal(t, "same-origin", w.Header().Get("Cross-Origin-Opener-Policy"))
		require.Contains(t, w.Header().Get("Permissions-Policy"), "camera=()")
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'")

		head := get(h, http.MethodHead, path)
		require.Equal(t, http.StatusOK, head.Code, path)
		require.Zero(t, head.Body.Len())
		require.Equal(t, w.Header().Get("ETag"), head.Header().Get("ETag"))
		again := get(h, http.MethodGet, path, "If-None-Match", w.Header().Get("ETag"))
		require.Equal(t, http.StatusNotModified, again.Code, path)
		require.Equal(t, want.caching, again.Header().Get("Cache-Control"))
	}
}

func TestSharedLinksLeadToTheirPage(t *testing.T) {
	h := site(t)
	for path, want := range map[string]string{
		"/sales/7/": "/sales/7", "/sales/7/?utm=a%20b&x=%2F": "/sales/7?utm=a%20b&x=%2F", "/orders/": "/orders",
		"/orders/123/": "/orders/123", "/sales": "/", "/sales/?lang=zh": "/?lang=zh", "/sales/%2F%2Fevil.test/": "/sales/%2F%2Fevil.test",
	} {
		w := get(h, http.MethodGet, path, "Accept", html)
		require.Equal(t, http.StatusPermanentRedirect, w.Code, path)
		require.Equal(t, want, w.Header().Get("Location"), path)
	}
}

func TestBrowsersGetPagesAndProgramsGetProblems(t *testing.T) {
	h := site(t)
	for path, status := range map[string]int{
		"/nothing": 404, "/assets/old-chunk.js": 404, "/assets/": 404, "/assets/../index.html": 404, "//sales/7/": 404, "/orders/1/2": 404,
		"/panics": 500,
	} {
		w := get(h, http.MethodGet, path, "Accept", html)
		require.Equal(t, status, w.Code, path)
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"), path)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"), path)
		require.Contains(t, w.Body.String(), `<a href="/">`)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	}
	require.Equal(t, http.StatusMethodNotAllowed, get(h, http.MethodPost, "/", "Accept", html).Code)
	require.Equal(t, "text/html; charset=utf-8", get(h, http.MethodPost, "/", "Accept", html).Header().Get("Content-Type"))
	for _, w := range []*httptest.ResponseRecorder{
		get(h, http.MethodGet, "/nothing"), get(h, http.MethodGet, "/nothing", "Accept", "*/*"),
		get(h, http.MethodGet, "/v1/nothing", "Accept", html), get(h, http.MethodGet, "/panics", "Accept", "application/json"),
	} {
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	}
}

func TestBodiesAreCompressed(t *testing.T) {
	h := site(t)
	plain := get(h, http.MethodGet, "/").Body.String()
	tags := map[string]bool{}
	for accepts, encoding := range map[string]string{
		"gzip, deflate, br, zstd": "br", "gzip": "gzip", "br;q=0, GZIP;q=0.5": "gzip", "gzip;q=0": "", "": "", "identity": "",
		"br; q=0.000, gzip; q=0": "", "br;q=x": "", "deflate": "",
	} {
		w := get(h, http.MethodGet, "/", "Accept-Encoding", accepts)
		require.Equal(t, encoding, w.Header().Get("Content-Encoding"), accepts)
		require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
		var body io.Reader = w.Body
		switch encoding {
		case "br":
			body = brotli.NewReader(w.Body)
		case "gzip":
			var err error
			body, err = gzip.NewReader(w.Body)
			require.NoError(t, err)
		}
		if encoding != "" {
			require.Less(t, w.Body.Len(), len(plain)/4)
		}
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, plain, string(got))
		tags[w.Header().Get("ETag")] = true
	}
	require.Len(t, tags, 3, "each body has its own strong tag")
	require.Equal(t, "br", get(h, http.MethodGet, "/assets/console-1.js", "Accept-Encoding", "br").Header().Get("Content-Encoding"))
	require.Empty(t, get(h, http.MethodGet, "/assets/picture-1.png", "Accept-Encoding", "br").Header().Get("Content-Encoding"))
	require.Empty(t, get(h, http.MethodGet, "/favicon.svg", "Accept-Encoding", "br").Header().Get("Content-Encoding"), "it saves nothing")
}

func TestPolicyAllowsTheInlineElementsByTheirHash(t *testing.T) {
	h := site(t)
	sum := func(s string) string {
		raw := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(raw[:]) + "'"
	}
	buyer := get(h, http.MethodGet, "/").Header().Get("Content-Security-Policy")
	require.Equal(t, "default-src 'none'; script-src "+sum("go()")+"; style-src "+sum("b{}")+"; img-src 'self' data: "+
		"https://img.example.com; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "+
		"frame-ancestors 'none'; require-trusted-types-for 'script'", buyer)
	console := get(h, http.MethodGet, "/console").Header().Get("Content-Security-Policy")
	require.Contains(t, console, "script-src 'self'; style-src 'self'; ")
	require.NotContains(t, buyer+console, "unsafe")
	require.Contains(t, policyOf([]byte("<p>"), nil), "script-src 'none'; style-src 'none'; ")
	loads := "import(`/assets/x.js`)"
	require.Contains(t, policyOf([]byte("<style>b{}</style><script>"+loads+"</script>"), nil),
		"script-src "+sum(loads)+" 'self'; style-src "+sum("b{}")+"; ")
}

// The page with the widget of a third party exists only where one is configured, and alone may load from its origins.
func TestOnlyThePageOfChallengesLoadsFromTheProvider(t *testing.T) {
	none := site(t)
	require.Equal(t, http.StatusNotFound, get(none, http.MethodGet, "/sales/7/challenge", "Accept", html).Code)
	h := site(t, "https://a.example", "https://*.a.example")
	w := get(h, http.MethodGet, "/sales/7/challenge", "Accept", html)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "challenge-1.js")
	require.Equal(t, documentCaching, w.Header().Get("Cache-Control"))
	policy := w.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'; script-src 'self' https://a.example https://*.a.example; ")
	require.Contains(t, policy, "frame-src https://a.example https://*.a.example; ")
	require.Contains(t, policy, "form-action 'none'; frame-ancestors 'none'")
	require.NotContains(t, policy, "unsafe")
	for _, path := range []string{"/", "/sales/7", "/orders", "/console"} {
		with := get(h, http.MethodGet, path).Header().Get("Content-Security-Policy")
		require.Equal(t, get(none, http.MethodGet, path).Header().Get("Content-Security-Policy"), with, path)
		require.NotContains(t, with, "a.example", path)
	}
}

func TestMessagesAreEscaped(t *testing.T) {
	w := httptest.NewRecorder()
	Message{
		Title: "<script>1</script>", Text: `"><img src=x onerror=alert(1)>`, Detail: "</code><script>2</script>",
		Link: "javascript:alert(3)", Label: "<b>",
	}.Write(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusServiceUnavailable)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.NotContains(t, w.Body.String(), "<script")
	require.NotContains(t, w.Body.String(), "<img")
	require.NotContains(t, w.Body.String(), "javascript:")
	_, style, _ := strings.Cut(w.Body.String(), "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	require.Contains(t, w.Header().Get("Content-Security-Policy"), hash([]byte(style)))
}

func TestPagesWithoutDocumentsStopTheStart(t *testing.T) {
	_, err := New(fstest.MapFS{"index.html": {}}, nil, nil)
	require.ErrorContains(t, err, "console.html")
	_, err = New(fstest.MapFS{"index.html": {}, "console.html": {}}, nil, []string{"https://a.example"})
	require.ErrorContains(t, err, "challenge.html")
}

// The policy allows neither handlers nor styles in attributes, so the built documents must have none.
func TestBuiltDocumentsFitThePolicy(t *testing.T) {
	p, err := New(web.FS(), nil, []string{"https://a.example"})
	require.NoError(t, err)
	attribute := regexp.MustCompile(`(?i)<[a-z][^<>]*\s(on[a-z]+|style)\s*=`)
	for name, f := range map[string]*file{
		"index.html": p.buyer, "console.html": p.console, "challenge.html": p.challenge,
	} {
		markup := inline.ReplaceAll(f.plain.raw, nil)
		require.False(t, attribute.Match(markup), name)
		require.False(t, bytes.Contains(markup, []byte("javascript:")), name)
		require.Contains(t, string(markup), "<noscript>", name)
	}
}
