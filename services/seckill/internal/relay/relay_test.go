package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is a fake of the journals of all gates. It records the events of each entry in their order.
type journal struct {
	mu          sync.Mutex
	activityIDs []string
	entries     map[string][]Entry
	pending     map[string]Entry
	events      map[string][]string // entry id -> read, published, acked
	readErr     error
	lenErr      map[string]error
	ackErrs     int // number of acknowledgements that fail
	next        int
}

func newJournal(activityIDs ...string) *journal {
	return &journal{activityIDs: activityIDs, entries: map[string][]Entry{}, pending: map[string]Entry{}, events: map[string][]string{}}
}

// add appends n reservations to a journal.
func (j *journal) add(activityID string, n int, traceparent string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range n {
		j.next++
		id := strconv.Itoa(j.next)
		j.entries[activityID] = append(j.entries[activityID], Entry{ID: id, Reservation: contract.Reservation{
			OrderSN: id, UserID: "u" + id, ActivityID: activityID, Lines: []contract.Line{{SKUID: "1", Qty: 1}},
			ReservedAt: time.Now(), Traceparent: traceparent,
		}})
	}
}

func (j *journal) Registered(context.Context) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.activityIDs), j.readErr
}

func (j *journal) Read(_ context.Context, activityID, _ string, limit int) ([]Entry, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.readErr != nil {
		return nil, false, j.readErr
	}
	n := min(limit, len(j.entries[activityID]))
	for n > 0 && n < len(j.entries[activityID]) && j.entries[activityID][n].ID == j.entries[activityID][n-1].ID {
		n--
	}
	out := j.entries[activityID][:n:n]
	j.entries[activityID] = j.entries[activityID][n:]
	for _, e := range out {
		j.pending[e.ID] = e
		j.events[e.ID] = append(j.events[e.ID], "read")
	}
	return out, len(j.entries[activityID]) > 0, nil
}

func (j *journal) Ack(_ context.Context, _ string, ids []string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ackErrs > 0 {
		j.ackErrs--
		return errors.New("ack failed")
	}
	for _, id := range ids {
		delete(j.pending, id)
		j.events[id] = append(j.events[id], "acked")
	}
	return nil
}

func (j *journal) Backlog(_ context.Context, activityID string) (Backlog, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := Backlog{Journaled: int64(len(j.entries[activityID]))}
	for _, e := range j.pending {
		if e.Reservation.ActivityID == activityID {
			b.Journaled++
		}
	}
	if b.Journaled > 0 { // as one more is published
		b.NotLanded, b.Oldest = b.Journaled+1, 7*time.Second
	}
	return b, j.lenErr[activityID]
}

func (j *journal) acked() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, e := range j.events {
		if e[len(e)-1] == "acked" {
			n++
		}
	}
	return n
}

// broker is a fake of the message bus.
type broker struct {
	j        *journal
	mu       sync.Mutex
	down     bool
	messages []bus.Message
	tries    int
}

func (b *broker) Publish(_ context.Context, m bus.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries++
	if b.down {
		return errors.New("no route")
	}
	b.messages = append(b.messages, m)
	items, bad := contract.Decode[contract.Reservation](m.Body)
	if len(bad) > 0 {
		return fmt.Errorf("bad items: %v", bad)
	}
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	for _, i := range items {
		b.j.events[i.OrderSN] = append(b.j.events[i.OrderSN], "published")
	}
	return nil
}

func (b *broker) set(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func (b *broker) sent() ([]bus.Message, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.messages), b.tries
}

// start runs a relay until the test ends or stop is called.
func start(t *testing.T, j *journal, b *broker, tel *telemetry.Telemetry) (r *Relay, stop func()) {
	t.Helper()
	r, err := New(j, b, tel, "me", func(string, int, time.Duration) time.Duration { return 0 })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { _ = r.Run(ctx) })
	stop = func() { cancel(); loop.Wait() }
	t.Cleanup(stop)
	return r, stop
}

// A length of 0 means that everything is published. While the backlog is unknown its metrics have no value.
func TestTheBacklogIsUnknownWhileRedisDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := "1", "2"
		j := newJournal(one, other)
		b := &broker{j: j, down: true}
		j.add(one, 3, "")
		tel, _ := telemetry.Recording()
		shown := func() []string { // journal, not landed, age of the oldest
			time.Sleep(2 * measureInterval)
			w := httptest.NewRecorder()
			tel.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return regexp.MustCompile(`(?m)^flashsale_seckill_(?:journal_length|not_landed).*`).FindAllString(w.Body.String(), -1)
		}
		three := []string{
			"flashsale_seckill_journal_length 3", "flashsale_seckill_not_landed 4", "flashsale_seckill_not_landed_age_seconds 7",
		}
		fail := func(list error, length map[string]error) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.readErr, j.lenErr = list, length
		}
		down := errors.New("redis does not respond")
		fail(down, nil)
		_, stop := start(t, j, b, tel)
		require.Empty(t, shown(), "the gates were never listed")
		fail(nil, nil)
		require.Equal(t, three, shown())
		fail(nil, map[string]error{other: down})
		require.Empty(t, shown(), "one of two gates is unknown")
		fail(down, nil)
		require.Empty(t, shown(), "new gates would be missing")
		fail(nil, nil)
		require.Equal(t, three, shown())
		stop()
	})
}

