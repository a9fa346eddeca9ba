package suspects

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

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/stockgate/counting"
	"flashsale.internal/services/seckill/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gates is a fake that counts each call of an activity once, as Redis does.
type gates struct {
	mu    sync.Mutex
	calls int
	err   error // of every call
	lost  bool  // the reply: the counts are added, and err is returned
	last  map[string]time.Time
	sums  map[string]int64 // activity, key
	most  int              // keys in one call
}

func (g *gates) AddSuspects(_ context.Context, id, source string, until time.Time, s stockgate.Suspects) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.err != nil && !g.lost {
		return g.err
	}
	if source != "me" {
		return fmt.Errorf("source %s", source)
	}
	g.most = max(g.most, len(s.Addresses), len(s.Users))
	if until.After(g.last[id]) {
		g.last[id] = until
		for _, one := range append(s.Addresses, s.Users...) {
			g.sums[id+" "+one.Key] += one.Total()
		}
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

func (g *gates) sum(id, key string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sums[id+" "+key]
}

// record runs a test with a recorder, whose activities 1 and 2 exist.
func record(t *testing.T, test func(t *testing.T, r *Recorder, g *gates, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gates{last: map[string]time.Time{}, sums: map[string]int64{}}
		r := NewRecorder(g, counting.Options{
			Source: "me", Log: slog.New(slog.DiscardHandler), Now: func(context.Context) time.Time { return time.Now() },
			Known: func(id string) bool { return id == "1" || id == "2" || len(id) > 5 },
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

func TestSuspectsAreAddedEveryFewSeconds(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, stop func()) {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				r.Address("1", "192.0.2.1", core.RateLimited)
				r.User("1", "ann", core.Early)
				r.User("2", "ann", core.VoidedPath)
				r.User("3", "ann", core.VoidedPath) // does not exist
				r.Address("1", "", core.RateLimited)
				r.User("1", "", core.RateLimited)
			})
		}
		all.Wait()
		require.Zero(t, g.made(), "no call per request")
		time.Sleep(flushEvery + time.Second)
		require.Equal(t, 2, g.made(), "one for each activity")
		require.Equal(t, []int64{50, 50, 50, 0}, []int64{g.sum("1", "192.0.2.1"), g.sum("1", "ann"), g.sum("2", "ann"), g.sum("3", "ann")})
		require.Zero(t, g.sum("1", ""))
		time.Sleep(3 * flushEvery)
		require.Equal(t, 2, g.made(), "nothing to add")

		r.User("1", "bob", core.Early)
		stop()
		require.EqualValues(t, 1, g.sum("1", "bob"), "the last flush is that of the end")
	})
}

func TestSuspectsSurviveAnOutageAndALostReply(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, _ func()) {
		for _, lost := range []bool{false, true} {
			g.set(fmt.Errorf("%w: down", stockgate.ErrUnavailable), lost)
			before := g.made()
			for range 10 {
				r.User("1", "ann", core.Early)
				r.User("2", "ann", core.Early)
				time.Sleep(flushEvery)
			}
			time.Sleep(time.Second)
			require.LessOrEqual(t, g.made()-before, 11, "one call in each interval while Redis does not respond")
			g.set(nil, false)
			time.Sleep(3 * flushEvery)
		}
		require.Equal(t, []int64{20, 20}, []int64{g.sum("1", "ann"), g.sum("2", "ann")})
	})
}

func TestSuspectsOfALostGateAreDropped(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, _ func()) {
		g.set(stockgate.ErrNoGate, false)
		r.User("1", "ann", core.Early)
		time.Sleep(counting.GiveUpAfter + 2*flushEvery)
		g.set(nil, false)
		r.User("1", "bob", core.Early)
		time.Sleep(2 * flushEvery)
		require.Equal(t, []int64{0, 1}, []int64{g.sum("1", "ann"), g.sum("1", "bob")})

		g.set(stockgate.ErrBroken, false)
		r.User("1", "ann", core.Early)
		time.Sleep(flushEvery + time.Second)
		g.set(nil, false)
		time.Sleep(2 * flushEvery)
		require.Zero(t, g.sum("1", "ann"), "counts that Redis refuses are dropped at once")
	})
}

func TestMemoryIsBounded(t *testing.T) {
	record(t, func(t *testing.T, r *Recorder, g *gates, _ func()) {
		for i := range 2 * maxActivities {
			r.User(strconv.Itoa(1_000_000+i), "ann", core.Early)
		}
		for i := range 3 * keptKeys {
			r.User("1000000", strconv.Itoa(i), core.Early)
			r.Address("1000000", strconv.Itoa(i), core.Early)
		}
		require.Equal(t, maxActivities, r.Len())
		time.Sleep(counting.IdleAfter + 3*flushEvery)
		g.mu.Lock()
		require.Equal(t, keptKeys, g.most)
		g.mu.Unlock()
		require.Zero(t, r.Len())
	})
}
