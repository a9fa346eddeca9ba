// Package bustest is the conformance suite of bus.Bus. Each implementation runs all Cases.
package bustest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
)

// Topic and groups that must exist in the broker of a case.
const (
	Topic  = "conformance"
	GroupA = "conformance-a"
	GroupB = "conformance-b"
)

// Broker is an empty broker for one case.
type Broker struct {
	// Join connects one more member, as another process would. The case closes it.
	Join func(t *testing.T) bus.Bus
	// JoinWithShortPauses is Join with pauses of at most about one second before each redelivery.
	JoinWithShortPauses func(t *testing.T) bus.Bus
	// Brokerless is set for BrokerlessCases: Publish returns after the handlers, and a repeated message is a new one.
	Brokerless bool
	// MayRedeliverAfterClose is set if the results that a closing member sends to the broker may be lost.
	MayRedeliverAfterClose bool
}

// Case is one test of the suite.
type Case struct {
	Name string
	Run  func(t *testing.T, b Broker)

	needsBroker bool // which keeps messages, redelivers them and shares them between members
}

const (
	patience   = 40 * time.Second // bound of eventually; a real broker on a loaded machine is slow
	maxLate    = 2 * time.Second  // bound of the lateness of delayed messages, compared with one without a delay
	quiet      = 3 * time.Second  // duration of never
	closeLimit = 20 * time.Second
)

// Cases returns all tests of the suite.
func Cases() []Case {
	return []Case{
		{Name: "delivers a published message", Run: deliversAPublishedMessage},
		{Name: "keeps messages until a group subscribes", Run: keepsMessagesUntilAGroupSubscribes, needsBroker: true},
		{Name: "redelivers without a cap", Run: redeliversWithoutACap, needsBroker: true},
		{Name: "pauses longer after each failure", Run: pausesLongerAfterEachFailure, needsBroker: true},
		{Name: "delivers at the requested time", Run: deliversAtTheRequestedTime, needsBroker: true},
		{Name: "redelivers a delayed message", Run: redeliversADelayedMessage, needsBroker: true},
		{Name: "rejects a delay beyond the maximum", Run: rejectsADelayBeyondTheMaximum},
		{Name: "shares messages between members of a group", Run: sharesMessagesBetweenMembersOfAGroup, needsBroker: true},
		{Name: "delivers every message to each group", Run: deliversEveryMessageToEachGroup},
		{Name: "takes over from a lost member", Run: takesOverFromALostMember, needsBroker: true},
		{Name: "survives a panic", Run: survivesAPanic},
		{Name: "ends a handler's context", Run: endsAHandlersContext},
		{Name: "bounds handler calls", Run: boundsHandlerCalls},
		{Name: "drains on close", Run: drainsOnClose, needsBroker: true},
		{Name: "fails after close", Run: failsAfterClose},
		{Name: "rejects invalid subscriptions", Run: rejectsInvalidSubscriptions},
	}
}

// BrokerlessCases returns the tests that also hold for a transport without a broker, which keeps and redelivers
// nothing.
func BrokerlessCases() []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool { return c.needsBroker })
}

// log records deliveries and their times.
type log struct {
	mu         sync.Mutex
	deliveries []bus.Delivery
	at         []time.Time
}

func (l *log) add(d bus.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries = append(l.deliveries, d)
	l.at = append(l.at, time.Now())
}

func (l *log) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.deliveries)
}

// bodies returns how often each body was delivered.
func (l *log) bodies() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := make(map[string]int)
	for _, d := range l.deliveries {
		n[string(d.Body)]++
	}
	return n
}

// accept is a handler that records and acknowledges.
func (l *log) accept(_ context.Context, d bus.Delivery) error {
	l.add(d)
	return nil
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(t, "waited in vain for "+what)
		}
	}
}

// never fails if the event happens within quiet.
func never(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(quiet); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		require.False(t, happened(), what)
	}
}

// publish retries until the message is confirmed: right after a topic was created, a real broker may not have it yet.
func publish(t *testing.T, b bus.Bus, m bus.Message) {
	t.Helper()
	m.Topic = Topic
	eventually(t, "a confirmed publish", func() bool { return b.Publish(t.Context(), m) == nil })
}

func publishAll(t *testing.T, b bus.Bus, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		publish(t, b, bus.Message{Body: []byte(strconv.Itoa(i))})
	}
}

func subscribe(t *testing.T, b bus.Bus, group string, h bus.Handler) {
	t.Helper()
	require.NoError(t, b.Subscribe(bus.Subscription{Topic: Topic, Group: group}, h))
}

// end closes a member within closeLimit.
func end(t *testing.T, b bus.Bus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	require.NoError(t, b.Close(ctx))
}

func deliversAPublishedMessage(t *testing.T, b Broker) {
	m := b.Join(t)
	defer end(t, m)
	var got log
	subscribe(t, m, GroupA, got.accept)
	publish(t, m, bus.Message{Keys: []string{"k1", "k2"}, Body: []byte(`{"v":1}`)})
	eventually(t, "the message", func() bool { return got.len() > 0 })
	d := got.deliveries[0]
	assert.Equal(t, Topic, d.Topic)
	assert.Equal(t, []string{"k1", "k2"}, d.Keys)
	assert.Equal(t, `{"v":1}`, string(d.Body))
	assert.Equal(t, 1, d.Attempt)
	assert.NotEmpty(t, d.ID)
}

