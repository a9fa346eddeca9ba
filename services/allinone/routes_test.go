package allinone

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/telemetry"
)

func TestRoutesByPrefix(t *testing.T) {
	service := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Service", name) })
	}
	edge := routes(service("seckill"), service("order"), service("inventory"), telemetry.Discard(t))
	for path, name := range map[string]string{
		"/v1/activities":                "seckill",
		"/v1/activities/1/reservations": "seckill",
		"/v1/dev/tokens":                "seckill",
		"/v1/orders":                    "order",
		"/v1/payments/callbacks/x":      "order",
		"/v1/merchant/dead-letters":     "inventory",
	} {
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, name, w.Header().Get("Service"), path)
	}
}

func TestUnknownPathIsAProblem(t *testing.T) {
	none := http.NotFoundHandler()
	edge := routes(none, none, none, telemetry.Discard(t))
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
		for _, path := range []string{"/", "/v1", "/v1/activitiesandmore", "/internal/v1/orders:close", "/metrics"} {
			w := httptest.NewRecorder()
			edge.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			require.Equal(t, http.StatusNotFound, w.Code, path)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			var problem struct {
				Code    string `json:"code"`
				TraceID string `json:"trace_id"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
			require.Equal(t, "not_found", problem.Code)
			require.NotEmpty(t, problem.TraceID)
			require.Contains(t, w.Header().Get("Traceparent"), problem.TraceID)
		}
	}
}
