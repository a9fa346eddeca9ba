package inventory

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns a client with two secrets of a server that accepts the second one.
func serve(t *testing.T, handle http.HandlerFunc) *Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer old" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	c := New(server.URL+"/", []string{"new", "old"}, nil)
	t.Cleanup(c.Close)
	return c
}

func respond(t *testing.T, w http.ResponseWriter, v any) {
	assert.NoError(t, json.NewEncoder(w).Encode(v))
}

func TestLostGatesAreParameters(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, contract.ModesPath, r.URL.Path)
		assert.Equal(t, []string{"7:4500"}, r.URL.Query()[contract.LostParam])
		respond(t, w, contract.Modes{Activities: []contract.ActivityMode{{ActivityID: "7", Mode: contract.ModeRedisless}}})
	})
	modes, err := c.Modes(t.Context(), map[string]time.Duration{"7": 4500 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, contract.ModeRedisless, modes.Activities[0].Mode)
}

func TestModesOfManyRedislessSales(t *testing.T) {
	all := make([]contract.ActivityMode, 200)
	for i := range all {
		all[i].Sale = &contract.RedislessSale{Description: strings.Repeat("x", 20_000)}
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { respond(t, w, contract.Modes{Activities: all}) })
	modes, err := c.Modes(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, modes.Activities, len(all))
}

func TestUnusableResponsesAreUnavailability(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"status":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"no JSON":           func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) },
		"redirect":          func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) },
		"another number":    func(w http.ResponseWriter, _ *http.Request) { respond(t, w, contract.RedislessResults{}) },
		"closed connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		c := serve(t, handle)
		_, err := c.Reserve(t.Context(), contract.RedislessReserve{Items: make([]contract.RedislessPurchase, 1)})
		require.ErrorIs(t, err, core.ErrUnavailable, name)
	}
}

func TestWorkerLeases(t *testing.T) {
	holders := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var lease contract.WorkerLease
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&lease))
		if lease.Renew {
			respond(t, w, contract.LeasedWorker{Worker: lease.Worker, High: 30, Now: 20, Holders: 3})
			return
		}
		respond(t, w, contract.LeasedWorker{Worker: 230, From: 11, High: 10, Now: 5, Holders: 2})
	})
	w := Workers{Client: c, Holders: func(n int) { holders = n }}
	worker, from, high, now, err := w.Acquire(t.Context(), "me", 4)
	require.NoError(t, err)
	require.Equal(t, []int64{230, 11, 10, 5}, []int64{int64(worker), from, high, now})
	require.Equal(t, 2, holders)
	high, now, err = w.Renew(t.Context(), "me", 230)
	require.NoError(t, err)
	require.Equal(t, []int64{30, 20}, []int64{high, now})
	require.Equal(t, 3, holders)
}
