package httpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
)

type copied struct{}

// copying is a middleware that passes on a copy of the request.
func copying(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), copied{}, 1)))
	})
}

func shop(t *testing.T) (*Router, *telemetry.Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	tel, recorder := telemetry.Recording()
	r := NewRouter(tel)
	r.Get("/v1/plain/{id}", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, 200, map[string]string{"a": "<b>"}) })
	r.Get("/v1/panic", func(http.ResponseWriter, *http.Request) { panic("secret inside") })
	r.Get("/v1/late-panic", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK); panic("late") })
	r.Get("/v1/cached", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=1") })
	r.Post("/v1/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})
	r.Route("/v1/orders", func(r chi.Router) {
		r.Use(copying)
		r.With(copying).Post("/{order_sn}/paths/{path}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	})
	return r, tel, recorder
}

func TestAPathParameterHasOneSpelling(t *testing.T) {
	r, _, _ := shop(t)
	var id string
	r.Get("/v1/value/{id}", func(_ http.ResponseWriter, r *http.Request) { id = PathParam(r, "id") })
	for path, want := range map[string]string{
		"1": "1", "%31": "1", "%3131": "131", "a!": "a!", "a%21": "a!", "%2e%2E": "..", "a%2fb": "a/b",
		"%2531": "%31", "%2531!": "%31!", // unescaped once
	} {
		require.Equal(t, http.StatusOK, do(r, http.MethodGet, "/v1/value/"+path).StatusCode, path)
		require.Equal(t, want, id, path)
	}
}

func do(h http.Handler, method, url string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

func TestSpansAndMetricsAreNamedByTheRoute(t *testing.T) {
	h, tel, recorder := shop(t)
	require.Equal(t, 200, do(h, http.MethodGet, "/v1/plain/77?ticket=hush").StatusCode)
	require.Equal(t, 202, do(h, http.MethodPost, "/v1/orders/77/paths/hush", "User-Agent", "hush").StatusCode)
	require.Equal(t, 404, do(h, http.MethodGet, "/v1/hush").StatusCode)

	var spanNames []string
	for _, s := range recorder.Ended() {
		spanNames = append(spanNames, s.Name())
		for _, a := range s.Attributes() {
			require.NotContains(t, a.Value.String(), "hush", a.Key)
			require.NotContains(t, a.Value.String(), "192.0.2.1", a.Key)
		}
	}
	require.Equal(t, []string{"GET /v1/plain/{id}", "POST /v1/orders/{order_sn}/paths/{path}", "GET"}, spanNames)
	var route string
	for _, a := range recorder.Ended()[1].Attributes() {
		if a.Key == telemetry.AttrRoute {
			route = a.Value.AsString()
		}
	}
	require.Equal(t, "/v1/orders/{order_sn}/paths/{path}", route)

	page := text(t, do(tel.Metrics, http.MethodGet, "/metrics"))
	require.Contains(t, page, `http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="202",http_route="/v1/orders/{order_sn}/paths/{path}"} 1`)
	require.Contains(t, page, `http_server_active_requests`)
	require.NotContains(t, page, "example.com", "the Host header must not be a label")
	require.NotContains(t, page, "hush")
}

func TestTraceparentIsContinuedAndReturned(t *testing.T) {
	h, _, _ := shop(t)
	const id = "0af7651916cd43dd8448eb211c80319c"
	resp := do(h, http.MethodGet, "/v1/plain/1", "traceparent", "00-"+id+"-b7ad6b7169203331-01")
	require.Regexp(t, "^00-"+id+"-[0-9a-f]{16}-01$", resp.Header.Get("Traceparent"))
	require.NotContains(t, resp.Header.Get("Traceparent"), "b7ad6b7169203331")
	require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", do(h, http.MethodGet, "/v1/plain/1").Header.Get("Traceparent"))
}

func TestDefaultHeaders(t *testing.T) {
	h, _, _ := shop(t)
	resp := do(h, http.MethodGet, "/v1/plain/1")
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	require.Contains(t, text(t, resp), `<b>`, "not escaped: it is no HTML")
	require.Equal(t, "max-age=1", do(h, http.MethodGet, "/v1/cached").Header.Get("Cache-Control"))
}

func TestUnknownRoutesAndMethodsAreProblems(t *testing.T) {
	h, _, _ := shop(t)
	for url, want := range map[string]struct {
		method, code, allow string
		status              int
	}{
		"/nothing":               {"GET", "not_found", "", 404},
		"/v1/orders/1":           {"GET", "not_found", "", 404},
		"/v1/plain/1":            {"POST", "method_not_allowed", "OPTIONS, GET, HEAD", 405},
		"/v1/orders/1/paths/abc": {"GET", "method_not_allowed", "OPTIONS, POST", 405},
		"/v1/read":               {"BREW", "method_not_allowed", "OPTIONS, POST", 405},
	} {
		resp := do(h, want.method, url)
		require.Equal(t, want.status, resp.StatusCode, url)
		require.Equal(t, problem.ContentType, resp.Header.Get("Content-Type"), url)
		require.Equal(t, want.allow, resp.Header.Get("Allow"), url)
		var doc map[string]any
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&doc))
		require.Equal(t, want.code, doc["code"], url)
		require.Regexp(t, "^[0-9a-f]{32}$", doc["trace_id"], url)
	}
	resp := do(h, http.MethodOptions, "/v1/read")
	require.Equal(t, 204, resp.StatusCode)
	require.Equal(t, "OPTIONS, POST", resp.Header.Get("Allow"))
	require.Equal(t, 200, do(h, http.MethodHead, "/v1/plain/1").StatusCode)
}

func TestThePanicTextIsNotInTheResponse(t *testing.T) {
	h, tel, recorder := shop(t)
	var log bytes.Buffer
	tel.Log = telemetry.NewLogger(&log, nil)
	resp := do(h, http.MethodGet, "/v1/panic")
	require.Equal(t, 500, resp.StatusCode)
	body := text(t, resp)
	require.Contains(t, body, `"code":"internal"`)
	require.NotContains(t, body, "secret")
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "logged once")
	require.Contains(t, log.String(), "secret inside")
	require.Contains(t, log.String(), recorder.Ended()[0].SpanContext().TraceID().String())
	require.Equal(t, "GET /v1/panic", recorder.Ended()[0].Name())

	require.PanicsWithValue(t, http.ErrAbortHandler, func() { do(h, http.MethodGet, "/v1/late-panic") })
}

func TestBodiesAreBoundedWithoutDecoding(t *testing.T) {
	h, _, _ := shop(t)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/read", strings.NewReader(strings.Repeat("x", MaxBody+1))))
	require.Equal(t, 413, w.Code)
}

func TestTimeout(t *testing.T) {
	tel := telemetry.Discard(t)
	r := NewRouter(tel)
	r.With(Timeout(time.Millisecond)).Get("/", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		problem.Write(w, r, tel.Log, r.Context().Err())
	})
	resp := do(r, http.MethodGet, "/")
	require.Equal(t, 503, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
}

func TestPageOf(t *testing.T) {
	for url, want := range map[string]Page{
		"/":                   {Limit: 20},
		"/?limit=1&cursor=ab": {Limit: 1, Cursor: "ab"},
		"/?limit=100":         {Limit: 100},
	} {
		got, err := PageOf(httptest.NewRequest(http.MethodGet, url, nil))
		require.NoError(t, err, url)
		require.Equal(t, want, got)
	}
	for _, url := range []string{"/?limit=", "/?limit=0", "/?limit=101", "/?limit=-1", "/?limit=1.5", "/?limit=x", "/?limit=%2B5", "/?limit=%zz", "/?limit=1;cursor=a", "/?cursor=", "/?cursor=" + strings.Repeat("c", 257)} {
		_, err := PageOf(httptest.NewRequest(http.MethodGet, url, nil))
		require.Error(t, err, url)
	}
}
