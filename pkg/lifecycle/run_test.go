package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discard = slog.New(slog.DiscardHandler)

// endings records the order in which components end.
type endings struct {
	mu    sync.Mutex
	lines []string
}

func (d *endings) add(s string) { d.mu.Lock(); defer d.mu.Unlock(); d.lines = append(d.lines, s) }

func (d *endings) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

// until returns a component that records its end.
func until(d *endings, name string) Component {
	return Component{Name: name, Run: func(ctx context.Context) error { <-ctx.Done(); d.add(name); return ctx.Err() }}
}

func TestEndsInReverseOrderWaitingForEach(t *testing.T) {
	var d endings
	ctx, cancel := context.WithCancel(context.Background())
	slow := Component{Name: "slow", Run: func(ctx context.Context) error {
		<-ctx.Done()
		out, done := DrainContext(ctx)
		defer done()
		select {
		case <-time.After(50 * time.Millisecond):
		case <-out.Done():
		}
		d.add("slow")
		return nil
	}}
	oneOff := Component{Name: "one-off", Run: func(context.Context) error { cancel(); return nil }}
	require.NoError(t, Run(ctx, discard, 5*time.Second, until(&d, "a"), until(&d, "b"), slow, until(&d, "c"), oneOff))
	require.Equal(t, []string{"c", "slow", "b", "a"}, d.read())
}

func TestTheFirstFailureEndsAll(t *testing.T) {
	var d endings
	bad := Component{Name: "bad", Run: func(context.Context) error { return errors.New("broken") }}
	err := Run(context.Background(), discard, 5*time.Second, until(&d, "a"), bad, until(&d, "b"))
	require.EqualError(t, err, "bad: broken")
	require.Equal(t, []string{"b", "a"}, d.read())
}

func TestAPanicIsAnErrorThatNamesTheComponent(t *testing.T) {
	var d endings
	bad := Component{Name: "relay", Run: func(context.Context) error { panic("boom") }}
	err := Run(context.Background(), discard, 5*time.Second, until(&d, "a"), bad)
	require.ErrorContains(t, err, "relay: panic: boom")
	require.Equal(t, []string{"a"}, d.read())

	late := Component{Name: "late", Run: func(ctx context.Context) error { <-ctx.Done(); panic("boom") }}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorContains(t, Run(ctx, discard, 5*time.Second, late), "late: panic: boom")
}

func TestDrainIsBoundedInTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		release := make(chan struct{})
		var finished sync.WaitGroup
		finished.Add(1)
		stuck := Component{Name: "stuck", Run: func(context.Context) error { defer finished.Done(); <-release; return nil }}
		polite := Component{Name: "polite", Run: func(ctx context.Context) error {
			<-ctx.Done()
			out, done := DrainContext(ctx)
			defer done()
			<-out.Done()
			return nil
		}}
		cancel()
		begin := time.Now()
		err := Run(ctx, discard, 50*time.Millisecond, stuck, polite)
		require.EqualError(t, err, "not ended within 50ms: stuck")
		require.Less(t, time.Since(begin), 5*time.Second)
		close(release)
		finished.Wait()
	})
}

func TestStoppingIsClosedBeforeComponentsAreCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	saw := make(chan bool, 1)
	first := Component{Name: "first", Run: func(ctx context.Context) error {
		<-Stopping(ctx)
		saw <- ctx.Err() == nil
		<-ctx.Done()
		return nil
	}}
	last := Component{Name: "last", Run: func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		require.True(t, <-saw) // the first component is not cancelled before this one has ended
		return nil
	}}
	require.NoError(t, Run(ctx, discard, 5*time.Second, first, last))
}

func TestDrainContextKeepsValuesAndHasTheDeadline(t *testing.T) {
	type key struct{}
	began := time.Now()
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "v"))
	c := Component{Name: "c", Run: func(ctx context.Context) error {
		<-ctx.Done()
		out, done := DrainContext(ctx)
		defer done()
		require.NoError(t, out.Err())
		require.Equal(t, "v", out.Value(key{}))
		deadline, ok := out.Deadline()
		require.True(t, ok)
		require.WithinRange(t, deadline, began.Add(5*time.Second), time.Now().Add(5*time.Second))
		return nil
	}}
	cancel()
	require.NoError(t, Run(ctx, discard, 5*time.Second, c))

	outside, done := DrainContext(ctx)
	require.NoError(t, outside.Err())
	done()
	require.Error(t, outside.Err())
	require.Nil(t, Stopping(ctx))
}

func TestNothingToRunWaitsForTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, Run(ctx, discard, time.Second))
}
