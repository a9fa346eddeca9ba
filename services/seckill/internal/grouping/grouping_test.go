package grouping

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/services/seckill/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bounds = Bounds{CallTimeout: time.Minute, CallerWait: 2 * time.Minute, Queue: 1000}

// echo is a call whose results are the requests.
func echo(_ context.Context, _ string, requests []int) ([]int, error) { return requests, nil }

func TestIdleKeyIsCalledAtOnceAndKeepsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := New(Options{Bounds: bounds, Size: 4}, func(_ context.Context, _ string, requests []int) ([]int, error) {
			calls++
			return requests, nil
		})
		began := time.Now()
		for n := range 5 {
			_, err := g.Do(strconv.Itoa(n), n)
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, 5, calls)
		synctest.Wait()
		require.Empty(t, g.queues)
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		g := New(Options{Bounds: Bounds{CallTimeout: time.Minute, Queue: 2}, Size: 4},
			func(_ context.Context, _ string, requests []int) ([]int, error) {
				<-hold
				return requests, nil
			})
		var all sync.WaitGroup
		for n := range 3 { // one in a call, two in the queue
			all.Go(func() {
				_, err := g.Do("7", n)
				require.NoError(t, err)
			})
			synctest.Wait()
		}
		_, err := g.Do("7", 3)
		require.ErrorIs(t, err, core.ErrOverloaded)
		close(hold)
		all.Wait()
	})
}

func TestCallAfterASharedOneGathersRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call = time.Millisecond
		var groups [][]int
		g := New(Options{Bounds: bounds, Size: 128, Gathers: true},
			func(_ context.Context, _ string, requests []int) ([]int, error) {
				groups = append(groups, requests)
				time.Sleep(call)
				return requests, nil
			})
		began := time.Now()
		ask := func(n int) {
			_, err := g.Do("7", n)
			require.NoError(t, err)
		}
		ask(1)
		require.Equal(t, call, time.Since(began), "a single request does not wait")

		var all sync.WaitGroup
		at := func(after time.Duration, n int) { all.Go(func() { time.Sleep(after); ask(n) }) }
		at(0, 2)      // alone
		at(call/4, 3) // while 2 is in flight, with 4
		at(call/2, 4)
		at(call+call/2, 5)   // while these are in flight,
		at(3*call+call/2, 6) // and a request in the two milliseconds after them
		all.Wait()
		require.Equal(t, [][]int{{1}, {2}, {3, 4}, {5, 6}}, groups)
		require.Equal(t, call+5*call, time.Since(began))

		ask(7)
		require.Equal(t, call+6*call, time.Since(began), "idle again, so it does not wait")
		g.Close(t.Context())
	})
}

// A request that waits too long gets an error and is never sent. Later requests are sent.
func TestCallerWaitsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, maxWait = 2 * time.Second, time.Second
		var sent []int
		g := New(Options{Bounds: Bounds{CallTimeout: timeout, CallerWait: timeout + maxWait, Queue: 100}, Size: 4},
			func(ctx context.Context, _ string, group []int) ([]int, error) {
				sent = append(sent, group...)
				if group[0] == 1 { // hangs
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return group, nil
			})
		began := time.Now()
		var all sync.WaitGroup
		at := func(after time.Duration, n int, want error, replied time.Duration) {
			all.Go(func() {
				time.Sleep(after)
				got, err := g.Do("k", n)
				if !errors.Is(err, want) || err == nil && got != n || time.Since(began) != replied {
					t.Errorf("%d got %d, %v after %s", n, got, err, time.Since(began))
				}
			})
		}
		at(0, 1, context.DeadlineExceeded, timeout)
		at(time.Millisecond, 2, context.DeadlineExceeded, timeout)
		at(timeout-maxWait, 3, nil, timeout)
		all.Wait()
		require.Equal(t, []int{1, 3}, sent)
		g.Close(t.Context())
	})
}

// Reply channels are reused. No caller gets the reply of another.
func TestEachCallerGetsItsOwnReply(t *testing.T) {
	g := New(Options{Bounds: bounds, Size: 4}, echo)
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			for range 20 {
				if got, err := g.Do("k", n); err != nil || got != n {
					t.Errorf("%d got %d, %v", n, got, err)
				}
			}
		})
	}
	wg.Wait()
	g.Close(t.Context())
}

// While calls are in flight, a large group begins another call, up to the bound. Fewer requests wait for a call to
// end.
func TestSeveralCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, took = 3, time.Second
		var mu sync.Mutex
		now, most := 0, 0
		var sizes []int
		g := New(Options{Bounds: bounds, Size: 1000, Calls: calls},
			func(_ context.Context, _ string, requests []int) ([]int, error) {
				mu.Lock()
				now++
				most = max(most, now)
				sizes = append(sizes, len(requests))
				mu.Unlock()
				time.Sleep(took)
				mu.Lock()
				defer mu.Unlock()
				now--
				return requests, nil
			})
		begunCalls := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(sizes)
		}
		var wg sync.WaitGroup
		send := func(callers int) {
			for n := range callers {
				wg.Go(func() {
					got, err := g.Do("k", n)
					if err != nil || got != n {
						t.Errorf("%d got %d, %v", n, got, err)
					}
				})
			}
			synctest.Wait()
		}
		send(1)
		send(largeGroup - 1)
		require.Equal(t, []int{1}, begunCalls(), "too few for another call")
		send(1)
		require.Equal(t, []int{1, largeGroup}, begunCalls())
		send(largeGroup)
		send(10 * largeGroup)
		require.Equal(t, []int{1, largeGroup, largeGroup}, begunCalls(), "at most three calls in flight")
		wg.Wait()
		require.Equal(t, []int{1, largeGroup, largeGroup, 10 * largeGroup}, begunCalls())
		require.Equal(t, calls, most)
		g.Close(t.Context())
		require.Empty(t, g.queues)
	})
}