// After a full message the relay pauses as long as buyers need, and only then.
func TestRelayPausesAfterAFullMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 10 * time.Second
		j := newJournal(seven)
		j.add(seven, 2*contract.MaxItems+1, "")
		asked := make(chan int, 10)
		r, err := New(j, &broker{j: j}, telemetry.Discard(t), "me", func(activityID string, n int, _ time.Duration) time.Duration {
			require.Equal(t, seven, activityID)
			asked <- n
			return pause
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = r.Run(ctx) })
		for n := 1; n <= 2; n++ {
			time.Sleep(pause - time.Second)
			require.Equal(t, n*contract.MaxItems, j.acked())
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		require.Equal(t, 2*contract.MaxItems+1, j.acked())
		require.Len(t, asked, 2, "the last message was not full")
		require.Equal(t, contract.MaxItems, <-asked)
		cancel()
		loop.Wait()
	})
}

var (
	seven = "7"
	eight = "8"
)

func TestPublishesEachEntryOnceAndThenAcknowledgesIt(t *testing.T) {
	j := newJournal(seven, eight)
	b := &broker{j: j}
	j.add(seven, 600, "")
	j.add(eight, 3, "")
	start(t, j, b, telemetry.Discard(t))
	require.Eventually(t, func() bool { return j.acked() == 603 }, 30*time.Second, 5*time.Millisecond)

	messages, _ := b.sent()
	require.LessOrEqual(t, len(messages), 5, "256 to a message")
	seen := map[string]bool{}
	for _, m := range messages {
		require.Equal(t, contract.TopicReservations, m.Topic)
		items, _ := contract.Decode[contract.Reservation](m.Body)
		require.LessOrEqual(t, len(items), contract.MaxItems)
		for _, i := range items {
			require.False(t, seen[i.OrderSN])
			seen[i.OrderSN] = true
		}
	}
	require.Len(t, seen, 603)
	for id, events := range j.events {
		require.Equal(t, []string{"read", "published", "acked"}, events, id)
	}
}

// An unreadable entry is removed from the journal; the other entries of its batch are published.
func TestUnreadableEntryBlocksNoOther(t *testing.T) {
	j := newJournal(seven, eight)
	b := &broker{j: j}
	j.add(seven, 2, "")
	unreadable := errors.New("malformed entry")
	j.entries[seven] = append(j.entries[seven], Entry{ID: "malformed", Err: unreadable})
	j.add(seven, 2, "")
	j.entries[eight] = append(j.entries[eight], Entry{ID: "alone", Err: unreadable})
	start(t, j, b, telemetry.Discard(t))
	require.Eventually(t, func() bool { return j.acked() == 6 }, 30*time.Second, 5*time.Millisecond)
	messages, _ := b.sent()
	require.Len(t, messages, 1, "only the readable entries are published")
	items, bad := contract.Decode[contract.Reservation](messages[0].Body)
	require.Empty(t, bad)
	require.Len(t, items, 4)
	for id, events := range j.events {
		require.Equal(t, id == "malformed" || id == "alone", !slices.Contains(events, "published"), id)
	}
}

func TestEntriesStayPendingWhileTheBrokerIsDown(t *testing.T) {
	j := newJournal(seven)
	b := &broker{j: j, down: true}
	j.add(seven, 300, "")
	start(t, j, b, telemetry.Discard(t))
	require.Eventually(t, func() bool { _, tries := b.sent(); return tries >= 3 }, 30*time.Second, 5*time.Millisecond)
	require.Zero(t, j.acked())
	j.mu.Lock()
	require.Len(t, j.pending, contract.MaxItems, "at most one message is pending")
	j.mu.Unlock()
	b.set(false)
	require.Eventually(t, func() bool { return j.acked() == 300 }, 30*time.Second, 5*time.Millisecond)
}

func TestFailedAcknowledgementIsRetriedWithoutPublishingAgain(t *testing.T) {
	j := newJournal(seven)
	j.ackErrs = 2
	b := &broker{j: j}
	j.add(seven, 1, "")
	start(t, j, b, telemetry.Discard(t))
	require.Eventually(t, func() bool { return j.acked() == 1 }, 30*time.Second, 5*time.Millisecond)
	messages, _ := b.sent()
	require.Len(t, messages, 1)
}

