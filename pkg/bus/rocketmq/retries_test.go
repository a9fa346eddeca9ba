package rocketmq

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
)

// fakeClient calls the consume method of a subscription as the client library does, without a broker.
type fakeClient struct {
	sub  *subscription
	c    *consumerObject
	work sync.WaitGroup
}

func newFakeClient(t *testing.T, h bus.Handler) *fakeClient {
	t.Helper()
	s := bus.Subscription{Topic: "t", Group: "g"}.WithDefaults()
	return &fakeClient{
		sub: newSubscription(Config{}, s, h, testAccess(), testLog().With("test", t.Name())),
		c:   &consumerObject{down: make(chan struct{})},
	}
}

// deliver delivers a message in the background. The channel receives the result, and the pause level of a redelivery.
func (d *fakeClient) deliver(body string) <-chan result {
	out := make(chan result, 1)
	d.work.Go(func() {
		cc := primitive.NewConsumeConcurrentlyContext()
		m := &primitive.MessageExt{Message: primitive.Message{Body: []byte(body)}, MsgId: body}
		out <- result{d.sub.consume(primitive.WithConcurrentlyCtx(context.Background(), cc), d.c, m), cc.DelayLevelWhenNextConsume}
	})
	return out
}

// waitForFailures waits until that many attempts have failed since the last handled message.
func (d *fakeClient) waitForFailures(t *testing.T, attempts int) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.sub.retries.mu.Lock()
		defer d.sub.retries.mu.Unlock()
		return d.sub.retries.failures >= attempts
	}, 30*time.Second, time.Millisecond)
}

type result struct {
	of    consumer.ConsumeResult
	level int
}

func receive(t *testing.T, out <-chan result) result {
	t.Helper()
	select {
	case r := <-out:
		return r
	case <-time.After(30 * time.Second):
		require.Fail(t, "consume did not return")
		return result{}
	}
}

// While a dependency of all messages is down, they wait in this process and few handler calls are made. All are
// handled soon after it is up again.
func TestMessagesWaitDuringAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		var calls atomic.Int64
		d := newFakeClient(t, func(context.Context, bus.Delivery) error {
			calls.Add(1)
			if down.Load() {
				return errors.New("connection refused")
			}
			return nil
		})
		const messages = 20
		var outs []<-chan result
		for i := range messages {
			outs = append(outs, d.deliver(strconv.Itoa(i)))
		}
		synctest.Wait()
		require.EqualValues(t, messages, calls.Load(), "each is handled once")
		time.Sleep(6 * time.Second) // the length of the outage
		retried := calls.Load() - messages
		assert.LessOrEqual(t, retried, int64(8), "one at a time is retried")
		assert.GreaterOrEqual(t, retried, int64(2))
		down.Store(false)
		back := time.Now()
		for _, out := range outs {
			require.Equal(t, consumer.ConsumeSuccess, receive(t, out).of)
		}
		assert.LessOrEqual(t, time.Since(back), maxRetryPause*5/4, "all are handled soon after the end")
		d.work.Wait()
	})
}

// A message that fails by itself delays no other message, and is redelivered by the broker after a growing pause.
func TestMessageThatFailsAloneGoesBack(t *testing.T) {
	t.Parallel()
	begun, others := make(chan struct{}), make(chan struct{})
	d := newFakeClient(t, func(ctx context.Context, m bus.Delivery) error {
		if string(m.Body) != "bad" {
			return nil
		}
		close(begun)
		select {
		case <-others:
		case <-ctx.Done():
		}
		return errors.New("this message fails")
	})
	bad := d.deliver("bad")
	<-begun
	require.Equal(t, consumer.ConsumeSuccess, receive(t, d.deliver("good")).of)
	close(others)
	assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, receive(t, bad))
	d.work.Wait()
}

// The same holds if it is the first message: as soon as another one is handled, its failure is no outage.
func TestMessageThatFailsFirstAndAloneGoesBack(t *testing.T) {
	t.Parallel()
	failed := make(chan struct{}, 100)
	var again atomic.Bool
	d := newFakeClient(t, func(ctx context.Context, m bus.Delivery) error {
		switch {
		case string(m.Body) != "bad":
			return nil
		case again.Load(): // meanwhile another message is handled
			return errors.Join(errors.New("this message still fails"), ctx.Err())
		}
		failed <- struct{}{}
		return errors.New("this message fails")
	})
	bad := d.deliver("bad")
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
				<-d.deliver("good " + strconv.Itoa(n))
			}
		}
	})
	assert.Equal(t, consumer.ConsumeRetryLater, receive(t, bad).of)
	close(stop)
	good.Wait()
	d.work.Wait()
}

// Once another message is handled, each message that failed before is retried once and then goes back. Otherwise
// messages that fail quickly would be retried whenever another one succeeds.
func TestMessagesFailingAfterASuccessGoBack(t *testing.T) {
	t.Parallel()
	const messages = 20
	var calls atomic.Int64
	d := newFakeClient(t, func(_ context.Context, m bus.Delivery) error {
		if string(m.Body) == "good" {
			return nil
		}
		calls.Add(1)
		return errors.New("this message fails")
	})
	d.sub.retries = newRetries(time.Hour, time.Hour) // they wait for a success
	var outs []<-chan result
	for range messages {
		outs = append(outs, d.deliver("bad"))
	}
	d.waitForFailures(t, messages)
	require.Equal(t, consumer.ConsumeSuccess, receive(t, d.deliver("good")).of)
	for _, out := range outs {
		assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, receive(t, out))
	}
	assert.EqualValues(t, 2*messages, calls.Load())
	d.work.Wait()
}

// No message waits in this process for longer than holdFor, whether for a turn or for a slot. Other messages need the
// place, and the client would in the end send the message back by itself while it is still in this process.
func TestMessagesGoBackAfterHoldFor(t *testing.T) {
	t.Parallel()
	t.Run("for a turn", func(t *testing.T) {
		t.Parallel()
		d := newFakeClient(t, func(context.Context, bus.Delivery) error { return errors.New("connection refused") })
		d.sub.retries, d.sub.holdFor = newRetries(time.Hour, time.Hour), 50*time.Millisecond
		assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, receive(t, d.deliver("x")))
		d.work.Wait()
	})
	t.Run("for a slot", func(t *testing.T) {
		t.Parallel()
		d := newFakeClient(t, func(context.Context, bus.Delivery) error { return errors.New("connection refused") })
		d.sub.retries, d.sub.holdFor = newRetries(time.Second, time.Second), 3*time.Second
		out := d.deliver("x")
		d.waitForFailures(t, 1)
		for range cap(d.sub.slots) {
			d.sub.slots <- struct{}{} // as handlers that use their whole timeout
		}
		assert.Equal(t, result{consumer.ConsumeRetryLater, 1}, receive(t, out))
		d.work.Wait()
	})
}

// A message that waits when the consumer object is replaced, or the bus is closed, is left to the broker.
func TestWaitingEndsWithTheConsumer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(d *fakeClient){
		"closed":   func(d *fakeClient) { close(d.sub.closing); close(d.c.down) },
		"replaced": func(d *fakeClient) { close(d.c.down) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := make(chan struct{}, 100)
			d := newFakeClient(t, func(context.Context, bus.Delivery) error {
				called <- struct{}{}
				return errors.New("connection refused")
			})
			out := d.deliver("x")
			<-called
			end(d)
			assert.Equal(t, result{consumer.ConsumeRetryLater, 0}, receive(t, out))
			require.NoError(t, d.sub.drain(t.Context()), "what waits takes no handler's place")
		})
	}
}
