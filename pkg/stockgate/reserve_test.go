package stockgate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestReserveDecidesInOrder(t *testing.T) {
	eachServer(t, Options{JournalMax: 3}, func(t *testing.T, e *env) {
		ctx := t.Context()
		c := openConfig()
		e.open(c, 3, 1)

		v := e.reserve("101", "ann", lines(1))
		require.Equal(t, Accepted, v.Outcome)
		require.Equal(t, StatusQueued, v.Entry.Status)
		require.WithinDuration(t, time.Now(), v.Entry.ReservedAt, time.Minute)
		require.Equal(t, Entry{
			OrderSN: "101", UserID: "ann", Lines: lines(1), Status: StatusQueued,
			ReservedAt: v.Entry.ReservedAt,
		}, v.Entry)
		require.Equal(t, v.Entry, e.entry("101"))

		known := e.reserve("101", "ann", lines(1))
		require.Equal(t, Verdict{Outcome: Known, Entry: v.Entry}, known)
		require.Equal(t, Conflict, e.reserve("101", "bob", lines(1)).Outcome, "another buyer")
		require.Equal(t, Conflict, e.reserve("101", "ann", lines(2)).Outcome, "other lines")

		require.Equal(t, Verdict{Outcome: LimitReached, OrderSNs: []string{"101"}}, e.reserve("102", "ann", lines(2)))
		require.Equal(t, UnknownSKU, e.reserve("103", "bob", []Line{{SKUID: "9", Qty: 1}}).Outcome)
		require.Equal(t, SoldOut, e.reserve("104", "bob", lines(0, 2)).Outcome)
		require.Equal(t, Accepted, e.reserve("105", "ann", lines(0, 1)).Outcome, "the limit is what one may hold")
		require.Equal(t, Verdict{Outcome: LimitReached, OrderSNs: []string{"101", "105"}}, e.reserve("106", "ann", lines(1)))

		require.Equal(t, Accepted, e.reserve("107", "bob", lines(1)).Outcome)
		require.Equal(t, JournalFull, e.reserve("108", "cat", lines(1)).Outcome, "three entries wait")
		require.Equal(t, SoldOut, e.reserve("109", "cat", lines(2)).Outcome, "stock comes before the journal")
		require.Equal(t, Counts{Left: 1, Held: 2, Total: 3, Journal: 2}, e.counts("1"))
		require.Equal(t, Counts{Left: 0, Held: 1, Total: 1, Journal: 1}, e.counts("2"))

		for _, state := range []struct {
			change  func(*Config)
			outcome Outcome
		}{
			{func(c *Config) { c.StartsAt = time.Now().Add(time.Minute) }, NotStarted},
			{func(c *Config) { c.EndsAt = time.Now().Add(-time.Minute) }, Ended},
			{func(c *Config) { c.State = GatePaused }, Paused},
			{func(c *Config) { c.State = GateEnded }, Ended},
		} {
			changed := c
			state.change(&changed)
			require.NoError(t, e.Configure(ctx, e.activityID, changed))
			v := e.reserve("110", "ann", []Line{{SKUID: "9", Qty: 9}})
			require.Equal(t, state.outcome, v.Outcome, "before limit, SKU and stock")
			if state.outcome == NotStarted {
				require.Equal(t, changed.StartsAt.UnixMilli(), v.StartsAt.UnixMilli())
			}
			require.Equal(t, Known, e.reserve("101", "ann", lines(1)).Outcome, "in every state of the sale")
			require.Equal(t, Conflict, e.reserve("101", "ann", lines(2)).Outcome)
		}
	})
}

func TestReserveKeepsTheOrderOfAGroup(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 3)
		vs, err := e.Reserve(t.Context(), e.activityID, []Request{
			{OrderSN: "1", UserID: "ann", Lines: lines(1), Traceparent: trace},
			{OrderSN: "1", UserID: "ann", Lines: lines(1)}, // a retry in the same group
			{OrderSN: "1", UserID: "bob", Lines: lines(1)},
			{OrderSN: "2", UserID: "ann", Lines: lines(1), Traceparent: "a|b"},
			{OrderSN: "3", UserID: "ann", Lines: lines(1)},
			{OrderSN: "4", UserID: "bob", Lines: lines(2)},
			{OrderSN: "5", UserID: "bob", Lines: lines(1)},
			{OrderSN: "6", UserID: "cat", Lines: lines(1)},
		})
		require.NoError(t, err)
		e.check()
		var outcomes []Outcome
		for _, v := range vs {
			outcomes = append(outcomes, v.Outcome)
		}
		require.Equal(t, []Outcome{Accepted, Known, Conflict, Accepted, LimitReached, SoldOut, Accepted, SoldOut}, outcomes)
		require.Equal(t, []string{"1", "2"}, vs[4].OrderSNs)
		require.Equal(t, trace, vs[0].Entry.Traceparent)
		require.Empty(t, vs[3].Entry.Traceparent, "a malformed traceparent is not stored")
		journal, _, err := e.ReadJournal(t.Context(), e.activityID, "relay", 10)
		require.NoError(t, err)
		require.Len(t, journal, 3)
		require.NoError(t, journal[0].Validate())
		require.Equal(t, trace, journal[0].Traceparent)
		require.Equal(t, vs[0].Entry.ReservedAt, journal[0].ReservedAt)
		require.Equal(t, e.activityID, journal[0].ActivityID)
		require.Equal(t, []string{"1", "2", "5"}, []string{journal[0].OrderSN, journal[1].OrderSN, journal[2].OrderSN})
	})
}

func TestSoldOutReturnsWhenUnitsMayReturn(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := openConfig()
		e.open(c, 1, 0)
		require.Equal(t, Accepted, e.reserve("1", "ann", lines(1)).Outcome)
		require.Equal(t, Verdict{Outcome: SoldOut, MayReturnUntil: c.EndsAt}, e.reserve("2", "bob", lines(1)), "no deadline yet")
		e.settle("1", "ann", lines(1), StepCreated)
		require.Equal(t, Verdict{Outcome: SoldOut, MayReturnUntil: deadline}, e.reserve("2", "bob", lines(1)))
		require.Equal(t, Verdict{Outcome: SoldOut}, e.reserve("2", "bob", lines(1, 1)), "nothing of SKU 2 is unpaid")
		e.settle("1", "ann", lines(1), StepPaid)
		require.Equal(t, Verdict{Outcome: SoldOut}, e.reserve("2", "bob", lines(1)))
	})
}

func TestReserveRejectsMalformedRequests(t *testing.T) {
	g := New(nil, Options{}) // nothing may reach Redis
	for name, r := range map[string]Request{
		"order_sn":  {OrderSN: "01", UserID: "ann", Lines: lines(1)},
		"user":      {OrderSN: "1", UserID: "a|b", Lines: lines(1)},
		"no lines":  {OrderSN: "1", UserID: "ann"},
		"two lines": {OrderSN: "1", UserID: "ann", Lines: []Line{{SKUID: "1", Qty: 1}, {SKUID: "1", Qty: 1}}},
	} {
		_, err := g.Reserve(t.Context(), "1", []Request{r})
		require.Error(t, err, name)
	}
	_, err := g.Reserve(t.Context(), "1", make([]Request, MaxGroup+1))
	require.Error(t, err)
	valid := []Request{{OrderSN: "1", UserID: "ann", Lines: lines(1)}}
	_, err = g.Reserve(t.Context(), "x", valid)
	require.Error(t, err)
	vs, err := g.Reserve(t.Context(), "1", nil)
	require.NoError(t, err)
	require.Empty(t, vs)
}
