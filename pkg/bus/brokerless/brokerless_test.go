package brokerless_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/brokerless"
	"flashsale.internal/pkg/bus/bustest"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "secret-of-the-tests"

var errDown = errors.New("broker is down")

// broker is a broker in memory that may be unavailable.
type broker struct {
	bus.Bus
	down   atomic.Bool
	panics atomic.Bool
	tries  atomic.Int64
}

func newBroker() *broker {
	return &broker{Bus: inproc.New(inproc.Options{}, slog.New(slog.DiscardHandler))}
}

func (b *broker) Publish(ctx context.Context, m bus.Message) error {
	b.tries.Add(1)
	if b.panics.Load() {
		panic("client of the broker")
	}
	if b.down.Load() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errDown
	}
	return b.Bus.Publish(ctx, m)
}

// service is a process with an internal listener.
type service struct {
	*brokerless.Bus
	url string
}

// listen serves the brokerless messages of b as a service does.
func listen(t *testing.T, secrets ...string) (url string, serve func(b *brokerless.Bus)) {
	t.Helper()
	tel := telemetry.Discard(t)
	r := httpserver.NewRouter(tel, httpserver.Trusted(), httpserver.LargeBodies(contract.MaxBrokerlessBytes))
	r.Use(auth.Internal(secrets...))
	var mu sync.Mutex
	var handler http.Handler
	r.Post(contract.MessagesPath+"{topic}", func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, req)
	})
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return server.URL, func(b *brokerless.Bus) {
		mu.Lock()
		defer mu.Unlock()
		handler = b.Listener()
	}
}

// newService returns a service whose messages of topics go to the URLs in consumers, or to itself for "".
func newService(t *testing.T, b bus.Bus, after time.Duration, consumers map[string]string) service {
	t.Helper()
	url, serve := listen(t, secret)
	routes := map[string][]string{}
	for topic, at := range consumers {
		if at == "" {
			at = url
		}
		routes[topic] = []string{at}
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	d, err := brokerless.New(brokerless.Config{
		After: after, Consumers: routes, SecondPath: []string{"closings"}, Secrets: []string{secret},
	}, b, telemetry.Discard(t), transport)
	require.NoError(t, err)
	serve(d)
	return service{d, url}
}

// newSelf returns the bus of a process that consumes the topics t, closings and others itself. It is closed when the
// test ends.
func newSelf(t *testing.T, b bus.Bus, after time.Duration) *brokerless.Bus {
	t.Helper()
	d, err := brokerless.New(brokerless.Config{
		After: after, SecondPath: []string{"closings"},
		Consumers: map[string][]string{"t": {brokerless.Self}, "closings": {brokerless.Self}, "others": {brokerless.Self}},
	}, b, telemetry.Discard(t), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close(context.Background())) })
	return d
}

func (s service) close(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Close(context.Background()))
}

// TestConformanceWithABroker runs the whole suite: while the broker is available, nothing differs from it.
func TestConformanceWithABroker(t *testing.T) {
	for _, c := range bustest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				normal := inproc.New(inproc.Options{}, slog.New(slog.DiscardHandler))
				quick := inproc.New(inproc.Options{RetryMax: time.Second}, slog.New(slog.DiscardHandler))
				join := func(t *testing.T, b bus.Bus) bus.Bus {
					d, err := brokerless.New(brokerless.Config{
						After: 10 * time.Second, Consumers: map[string][]string{bustest.Topic: {brokerless.Self}},
					}, b, telemetry.Discard(t), nil)
					require.NoError(t, err)
					return d
				}
				c.Run(t, bustest.Broker{
					Join:                func(t *testing.T) bus.Bus { return join(t, normal.Join()) },
					JoinWithShortPauses: func(t *testing.T) bus.Bus { return join(t, quick.Join()) },
				})
			})
		})
	}
}

// TestConformanceWithoutABroker runs the cases that need no broker over HTTP.
func TestConformanceWithoutABroker(t *testing.T) {
	for _, c := range bustest.BrokerlessCases() {
		t.Run(c.Name, func(t *testing.T) {
			join := func(t *testing.T) bus.Bus {
				b := newBroker()
				b.down.Store(true)
				return newService(t, b, time.Millisecond, map[string]string{bustest.Topic: ""})
			}
			c.Run(t, bustest.Broker{Join: join, JoinWithShortPauses: join, Brokerless: true})
		})
	}
}

