package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow is a fake Redis whose calls last until the test ends them.
type slow struct {
	mu          sync.Mutex
	groups      [][]stockgate.Request
	err         error
	confirmed   map[string]stockgate.Entry // what Confirm finds; nil: the gate waits for no replicas
	hold        chan struct{}              // calls wait until it is closed; nil means that they do not wait
	inFlight    atomic.Int32               // calls
	maxInFlight atomic.Int32
}

// damaged is the order_sn of an entry that cannot be read.
const damaged = "100000"

// unconfirmed is the order_sn of a purchase that no replica has.
const unconfirmed = "100002"

func (s *slow) Reserve(ctx context.Context, activityID string, requests []stockgate.Request) ([]stockgate.Verdict, error) {
	s.maxInFlight.Store(max(s.maxInFlight.Load(), s.inFlight.Add(1)))
	defer s.inFlight.Add(-1)
	s.mu.Lock()
	s.groups = append(s.groups, requests)
	err := s.err
	s.mu.Unlock()
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", stockgate.ErrUnavailable, ctx.Err())
		}
	}
	if err != nil {
		return nil, err
	}
	verdicts := make([]stockgate.Verdict, len(requests))
	for i, r := range requests {
		verdicts[i] = stockgate.Verdict{Outcome: stockgate.SoldOut}
		if r.OrderSN == damaged {
			verdicts[i] = stockgate.Verdict{Outcome: stockgate.Known, Entry: stockgate.Entry{OrderSN: r.OrderSN, Broken: true}}
			continue
		}
		if r.OrderSN == unconfirmed {
			verdicts[i] = stockgate.Verdict{Outcome: stockgate.Unconfirmed}
			continue
		}
		// An even order_sn is accepted.
		if n, _ := strconv.Atoi(r.OrderSN); n%2 == 0 {
			verdicts[i] = stockgate.Verdict{Outcome: stockgate.Accepted, Entry: stockgate.Entry{
				OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Status: stockgate.StatusQueued,
			}}
		}
	}
	return verdicts, nil
}

func (s *slow) Lookup(_ context.Context, _ string, sns []string) (map[string]stockgate.Entry, error) {
	if s.err != nil {
		return nil, s.err
	}
	found := map[string]stockgate.Entry{}
	for _, sn := range sns {
		switch sn {
		case "404":
		case damaged:
			found[sn] = stockgate.Entry{OrderSN: sn, Broken: true}
		default:
			found[sn] = stockgate.Entry{OrderSN: sn, UserID: "u", Status: stockgate.StatusCreated}
		}
	}
	return found, nil
}

func (s *slow) Allowances(
	_ context.Context, _ string, userIDs []string,
) ([]stockgate.Allowance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]stockgate.Allowance, len(userIDs))
	for i, id := range userIDs {
		all[i].Used = id == "full"
	}
	return all, s.err
}

func (s *slow) Purchases(context.Context, string, string) ([]string, error) {
	return []string{"1"}, s.err
}

func (s *slow) WaitsForReplicas() bool { return s.confirmed != nil }

func (s *slow) Confirm(
	_ context.Context, _ string, sns []string,
) (map[string]stockgate.Entry, error) {
	found := map[string]stockgate.Entry{}
	for _, sn := range sns {
		if e, ok := s.confirmed[sn]; ok {
			found[sn] = e
		}
	}
	return found, s.err
}

func (s *slow) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups)
}

