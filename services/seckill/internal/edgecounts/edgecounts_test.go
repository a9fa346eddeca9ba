package edgecounts

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/telemetry"
)

func TestResponsesAreCounted(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry.Recording()
	c, err := New(tel)
	require.NoError(t, err)
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.receive(ctx, l, slog.New(slog.DiscardHandler)) }()
	page := func() string {
		w := httptest.NewRecorder()
		tel.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	count := func(status int, limit string, n int) string {
		return fmt.Sprintf("flashsale_edge_responses_total{flashsale_limit=%q,http_response_status_code=\"%d\"} %d\n", limit, status, n)
	}
	require.Contains(t, page(), count(502, "none", 0), "before the first event")

	nginx, err := net.Dial("udp", l.LocalAddr().String())
	require.NoError(t, err)
	defer func() { _ = nginx.Close() }()
	send := func(text string) { _, _ = fmt.Fprintf(nginx, "<190>Nov 29 14:00:00 edge: %s", text) }
	for _, text := range []string{"200 PASSED PASSED", "429 REJECTED -", "429 - REJECTED", "429 PASSED PASSED", "418 - -", "no", "x - -", "999 - -"} {
		send(text)
	}
	for _, want := range []string{count(200, "none", 1), count(429, "rate", 1), count(429, "connections", 1), count(429, "none", 1), count(418, "none", 1)} {
		require.Eventually(t, func() bool { return strings.Contains(page(), want) }, 10*time.Second, 10*time.Millisecond, want)
	}
	require.NotContains(t, page(), "999")
	stop()
	require.NoError(t, <-ended)
}