func accept(context.Context, bus.Delivery) error { return nil }

// eventually waits for a condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, 20*time.Second, 5*time.Millisecond, what)
}

func TestIsBrokerlessAfterATimeAndBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		d := newSelf(t, b, 10*time.Second)
		var handled atomic.Int64
		require.NoError(t, d.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, func(context.Context, bus.Delivery) error {
			handled.Add(1)
			return nil
		}))
		publish := func() error { return d.Publish(t.Context(), bus.Message{Topic: "t"}) }

		b.down.Store(true)
		began := time.Now()
		for publish() != nil {
			require.Equal(t, "closed", d.Breaker())
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Equal(t, "open", d.Breaker())
		require.EqualValues(t, 1, handled.Load(), "handled when Publish returns")

		tries := b.tries.Load()
		for range 100 {
			require.NoError(t, publish())
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 10, b.tries.Load()-tries, 3, "attempts at the broker in 10 s")
		require.EqualValues(t, 101, handled.Load())

		b.down.Store(false)
		began = time.Now()
		for d.Breaker() != "closed" {
			require.NoError(t, publish())
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, time.Since(began), 1300*time.Millisecond)
		tries = b.tries.Load()
		for range 10 {
			require.NoError(t, publish())
		}
		require.EqualValues(t, 10, b.tries.Load()-tries, "all go to the broker")
	})
}

func TestASuccessOfTheBrokerStartsTheTimeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		d := newSelf(t, b, 10*time.Second)
		require.NoError(t, d.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
		for i := range 100 { // every tenth message succeeds
			b.down.Store(i%10 != 0)
			_ = d.Publish(t.Context(), bus.Message{Topic: "t"})
			require.Equal(t, "closed", d.Breaker())
			time.Sleep(time.Second)
		}
	})
}

// A caller that gives up, and a client that panics, show nothing about the broker. Neither switches, nor stops its
// tests.
func TestOnlyFailuresOfTheBrokerCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		d := newSelf(t, b, 10*time.Second)
		require.NoError(t, d.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
		b.down.Store(true)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 0)
			require.ErrorIs(t, d.Publish(ctx, bus.Message{Topic: "t"}), context.DeadlineExceeded)
			cancel()
			time.Sleep(time.Second)
		}
		require.Equal(t, "closed", d.Breaker())

		for d.Publish(t.Context(), bus.Message{Topic: "t"}) != nil {
			time.Sleep(time.Second)
		}
		require.Equal(t, "open", d.Breaker())
		b.panics.Store(true)
		time.Sleep(2 * time.Second)
		require.Panics(t, func() { _ = d.Publish(t.Context(), bus.Message{Topic: "t"}) }, "a test of the broker")
		b.panics.Store(false)
		b.down.Store(false)
		require.NoError(t, d.Publish(t.Context(), bus.Message{Topic: "t"}))
		require.Equal(t, "closed", d.Breaker())
	})
}