func TestFailedReadIsRetried(t *testing.T) {
	j := newJournal(seven)
	j.readErr = errors.New("no redis")
	b := &broker{j: j}
	start(t, j, b, telemetry.Discard(t))
	j.add(seven, 1, "")
	j.mu.Lock()
	j.readErr = nil
	j.mu.Unlock()
	require.Eventually(t, func() bool { return j.acked() == 1 }, 30*time.Second, 5*time.Millisecond)
}

func TestAcceptedPurchaseIsPublishedBeforeTheNextPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(seven)
		r, stop := start(t, j, &broker{j: j}, telemetry.Discard(t))
		defer stop()
		for n := 1; n <= 20; n++ {
			time.Sleep(10*time.Second + time.Duration(n)*50*time.Millisecond) // polls are a second apart by now
			j.add(seven, 1, "")
			r.Accepted(seven)
			time.Sleep(maxBatchPause) // a batch may wait this long
			synctest.Wait()
			require.Equal(t, n, j.acked(), "published before the next poll")
		}
	})
}

func TestLoopsFollowTheListedGates(t *testing.T) {
	j := newJournal()
	b := &broker{j: j}
	r, _ := start(t, j, b, telemetry.Discard(t))
	j.add(seven, 1, "")
	j.mu.Lock()
	j.activityIDs = []string{seven}
	j.mu.Unlock()
	r.Accepted(seven) // of a gate that has no loop yet
	require.Eventually(t, func() bool { return j.acked() == 1 }, 30*time.Second, time.Millisecond)
	j.mu.Lock()
	j.activityIDs = nil
	j.mu.Unlock()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.loops) == 0
	}, 30*time.Second, time.Millisecond)
}

func TestStopPublishesTheRest(t *testing.T) {
	j := newJournal(seven)
	b := &broker{j: j, down: true}
	j.add(seven, 700, "")
	_, stop := start(t, j, b, telemetry.Discard(t))
	require.Eventually(t, func() bool { _, tries := b.sent(); return tries > 0 }, 30*time.Second, time.Millisecond)
	b.set(false)
	stop()
	require.Equal(t, 700, j.acked())
}

func TestStopPublishesThePendingBatchAndTheRest(t *testing.T) {
	j := newJournal(seven)
	b := &broker{j: j, down: true}
	j.add(seven, 1, "")
	_, stop := start(t, j, b, telemetry.Discard(t))
	require.Eventually(t, func() bool { _, tries := b.sent(); return tries > 3 }, 30*time.Second, time.Millisecond)
	j.add(seven, 5, "")
	b.set(false)
	stop()
	require.Equal(t, 6, j.acked())
}

func TestStopDoesNotWaitForABrokerThatIsDown(t *testing.T) {
	j := newJournal(seven)
	b := &broker{j: j, down: true}
	j.add(seven, 10, "")
	_, stop := start(t, j, b, telemetry.Discard(t))
	require.Eventually(t, func() bool { _, tries := b.sent(); return tries > 0 }, 30*time.Second, time.Millisecond)
	stop()
	require.Zero(t, j.acked())
}

func TestEachItemContinuesItsOwnTrace(t *testing.T) {
	tel, spans := telemetry.Recording()
	ctx, end := tel.Span(t.Context(), "purchase", 0)
	parent := telemetry.Traceparent(ctx)
	end(nil)
	j := newJournal(seven)
	b := &broker{j: j}
	j.add(seven, 1, parent)
	j.add(seven, 1, "")
	_, stop := start(t, j, b, tel)
	require.Eventually(t, func() bool { return j.acked() == 2 }, 30*time.Second, time.Millisecond)
	stop()

	messages, _ := b.sent()
	items, _ := contract.Decode[contract.Reservation](messages[0].Body)
	require.Len(t, items, 2)
	require.Empty(t, items[1].Traceparent)
	for _, s := range tracetest.SpanStubsFromReadOnlySpans(spans.Ended()) {
		if s.Name == "publish seckill-reservations" {
			require.Contains(t, parent, s.Parent.SpanID().String())
			require.Contains(t, items[0].Traceparent, s.SpanContext.SpanID().String())
			return
		}
	}
	t.Fatal("no publish span")
}

func TestSteadyStreamIsPublishedInBatches(t *testing.T) {
	j := newJournal(seven)
	b := &broker{j: j}
	start(t, j, b, telemetry.Discard(t))
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 300 {
		<-tick.C
		j.add(seven, 1, "")
	}
	took := time.Since(began)
	require.Eventually(t, func() bool { return j.acked() == 300 }, 30*time.Second, 5*time.Millisecond)
	messages, _ := b.sent()
	require.LessOrEqual(t, len(messages), 20+int(took/(maxBatchPause*3/4)), "messages of 300 purchases in %s", took)
}