func newGate(t *testing.T, r *slow, o Options) *Gate {
	t.Helper()
	if o.CallTimeout == 0 { // long enough for a machine under load
		o.CallTimeout, o.CallerWait = time.Minute, 2*time.Minute
	}
	if o.Queue == 0 {
		o.Queue = 10_000
	}
	g, err := New(r, telemetry.Discard(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { g.Close(context.Background()) })
	return g
}

func purchase(n int) core.Purchase {
	return core.Purchase{OrderSN: strconv.Itoa(n), UserID: "u" + strconv.Itoa(n), Lines: []contract.Line{{SKUID: "1", Qty: 1}}}
}

func TestCallersShareCallsAndEachGetsItsVerdict(t *testing.T) {
	r := &slow{hold: make(chan struct{})}
	woken := make(chan string, 1000)
	var journaled atomic.Int64
	g := newGate(t, r, Options{Accepted: func(activityID string, n int) { woken <- activityID; journaled.Add(int64(n)) }})
	const callers = 1000
	var wg sync.WaitGroup
	var waiting atomic.Int32
	for n := 1; n <= callers; n++ {
		wg.Go(func() {
			waiting.Add(1)
			v, err := g.Reserve(t.Context(), "7", purchase(n))
			if err != nil {
				t.Errorf("%d: %v", n, err)
				return
			}
			won := v.Outcome == core.Accepted
			if won != (n%2 == 0) || won && (v.Reservation.OrderSN != strconv.Itoa(n) || v.Reservation.ActivityID != "7") {
				t.Errorf("%d got %+v", n, v)
			}
		})
	}
	require.Eventually(t, func() bool {
		g.reserves.mu.Lock()
		defer g.reserves.mu.Unlock()
		q := g.reserves.queues["7"]
		return q != nil && len(q.waiting)+r.sent() == callers
	}, 30*time.Second, time.Millisecond)
	close(r.hold)
	wg.Wait()
	require.LessOrEqual(t, r.calls(), 1+(callers+stockgate.MaxGroup-1)/stockgate.MaxGroup+1)
	require.Equal(t, int32(1), r.maxInFlight.Load(), "one call of a gate at a time")
	require.Equal(t, "7", <-woken)
	require.LessOrEqual(t, len(woken), r.calls())
	require.Equal(t, int64(callers/2), journaled.Load())
	for _, group := range r.groups {
		require.LessOrEqual(t, len(group), stockgate.MaxGroup)
	}
}

func TestCallAfterASharedOneGathersRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call = time.Millisecond
		var groups [][]int
		g := &grouper[int, int]{
			call: func(_ context.Context, _ string, requests []int) ([]int, error) {
				groups = append(groups, requests)
				time.Sleep(call)
				return requests, nil
			},
			timeout: time.Second, maxWait: time.Second, maxGroup: 128, maxQueue: 1000, maxKeys: 1, gather: 2 * call,
		}
		began := time.Now()
		ask := func(n int) {
			_, err := g.do("7", n)
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
		g.close(t.Context())
	})
}

// sent returns the number of requests in the calls so far.
func (s *slow) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, g := range s.groups {
		n += len(g)
	}
	return n
}

func TestIdleGateCallsAtOnceAndKeepsNoGoroutine(t *testing.T) {
	r := &slow{}
	g := newGate(t, r, Options{})
	for n := range 5 {
		_, err := g.Reserve(t.Context(), strconv.Itoa(n+1), purchase(2))
		require.NoError(t, err)
	}
	require.Equal(t, 5, r.calls())
	require.Eventually(t, func() bool {
		g.reserves.mu.Lock()
		defer g.reserves.mu.Unlock()
		return len(g.reserves.queues) == 0
	}, 30*time.Second, time.Millisecond)
}

func TestGatesAreCalledConcurrently(t *testing.T) {
	r := &slow{hold: make(chan struct{})}
	g := newGate(t, r, Options{})
	var wg sync.WaitGroup
	for n := 1; n <= 3; n++ {
		wg.Go(func() { _, _ = g.Reserve(t.Context(), strconv.Itoa(n), purchase(n)) })
	}
	require.Eventually(t, func() bool { return r.inFlight.Load() == 3 }, 30*time.Second, time.Millisecond)
	close(r.hold)
	wg.Wait()
}

// A shared call goes on when one of its callers leaves.
func TestCancelledCallerDoesNotCancelTheOthers(t *testing.T) {
	r := &slow{hold: make(chan struct{})}
	g := newGate(t, r, Options{})
	cancelled, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	ask := func(ctx context.Context, n int) {
		wg.Go(func() {
			if v, err := g.Reserve(ctx, "7", purchase(n)); err != nil || v.Outcome != core.Accepted {
				t.Errorf("%d: %v %v", n, v, err)
			}
		})
	}
	ask(cancelled, 2)
	require.Eventually(t, func() bool { return r.inFlight.Load() == 1 }, 30*time.Second, time.Millisecond)
	for n := 4; n <= 20; n += 2 {
		ask(cancelled, n)
		ask(t.Context(), 20+n)
	}
	cancel()
	close(r.hold)
	wg.Wait()
}

