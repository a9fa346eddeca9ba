package httpapi

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/telemetry"
)

func narrow(t *testing.T) *shedder {
	t.Helper()
	s, err := newShedder(telemetry.Discard(t).Meter, nil)
	require.NoError(t, err)
	s.limiter = adaptivelimiter.NewBuilder[any]().WithLimits(1, 1, 1).Build()
	return s
}

func ask(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	return w
}

func TestRequestsAboveTheLimitAreRefusedExceptPurchases(t *testing.T) {
	s := narrow(t)
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	for name, busy := range map[string]func(http.Handler) http.Handler{"others": s.others, "paths": s.paths, "purchases": s.purchases} {
		var other, path, purchase *httptest.ResponseRecorder
		w := ask(busy(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { // the one request in flight
			other, path, purchase = ask(s.others(served)), ask(s.paths(served)), ask(s.purchases(served))
		})))
		require.Equal(t, http.StatusOK, w.Code, name)
		for _, refused := range []*httptest.ResponseRecorder{other, path} {
			require.Equal(t, http.StatusServiceUnavailable, refused.Code, name)
			require.Contains(t, refused.Body.String(), `"code":"overloaded"`)
			require.NotEmpty(t, refused.Header().Get("Retry-After"))
		}
		require.Equal(t, http.StatusCreated, purchase.Code, "%s: a purchase is never refused", name)
		require.Zero(t, s.limiter.Inflight(), name)
	}
	require.PanicsWithValue(t, "oops", func() { ask(s.paths(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oops") }))) })
	require.Zero(t, s.limiter.Inflight(), "a panicking handler does not count")
}

// A request that waits for a path does not count. When its turn comes it is served, also above the limit.
func TestWaitingPathRequestsDoNotCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\nrules: [{name: path-total, limit: 1, burst: 1, max_wait: 10s}]"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		limits, err := admission.Local(admission.Settings{Rules: file}, telemetry.Discard(t))
		require.NoError(t, err)
		s := narrow(t)
		release := make(chan struct{})
		served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		path := s.paths(limits.On("path-total")(served))
		require.Equal(t, http.StatusCreated, ask(path).Code) // takes the burst
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() {
			require.Equal(t, http.StatusCreated, ask(path).Code)
			require.Equal(t, time.Second, time.Since(began))
		})
		synctest.Wait()
		require.Zero(t, s.limiter.Inflight(), "it waits for its turn")
		wg.Go(func() { // in flight when the turn of the first comes
			ask(s.others(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })))
		})
		synctest.Wait()
		require.Equal(t, 1, s.limiter.Inflight())
		time.Sleep(2 * time.Second)
		close(release)
		wg.Wait()
		require.Zero(t, s.limiter.Inflight())
	})
}
