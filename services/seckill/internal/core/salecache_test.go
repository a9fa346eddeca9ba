package core

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConcurrentCallersShareOneRead(t *testing.T) {
	w, s := newWorld(t)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			v, err := s.Sales.get(t.Context(), "7", MaxDecisionAge)
			if err == nil && v.Left["1"] != 1 {
				t.Errorf("read %+v", v)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, w.reads, 2)
}

func TestAbsentActivitiesAreNotCached(t *testing.T) {
	_, s := newWorld(t)
	for i := 100; i < 200; i++ {
		_, err := s.Sales.get(t.Context(), strconv.Itoa(i), MaxDecisionAge)
		require.ErrorIs(t, err, ErrNoGate)
	}
	require.Empty(t, s.Sales.slots)
}

func TestIdleSalesAreDropped(t *testing.T) {
	w, s := newWorld(t)
	_, err := s.Sales.get(t.Context(), "7", MaxDecisionAge)
	require.NoError(t, err)
	s.Sales.refresh(t.Context())
	require.Len(t, s.Sales.slots, 1)
	w.advance(idleAfter + time.Second)
	s.Sales.refresh(t.Context())
	require.Empty(t, s.Sales.slots)
}

func TestCacheFollowsTheGate(t *testing.T) {
	w, s := newWorld(t)
	_, err := s.Sales.get(t.Context(), "7", MaxDecisionAge)
	require.NoError(t, err)
	w.advance(150 * time.Millisecond)
	w.change(func() { w.state = &GateState{State: StatePaused, EndsAt: noon.Add(time.Hour)} })
	s.Sales.refresh(t.Context())
	require.Equal(t, StatePaused, s.Sales.fresh("7").State)

	w.advance(MaxDisplayAge)
	w.change(func() { w.sale.Title = "renamed" })
	s.Sales.refresh(t.Context())
	require.Equal(t, "renamed", s.Sales.fresh("7").Title)

	w.change(func() { w.state = nil })
	w.advance(150 * time.Millisecond)
	s.Sales.refresh(t.Context())
	require.Nil(t, s.Sales.fresh("7"))

	w.change(func() { w.err = ErrUnavailable })
	s.Sales.refresh(t.Context())
	require.Nil(t, s.Sales.fresh("7"))
}

func TestRunKeepsUsedSalesFresh(t *testing.T) {
	w, s := newWorld(t)
	s.Sales.now = time.Now
	_, err := s.Sales.get(t.Context(), "7", time.Hour)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = s.Sales.Run(ctx) })
	w.change(func() { w.state = &GateState{State: StateEnded} })
	require.Eventually(t, func() bool {
		v := s.Sales.fresh("7")
		return v != nil && v.State == StateEnded
	}, 30*time.Second, 5*time.Millisecond)
	stop()
	loop.Wait()
}

// An unreadable gate makes its own sale unavailable, and no other.
func TestUnreadableGateAffectsItsOwnSaleOnly(t *testing.T) {
	w, s := newWorld(t)
	_, err := s.Sales.get(t.Context(), "7", MaxDecisionAge)
	require.NoError(t, err)
	w.change(func() { w.broken = map[string]bool{"8": true} })
	_, err = s.Sales.get(t.Context(), "8", MaxDecisionAge)
	require.ErrorIs(t, err, ErrUnavailable)
	s.Sales.track("8") // its buyers keep requesting it
	w.advance(150 * time.Millisecond)
	w.change(func() { w.state = &GateState{State: StatePaused, EndsAt: noon.Add(time.Hour)} })
	s.Sales.refresh(t.Context())
	require.Equal(t, StatePaused, s.Sales.fresh("7").State, "refreshed as before")
	list, err := s.Sales.list(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "7", list[0].ActivityID)
}

func TestClockFollowsRedis(t *testing.T) {
	w, s := newWorld(t)
	w.offset = time.Minute
	require.Equal(t, noon.Add(time.Minute), s.Sales.Now(t.Context()))
	w.advance(time.Second)
	require.Equal(t, noon.Add(61*time.Second), s.Sales.Now(t.Context()))
	require.Equal(t, 1, w.nowCalls, "the offset is kept")

	w.change(func() { w.offset = 0 })
	w.advance(maxOffsetAge)
	s.Sales.refresh(t.Context())
	require.Equal(t, noon.Add(2*time.Second), s.Sales.Now(t.Context()))

	w.change(func() { w.err = ErrUnavailable })
	w.advance(maxOffsetAge)
	s.Sales.refresh(t.Context())
	require.Equal(t, noon.Add(3*time.Second), s.Sales.Now(t.Context()), "the last offset stays")
}
