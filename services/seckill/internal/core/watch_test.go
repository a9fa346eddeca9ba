package core

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestManyAskersShareOneRead(t *testing.T) {
	w, s := newWorld(t)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			v, err := s.Watch.get(t.Context(), "7", flagAge)
			if err == nil && v.Left["1"] != 1 {
				t.Errorf("read %+v", v)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, w.reads, 2)
}

func TestWhatDoesNotExistIsNotKept(t *testing.T) {
	_, s := newWorld(t)
	for i := 100; i < 200; i++ {
		_, err := s.Watch.get(t.Context(), strconv.Itoa(i), flagAge)
		require.ErrorIs(t, err, ErrNoGate)
	}
	require.Empty(t, s.Watch.slots)
}

func TestUnusedSalesAreForgotten(t *testing.T) {
	w, s := newWorld(t)
	_, err := s.Watch.get(t.Context(), "7", flagAge)
	require.NoError(t, err)
	s.Watch.look(t.Context())
	require.Len(t, s.Watch.slots, 1)
	w.pass(inUseFor + time.Second)
	s.Watch.look(t.Context())
	require.Empty(t, s.Watch.slots)
}

func TestWatchFollowsTheGate(t *testing.T) {
	w, s := newWorld(t)
	_, err := s.Watch.get(t.Context(), "7", flagAge)
	require.NoError(t, err)
	w.pass(150 * time.Millisecond)
	w.change(func() { w.level = &Level{State: StatePaused, EndsAt: noon.Add(time.Hour)} })
	s.Watch.look(t.Context())
	require.Equal(t, StatePaused, s.Watch.fresh("7").State)

	w.pass(showAge)
	w.change(func() { w.sale.Title = "renamed" })
	s.Watch.look(t.Context())
	require.Equal(t, "renamed", s.Watch.fresh("7").Title)

	w.change(func() { w.level = nil })
	w.pass(150 * time.Millisecond)
	s.Watch.look(t.Context())
	require.Nil(t, s.Watch.fresh("7"))

	w.change(func() { w.err = ErrUnavailable })
	s.Watch.look(t.Context())
	require.Nil(t, s.Watch.fresh("7"))
}

func TestRunKeepsUsedSalesFresh(t *testing.T) {
	w, s := newWorld(t)
	s.Watch.now = time.Now
	_, err := s.Watch.get(t.Context(), "7", time.Hour)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = s.Watch.Run(ctx) })
	w.change(func() { w.level = &Level{State: StateEnded} })
	require.Eventually(t, func() bool {
		v := s.Watch.fresh("7")
		return v != nil && v.State == StateEnded
	}, 30*time.Second, 5*time.Millisecond)
	stop()
	loop.Wait()
}

// A gate that cannot be read takes its own sale away, and no other.
func TestABrokenGateTakesOnlyItsOwnSaleAway(t *testing.T) {
	w, s := newWorld(t)
	_, err := s.Watch.get(t.Context(), "7", flagAge)
	require.NoError(t, err)
	w.change(func() { w.broken = map[string]bool{"8": true} })
	_, err = s.Watch.get(t.Context(), "8", flagAge)
	require.ErrorIs(t, err, ErrUnavailable)
	s.Watch.learn("8") // its buyers go on asking
	w.pass(150 * time.Millisecond)
	w.change(func() { w.level = &Level{State: StatePaused, EndsAt: noon.Add(time.Hour)} })
	s.Watch.look(t.Context())
	require.Equal(t, StatePaused, s.Watch.fresh("7").State, "it is looked at as before")
	list, err := s.Watch.sales(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "7", list[0].ActivityID)
}

func TestClockFollowsRedis(t *testing.T) {
	w, s := newWorld(t)
	w.offset = time.Minute
	require.Equal(t, noon.Add(time.Minute), s.Watch.clock(t.Context()))
	w.pass(time.Second)
	require.Equal(t, noon.Add(61*time.Second), s.Watch.clock(t.Context()))
	require.Equal(t, 1, w.nowCalls, "the offset is kept")

	w.change(func() { w.offset = 0 })
	w.pass(clockAge)
	s.Watch.look(t.Context())
	require.Equal(t, noon.Add(2*time.Second), s.Watch.clock(t.Context()))

	w.change(func() { w.err = ErrUnavailable })
	w.pass(clockAge)
	s.Watch.look(t.Context())
	require.Equal(t, noon.Add(3*time.Second), s.Watch.clock(t.Context()), "what is known stays")
}