func TestQueueIsBounded(t *testing.T) {
	r := &slow{hold: make(chan struct{})}
	g := newGate(t, r, Options{Queue: 2})
	var wg sync.WaitGroup
	ask := func() { wg.Go(func() { _, _ = g.Reserve(t.Context(), "7", purchase(2)) }) }
	ask()
	require.Eventually(t, func() bool { return r.inFlight.Load() == 1 }, 30*time.Second, time.Millisecond)
	ask()
	ask()
	require.Eventually(t, func() bool {
		g.reserves.mu.Lock()
		defer g.reserves.mu.Unlock()
		return len(g.reserves.queues["7"].waiting) == 2
	}, 30*time.Second, time.Millisecond)
	_, err := g.Reserve(t.Context(), "7", purchase(2))
	require.ErrorIs(t, err, core.ErrOverloaded)
	close(r.hold)
	wg.Wait()
}

func TestHangingCallEndsByItsTimeout(t *testing.T) {
	r := &slow{hold: make(chan struct{})}
	defer close(r.hold)
	g := newGate(t, r, Options{CallTimeout: 20 * time.Millisecond})
	_, err := g.Reserve(t.Context(), "7", purchase(2))
	require.ErrorIs(t, err, core.ErrUnavailable)
}

func TestErrorsAreConvertedToThoseOfCore(t *testing.T) {
	for in, want := range map[error]error{
		stockgate.ErrNoGate:      core.ErrNoGate,
		stockgate.ErrNoSale:      core.ErrNoSale,
		stockgate.ErrUnavailable: core.ErrUnavailable,
		stockgate.ErrBroken:      core.ErrUnavailable,
	} {
		g := newGate(t, &slow{err: in}, Options{})
		_, err := g.Reserve(t.Context(), "7", purchase(2))
		require.ErrorIs(t, err, want)
		_, _, err = g.Lookup(t.Context(), "7", "1")
		require.ErrorIs(t, err, want)
		_, err = g.LookupAll(t.Context(), "7", []string{"1"})
		require.ErrorIs(t, err, want)
		_, err = g.Purchases(t.Context(), "7", "u")
		require.ErrorIs(t, err, want)
	}
}

func TestLookup(t *testing.T) {
	g := newGate(t, &slow{}, Options{})
	got, ok, err := g.Lookup(t.Context(), "7", "1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, core.StatusCreated, got.Status)
	_, ok, err = g.Lookup(t.Context(), "7", "404")
	require.NoError(t, err)
	require.False(t, ok)
}

// While replicas are lost every purchase is unconfirmed. These are counted, and as a cause of their own not logged.
func TestUnconfirmedPurchasesAreCounted(t *testing.T) {
	tel, _ := telemetry.Recording()
	redis := &slow{confirmed: map[string]stockgate.Entry{}}
	g, err := New(redis, tel, Options{CallTimeout: time.Minute, CallerWait: 2 * time.Minute, Queue: 10})
	require.NoError(t, err)
	defer g.Close(context.Background())
	_, err = g.Reserve(t.Context(), "7", purchase(100_002))
	require.ErrorIs(t, err, core.ErrUnconfirmed)
	require.NotErrorIs(t, err, core.ErrUnavailable)
	_, _, err = g.Confirm(t.Context(), core.Reservation{ActivityID: "7", OrderSN: "1"}) // lost in a failover
	require.NoError(t, err)
	redis.err = stockgate.ErrUnconfirmed
	_, _, err = g.Confirm(t.Context(), core.Reservation{ActivityID: "7", OrderSN: "1"})
	require.ErrorIs(t, err, core.ErrUnconfirmed)
	require.NotErrorIs(t, err, core.ErrUnavailable)
	w := httptest.NewRecorder()
	tel.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Contains(t, w.Body.String(), "\nflashsale_seckill_gate_unconfirmed_total 3\n")
}

// The purchase as Lookup read it is not returned: another master may have been read since.
func TestConfirmReturnsWhatTheReplicasHave(t *testing.T) {
	r := core.Reservation{ActivityID: "7", OrderSN: "1", UserID: "u", Status: core.StatusQueued}
	got, ok, err := newGate(t, &slow{}, Options{}).Confirm(t.Context(), r)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, r, got, "it waits for no replica")

	redis := &slow{confirmed: map[string]stockgate.Entry{
		"1": {OrderSN: "1", UserID: "u", Status: stockgate.StatusCreated}, damaged: {OrderSN: damaged, Broken: true},
	}}
	g := newGate(t, redis, Options{})
	got, ok, err = g.Confirm(t.Context(), r)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, core.StatusCreated, got.Status)
	r.OrderSN = "2"
	_, ok, err = g.Confirm(t.Context(), r)
	require.NoError(t, err)
	require.False(t, ok)
	r.OrderSN = damaged
	_, _, err = g.Confirm(t.Context(), r)
	require.ErrorIs(t, err, core.ErrUnavailable)
}

