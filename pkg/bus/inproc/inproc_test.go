package inproc_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/bustest"
	"flashsale.internal/pkg/bus/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the suite on the clock of synctest, so its pauses take no time.
func TestConformance(t *testing.T) {
	for _, c := range bustest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				normal := inproc.New(inproc.Options{}, slog.New(slog.DiscardHandler))
				quick := inproc.New(inproc.Options{RetryMax: time.Second}, slog.New(slog.DiscardHandler))
				c.Run(t, bustest.Broker{
					Join:                func(*testing.T) bus.Bus { return normal.Join() },
					JoinWithShortPauses: func(*testing.T) bus.Bus { return quick.Join() },
				})
			})
		})
	}
}

func TestFullQueueRejectsMessages(t *testing.T) {
	b := inproc.New(inproc.Options{Capacity: 10_000}, slog.New(slog.DiscardHandler))
	m := bus.Message{Topic: "t", Body: make([]byte, 2000)}
	published := 0
	for ; published < 10; published++ {
		if err := b.Publish(t.Context(), m); err != nil {
			require.ErrorIs(t, err, inproc.ErrFull)
			break
		}
	}
	require.Equal(t, 3, published, "of 2000 bytes each and their overhead")

	handled := make(chan struct{}, 10)
	require.NoError(t, b.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, func(context.Context, bus.Delivery) error {
		handled <- struct{}{}
		return nil
	}))
	for range published {
		<-handled
	}
	require.Eventually(t, func() bool { return b.Publish(t.Context(), m) == nil }, 30*time.Second, time.Millisecond)
	require.NoError(t, b.Close(t.Context()))
}

func TestManyMessagesInParallel(t *testing.T) {
	b := inproc.New(inproc.Options{RetryMin: time.Millisecond}, slog.New(slog.DiscardHandler))
	const publishers, each = 8, 500
	handled := make(chan string, publishers*each)
	s := bus.Subscription{Topic: "t", Group: "g", Concurrency: 8}
	require.NoError(t, b.Subscribe(s, func(_ context.Context, d bus.Delivery) error {
		if d.Attempt == 1 && d.ID[len(d.ID)-1] == '7' {
			return context.DeadlineExceeded
		}
		handled <- d.ID
		return nil
	}))
	for range publishers {
		go func() {
			for range each {
				if err := b.Publish(t.Context(), bus.Message{Topic: "t"}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	seen := make(map[string]bool)
	for range publishers * each {
		seen[<-handled] = true
	}
	require.Len(t, seen, publishers*each)
	require.NoError(t, b.Close(t.Context()))
}
