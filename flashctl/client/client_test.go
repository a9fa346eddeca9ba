package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that sends each of the responses in turn and then repeats the last one.
func serve(t *testing.T, opts client.Options, responses ...http.HandlerFunc) (*client.Caller, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(calls.Add(1))
		responses[min(n, len(responses))-1](w, r)
	}))
	t.Cleanup(server.Close)
	c := client.New(client.Single(server.URL), opts)
	t.Cleanup(c.Close)
	return c.As("token"), &calls
}

func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

var lines = []contract.Line{{SKUID: "1", Qty: 1}}

func TestReserveRetriesWithTheSamePath(t *testing.T) {
	b, calls := serve(t, client.Options{},
		respond(http.StatusServiceUnavailable, `{"code":"gate_unavailable"}`), abort,
		respond(http.StatusBadGateway, "<html>"), respond(http.StatusAccepted, `{"order_sn":"7","status":"queued"}`))
	r, err := b.Reserve(t.Context(), "1", "p", lines)
	require.NoError(t, err)
	require.Equal(t, "7", r.OrderSN)
	require.EqualValues(t, 4, calls.Load())
}

func TestRetryWaitsForRetryAfter(t *testing.T) {
	b, _ := serve(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		respond(http.StatusTooManyRequests, `{"code":"rate_limited"}`)(w, nil)
	}, respond(http.StatusCreated, `{"path":"p","order_sn":"7"}`))
	began := time.Now()
	_, err := b.NewPath(t.Context(), "1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), time.Second)
}

func TestRefusalIsNotRetried(t *testing.T) {
	b, calls := serve(t, client.Options{}, respond(http.StatusConflict, `{"code":"sold_out","detail":"nothing left","trace_id":"t1"}`))
	_, err := b.NewPath(t.Context(), "1")
	require.Equal(t, contract.CodeSoldOut, client.CodeOf(err))
	require.ErrorContains(t, err, "nothing left")
	require.ErrorContains(t, err, "trace t1")
	require.EqualValues(t, 1, calls.Load())
}

func TestUnknownOutcomeIsNotRetried(t *testing.T) {
	for _, unknown := range []http.HandlerFunc{abort, respond(http.StatusGatewayTimeout, "<html>")} {
		m, calls := serve(t, client.Options{}, unknown)
		_, err := m.NewActivity(t.Context(), client.Draft{})
		require.Error(t, err)
		require.EqualValues(t, 1, calls.Load())
	}
}

func TestRetriesAreBounded(t *testing.T) {
	b, calls := serve(t, client.Options{Attempts: 3}, respond(http.StatusServiceUnavailable, `{"code":"unavailable"}`))
	_, err := b.Order(t.Context(), "1")
	require.Equal(t, contract.CodeUnavailable, client.CodeOf(err))
	require.EqualValues(t, 3, calls.Load())
}

func TestResponseOfAProxy(t *testing.T) {
	b, _ := serve(t, client.Options{Attempts: 1}, respond(http.StatusBadGateway, "<html>"))
	_, err := b.Order(t.Context(), "1")
	require.ErrorContains(t, err, "502")
	require.Empty(t, client.CodeOf(err))
}

func TestDiscover(t *testing.T) {
	t.Setenv("BASE_URL", "http://shop.example/")
	o, err := client.Discover(t.Context())
	require.NoError(t, err)
	require.Equal(t, "http://shop.example", o.String())

	t.Setenv("BASE_URL", "shop.example")
	_, err = client.Discover(t.Context())
	require.ErrorContains(t, err, "is not an address")

	t.Setenv("BASE_URL", "")
	t.Setenv("ORDER_URL", "http://o.example")
	o, err = client.Discover(t.Context())
	require.NoError(t, err)
	require.Equal(t, client.Origins{
		Seckill: "http://127.0.0.1:8081", Order: "http://o.example", Inventory: "http://127.0.0.1:8083",
	}, o)
}

func TestErrorsContainNoPath(t *testing.T) {
	b, _ := serve(t, client.Options{Attempts: 1}, respond(http.StatusConflict, `{"code":"sold_out"}`), abort)
	for range 2 {
		_, err := b.Reserve(t.Context(), "1", "hush", lines)
		require.ErrorContains(t, err, "/v1/activities/1/paths/{path}/reservations")
		require.NotContains(t, err.Error(), "hush")
	}
}