// The buyer of a damaged entry gets a retryable error, because the entry will be rewritten. Callers that share the
// call do not.
func TestDamagedEntryIsUnavailableToItsBuyerOnly(t *testing.T) {
	g := newGate(t, &slow{}, Options{})
	_, _, err := g.Lookup(t.Context(), "7", damaged)
	require.ErrorIs(t, err, core.ErrUnavailable)
	_, err = g.Reserve(t.Context(), "7", purchase(100_000))
	require.ErrorIs(t, err, core.ErrUnavailable)
	all, err := g.LookupAll(t.Context(), "7", []string{"1", damaged})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Contains(t, all, "1")
}

// A request that waits too long gets an error and is never sent. Later requests are sent.
func TestCallerWaitsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, maxWait = 2 * time.Second, time.Second
		var sent []int
		g := &grouper[int, int]{
			timeout: timeout, maxWait: maxWait, maxGroup: 4, maxQueue: 100, maxKeys: 1,
			call: func(ctx context.Context, _ string, group []int) ([]int, error) {
				sent = append(sent, group...)
				if group[0] == 1 { // hangs
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return group, nil
			},
		}
		began := time.Now()
		var all sync.WaitGroup
		at := func(after time.Duration, n int, want error, replied time.Duration) {
			all.Go(func() {
				time.Sleep(after)
				got, err := g.do("k", n)
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
		g.close(t.Context())
	})
}

// Reply channels are reused. No caller gets the reply of another.
func TestEachCallerGetsItsOwnReply(t *testing.T) {
	g := grouper[int, int]{
		timeout: time.Minute, maxWait: time.Minute, maxGroup: 4, maxQueue: 100, maxKeys: 1,
		call: func(_ context.Context, _ string, requests []int) ([]int, error) { return requests, nil },
	}
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			for range 20 {
				if got, err := g.do("k", n); err != nil || got != n {
					t.Errorf("%d got %d, %v", n, got, err)
				}
			}
		})
	}
	wg.Wait()
	g.close(t.Context())
}

