package orders

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
)

func TestOnlyAWholeAnswerCounts(t *testing.T) {
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
	c := New(srv.URL+"/", "s3cret", transport)
	ask := func() error { _, err := c.Close(t.Context(), []string{"1", "2"}, "expired"); return err }

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
		require.Error(t, ask(), bad)
	}
	for _, status = range []int{http.StatusFound, http.StatusUnauthorized, http.StatusServiceUnavailable, http.StatusNoContent} {
		require.Error(t, ask(), status)
	}
	srv.Close()
	require.Error(t, ask())
	_, err = c.Refund(t.Context(), []string{"1"}, "no_stock")
	require.Error(t, err)
}

func TestAnAbsentOrderServiceIsAskedNowAndThen(t *testing.T) {
	var asked atomic.Int64
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(`{"results":[{"order_sn":"1","outcome":"closed"}]}`))
	}))
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := New(srv.URL, "s3cret", transport)
	ask := func() error { _, err := c.Close(t.Context(), []string{"1"}, "expired"); return err }

	// What it refuses for our own fault says nothing about it.
	status.Store(http.StatusUnauthorized)
	for range 2 * failures {
		require.Error(t, ask())
	}
	require.Equal(t, "closed", c.Breaker())

	status.Store(http.StatusServiceUnavailable)
	for range failures {
		require.ErrorContains(t, ask(), "answered 503")
	}
	require.Eventually(t, func() bool { // now and then one may ask
		before := asked.Load()
		return errors.Is(ask(), gobreaker.ErrOpenState) && asked.Load() == before
	}, 30*time.Second, time.Millisecond, "nobody waits for it")

	status.Store(http.StatusOK)
	require.Eventually(t, func() bool { return ask() == nil }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "closed", c.Breaker())
}
