package stockgate

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

// stages lists all stages, and how a purchase of one unit of SKU 1 by ann gets there.
var stages = []struct {
	name  string
	bring func(e *env)
	entry Entry // times left out
}{
	{"unknown", func(*env) {}, Entry{}},
	{"queued", func(e *env) { e.reserve("1", "ann", lines(1)) }, Entry{Status: StatusQueued}},
	{"landed", func(e *env) { e.settle("1", "ann", lines(1), StepLanded) }, Entry{Status: StatusQueued, Landed: true}},
	{"created", func(e *env) { e.settle("1", "ann", lines(1), StepCreated) }, Entry{Status: StatusCreated, Landed: true}},
	{"paid", func(e *env) { e.settle("1", "ann", lines(1), StepPaid) }, Entry{Status: StatusPaid, Landed: true}},
	{"closed", func(e *env) {
		e.reserve("1", "ann", lines(1))
		e.release("1", "ann", lines(1), "expired")
	}, Entry{Status: StatusClosed, Reason: "expired"}},
	{"failed", func(e *env) {
		e.reserve("1", "ann", lines(1))
		e.drop("1", "ann", lines(1), "system")
	}, Entry{Status: StatusFailed, Reason: "system"}},
}

// TestEveryStepFromEveryStage checks the whole table of what settle, release and drop do to an entry.
func TestEveryStepFromEveryStage(t *testing.T) {
	landed := Entry{Status: StatusQueued, Landed: true}
	created := Entry{Status: StatusCreated, Landed: true}
	paid := Entry{Status: StatusPaid, Landed: true}
	closed := Entry{Status: StatusClosed, Reason: "cancelled"}
	failed := Entry{Status: StatusFailed, Reason: "sold_out"}
	refunded := Entry{Status: StatusClosed, Reason: contract.ReasonRefunded}
	failedRefunded := Entry{Status: StatusFailed, Reason: contract.ReasonRefunded}
	steps := []struct {
		name string
		do   func(e *env)
		// from unknown, queued, landed, created, paid; an ended entry stays as it is
		become [5]Entry
	}{
		{
			"settle landed", func(e *env) { e.settle("1", "ann", lines(1), StepLanded) },
			[5]Entry{landed, landed, landed, created, paid},
		},
		{
			"settle created", func(e *env) { e.settle("1", "ann", lines(1), StepCreated) },
			[5]Entry{created, created, created, created, paid},
		},
		{"settle paid", func(e *env) { e.settle("1", "ann", lines(1), StepPaid) }, [5]Entry{paid, paid, paid, paid, paid}},
		{
			"release", func(e *env) { e.release("1", "ann", lines(1), "cancelled") },
			[5]Entry{closed, closed, closed, closed, paid},
		},
		{
			"release refunded", func(e *env) { e.release("1", "ann", lines(1), contract.ReasonRefunded) },
			[5]Entry{refunded, refunded, refunded, refunded, refunded},
		},
		{
			"drop refunded", func(e *env) { e.drop("1", "ann", lines(1), contract.ReasonRefunded) },
			[5]Entry{failedRefunded, failedRefunded, failedRefunded, refunded, paid},
		},
		{
			"drop", func(e *env) { e.drop("1", "ann", lines(1), "sold_out") },
			[5]Entry{failed, failed, failed, {Status: StatusClosed, Reason: "sold_out"}, paid},
		},
	}
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		for _, stage := range stages {
			for _, step := range steps {
				t.Run(step.name+" from "+stage.name, func(t *testing.T) {
					e := newEnv(t, e.rdb, Options{})
					defer e.wipe()
					e.open(openConfig(), 10)
					stage.bring(e)
					want := stage.entry
					for i, s := range stages[:5] {
						if s.name == stage.name {
							want = step.become[i]
						}
					}
					for range 3 { // repeated calls change nothing more
						step.do(e)
						got := e.entry("1")
						require.Equal(t, want.terminal(), !got.EndedAt.IsZero())
						require.Equal(t, want.Status == StatusCreated, !got.ExpiresAt.IsZero())
						require.Equal(t, "ann", got.UserID)
						require.Equal(t, lines(1), got.Lines)
						got = Entry{Status: got.Status, Landed: got.Landed, Reason: got.Reason}
						require.Equal(t, want, got)
						counts := Counts{Left: 10, Total: 10}
						switch {
						case want.Status == StatusPaid:
							counts.Left, counts.Sold = 9, 1
						case !want.terminal():
							counts.Left, counts.Held = 9, 1
						}
						require.Equal(t, counts, e.counts("1"))
					}
				})
			}
		}
	})
}

