package allinone

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoutesByPrefix(t *testing.T) {
	t.Parallel()
	service := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Service", name) })
	}
	edge := routes(service("seckill"), service("order"), service("inventory"))
	for path, name := range map[string]string{
		"/v1/activities":                "seckill",
		"/v1/activities/1/reservations": "seckill",
		"/v1/dev/tokens":                "seckill",
		"/":                             "seckill",
		"/sales/1":                      "seckill",
		"/auth/session":                 "seckill",
		"/v1":                           "seckill",
		"/v1/ordersandmore":             "seckill",
		"/internal/v1/orders:close":     "seckill",
		"/v1/orders":                    "order",
		"/v1/payments/callbacks/x":      "order",
		"/v1/merchant/dead-letters":     "inventory",
	} {
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, name, w.Header().Get("Service"), path)
	}
}
