package bustest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
)

func sharesMessagesBetweenMembersOfAGroup(t *testing.T, b Broker) {
	one, two := b.Join(t), b.Join(t)
	defer end(t, one)
	defer end(t, two)
	var first, second log
	slowly := func(l *log) bus.Handler {
		return func(_ context.Context, d bus.Delivery) error {
			l.add(d)
			time.Sleep(20 * time.Millisecond) // so that one member alone is too slow
			return nil
		}
	}
	subscribe(t, one, GroupA, slowly(&first))
	subscribe(t, two, GroupA, slowly(&second))
	n := 0
	eventually(t, "both members to get messages", func() bool {
		publishAll(t, one, n, n+20)
		n += 20
		return first.len() > 0 && second.len() > 0
	})
	eventually(t, "every message", func() bool {
		all := first.bodies()
		for body := range second.bodies() {
			all[body]++
		}
		return len(all) == n
	})
}

func deliversEveryMessageToEachGroup(t *testing.T, b Broker) {
	m := b.Join(t)
	defer end(t, m)
	var first, second log
	subscribe(t, m, GroupA, first.accept)
	subscribe(t, m, GroupB, second.accept)
	publishAll(t, m, 0, 30)
	eventually(t, "every message in both groups", func() bool {
		return len(first.bodies()) == 30 && len(second.bodies()) == 30
	})
}

func takesOverFromALostMember(t *testing.T, b Broker) {
	lost, other := b.Join(t), b.Join(t)
	defer end(t, other)
	const n = 12
	var stuck, got log
	testEnds := make(chan struct{})
	defer close(testEnds)
	subscribe(t, lost, GroupA, func(_ context.Context, d bus.Delivery) error {
		stuck.add(d)
		<-testEnds
		return nil
	})
	publishAll(t, other, 0, n)
	eventually(t, "the handlers of the member to run", func() bool { return stuck.len() >= bus.DefaultConcurrency })
	now, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, lost.Close(now), context.Canceled)
	subscribe(t, other, GroupA, got.accept)
	eventually(t, "every message at the other member", func() bool { return len(got.bodies()) == n })
}

func survivesAPanic(t *testing.T, b Broker) {
	m := b.JoinWithShortPauses(t)
	defer end(t, m)
	var got log
	subscribe(t, m, GroupA, func(_ context.Context, d bus.Delivery) error {
		got.add(d)
		if got.len() == 1 {
			panic("panic of the handler")
		}
		return nil
	})
	publish(t, m, bus.Message{Body: []byte("x")})
	eventually(t, "the second attempt", func() bool { return got.len() == 2 })
	if !b.Brokerless {
		assert.Equal(t, 2, got.deliveries[1].Attempt)
	}
}