// While calls are in flight, a large group begins another call, up to the bound. Fewer requests wait for a call to
// end.
func TestSeveralCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, took = 3, time.Second
		var mu sync.Mutex
		now, most := 0, 0
		var sizes []int
		g := grouper[int, int]{
			timeout: time.Minute, maxWait: time.Minute, maxGroup: 1000, maxQueue: 1000, maxKeys: 1, calls: calls,
			call: func(_ context.Context, _ string, requests []int) ([]int, error) {
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
			},
		}
		begunCalls := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(sizes)
		}
		var wg sync.WaitGroup
		send := func(callers int) {
			for n := range callers {
				wg.Go(func() {
					got, err := g.do("k", n)
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
		g.close(t.Context())
		require.Empty(t, g.queues)
	})
}

func TestPanicIsReturnedToTheCallers(t *testing.T) {
	g := grouper[int, int]{timeout: time.Second, maxWait: 10 * time.Second, maxGroup: 1, maxQueue: 1, maxKeys: 1, call: func(context.Context, string, []int) ([]int, error) {
		panic("boom")
	}}
	_, err := g.do("k", 1)
	require.ErrorContains(t, err, "boom")
	g.call = func(context.Context, string, []int) ([]int, error) { return nil, nil }
	require.Eventually(t, func() bool {
		_, err = g.do("k", 1)
		return err != nil && !errors.Is(err, core.ErrOverloaded)
	}, 30*time.Second, time.Millisecond)
	require.ErrorContains(t, err, "0 results for 1 requests")
	g.close(t.Context())
	_, err = g.do("k", 1)
	require.ErrorIs(t, err, core.ErrOverloaded)
}

func TestClosedGateRefusesRequests(t *testing.T) {
	r := &slow{}
	g := newGate(t, r, Options{})
	g.Close(t.Context())
	_, err := g.Reserve(t.Context(), "7", purchase(2))
	require.ErrorIs(t, err, core.ErrOverloaded)
	require.Zero(t, r.calls())
}

// The journal entry continues the span of its caller's wait. The shared call is a child of that span.
func TestTraceOfACallerContinuesThroughTheGate(t *testing.T) {
	tel, spans := telemetry.Recording()
	r := &slow{}
	g, err := New(r, tel, Options{CallTimeout: time.Minute, CallerWait: 2 * time.Minute, Queue: 10})
	require.NoError(t, err)
	ctx, end := tel.Span(t.Context(), "POST", 0)
	_, err = g.Reserve(ctx, "7", purchase(2))
	end(nil)
	require.NoError(t, err)
	g.Close(t.Context())

	byName := map[string]tracetest.SpanStub{}
	for _, s := range tracetest.SpanStubsFromReadOnlySpans(spans.Ended()) {
		byName[s.Name] = s
	}
	wait, call := byName["gate reserve"], byName["redis reserve"]
	require.Equal(t, byName["POST"].SpanContext.SpanID(), wait.Parent.SpanID())
	require.Equal(t, wait.SpanContext.SpanID(), call.Parent.SpanID())
	require.Contains(t, r.groups[0][0].Traceparent, wait.SpanContext.SpanID().String())
}

func TestGathering(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		last    call
		waiting int
		calls   int
		enough  int
		wait    time.Duration
	}{
		"the first call":                         {waiting: 1},
		"after a single request":                 {last: call{1, ms}, waiting: 3},
		"few requests":                           {last: call{2, ms}, waiting: 1, enough: largeGroup, wait: gather},
		"few of many that come back":             {last: call{50, ms}, waiting: 14, enough: 48, wait: gather},
		"half of the callers":                    {last: call{32, ms}, waiting: 32, enough: 48, wait: ms / 2},
		"most of the callers":                    {last: call{16, ms}, waiting: 48},
		"a slow call does not lengthen the wait": {last: call{32, 100 * ms}, waiting: 32, enough: 48, wait: gather},
		"many callers":                           {last: call{128, ms}, waiting: 60, enough: fullGroup, wait: ms / 2},
		"a full group":                           {last: call{128, ms}, waiting: fullGroup},
		"few lookups":                            {last: call{50, ms}, waiting: 14, calls: 4, enough: largeGroup, wait: gather},
		"many lookups":                           {last: call{32, ms}, waiting: 32, calls: 4},
	} {
		t.Run(name, func(t *testing.T) {
			g := grouper[int, int]{gather: gather, maxGroup: 128, calls: c.calls}
			enough, wait := g.gathering(c.last, c.waiting)
			require.Equal(t, c.wait, wait)
			require.Equal(t, c.enough, enough)
		})
	}
	g := grouper[int, int]{maxGroup: 128}
	_, wait := g.gathering(call{50, ms}, 14)
	require.Zero(t, wait, "a grouper without gather")
}

// pacedGrouper returns a grouper whose calls take a millisecond and wait for delay.
func pacedGrouper(delay time.Duration, groups *[][]int) *grouper[int, int] {
	return &grouper[int, int]{
		call: func(_ context.Context, _ string, requests []int) ([]int, error) {
			*groups = append(*groups, requests)
			time.Sleep(time.Millisecond)
			return requests, nil
		},
		timeout: time.Second, maxWait: time.Second, maxGroup: 128, maxQueue: 40, maxKeys: 1,
		delay: func() time.Duration { return delay },
	}
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
						_, err := g.do("7", n)
						require.NoError(t, err)
					})
				}
				all.Wait()
				require.Equal(t, c.wait, time.Since(began))
				require.Len(t, groups, 1, "the requests of the pause share a call")
				g.close(t.Context())
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
			_, err := g.do("7", 1)
			require.NoError(t, err)
		})
		time.Sleep(time.Second)
		g.close(t.Context())
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
		g.waited = func(n int, mean time.Duration) { reports = append(reports, report{n, mean}) }
		var all sync.WaitGroup
		ask := func(after time.Duration, n int) {
			all.Go(func() {
				time.Sleep(after)
				_, err := g.do("7", n)
				require.NoError(t, err)
			})
		}
		ask(0, 1)                      // called after 10 ms, for 1 ms
		ask(10200*time.Microsecond, 2) // while that call is in flight
		ask(10600*time.Microsecond, 3)
		ask(15*time.Millisecond, 4) // in the pause after it
		all.Wait()
		require.Equal(t, []report{{1, 0}, {3, 1200 * time.Microsecond / 3}}, reports)
		g.close(t.Context())
	})
}
