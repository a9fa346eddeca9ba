package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func purchase() contract.Reservation {
	return contract.Reservation{
		OrderSN: "1", ActivityID: "7", UserID: "ann", Lines: []contract.Line{{SKUID: "10", Qty: 2}, {SKUID: "11", Qty: 1}},
		ReservedAt: now.Add(-time.Minute),
	}
}

func TestANewRowIsSanitized(t *testing.T) {
	p := purchase()
	p.ReservedAt, p.Traceparent = time.Time{}, strings.Repeat("x", 65)
	row := ledger.New(p, now)
	require.Equal(t, now, row.ReservedAt)
	require.Empty(t, row.Traceparent)
	require.Equal(t, ledger.StateReserved, row.State)
	require.Equal(t, now, row.LandedAt)
	require.Equal(t, now, row.ChangedAt)
}

func TestReasonsAreSanitized(t *testing.T) {
	for in, want := range map[string]string{
		"cancelled": "cancelled", "a-b_3": "a-b_3", "": "expired", "Große": "expired", "two words": "expired",
		strings.Repeat("x", 32): strings.Repeat("x", 32), strings.Repeat("x", 33): "expired",
	} {
		require.Equal(t, want, ledger.SanitizeReason(in), in)
	}
}

// TestEntriesOfRows has a row of every kind, and the entry that it should have.
func TestEntriesOfRows(t *testing.T) {
	deadline := now.Add(time.Hour)
	for name, c := range map[string]struct {
		change  func(r *ledger.Row)
		stage   ledger.Stage
		holds   bool
		reason  string
		expires time.Time
	}{
		"landed":      {func(*ledger.Row) {}, ledger.StageLanded, true, "", time.Time{}},
		"created":     {func(r *ledger.Row) { r.OrderCreatedAt, r.ExpiresAt = &now, &deadline }, ledger.StageCreated, true, "", deadline},
		"no deadline": {func(r *ledger.Row) { r.OrderCreatedAt = &now }, ledger.StageCreated, true, "", time.Time{}},
		"paid": {func(r *ledger.Row) {
			r.OrderCreatedAt, r.ExpiresAt, r.State = &now, &deadline, ledger.StateSold
		}, ledger.StagePaid, true, "", time.Time{}},
		"closed": {func(r *ledger.Row) {
			r.OrderCreatedAt, r.State, r.Reason = &now, ledger.StateReleased, "expired"
		}, ledger.StageClosed, false, "expired", time.Time{}},
		"never an order": {func(r *ledger.Row) {
			r.State, r.Reason = ledger.StateReleased, "system"
		}, ledger.StageFailed, false, "system", time.Time{}},
		"rejected": {func(r *ledger.Row) { *r = r.Rejected("sold_out") }, ledger.StageFailed, false, "sold_out", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			row := ledger.New(purchase(), now)
			c.change(&row)
			require.Equal(t, c.holds, row.Holds())
			require.Equal(t, c.holds, ledger.StageOf(row).Holds())
			require.Equal(t, !c.holds, ledger.StageOf(row).Ended())
			require.Equal(t, ledger.Entry{
				OrderSN: "1", UserID: "ann", Lines: row.Lines, Stage: c.stage, Reason: c.reason, ExpiresAt: c.expires,
			}, row.Entry())
		})
	}
}

func TestSteps(t *testing.T) {
	created := ledger.Step{Order: contract.OrderCreated, At: now}
	paid := ledger.Step{Order: contract.OrderPaid, At: now}
	closed := ledger.Step{Order: contract.OrderClosed, At: now, Reason: "cancelled"}
	closedNow := ledger.Step{Order: contract.OrderClosed, Reason: "cancelled", Present: true}
	tombstone := ledger.Step{Order: contract.OrderClosed, Reason: "system", Present: true, Tombstone: true}
	refunded := ledger.Step{Order: contract.OrderRefunded, Present: true}
	for name, c := range map[string]struct {
		steps  []ledger.Step
		stage  ledger.Stage
		reason string
	}{
		"created":                 {[]ledger.Step{created, created}, ledger.StageCreated, ""},
		"paid first":              {[]ledger.Step{paid, created, paid}, ledger.StagePaid, ""},
		"closed":                  {[]ledger.Step{created, closed, closed}, ledger.StageClosed, "cancelled"},
		"closed before its order": {[]ledger.Step{closed, created}, ledger.StageClosed, "cancelled"},
		"tombstone":               {[]ledger.Step{tombstone, created}, ledger.StageFailed, "system"},
		"paid too late":           {[]ledger.Step{closed, paid}, ledger.StageClosed, "cancelled"},
		"a late closed":           {[]ledger.Step{paid, closed}, ledger.StagePaid, ""},
		"closed after all":        {[]ledger.Step{paid, closedNow}, ledger.StageClosed, "refunded"},
		"refunded":                {[]ledger.Step{paid, refunded, refunded}, ledger.StageClosed, "refunded"},
		"refunded, then paid":     {[]ledger.Step{created, refunded, paid}, ledger.StageClosed, "refunded"},
	} {
		t.Run(name, func(t *testing.T) {
			m := ledger.NewMoves()
			row := ledger.New(purchase(), now)
			again := now.Add(time.Minute)
			row.RepublishAt = &again
			for _, s := range c.steps {
				row = m.Apply(row, s, now)
			}
			e := row.Entry()
			require.Equal(t, c.stage, e.Stage)
			require.Equal(t, c.reason, e.Reason)
			require.Nil(t, row.RepublishAt, "its deduction is not due any more")
		})
	}
}

