package seckill_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

// lockedBuffer collects the log of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logging returns telemetry and its log.
func logging(t *testing.T) (*telemetry.Telemetry, *lockedBuffer) {
	t.Helper()
	tel, log := telemetry.Discard(t), &lockedBuffer{}
	tel.Log = telemetry.NewLogger(log, slog.LevelInfo)
	return tel, log
}

func TestPurchaseIsOneTraceWithoutSecrets(t *testing.T) {
	t.Parallel()
	tel, recorder := telemetry.Recording()
	log := &lockedBuffer{}
	tel.Log = telemetry.NewLogger(log, slog.LevelDebug)
	r := newRig(t, setup{tel: tel})
	activity := r.sale(1)
	p := r.path("alice-the-buyer", activity)
	got := r.buy(p, oneOf("1")).is(t, 202, "")
	s := r.open(got.str("events_url"))
	require.Equal(t, "queued", s.status())
	bob := r.path("bob", activity)
	r.buy(bob, oneOf("1")).is(t, 409, contract.CodeSoldOut)
	r.call("GET", "/v1/activities/"+activity+"/reservations/"+p.orderSN, p.token, nil).is(t, 200, "")
	require.Eventually(t, func() bool { return len(r.publishedFor(activity)) == 1 },
		30*time.Second, 5*time.Millisecond)

	var metrics string
	for _, name := range []string{"flashsale_seckill_purchases", "flashsale_seckill_refused", "flashsale_seckill_relay_lag", "flashsale_seckill_gate_group", `flashsale_breaker{flashsale_dependency="redis"`, "flashsale_streams_open"} {
		require.Eventually(t, func() bool { // the relay counts after it has published
			page := httptest.NewRecorder()
			tel.Metrics.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			metrics = page.Body.String()
			return strings.Contains(metrics, name)
		}, 30*time.Second, 5*time.Millisecond, name)
	}
	r.mini.Close()
	require.Eventually(t, func() bool { // with an open breaker nothing is logged
		r.buy(bob, oneOf("1")).is(t, 503, contract.CodeGateUnavailable)
		return strings.Contains(log.String(), "request not served")
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, r.mini.Restart())
	r.stop()

	spans := tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())
	byID := map[string]tracetest.SpanStub{}
	var post, publish *tracetest.SpanStub
	for i, s := range spans {
		byID[s.SpanContext.SpanID().String()] = s
		if s.Name == "publish "+contract.TopicReservations {
			publish = &spans[i]
		}
		if post == nil && s.Name == "POST /v1/activities/{activity_id}/paths/{path}/reservations" {
			post = &spans[i]
		}
	}
	require.NotNil(t, post)
	require.NotNil(t, publish)
	wait := byID[publish.Parent.SpanID().String()]
	require.Equal(t, "gate reserve", wait.Name)
	require.Equal(t, post.SpanContext.SpanID(), wait.Parent.SpanID())
	require.Equal(t, post.SpanContext.TraceID(), publish.SpanContext.TraceID())
	require.Contains(t, r.publishedFor(activity)[0].Traceparent, publish.SpanContext.SpanID().String())

	ticket := got.str("events_url")[strings.Index(got.str("events_url"), "ticket=")+len("ticket="):]
	seen := fmt.Sprintf("%+v", spans) + log.String() + metrics
	for what, secret := range map[string]string{"path": p.path, "bearer token": p.token, "ticket": ticket, "user": "alice-the-buyer", "another path": bob.path} {
		require.NotContains(t, seen, secret, what)
	}
}

// A counter that begins with its first event would hide it from increase(). The file has every series.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry.Recording()
	newRig(t, setup{tel: tel, cfg: func(c *config) { c.Rules = "testdata/rule.yaml" }})
	want, err := os.ReadFile("testdata/counters.txt")
	require.NoError(t, err)
	page := httptest.NewRecorder()
	tel.Metrics.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	counters := regexp.MustCompile(`(?m)^flashsale_\w+_total.*\n`).FindAllString(page.Body.String(), -1)
	require.Equal(t, string(want), strings.Join(counters, ""))
}
