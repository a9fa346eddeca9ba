package stockgate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdjustOncePerID(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 5)
		adjust := func(id string, delta int64, force bool) error {
			err := e.Adjust(ctx, e.activityID, Adjustment{ID: id, SKUID: "1", Delta: delta, Force: force})
			e.check()
			return err
		}
		undo := func(id string) {
			require.NoError(t, e.UndoAdjust(ctx, e.activityID, id))
			e.check()
		}
		have := func(left, total int64) {
			t.Helper()
			c := e.counts("1")
			require.Equal(t, []int64{left, total}, []int64{c.Left, c.Total})
		}
		for range 2 {
			require.NoError(t, adjust("up", 3, false))
			have(8, 8)
		}
		require.ErrorIs(t, adjust("up", 4, false), ErrAdjustmentConflict)
		require.ErrorIs(t, adjust("down", -9, false), ErrInsufficient)
		have(8, 8)
		require.NoError(t, adjust("down", -8, false))
		have(0, 0)
		require.NoError(t, adjust("down", -8, true), "the same step again, without the condition")
		have(0, 0)
		for range 2 {
			undo("down")
			have(8, 8)
		}
		require.NoError(t, adjust("down", -8, true), "it is decided")
		require.ErrorIs(t, adjust("down", -8, false), ErrDecided)
		have(8, 8)
		e.reserve("1", "ann", lines(1))
		require.ErrorIs(t, adjust("more", -8, false), ErrInsufficient)
		require.NoError(t, adjust("more", -8, true))
		have(-1, 0)
		undo("more")
		undo("up")
		have(4, 5)
		undo("never") // a late attempt to apply it must have no effect
		require.NoError(t, adjust("never", 2, false))
		have(4, 5)
		require.ErrorIs(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "x", SKUID: "9", Delta: 1}), ErrUnknownSKU)
	})
}

func TestPreloadedAdjustmentsHaveNoEffect(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		require.NoError(t, e.Preload(ctx, e.activityID, Snapshot{
			Config: openConfig(), Stock: map[string]int64{"1": 5},
			Totals: map[string]int64{"1": 5}, Adjusted: []string{"17", "18"},
		}))
		require.ErrorIs(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "17", SKUID: "1", Delta: -2}), ErrDecided)
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "17", SKUID: "1", Delta: -2, Force: true}))
		require.NoError(t, e.UndoAdjust(ctx, e.activityID, "18"))
		require.Equal(t, Counts{Left: 5, Total: 5}, e.counts("1"))
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "19", SKUID: "1", Delta: -2}))
		require.Equal(t, Counts{Left: 3, Total: 3}, e.counts("1"))
	})
}

func TestMalformedAdjustmentsNeverReachRedis(t *testing.T) {
	ctx, g, activityID := t.Context(), New(nil, Options{}), "1"
	for _, a := range []Adjustment{
		{ID: "", SKUID: "1", Delta: 1},
		{ID: strings.Repeat("a", maxAdjustmentID+1), SKUID: "1", Delta: 1},
		{ID: "a|b", SKUID: "1", Delta: 1},
		{ID: "a", SKUID: "x", Delta: 1},
		{ID: "a", SKUID: "1", Delta: 0},
		{ID: "a", SKUID: "1", Delta: 1 << 40},
	} {
		require.Error(t, g.Adjust(ctx, activityID, a))
	}
	require.Error(t, g.UndoAdjust(ctx, activityID, "A B"))
}