func TestARewriteOfAnUnchangedRow(t *testing.T) {
	m := ledger.NewMoves()
	row := ledger.New(purchase(), now)
	_, changed := m.Rewrite(row, row, now.Add(time.Hour))
	require.False(t, changed)
	require.Empty(t, m.Update)
	after, changed := m.Rewrite(row, m.Apply(row, ledger.Step{Order: contract.OrderPaid}, now), now.Add(time.Hour))
	require.True(t, changed)
	require.Equal(t, now.Add(time.Hour), after.ChangedAt)
	require.Equal(t, []ledger.Update{{From: ledger.StateReserved, To: after}}, m.Update)
	for _, clock := range []time.Duration{time.Hour, 0, -time.Hour} { // the same millisecond, and a clock that went back
		later, changed := m.Rewrite(after, m.Apply(after, ledger.Step{Order: contract.OrderRefunded}, now), now.Add(clock))
		require.True(t, changed)
		require.Equal(t, after.ChangedAt.Add(time.Millisecond), later.ChangedAt)
	}
}

// TestUnitsAreConserved applies steps in any order: a purchase never falls back to a stage, and its units are in one
// place.
func TestUnitsAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := ledger.NewMoves()
		row := ledger.New(purchase(), now)
		if rapid.IntRange(0, 4).Draw(t, "rejected") == 0 {
			row = row.Rejected(ledger.ReasonSoldOut)
		}
		m.Place(row)
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ledger.Step {
			return ledger.Step{
				Order: rapid.SampledFrom([]contract.OrderEventType{
					contract.OrderCreated, contract.OrderPaid, contract.OrderClosed, contract.OrderRefunded,
				}).Draw(t, "order"),
				At: now, Reason: rapid.SampledFrom([]string{"expired", "cancelled", "NOT A REASON"}).Draw(t, "reason"),
				Tombstone: rapid.Bool().Draw(t, "tombstone"), Present: rapid.Bool().Draw(t, "present"),
			}
		}), 0, 8).Draw(t, "steps")
		for _, s := range steps {
			before := row
			row = m.Apply(row, s, now)
			require.GreaterOrEqual(t, ledger.StageOf(row).Rank(), ledger.StageOf(before).Rank(), "a purchase only rises")
			require.Equal(t, row.Holds(), ledger.StageOf(row).Holds())
			if ledger.StageOf(before).Ended() {
				require.Equal(t, before.Entry(), row.Entry(), "an ended purchase stays as it is")
			}
		}
		var held int64
		for _, l := range row.Lines {
			want := map[ledger.State]ledger.StockDelta{
				ledger.StateReserved: {Available: -l.Qty, Reserved: l.Qty}, ledger.StateSold: {Available: -l.Qty, Sold: l.Qty},
			}[row.State]
			require.Equal(t, want, m.Stocks[ledger.Shelf{ActivityID: row.ActivityID, SKUID: l.SKUID}])
			held += want.Reserved + want.Sold
		}
		require.Equal(t, held, m.Allowances[row.Buyer()])
	})
}

// TestARepairedEntryAgrees draws a row and an entry of the same purchase. The repair that follows makes them agree, and
// an entry is ahead only while both hold units.
func TestARepairedEntryAgrees(t *testing.T) {
	deadline := now.Add(time.Hour)
	rapid.Check(t, func(t *rapid.T) {
		row := ledger.New(purchase(), now)
		row.State = rapid.SampledFrom([]ledger.State{
			ledger.StateReserved, ledger.StateSold, ledger.StateReleased, ledger.StateRejected,
		}).Draw(t, "state")
		if !row.Holds() {
			row.Reason = rapid.SampledFrom([]string{"expired", "refunded"}).Draw(t, "reason")
		}
		if row.State != ledger.StateRejected && rapid.Bool().Draw(t, "order") {
			row.OrderCreatedAt, row.ExpiresAt = &now, &deadline
		}
		var e *ledger.StoredEntry
		if stage := rapid.SampledFrom([]ledger.Stage{
			"", ledger.StageQueued, ledger.StageLanded, ledger.StageCreated, ledger.StagePaid, ledger.StageClosed,
			ledger.StageFailed, ledger.StageBroken,
		}).Draw(t, "stage"); stage != "" {
			e = &ledger.StoredEntry{Entry: row.Entry(), Stored: "as stored"}
			e.Stage = stage
		}
		f := ledger.Judge(&row, e, now)
		require.Empty(t, f.Why)
		require.False(t, f.Ahead && (!row.Holds() || !e.Holds()))
		if f.Agrees() {
			require.Equal(t, row.Holds(), e.Holds())
			return
		}
		require.Equal(t, e != nil, f.To.Read != "")
		require.True(t, ledger.Judge(&row, &ledger.StoredEntry{Entry: f.To.Entry}, now).Agrees())
	})
}
