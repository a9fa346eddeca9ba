package gate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	"flashsale.internal/services/seckill/internal/grouping"
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

func (s *slow) Purchases(context.Context, string, string) (stockgate.BuyerPurchases, error) {
	return stockgate.BuyerPurchases{OrderSNs: []string{"1"}}, s.err
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

func newGate(t *testing.T, r *slow, o Options) *SharedCalls {
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
	synctest.Test(t, func(t *testing.T) {
		r := &slow{hold: make(chan struct{})}
		woken := make(chan string, 1000)
		var journaled atomic.Int64
		g := newGate(t, r, Options{Accepted: func(activityID string, n int) { woken <- activityID; journaled.Add(int64(n)) }})
		const callers = 1000
		var wg sync.WaitGroup
		for n := 1; n <= callers; n++ {
			wg.Go(func() {
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
		synctest.Wait() // all of them wait
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
	})
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

func TestHangingCallEndsByItsTimeout(t *testing.T) {
	r := &slow{hold: make(chan struct{})}
	defer close(r.hold)
	g := newGate(t, r, Options{Bounds: grouping.Bounds{CallTimeout: 20 * time.Millisecond}})
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
		_, err = g.OfUser(t.Context(), "7", "u")
		require.ErrorIs(t, err, want)
	}
}

func TestEveryOutcomeOfTheGateIsConverted(t *testing.T) {
	for o := stockgate.Known; o <= stockgate.Accepted; o++ {
		_, err := toVerdict("7", stockgate.Verdict{Outcome: o})
		if err != nil {
			require.NotContains(t, err.Error(), "unknown outcome", o)
		}
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
	g, err := New(redis, tel, Options{
		Bounds: grouping.Bounds{CallTimeout: time.Minute, CallerWait: 2 * time.Minute, Queue: 10},
	})
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
	g, err := New(r, tel, Options{
		Bounds: grouping.Bounds{CallTimeout: time.Minute, CallerWait: 2 * time.Minute, Queue: 10},
	})
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