func TestPanicIsReturnedToTheCallers(t *testing.T) {
	g := New(Options{Bounds: Bounds{CallTimeout: time.Second, CallerWait: 11 * time.Second, Queue: 1}, Size: 1},
		func(context.Context, string, []int) ([]int, error) { panic("boom") })
	_, err := g.Do("k", 1)
	require.ErrorContains(t, err, "boom")
	g.call = func(context.Context, string, []int) ([]int, error) { return nil, nil }
	require.Eventually(t, func() bool {
		_, err = g.Do("k", 1)
		return err != nil && !errors.Is(err, core.ErrOverloaded)
	}, 30*time.Second, time.Millisecond)
	require.ErrorContains(t, err, "0 results for 1 requests")
	g.Close(t.Context())
	_, err = g.Do("k", 1)
	require.ErrorIs(t, err, core.ErrOverloaded)
}

func TestGathering(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		last    lastCall
		waiting int
		calls   int
		enough  int
		wait    time.Duration
	}{
		"the first call":                         {waiting: 1},
		"after a single request":                 {last: lastCall{1, ms}, waiting: 3},
		"few requests":                           {last: lastCall{2, ms}, waiting: 1, enough: largeGroup, wait: gather},
		"few of many that come back":             {last: lastCall{50, ms}, waiting: 14, enough: 48, wait: gather},
		"half of the callers":                    {last: lastCall{32, ms}, waiting: 32, enough: 48, wait: ms / 2},
		"most of the callers":                    {last: lastCall{16, ms}, waiting: 48},
		"a slow call does not lengthen the wait": {last: lastCall{32, 100 * ms}, waiting: 32, enough: 48, wait: gather},
		"many callers":                           {last: lastCall{128, ms}, waiting: 60, enough: fullGroup, wait: ms / 2},
		"a full group":                           {last: lastCall{128, ms}, waiting: fullGroup},
		"few lookups":                            {last: lastCall{50, ms}, waiting: 14, calls: 4, enough: largeGroup, wait: gather},
		"many lookups":                           {last: lastCall{32, ms}, waiting: 32, calls: 4},
	} {
		t.Run(name, func(t *testing.T) {
			g := New(Options{Size: 128, Calls: c.calls, Gathers: true}, echo)
			enough, wait := g.gathering(c.last, c.waiting)
			require.Equal(t, c.wait, wait)
			require.Equal(t, c.enough, enough)
		})
	}
	g := New(Options{Size: 128}, echo)
	_, wait := g.gathering(lastCall{50, ms}, 14)
	require.Zero(t, wait, "calls that do not gather")
}

// pacedGrouper returns a grouper whose calls take a millisecond and wait for delay.
func pacedGrouper(delay time.Duration, groups *[][]int) *Grouper[int, int] {
	return New(Options{
		Bounds: Bounds{CallTimeout: time.Second, CallerWait: 2 * time.Second, Queue: 40}, Size: 128,
		Delay: func() time.Duration { return delay },
	}, func(_ context.Context, _ string, requests []int) ([]int, error) {
		*groups = append(*groups, requests)
		time.Sleep(time.Millisecond)
		return requests, nil
	})
}

func TestCallWaitsForItsPace(t *testing.T) {
	for name, c := range map[string]struct {
		delay, wait time.Duration
		requests    int
	}{
		"no delay":                    {requests: 1, wait: time.Millisecond},
		"a delay":                     {requests: 3, delay: 50 * time.Millisecond, wait: 51 * time.Millisecond},
		"not until a time-out":        {requests: 3, delay: time.Hour, wait: time.Second/4 + time.Millisecond},
		"not until the queue is full": {requests: 10, delay: time.Hour, wait: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var groups [][]int
				g := pacedGrouper(c.delay, &groups)
				began := time.Now()
				var all sync.WaitGroup
				for n := range c.requests {
					all.Go(func() {
						_, err := g.Do("7", n)
						require.NoError(t, err)
					})
				}
				all.Wait()
				require.Equal(t, c.wait, time.Since(began))
				require.Len(t, groups, 1, "the requests of the pause share a call")
				g.Close(t.Context())
			})
		})
	}
}

func TestCloseEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups [][]int
		g := pacedGrouper(time.Hour, &groups)
		g.maxWait = time.Hour
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := g.Do("7", 1)
			require.NoError(t, err)
		})
		time.Sleep(time.Second)
		g.Close(t.Context())
		all.Wait()
		require.Equal(t, time.Second+time.Millisecond, time.Since(began))
	})
}

// The wait that is reported is the wait for an earlier call, without pauses.
func TestWaitForTheCallBeforeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups [][]int
		g := pacedGrouper(10*time.Millisecond, &groups)
		type report struct {
			n    int
			mean time.Duration
		}
		var reports []report
		g.Waited = func(n int, mean time.Duration) { reports = append(reports, report{n, mean}) }
		var all sync.WaitGroup
		ask := func(after time.Duration, n int) {
			all.Go(func() {
				time.Sleep(after)
				_, err := g.Do("7", n)
				require.NoError(t, err)
			})
		}
		ask(0, 1)                      // called after 10 ms, for 1 ms
		ask(10200*time.Microsecond, 2) // while that call is in flight
		ask(10600*time.Microsecond, 3)
		ask(15*time.Millisecond, 4) // in the pause after it
		all.Wait()
		require.Equal(t, []report{{1, 0}, {3, 1200 * time.Microsecond / 3}}, reports)
		g.Close(t.Context())
	})
}