func TestEntryEndedFirstTakesNothing(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 1)
		e.release("1", "ann", lines(1), "expired")
		e.drop("2", "bob", lines(1), "sold_out")
		for _, step := range []Step{StepLanded, StepCreated, StepPaid} {
			e.settle("1", "ann", lines(1), step)
			e.settle("2", "bob", lines(1), step)
		}
		v := e.reserve("1", "ann", lines(1))
		require.Equal(t, Known, v.Outcome)
		require.Equal(t, StatusClosed, v.Entry.Status)
		require.Equal(t, StatusFailed, e.reserve("2", "bob", lines(1)).Entry.Status)
		require.Equal(t, Counts{Left: 1, Total: 1}, e.counts("1"))
	})
}

func TestReleaseRestoresStockAndAllowance(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 2, 1)
		require.Equal(t, Accepted, e.reserve("1", "ann", lines(1, 1)).Outcome)
		require.Equal(t, LimitReached, e.reserve("2", "ann", lines(1)).Outcome)
		e.release("1", "ann", lines(9), "expired") // it restores what the gate took, not what the caller names
		require.Equal(t, int64(2), e.counts("1").Left)
		require.Equal(t, int64(1), e.counts("2").Left)
		require.Equal(t, Accepted, e.reserve("2", "ann", lines(2)).Outcome)
	})
}

func TestSettleAdoptsBelowZero(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 1)
		e.settle("1", "ann", lines(3), StepPaid)
		e.settle("2", "ann", lines(2), StepCreated)
		e.settle("3", "ann", []Line{{SKUID: "7", Qty: 1}}, StepLanded) // not sold here, but in the ledger
		require.Equal(t, Counts{Left: -4, Held: 2, Sold: 3, Total: 1}, e.counts("1"))
		require.Equal(t, Counts{Left: -1, Held: 1}, e.counts("7"))
		require.Equal(t, SoldOut, e.reserve("4", "bob", lines(1)).Outcome)
		require.Equal(t, []string{"1", "2", "3"}, e.reserve("5", "ann", lines(1)).OrderSNs)
		e.release("2", "ann", lines(2), "expired")
		require.Equal(t, int64(-2), e.counts("1").Left)
	})
}

func TestSettleCorrectsBuyerAndLines(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 10, 10)
		e.reserve("1", "ann", lines(1))
		e.settle("1", "ann", lines(0, 2), StepLanded)
		require.Equal(t, Counts{Left: 10, Total: 10}, e.counts("1"))
		require.Equal(t, Counts{Left: 8, Held: 2, Total: 10}, e.counts("2"))
		e.settle("1", "bob", lines(1, 1), StepLanded)
		require.Equal(t, Counts{Left: 9, Held: 1, Total: 10}, e.counts("1"))
		require.Equal(t, Accepted, e.reserve("2", "ann", lines(2)).Outcome, "ann holds nothing any more")
		require.Equal(t, []string{"1"}, e.reserve("3", "bob", lines(1)).OrderSNs)
		e.settle("1", "bob", lines(1, 1), StepPaid)
		e.settle("1", "bob", lines(2), StepLanded) // lines are corrected, the status stays paid
		require.Equal(t, StatusPaid, e.entry("1").Status)
		require.Equal(t, Counts{Left: 6, Held: 2, Sold: 2, Total: 10, Journal: 2}, e.counts("1"))
	})
}