func keepsMessagesUntilAGroupSubscribes(t *testing.T, b Broker) {
	m := b.Join(t)
	defer end(t, m)
	publishAll(t, m, 0, 20)
	var got log
	subscribe(t, m, GroupA, got.accept)
	eventually(t, "the messages", func() bool { return len(got.bodies()) == 20 })
}

func redeliversWithoutACap(t *testing.T, b Broker) {
	const failures = 18 // a default RocketMQ consumer gives up after 16
	m := b.JoinWithShortPauses(t)
	defer end(t, m)
	var got log
	subscribe(t, m, GroupA, func(_ context.Context, d bus.Delivery) error {
		got.add(d)
		if d.Attempt <= failures {
			return errors.New("not yet")
		}
		return nil
	})
	publish(t, m, bus.Message{Body: []byte("x")})
	eventually(t, "the last attempt", func() bool { return got.len() > failures })
	for i, d := range got.deliveries {
		assert.Equal(t, i+1, d.Attempt)
		assert.Equal(t, Topic, d.Topic)
		assert.Equal(t, got.deliveries[0].ID, d.ID)
	}
	never(t, "redelivered after it was acknowledged", func() bool { return got.len() > failures+1 })
}

func pausesLongerAfterEachFailure(t *testing.T, b Broker) {
	m := b.Join(t)
	defer end(t, m)
	var got log
	subscribe(t, m, GroupA, func(_ context.Context, d bus.Delivery) error {
		got.add(d)
		if d.Attempt < 4 {
			return errors.New("not yet")
		}
		return nil
	})
	publish(t, m, bus.Message{Body: []byte("x")})
	eventually(t, "the fourth attempt", func() bool { return got.len() == 4 })
	first, third := got.at[1].Sub(got.at[0]), got.at[3].Sub(got.at[2])
	assert.Greater(t, first, 400*time.Millisecond, "the first pause")
	assert.Greater(t, third, first, "the third pause against the first")
}

func deliversAtTheRequestedTime(t *testing.T, b Broker) {
	m := b.Join(t)
	defer end(t, m)
	var got log
	subscribe(t, m, GroupA, got.accept)
	due, confirmed := make(map[string]time.Time), make(map[string]time.Time)
	begin := time.Now()
	var prompt sync.WaitGroup // publishes one message without a delay at each delivery time in the future
	defer prompt.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i, in := range []time.Duration{
		-time.Hour, 0, 2500 * time.Millisecond, 3001 * time.Millisecond,
		5 * time.Second,
	} {
		at := begin.Add(in)
		if in > 0 {
			body := fmt.Sprintf("prompt-%d", i)
			due[body] = at
			prompt.Go(func() {
				time.Sleep(time.Until(at))
				for m.Publish(ctx, bus.Message{Topic: Topic, Body: []byte(body)}) != nil && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		for j := range 4 {
			body := fmt.Sprintf("%d-%d", i, j)
			due[body] = at
			publish(t, m, bus.Message{Body: []byte(body), DeliverAt: at})
			confirmed[body] = time.Now()
		}
	}
	eventually(t, "the messages", func() bool { return len(got.bodies()) == len(due) })
	first := make(map[string]time.Time)
	for i, d := range got.deliveries {
		body := string(d.Body)
		assert.False(t, got.at[i].Before(due[body]), "message %s came early", body)
		if first[body].IsZero() {
			first[body] = got.at[i]
		}
	}
	for body, at := range first {
		prompt, delayed := first["prompt-"+body[:1]]
		if !delayed || confirmed[body].IsZero() {
			continue
		}
		// On a busy machine the message without a delay is late too, and a message may be confirmed after its time.
		bare := slices.MaxFunc([]time.Time{due[body], confirmed[body], prompt}, time.Time.Compare)
		assert.LessOrEqual(t, at.Sub(bare), maxLate, "message %s came late", body)
	}
}

func redeliversADelayedMessage(t *testing.T, b Broker) {
	m := b.JoinWithShortPauses(t)
	defer end(t, m)
	var got log
	subscribe(t, m, GroupA, func(_ context.Context, d bus.Delivery) error {
		got.add(d)
		if d.Attempt < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	publish(t, m, bus.Message{Body: []byte("x"), DeliverAt: time.Now().Add(2 * time.Second)})
	eventually(t, "the third attempt", func() bool { return got.len() == 3 })
	never(t, "redelivered after it was acknowledged", func() bool { return got.len() > 3 })
}

func rejectsADelayBeyondTheMaximum(t *testing.T, b Broker) {
	m := b.Join(t)
	defer end(t, m)
	err := m.Publish(t.Context(), bus.Message{Topic: Topic, DeliverAt: time.Now().Add(bus.MaxDelay + time.Hour)})
	require.ErrorIs(t, err, bus.ErrTooFar)
}
