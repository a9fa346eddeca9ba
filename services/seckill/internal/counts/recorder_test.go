package counts

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/stockgate/counting"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gates is a fake that counts each second of an activity once, as Redis does.
type gates struct {
	mu    sync.Mutex
	calls int
	err   error // of every call
	lost  bool  // the reply: the counts are added, and err is returned
	last  map[string]time.Time
	sums  map[string]stockgate.RequestCounts
	ahead time.Duration // of Redis's clock
}

func (g *gates) now(context.Context) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Add(g.ahead)
}

func (g *gates) AddCounts(_ context.Context, id, source string, c stockgate.RequestCounts) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.err != nil && !g.lost {
		return g.err
	}
	if source != "me" || !c.At.Equal(c.At.Truncate(time.Second)) {
		return fmt.Errorf("source %s, at %s", source, c.At)
	}
	if c.At.After(g.last[id]) {
		g.last[id] = c.At
		sum := g.sums[id]
		sum.Accepted += c.Accepted
		sum.Paths += c.Paths
		for code, n := range c.Refused {
			if sum.Refused == nil {
				sum.Refused = map[string]int64{}
			}
			sum.Refused[code] += n
		}
		g.sums[id] = sum
	}
	return g.err
}

func (g *gates) set(err error, lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err, g.lost = err, lost
}

func (g *gates) made() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

func (g *gates) sum(id string) stockgate.RequestCounts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sums[id]
}

// record runs a test with a recorder, whose activities 1 and 2 exist.
func record(t *testing.T, test func(t *testing.T, r *Recorder, g *gates, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gates{last: map[string]time.Time{}, sums: map[string]stockgate.RequestCounts{}}
		r := NewRecorder(g, counting.Options{
			Source: "me", Log: slog.New(slog.DiscardHandler), Now: g.now,
			Known: func(id string) bool { return id == "1" || id == "2" },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			require.NoError(t, <-ended)
		})
		defer stop()
		test(t, r, g, stop)
	})
}

func TestCountsAreAddedOnceASecond(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, stop func()) {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				r.Path("1")
				r.Accepted("1")
				r.Refused("1", contract.CodeSoldOut)
				r.Refused("2", contract.CodeRateLimited)
				r.Refused("3", contract.CodeRateLimited) // does not exist
			})
		}
		all.Wait()
		require.Zero(t, g.made(), "no write per request")
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, 2, g.made(), "one for each activity")
		require.Equal(t, stockgate.RequestCounts{Accepted: 50, Paths: 50, Refused: map[string]int64{"sold_out": 50}}, g.sum("1"))
		require.Equal(t, map[string]int64{"rate_limited": 50}, g.sum("2").Refused)
		require.Zero(t, g.sum("3"))
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, g.made(), "nothing to add")

		r.Path("1")
		stop()
		require.EqualValues(t, 51, g.sum("1").Paths, "the last flush is that of the end")
	})
}

func TestCountsSurviveAnOutageAndALostReply(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, _ func()) {
		for _, lost := range []bool{false, true} {
			g.set(fmt.Errorf("%w: down", stockgate.ErrUnavailable), lost)
			before := g.made()
			for range 20 {
				r.Accepted("1")
				r.Accepted("2")
				time.Sleep(time.Second)
			}
			require.LessOrEqual(t, g.made()-before, 21, "one call in each second while Redis does not respond")
			g.set(nil, false)
			time.Sleep(3 * time.Second)
		}
		require.EqualValues(t, 40, g.sum("1").Accepted)
		require.EqualValues(t, 40, g.sum("2").Accepted)
	})
}

func TestCountsOfALostGateAreGivenUp(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, _ func()) {
		g.set(stockgate.ErrNoGate, false)
		r.Accepted("1")
		time.Sleep(counting.GiveUpAfter + 2*time.Second)
		g.set(nil, false)
		r.Path("1")
		time.Sleep(2 * time.Second)
		require.Equal(t, stockgate.RequestCounts{Paths: 1}, g.sum("1"))

		g.set(stockgate.ErrBroken, false)
		r.Path("1")
		time.Sleep(2 * time.Second)
		g.set(nil, false)
		r.Path("1")
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 2, g.sum("1").Paths, "counts that Redis refuses are dropped at once")
	})
}

// Counts that are too old are not sent: Redis may have added them, and the record of that may have expired.
func TestOldCountsAreNotSent(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, _ func()) {
		g.set(stockgate.ErrUnavailable, true)
		r.Path("1")
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, 1, g.made())
		r.Path("1")
		g.mu.Lock()
		g.ahead, g.err = counting.GiveUpAfter, nil
		clear(g.last)
		g.mu.Unlock()
		time.Sleep(time.Second)
		require.Equal(t, 2, g.made())
		require.EqualValues(t, 2, g.sum("1").Paths)
	})
}

func TestMemoryIsBounded(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, _ *gates, _ func()) {
		for i := range 2 * maxActivities {
			r.Accepted(strconv.Itoa(i))
		}
		require.Equal(t, maxActivities, r.Len())
		time.Sleep(counting.IdleAfter + 3*time.Second)
		require.Zero(t, r.Len())
	})
}