func endsAHandlersContext(t *testing.T, b Broker) {
	m := b.JoinWithShortPauses(t)
	defer end(t, m)
	var got log
	s := bus.Subscription{Topic: Topic, Group: GroupA, Timeout: time.Second}
	require.NoError(t, m.Subscribe(s, func(ctx context.Context, d bus.Delivery) error {
		got.add(d)
		if got.len() > 1 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	publish(t, m, bus.Message{Body: []byte("x")})
	eventually(t, "the second attempt", func() bool { return got.len() == 2 })
	assert.GreaterOrEqual(t, got.at[1].Sub(got.at[0]), time.Second)
}

func boundsHandlerCalls(t *testing.T, b Broker) {
	m := b.JoinWithShortPauses(t)
	defer end(t, m)
	const bound, messages = 3, 20
	var mu sync.Mutex
	now, most := 0, 0
	var failed, got log
	s := bus.Subscription{Topic: Topic, Group: GroupA, Concurrency: bound}
	require.NoError(t, m.Subscribe(s, func(_ context.Context, d bus.Delivery) error {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(100 * time.Millisecond) // so that calls overlap
		mu.Lock()
		now--
		mu.Unlock()
		if failed.bodies()[string(d.Body)] == 0 {
			failed.add(d)
			return errors.New("repeated calls count as well")
		}
		got.add(d)
		return nil
	}))
	var publishers sync.WaitGroup
	for i := range messages {
		publishers.Go(func() {
			for m.Publish(t.Context(), bus.Message{Topic: Topic, Body: []byte(strconv.Itoa(i))}) != nil {
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	eventually(t, "every message", func() bool { return len(got.bodies()) == messages })
	publishers.Wait()
	assert.Equal(t, bound, most)
}

// drainsOnClose checks that messages which a member handles during Close are not redelivered. Where their results may
// be lost, they are redelivered now and then, as after a crash, but not in each of three rounds.
func drainsOnClose(t *testing.T, b Broker) {
	rounds := 1
	if b.MayRedeliverAfterClose {
		rounds = 3
	}
	for round := range rounds {
		if drained(t, b, strconv.Itoa(round)) {
			return
		}
	}
	require.Fail(t, "messages handled during Close were redelivered")
}

// drained closes a member while its handlers run, and reports whether none of their messages was redelivered.
func drained(t *testing.T, b Broker, round string) bool {
	m, other := b.Join(t), b.Join(t)
	defer end(t, other)
	var begun, got log
	release := make(chan struct{})
	subscribe(t, m, GroupA, func(ctx context.Context, d bus.Delivery) error {
		begun.add(d)
		<-release
		// A handler may still publish during Close.
		return m.Publish(ctx, bus.Message{Topic: Topic, Body: append([]byte("after "), d.Body...)})
	})
	for i := range bus.DefaultConcurrency {
		publish(t, m, bus.Message{Body: []byte(round + " " + strconv.Itoa(i))})
	}
	eventually(t, "all handlers to run", func() bool { return begun.len() == bus.DefaultConcurrency })

	closed := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		closed <- m.Close(ctx)
	}()
	never(t, "closed before the handlers were done", func() bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
	close(release)
	require.NoError(t, <-closed)

	last := round + " last"
	publish(t, other, bus.Message{Body: []byte(last)})
	subscribe(t, other, GroupA, got.accept)
	eventually(t, "the messages published later", func() bool {
		bodies := got.bodies()
		for i := range bus.DefaultConcurrency {
			if bodies["after "+round+" "+strconv.Itoa(i)] == 0 {
				return false
			}
		}
		return bodies[last] > 0
	})
	for until := time.Now().Add(quiet); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if got.len() > bus.DefaultConcurrency+1 {
			return false
		}
	}
	return true
}

func failsAfterClose(t *testing.T, b Broker) {
	m := b.Join(t)
	var got log
	subscribe(t, m, GroupA, got.accept)
	end(t, m)
	require.ErrorIs(t, m.Publish(t.Context(), bus.Message{Topic: Topic, Body: []byte("x")}), bus.ErrClosed)
	require.ErrorIs(t, m.Subscribe(bus.Subscription{Topic: Topic, Group: GroupB}, got.accept), bus.ErrClosed)
	end(t, m)
}

func rejectsInvalidSubscriptions(t *testing.T, b Broker) {
	m := b.Join(t)
	defer end(t, m)
	var got log
	require.Error(t, m.Subscribe(bus.Subscription{Topic: Topic}, got.accept))
	require.Error(t, m.Subscribe(bus.Subscription{Group: GroupA}, got.accept))
	require.Error(t, m.Subscribe(bus.Subscription{Topic: Topic, Group: GroupA, Concurrency: -1}, got.accept))
	subscribe(t, m, GroupA, got.accept)
	require.Error(t, m.Subscribe(bus.Subscription{Topic: Topic, Group: GroupA}, got.accept), "the same group twice")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Publish(ended, bus.Message{Topic: Topic, Body: []byte("x")}), context.Canceled)
}
