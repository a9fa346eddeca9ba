package orders

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/services/inventory/internal/merchants"
)

func TestAnIncompleteResponseIsAnError(t *testing.T) {
	status, body := http.StatusOK, ""
	var auth string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("Authorization")
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := New(srv.URL+"/", []string{"s3cret"}, transport)
	call := func() error { _, err := c.Close(t.Context(), []string{"1", "2"}, "expired"); return err }

	body = `{"results":[{"order_sn":"1","outcome":"not_due","at":"2026-01-02T03:04:05Z"},{"order_sn":"2","outcome":"closed"}],"more":1}`
	got, err := c.Close(t.Context(), []string{"1", "2"}, "expired")
	require.NoError(t, err)
	require.Equal(t, "not_due", got[0].Outcome)
	require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), got[0].At)
	require.Equal(t, "Bearer s3cret", auth)
	for _, bad := range []string{
		``, `{}`, `{"results":[{"order_sn":"1","outcome":"closed"}]}`,
		`{"results":[{"order_sn":"1","outcome":"closed"},{"order_sn":"1","outcome":"closed"}]}`,
		`{"results":[{"order_sn":"1","outcome":"closed"},{"order_sn":"2","outcome":"closed"},{"order_sn":"3","outcome":"closed"}]}`,
	} {
		body = bad
		require.Error(t, call(), bad)
	}
	for _, status = range []int{http.StatusFound, http.StatusUnauthorized, http.StatusServiceUnavailable, http.StatusNoContent} {
		require.Error(t, call(), status)
	}
	srv.Close()
	require.Error(t, call())
	_, err = c.Refund(t.Context(), []string{"1"}, "no_stock")
	require.Error(t, err)
}

func TestTheBreakerLetsFewCallsThroughDuringAnOutage(t *testing.T) {
	var requests atomic.Int64
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(`{"results":[{"order_sn":"1","outcome":"closed"}]}`))
	}))
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := New(srv.URL, []string{"s3cret"}, transport)
	call := func() error { _, err := c.Close(t.Context(), []string{"1"}, "expired"); return err }

	// A 4xx status is the caller's fault and does not open the breaker.
	status.Store(http.StatusUnauthorized)
	for range 2 * failures {
		require.Error(t, call())
	}
	require.Equal(t, "closed", c.Breaker())

	status.Store(http.StatusServiceUnavailable)
	for range failures {
		require.ErrorContains(t, call(), "status 503")
	}
	require.Eventually(t, func() bool { // after each openFor one call is let through
		before := requests.Load()
		return errors.Is(call(), gobreaker.ErrOpenState) && requests.Load() == before
	}, 30*time.Second, time.Millisecond, "calls fail without a request")

	status.Store(http.StatusOK)
	require.Eventually(t, func() bool { return call() == nil }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "closed", c.Breaker())
}

// Lookups have short time-outs and are on behalf of merchants who read lists. Their failures do not stop closings.
func TestFailedLookupsDoNotStopClosings(t *testing.T) {
	ended := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/internal/v1/orders:lookup" {
			<-ended // longer than the time-out
			return
		}
		_, _ = w.Write([]byte(`{"results":[{"order_sn":"1","outcome":"closed"}]}`))
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(ended) })
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := New(srv.URL, []string{"s3cret"}, transport)
	for range failures {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := c.Lookup(ctx, []string{"1"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	require.Equal(t, "open", c.LookupBreaker())
	require.Equal(t, "closed", c.Breaker())
	_, err := c.Close(t.Context(), []string{"1"}, "expired")
	require.NoError(t, err)
	_, err = c.Refund(t.Context(), []string{"1"}, "no_stock")
	require.NoError(t, err)
}

// During a rotation each process of inventory meets processes of order with the secrets of the step before or after.
func TestARotationOfTheSecretFailsNoCall(t *testing.T) {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	before, during, after := []string{"old"}, []string{"new", "old"}, []string{"new"}
	for _, c := range []struct {
		inventory, order []string
		ok               bool
	}{
		{before, before, true},
		{before, during, true},
		{during, before, true},
		{during, during, true},
		{during, after, true},
		{after, during, true},
		{after, after, true},
		// A step was left out.
		{before, after, false},
		{after, before, false},
	} {
		srv := httptest.NewServer(auth.Internal(c.order...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.JSONEq(t, `{"order_sns":["1"],"reason":"expired"}`, string(body))
			_, _ = w.Write([]byte(`{"results":[{"order_sn":"1","outcome":"closed"}]}`))
		})))
		_, err := New(srv.URL, c.inventory, transport).Close(t.Context(), []string{"1"}, "expired")
		require.Equal(t, c.ok, err == nil, "%v: %v", c, err)
		srv.Close()
	}
}