func TestZeroSwitchesItOff(t *testing.T) {
	b := newBroker()
	b.down.Store(true)
	s := newService(t, b, 0, map[string]string{"t": ""})
	defer s.close(t)
	require.NoError(t, s.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
	for range 20 {
		require.ErrorIs(t, s.Publish(t.Context(), bus.Message{Topic: "t"}), errDown)
	}
	require.Equal(t, "closed", s.Breaker())
}

func TestATopicWithoutAConsumerFails(t *testing.T) {
	b := newBroker()
	b.down.Store(true)
	s := newService(t, b, time.Millisecond, map[string]string{"t": ""})
	defer s.close(t)
	eventually(t, "the switch", func() bool {
		_ = s.Publish(t.Context(), bus.Message{Topic: "t"})
		return s.Breaker() != "closed"
	})
	require.ErrorContains(t, s.Publish(t.Context(), bus.Message{Topic: "t"}), "404", "no group has subscribed yet")
	require.ErrorIs(t, s.Publish(t.Context(), bus.Message{Topic: "elsewhere"}), errDown)
}

// TestNestedMessages: seckill -> inventory -> order -> inventory, with one handler call at a time each.
func TestNestedMessages(t *testing.T) {
	downed := func() *broker {
		b := newBroker()
		b.down.Store(true)
		return b
	}
	urlA, serveA := listen(t, secret)
	urlB, serveB := listen(t, secret)
	tel := telemetry.Discard(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	open := func(after time.Duration, topic, url string) *brokerless.Bus {
		d, err := brokerless.New(brokerless.Config{
			After: after, Consumers: map[string][]string{topic: {url}}, Secrets: []string{secret},
		}, downed(), tel, transport)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close(context.Background())) })
		return d
	}
	// The two services in between have published nothing before, and must not wait for an hour.
	first, a, b := open(time.Millisecond, "one", urlA), open(time.Hour, "two", urlB), open(time.Hour, "three", urlA)
	serveA(a)
	serveB(b)
	one := func(topic string) bus.Subscription {
		return bus.Subscription{Topic: topic, Group: "of " + topic, Concurrency: 1}
	}
	var got sync.Map
	var failing atomic.Bool
	require.NoError(t, a.Subscribe(one("one"), func(ctx context.Context, d bus.Delivery) error {
		return a.Publish(ctx, bus.Message{Topic: "two", Body: d.Body})
	}))
	require.NoError(t, b.Subscribe(one("two"), func(ctx context.Context, d bus.Delivery) error {
		return b.Publish(ctx, bus.Message{Topic: "three", Body: d.Body})
	}))
	require.NoError(t, a.Subscribe(one("three"), func(ctx context.Context, d bus.Delivery) error {
		if failing.Load() {
			return errors.New("a step fails")
		}
		deadline, ok := ctx.Deadline()
		assert.True(t, ok)
		assert.Less(t, time.Until(deadline), 10*time.Second-3*150*time.Millisecond, "one deadline for all")
		got.Store(string(d.Body), true)
		return nil
	}))
	eventually(t, "the switch", func() bool { return first.Publish(t.Context(), bus.Message{Topic: "one"}) == nil })

	var publishers sync.WaitGroup
	bodies := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"}
	for _, body := range bodies {
		publishers.Go(func() {
			assert.NoError(t, first.Publish(t.Context(), bus.Message{Topic: "one", Body: []byte(body)}))
		})
	}
	publishers.Wait()
	for _, body := range bodies {
		_, found := got.Load(body)
		assert.True(t, found, body)
	}

	failing.Store(true)
	require.ErrorContains(t, first.Publish(t.Context(), bus.Message{Topic: "one"}), "503", "a failed step fails all")
	failing.Store(false)
	require.NoError(t, first.Publish(t.Context(), bus.Message{Topic: "one"}))
}

func TestEveryConsumerGetsTheMessage(t *testing.T) {
	b := newBroker()
	b.down.Store(true)
	tel := telemetry.Discard(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var got [2]atomic.Int64
	urls := make([]string, 2)
	for i := range urls {
		s := newService(t, newBroker(), time.Millisecond, nil)
		defer s.close(t)
		urls[i] = s.url
		require.NoError(t, s.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, func(context.Context, bus.Delivery) error {
			if got[i].Add(1) == 1 {
				return errors.New("the first one fails")
			}
			return nil
		}))
	}
	p, err := brokerless.NewPublisher(brokerless.Config{
		After: time.Millisecond, Consumers: map[string][]string{"t": urls}, Secrets: []string{secret},
	}, b, tel, transport)
	require.NoError(t, err)
	eventually(t, "both", func() bool { return p.Publish(t.Context(), bus.Message{Topic: "t"}) == nil })
	require.EqualValues(t, 3, got[0].Load(), "failed, handled, and handled again with the second one")
	require.EqualValues(t, 2, got[1].Load())
}

func TestDelayedMessagesCountAsSentOnlyWithASecondPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		d := newSelf(t, b, 10*time.Second)
		var handled atomic.Int64
		count := func(context.Context, bus.Delivery) error {
			handled.Add(1)
			return nil
		}
		for _, topic := range []string{"closings", "others"} {
			require.NoError(t, d.Subscribe(bus.Subscription{Topic: topic, Group: "of " + topic}, count))
		}
		publish := func(topic string, in time.Duration) error {
			return d.Publish(t.Context(), bus.Message{Topic: topic, DeliverAt: time.Now().Add(in)})
		}
		require.False(t, d.DelayedUnsent())
		b.down.Store(true)
		require.ErrorIs(t, publish("closings", time.Minute), errDown, "before the switch")
		time.Sleep(11 * time.Second)
		require.NoError(t, publish("closings", time.Minute))
		require.Error(t, publish("others", time.Minute))
		require.NoError(t, publish("closings", 0), "due messages are calls")
		require.EqualValues(t, 1, handled.Load())
		require.True(t, d.DelayedUnsent())

		b.down.Store(false)
		time.Sleep(2 * time.Second)
		require.NoError(t, publish("others", 0))
		require.Equal(t, "closed", d.Breaker())
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 2, handled.Load(), "nothing is sent late")
	})
}

