package room

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/draw"
)

const (
	genesis = 1_700_000_000
	period  = 3
)

// randomness returns the value of a round of the fake chain.
func randomness(round int64) draw.Hash {
	return draw.KeyHash(draw.Hash{byte(round), byte(round >> 8), byte(round >> 16)})
}

// chain is a fake of a drand chain. Its rounds appear as time passes, unless down.
func chain(t *testing.T, down *atomic.Bool) *Drand {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /chain/info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"period":%d,"genesis_time":%d,"hash":"x"}`, period, genesis)
	})
	mux.HandleFunc("GET /chain/public/{round}", func(w http.ResponseWriter, r *http.Request) {
		var round int64
		_, err := fmt.Sscan(r.PathValue("round"), &round)
		switch {
		case err != nil || down != nil && down.Load():
			http.Error(w, "down", http.StatusBadGateway)
		case time.Now().Unix() < genesis+(round-1)*period:
			http.Error(w, "too early", http.StatusTooEarly)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"round": round, "randomness": randomness(round)})
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	d := NewDrand(srv.URL + "/chain/")
	t.Cleanup(d.http.CloseIdleConnections)
	return d
}

func TestDrandReturnsTheFirstRoundAfterATime(t *testing.T) {
	d := chain(t, nil)
	for offset, round := range map[int64]int64{0: 1, 1: 2, 3: 2, 4: 3, 300: 101, 301: 102} {
		got, err := d.After(t.Context(), time.Unix(genesis+offset, 0))
		require.NoError(t, err)
		want := randomness(round)
		require.Equal(t, want[:], []byte(got), offset)
	}
	_, err := d.After(t.Context(), time.Now().Add(time.Hour))
	require.ErrorIs(t, err, errBeaconNotYet)
	_, err = d.After(t.Context(), time.Unix(genesis-1, 0))
	require.Error(t, err)
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("x", 100)))
	}))
	t.Cleanup(wrong.Close)
	broken := NewDrand(wrong.URL)
	t.Cleanup(broken.http.CloseIdleConnections)
	_, err = broken.After(t.Context(), time.Now())
	require.Error(t, err)
}

// The root is stored at once, the seed with the first round of 15 s later.
func TestDrawHasABeacon(t *testing.T) {
	w := newWorld(t, 1000)
	w.join(0, 5)
	w.start(chain(t, nil))
	w.startsIn(50 * time.Second)
	w.eventually("root", func(r Room) bool { return r.Root != nil })
	require.Nil(t, w.room().Seed)
	w.startsIn(41 * time.Second)
	w.eventually("seed", func(r Room) bool { return r.Seed != nil })
	r := w.room()
	at := w.cfg.StartsAt.Add(-closes + beaconDelay).Unix()
	want := randomness((at-genesis+period-1)/period + 1)
	require.Equal(t, want[:], []byte(r.Beacon))
	require.Equal(t, draw.Seed(r.Key, *r.Root, r.Beacon), *r.Seed)
}

// A beacon that is not readable until the start is left out.
func TestDrawDoesNotWaitForItsBeacon(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	w := newWorld(t, 1000)
	w.join(0, 5)
	w.start(chain(t, &down))
	w.startsIn(20 * time.Second)
	w.eventually("root", func(r Room) bool { return r.Root != nil })
	w.startsIn(-time.Second)
	w.eventually("seed", func(r Room) bool { return r.Seed != nil })
	r := w.room()
	require.Empty(t, r.Beacon)
	require.Equal(t, draw.Seed(r.Key, *r.Root, nil), *r.Seed)
	w.eventually("admitted", func(r Room) bool { return r.Admitted == 5 })
}
