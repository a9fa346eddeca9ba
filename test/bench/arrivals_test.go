package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryArrivalBuysOnceWhateverWasRefused(t *testing.T) {
	var mu sync.Mutex
	calls, bought := map[string]int{}, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		step, user, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		calls[r.URL.Path]++
		first := calls[r.URL.Path] == 1
		switch {
		case step == "path" && user == "3" && first:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case step == "buy" && user == "4" && first:
			w.WriteHeader(http.StatusServiceUnavailable)
		case step == "path" && user == "5":
			w.WriteHeader(http.StatusConflict)
		case step == "path" && user == "6":
			w.WriteHeader(http.StatusTeapot)
		case step == "path":
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"path":"p%s","order_sn":"%s"}`, user, user)
		default:
			bought[user]++
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	post := func(target string, buf []byte) []byte {
		return append(buf, "POST /"+target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"...)
	}
	var begun []int
	accepted := map[string]bool{}
	users := arrivals{
		Addr: server.Listener.Addr().String(), Conns: 4, Users: 100, For: 600 * time.Millisecond,
		Early: 0.5, EarlyFor: 100 * time.Millisecond, Slot: 200 * time.Millisecond,
		Path: func(user int, buf []byte) []byte { return post("path/"+strconv.Itoa(user), buf) },
		Purchase: func(user int, path string, buf []byte) []byte {
			if path != "p"+strconv.Itoa(user) {
				t.Errorf("user %d buys with path %q", user, path)
			}
			return post("buy/"+strconv.Itoa(user), buf)
		},
		Accepted: func(orderSN string) {
			mu.Lock()
			defer mu.Unlock()
			accepted[orderSN] = true
		},
		Begin: func(slot int) { begun = append(begun, slot) },
	}
	out, err := users.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 98, out.Accepted)
	require.Equal(t, 1, out.SoldOut)
	require.Equal(t, 1, out.GivenUp)
	require.Contains(t, out.Example, "status 418")
	require.Len(t, accepted, 98)
	require.Len(t, bought, 98)
	require.GreaterOrEqual(t, out.Took, time.Second, "user 3 waits as long as Retry-After")
	var sum arrivalsSlot
	for i, s := range out.Slots {
		require.Equal(t, i, begun[i])
		sum.Arrived += s.Arrived
		sum.Paths += s.Paths
		sum.Refused += s.Refused
		sum.Unavailable += s.Unavailable
		sum.Accepted += s.Accepted
		require.Equal(t, s.Paths, s.Path.Count)
		require.Equal(t, s.Accepted, s.Purchase.Count)
	}
	require.Equal(t, arrivalsSlot{Arrived: 100, Paths: 98, Refused: 1, Unavailable: 1, Accepted: 98}, sum)
	require.Equal(t, 60, out.Slots[0].Arrived, "half within 100 ms, and a fifth of the others until 200 ms")

	users.Users = 0
	_, err = users.Run(t.Context())
	require.Error(t, err)
}
