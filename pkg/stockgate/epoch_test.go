package stockgate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAGateOfAnotherEpochAcceptsNoPurchases(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 10)
		require.NoError(t, e.rdb.HSet(ctx, keyOf(e.activityID, "gate"), "epoch", "first").Err())
		importing, err := e.MarkForImport(ctx, e.activityID, "first")
		require.NoError(t, err)
		require.False(t, importing)
		for _, sn := range []string{"1", "2", "3", "4"} {
			require.Equal(t, Accepted, e.reserve(sn, "u"+sn, lines(1)).Outcome)
		}
		e.ack(e.read("relay", 100)...)
		e.settle("2", "u2", lines(1), StepLanded)
		e.settle("3", "u3", lines(1), StepCreated)
		e.settle("4", "u4", lines(1), StepPaid)
		_, before := e.survey(1000)

		importing, err = e.MarkForImport(ctx, e.activityID, "second")
		require.NoError(t, err)
		require.True(t, importing)
		require.Equal(t, Importing, e.reserve("9", "u9", lines(1)).Outcome)
		require.Equal(t, Known, e.reserve("3", "u3", lines(1)).Outcome, "its buyer reads the status")
		_, err = e.Repair(ctx, e.activityID, before.Build, []Repair{{OrderSN: "1", Remove: true}})
		require.ErrorIs(t, err, ErrSuperseded, "a repair that was decided before")

		// The ledger has lost all of them: they are journaled again, and no status falls.
		n, err := e.RejournalHolding(ctx, e.activityID, []string{"1", "2", "3", "4", "5"})
		require.NoError(t, err)
		require.Equal(t, 4, n)
		n, err = e.RejournalHolding(ctx, e.activityID, []string{"1", "2", "3", "4"})
		require.NoError(t, err)
		require.Zero(t, n, "still in the journal")
		e.check()
		for sn, want := range map[string]Status{"1": StatusQueued, "2": StatusQueued, "3": StatusCreated, "4": StatusPaid} {
			require.Equal(t, want, e.entry(sn).Status)
		}
		require.False(t, e.entry("2").Landed, "found by the sweep if it is lost once more")
		e.ack(e.read("relay", 100)...)
		n, err = e.RejournalHolding(ctx, e.activityID, []string{"3"})
		require.NoError(t, err)
		require.Equal(t, 1, n, "published, and lost once more")
		e.check()

		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "77", SKUID: "1", Delta: 3}))
		list, next, err := e.KnownAdjustments(ctx, e.activityID, 0, 10)
		require.NoError(t, err)
		require.Zero(t, next)
		require.Equal(t, []KnownAdjustment{{ID: "77", Applied: true, SKUID: "1", Delta: 3}}, list)

		// The database has 20 units and another adjustment.
		require.NoError(t, e.RenewEpoch(ctx, e.activityID, "second", Renewal{Config: openConfig(), Totals: map[string]int64{"1": 20}, Adjusted: []string{"88"}}))
		e.check()
		require.Equal(t, int64(16), e.counts("1").Left)
		require.Equal(t, int64(20), e.counts("1").Total)
		audit, err := e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, "second", audit.Epoch)
		require.False(t, audit.Importing)
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "88", SKUID: "1", Delta: 5}), "contained in the total")
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "77", SKUID: "1", Delta: 3}), "dropped, so it counts again")
		require.Equal(t, int64(23), e.counts("1").Total)
		require.Equal(t, Accepted, e.reserve("9", "u9", lines(1)).Outcome)

		_, err = e.MarkForImport(ctx, e.activityID, "No epoch")
		require.Error(t, err)
	})
}
