package rocketmq

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
)

// desk calls a subscription as the client library does, without a broker.
type desk struct {
	sub  *subscription
	c    *consumerObject
	work sync.WaitGroup
}

func newDesk(t *testing.T, h bus.Handler) *desk {
	t.Helper()
	s := bus.Subscription{Topic: "t", Group: "g"}.WithDefaults()
	return &desk{sub: newSubscription(Config{}, s, h, testLog().With("test", t.Name())), c: &consumerObject{down: make(chan struct{})}}
}

// give hands in a message. The result, and the pause level if it is to come again, come over the channel.
func (d *desk) give(body string) <-chan result {
	out := make(chan result, 1)
	d.work.Go(func() {
		cc := primitive.NewConsumeConcurrentlyContext()
		m := &primitive.MessageExt{Message: primitive.Message{Body: []byte(body)}, MsgId: body}
		out <- result{d.sub.consume(primitive.WithConcurrentlyCtx(context.Background(), cc), d.c, m), cc.DelayLevelWhenNextConsume}
	})
	return out
}

// failed waits until so many attempts in a row have failed.
func (d *desk) failed(t *testing.T, attempts int) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.sub.tries.mu.Lock()
		defer d.sub.tries.mu.Unlock()
		return d.sub.tries.failures >= attempts
	}, 30*time.Second, time.Millisecond)
}

type result struct {
	of    consumer.ConsumeResult
	level int
}

func soonComes(t *testing.T, out <-chan result) result {
	t.Helper()
	select {
	case r := <-out:
		return r
	case <-time.After(30 * time.Second):
		require.Fail(t, "the client was not answered")
		return result{}
	}
}

// While what every message needs is away they wait here, few calls are made, and all are handled soon after its return.
func TestAnOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	var calls atomic.Int64
	d := newDesk(t, func(context.Context, bus.Delivery) error {
		calls.Add(1)
		if away.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	const messages = 20
	var outs []<-chan result
	for i := range messages {
		outs = append(outs, d.give(strconv.Itoa(i)))
	}
	require.Eventually(t, func() bool { return calls.Load() >= messages }, 30*time.Second, time.Millisecond, "each is tried once")
	time.Sleep(6 * time.Second) // the length of the outage
	tried := calls.Load() - messages
	assert.LessOrEqual(t, tried, int64(8), "one at a time is tried again")
	assert.GreaterOrEqual(t, tried, int64(2))
	away.Store(false)
	back := time.Now()
	for _, out := range outs {
		require.Equal(t, consumer.ConsumeSuccess, soonComes(t, out).of)
	}
	t.Logf("%d tries in 6 s; all %d handled %s after the end", tried, messages, time.Since(back).Round(time.Millisecond))
	d.work.Wait()
}

// A message that fails by itself holds up nobody and comes again from the broker, after a pause that grows with its attempts.
func TestAMessageThatFailsByItselfGoesBack(t *testing.T) {
	t.Parallel()
	begun, others := make(chan struct{}), make(chan struct{})
	d := newDesk(t, func(ctx context.Context, m bus.Delivery) error {
		if string(m.Body) != "bad" {
			return nil
		}
		close(begun)
		select {
		case <-others:
		case <-ctx.Done():
		}
		return errors.New("not this one")
	})
	bad := d.give("bad")
	<-begun
	require.Equal(t, consumer.ConsumeSuccess, soonComes(t, d.give("good")).of)
	close(others)
	assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, soonComes(t, bad))
	d.work.Wait()
}

// Also when it comes first: as soon as another one is handled the rest is not an outage.
func TestAMessageThatFailsByItselfIsFoundOut(t *testing.T) {
	t.Parallel()
	failed := make(chan struct{}, 100)
	var again atomic.Bool
	d := newDesk(t, func(ctx context.Context, m bus.Delivery) error {
		switch {
		case string(m.Body) != "bad":
			return nil
		case again.Load(): // meanwhile another one is handled
			return errors.Join(errors.New("still not this one"), ctx.Err())
		}
		failed <- struct{}{}
		return errors.New("not this one")
	})
	bad := d.give("bad")
	<-failed
	again.Store(true)
	stop := make(chan struct{})
	var good sync.WaitGroup
	good.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				<-d.give("good " + strconv.Itoa(n))
			}
		}
	})
	assert.Equal(t, consumer.ConsumeRetryLater, soonComes(t, bad).of)
	close(stop)
	good.Wait()
	d.work.Wait()
}

// Once another message has got through, each that failed before is tried once more and then goes back: what fails quickly must
// not take a turn whenever anything succeeds.
func TestWhatFailedBeforeAndAfterASuccessGoesBack(t *testing.T) {
	t.Parallel()
	const messages = 20
	var calls atomic.Int64
	d := newDesk(t, func(_ context.Context, m bus.Delivery) error {
		if string(m.Body) == "good" {
			return nil
		}
		calls.Add(1)
		return errors.New("not this one")
	})
	d.sub.tries = newTries(time.Hour, time.Hour) // they wait for a success
	var outs []<-chan result
	for range messages {
		outs = append(outs, d.give("bad"))
	}
	d.failed(t, messages)
	require.Equal(t, consumer.ConsumeSuccess, soonComes(t, d.give("good")).of)
	for _, out := range outs {
		assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, soonComes(t, out))
	}
	assert.EqualValues(t, 2*messages, calls.Load())
	d.work.Wait()
}

// Nobody waits here for longer than agreed, whether for a turn or for a slot: others need the place, and the client would in
// the end send the message back by itself while it is still here.
func TestTheBrokerGetsBackWhatHasWaitedForLong(t *testing.T) {
	t.Parallel()
	t.Run("for a turn", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, func(context.Context, bus.Delivery) error { return errors.New("connection refused") })
		d.sub.tries, d.sub.holdFor = newTries(time.Hour, time.Hour), 50*time.Millisecond
		assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, soonComes(t, d.give("x")))
		d.work.Wait()
	})
	t.Run("for a slot", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, func(context.Context, bus.Delivery) error { return errors.New("connection refused") })
		d.sub.tries, d.sub.holdFor = newTries(time.Second, time.Second), 3*time.Second
		out := d.give("x")
		d.failed(t, 1)
		for range cap(d.sub.slots) {
			d.sub.slots <- struct{}{} // as handlers do that take all their time
		}
		assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, soonComes(t, out))
		d.work.Wait()
	})
}

// What waits when the consumer object is replaced, or the bus is closed, is left to the broker, and nobody waits for it.
func TestWaitingEndsWithTheConsumer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(d *desk){
		"closed":   func(d *desk) { close(d.sub.closing); close(d.c.down) },
		"replaced": func(d *desk) { close(d.c.down) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := make(chan struct{}, 100)
			d := newDesk(t, func(context.Context, bus.Delivery) error {
				called <- struct{}{}
				return errors.New("connection refused")
			})
			out := d.give("x")
			<-called
			end(d)
			assert.Equal(t, result{consumer.ConsumeRetryLater, 0}, soonComes(t, out))
			require.NoError(t, d.sub.drain(t.Context()), "what waits takes no handler's place")
		})
	}
}