// While a payment provider does not respond, calls about its refunds get 503. They do not stop closings and lookups,
// and failed closings do not stop them.
func TestCallsAboutRefundsPassByTheBreakers(t *testing.T) {
	var closingsFail atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"items":[]}`))
		case r.URL.Path == "/internal/v1/refunds/7:retry" || closingsFail.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"unavailable","detail":"provider"}`))
		default:
			_, _ = w.Write([]byte(`{"results":[{"order_sn":"1","outcome":"closed"}]}`))
		}
	}))
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := New(srv.URL, []string{"s3cret"}, transport)
	for range 2 * failures {
		_, err := c.RetryRefund(t.Context(), "7", "op")
		require.ErrorContains(t, err, "unavailable: provider")
	}
	require.Equal(t, "closed", c.Breaker())
	require.Equal(t, "closed", c.LookupBreaker())
	_, err := c.Close(t.Context(), []string{"1"}, "expired")
	require.NoError(t, err)

	closingsFail.Store(true)
	for range failures {
		_, err = c.Close(t.Context(), []string{"1"}, "expired")
		require.Error(t, err)
	}
	require.Equal(t, "open", c.Breaker())
	_, _, err = c.WaitingRefunds(t.Context(), merchants.RefundPage{Limit: 1})
	require.NoError(t, err)
}

// Calls about refunds also meet processes of order with the next secret.
func TestCallsAboutRefundsDuringARotationOfTheSecret(t *testing.T) {
	srv := httptest.NewServer(auth.Internal("new")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[],"refund_id":"7"}`))
	})))
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := New(srv.URL, []string{"old", "new"}, transport)
	_, _, err := c.WaitingRefunds(t.Context(), merchants.RefundPage{Limit: 1})
	require.NoError(t, err)
	_, err = c.SettleRefund(t.Context(), "7", merchants.RefundSettlement{By: "op", Reference: "a", Reason: "b"})
	require.NoError(t, err)
	_, err = New(srv.URL, []string{"old"}, transport).RetryRefund(t.Context(), "7", "op")
	require.Error(t, err)
}

// A process of 0.1.0 has no order for a page. Its 404 is no order that does not exist, and opens no breaker.
func TestShowAnOrder(t *testing.T) {
	status, body := http.StatusNotFound, `{"code":"not_found"}`
	var asked string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := New(srv.URL, []string{"s3cret"}, transport)
	for range 2 * failures {
		_, err := c.Show(t.Context(), "7")
		require.ErrorContains(t, err, "status 404")
	}
	require.Equal(t, "GET /internal/v1/orders/7", asked)
	require.Equal(t, "closed", c.LookupBreaker())

	status = http.StatusOK
	for _, body = range []string{``, `{}`, `{"order_sn":"8","state":"paid"}`, `{"order_sn":"7"}`} {
		_, err := c.Show(t.Context(), "7")
		require.Error(t, err, body)
	}
	body = `{"order_sn":"7","state":"unknown","tombstone":true}`
	o, err := c.Show(t.Context(), "7")
	require.NoError(t, err)
	require.Nil(t, o)
	body = `{"order_sn":"7","state":"paid","user_id":"u","activity_id":"3","lines":[{"sku_id":"1","qty":2,"price":5,"name":"a"},` +
		`{"sku_id":"2","qty":1,"price":5}],"more":1}`
	o, err = c.Show(t.Context(), "7")
	require.NoError(t, err)
	require.Equal(t, []any{"paid", "u", "3", int64(2), int64(5)}, []any{o.State, o.UserID, o.ActivityID, o.Lines[0].Qty, o.Lines[0].Price})
	require.Equal(t, map[string]string{"1": "a"}, o.SKUNames)

	status = http.StatusServiceUnavailable
	for range failures {
		_, err = c.Show(t.Context(), "7")
		require.Error(t, err)
	}
	require.Equal(t, "open", c.LookupBreaker())
	require.Equal(t, "closed", c.Breaker(), "closings go on")
}