func TestBatchesOfAnySize(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		const n = 2*batchSize + 7
		e.open(openConfig(), n)
		var settlements []Settlement
		var endings []Ending
		var sns []string
		for i := range n {
			sn := strconv.Itoa(i + 1)
			sns = append(sns, sn)
			settlements = append(settlements, Settlement{OrderSN: sn, UserID: "u" + sn, Lines: lines(1), Step: StepLanded})
			endings = append(endings, Ending{OrderSN: sn, UserID: "u" + sn, Lines: lines(1), Reason: "expired"})
		}
		require.NoError(t, e.Settle(t.Context(), e.activityID, settlements))
		e.check()
		require.Equal(t, Counts{Held: n, Total: n}, e.counts("1"))
		found, err := e.Lookup(t.Context(), e.activityID, append(sns, "999999"))
		require.NoError(t, err)
		require.Len(t, found, n)
		require.NoError(t, e.Release(t.Context(), e.activityID, endings))
		e.check()
		require.Equal(t, Counts{Left: n, Total: n}, e.counts("1"))
	})
}

func TestEndedPurchasesStayForADay(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		now := time.Now().UTC().Truncate(time.Millisecond)
		s := Snapshot{Config: openConfig(), Stock: map[string]int64{"1": 5}, Totals: map[string]int64{"1": 5}}
		for i := range 40 {
			ended := now.Add(-23 * time.Hour)
			if i < 30 {
				ended = now.Add(-25 * time.Hour)
			}
			s.Entries = append(s.Entries, Entry{
				OrderSN: strconv.Itoa(i + 1), UserID: "ann", Lines: lines(1),
				Status: StatusClosed, Reason: "expired", EndedAt: ended,
			})
		}
		require.NoError(t, e.Preload(ctx, e.activityID, s))
		mine, err := e.Purchases(ctx, e.activityID, "ann")
		require.NoError(t, err)
		require.Len(t, mine.OrderSNs, maxEnded)
		n, err := e.Trim(ctx, e.activityID, 20)
		require.NoError(t, err)
		require.Equal(t, 20, n)
		e.release("100", "bob", lines(1), "expired") // trims 8 as well
		n, err = e.Trim(ctx, e.activityID, 20)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		found, err := e.Lookup(ctx, e.activityID, []string{"30", "31"})
		require.NoError(t, err)
		require.NotContains(t, found, "30")
		require.Contains(t, found, "31")
		audit, err := e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, [3]int64{11, 11, 30}, [3]int64{audit.EntriesLen, audit.EndedLen, audit.Trimmed})
	})
}

func TestPurchasesReturnsHeldAndEnded(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 9)
		e.reserve("9", "ann", lines(1))
		e.reserve("10", "ann", lines(1))
		e.release("9", "ann", lines(1), "cancelled")
		e.reserve("11", "ann", lines(1))
		mine, err := e.Purchases(t.Context(), e.activityID, "ann")
		require.NoError(t, err)
		require.Equal(t, []string{"9", "10", "11"}, mine.OrderSNs)
		require.Nil(t, mine.CancellationsLeft, "any number")
		mine, err = e.Purchases(t.Context(), e.activityID, "bob")
		require.NoError(t, err)
		require.Empty(t, mine.OrderSNs)
		require.Equal(t, []string{"10", "11"}, e.reserve("12", "ann", lines(1)).OrderSNs)
	})
}

func TestMalformedItemsNeverReachRedis(t *testing.T) {
	ctx, g, activityID := t.Context(), New(nil, Options{}), "1"
	require.Error(t, g.Settle(ctx, activityID, []Settlement{{OrderSN: "1", UserID: "ann", Lines: lines(1), Step: "refunded"}}))
	require.Error(t, g.Settle(ctx, activityID, []Settlement{{OrderSN: "x", UserID: "ann", Lines: lines(1), Step: StepPaid}}))
	require.Error(t, g.Release(ctx, activityID, []Ending{{OrderSN: "1", UserID: "ann", Lines: lines(1), Reason: "a|b"}}))
	require.Error(t, g.Drop(ctx, activityID, []Ending{{OrderSN: "1", UserID: "ann", Lines: lines(1)}}))
	require.Error(t, g.Drop(ctx, activityID, []Ending{{OrderSN: "1", UserID: "", Lines: lines(1), Reason: "system"}}))
	_, err := g.Lookup(ctx, activityID, []string{"-1"})
	require.Error(t, err)
	_, err = g.Purchases(ctx, activityID, "a b")
	require.Error(t, err)
	_, err = g.Rejournal(ctx, activityID, []string{""})
	require.Error(t, err)
}
