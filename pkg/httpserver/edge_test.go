package httpserver

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/telemetry"
)

func TestRequestsOfAllRoutersOfAServiceAreCounted(t *testing.T) {
	tel, _ := telemetry.Recording()
	public, internal := NewRouter(tel), NewRouter(tel)
	var page string
	public.Get("/", func(http.ResponseWriter, *http.Request) { do(internal, http.MethodGet, "/") })
	internal.Get("/", func(http.ResponseWriter, *http.Request) { page = text(t, do(tel.Metrics, http.MethodGet, "/metrics")) })
	do(public, http.MethodGet, "/")
	require.Regexp(t, `(?m)^http_server_active_requests 2$`, page)
	require.Regexp(t, `(?m)^http_server_active_requests 0$`, text(t, do(tel.Metrics, http.MethodGet, "/metrics")))
}

func TestUnknownMethodsShareOneLabel(t *testing.T) {
	tel, recorder := telemetry.Recording()
	r := NewRouter(tel)
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	require.Equal(t, http.StatusMethodNotAllowed, do(r, "BREW", "/").StatusCode)
	require.Equal(t, "HTTP", recorder.Ended()[0].Name())
	page := text(t, do(tel.Metrics, http.MethodGet, "/metrics"))
	require.Contains(t, page, `http_request_method="_OTHER"`)
	require.NotContains(t, page, "BREW")
}