// A process that publishes nothing learns from the messages that arrive that the broker is unavailable.
func TestDelayedUnsentFollowsAMessageThatArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSelf(t, newBroker(), time.Second)
		require.False(t, d.DelayedUnsent())
		d.Listener().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, contract.MessagesPath+"t", nil))
		time.Sleep(50 * time.Second)
		require.True(t, d.DelayedUnsent())
		time.Sleep(20 * time.Second)
		require.False(t, d.DelayedUnsent())
	})
}

func TestDelayedUnsentLastsUntilTheMessagesAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		d := newSelf(t, b, time.Second)
		b.down.Store(true)
		publish := func() error {
			return d.Publish(t.Context(), bus.Message{Topic: "closings", DeliverAt: time.Now().Add(time.Hour)})
		}
		for publish() != nil {
			time.Sleep(time.Second)
		}
		b.down.Store(false)
		for d.Breaker() != "closed" {
			require.NoError(t, publish())
			time.Sleep(time.Second)
		}
		time.Sleep(59 * time.Minute)
		require.True(t, d.DelayedUnsent())
		time.Sleep(3 * time.Minute)
		require.False(t, d.DelayedUnsent())
	})
}

func TestSecretsRotate(t *testing.T) {
	b := newBroker()
	b.down.Store(true)
	s := newService(t, newBroker(), time.Millisecond, nil) // accepts only secret
	defer s.close(t)
	require.NoError(t, s.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	publisher := func(secrets ...string) *brokerless.Publisher {
		p, err := brokerless.NewPublisher(brokerless.Config{
			After: time.Millisecond, Consumers: map[string][]string{"t": {s.url}}, Secrets: secrets,
		}, b, telemetry.Discard(t), transport)
		require.NoError(t, err)
		return p
	}
	p := publisher("new", secret)
	eventually(t, "the second secret", func() bool { return p.Publish(t.Context(), bus.Message{Topic: "t"}) == nil })
	p = publisher("wrong")
	eventually(t, "the switch", func() bool {
		err := p.Publish(t.Context(), bus.Message{Topic: "t"})
		return err != nil && !errors.Is(err, errDown)
	})
	require.ErrorContains(t, p.Publish(t.Context(), bus.Message{Topic: "t"}), "401")
}

func TestASilentConsumerCostsOneDeadline(t *testing.T) {
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-released:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	b := newBroker()
	b.down.Store(true)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p, err := brokerless.NewPublisher(brokerless.Config{
		After: time.Millisecond, Consumers: map[string][]string{"t": {server.URL}}, Secrets: []string{secret},
	}, b, telemetry.Discard(t), transport)
	require.NoError(t, err)
	publish := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		return p.Publish(ctx, bus.Message{Topic: "t"})
	}
	eventually(t, "a call that times out", func() bool { return errors.Is(publish(), context.DeadlineExceeded) })
	var callers sync.WaitGroup // more than calls may be in flight
	for range 40 {
		callers.Go(func() { assert.ErrorIs(t, publish(), context.DeadlineExceeded) })
	}
	callers.Wait()
}

func TestRefusesOversizedMessagesAndOtherCallers(t *testing.T) {
	s := newService(t, newBroker(), time.Millisecond, nil)
	defer s.close(t)
	require.NoError(t, s.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
	call := func(secret string, size int) int {
		w := newBodyRequest(t, s.url+contract.MessagesPath+"t", size)
		auth.SignInternal(w, secret)
		res, err := http.DefaultClient.Do(w)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	require.Equal(t, http.StatusNoContent, call(secret, contract.MaxBrokerlessBytes))
	require.Equal(t, http.StatusRequestEntityTooLarge, call(secret, contract.MaxBrokerlessBytes+1))
	require.Equal(t, http.StatusUnauthorized, call("wrong", 1))
}

func newBodyRequest(t *testing.T, url string, size int) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(make([]byte, size)))
	require.NoError(t, err)
	return r
}
