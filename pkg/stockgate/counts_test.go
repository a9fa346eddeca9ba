package stockgate

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// add adds counts of one source.
func (e *env) add(source string, c RequestCounts) {
	e.t.Helper()
	require.NoError(e.t, e.AddCounts(e.t.Context(), e.activityID, source, c))
	e.check()
}

func (e *env) totals() RequestCounts {
	e.t.Helper()
	c, err := e.Totals(e.t.Context(), e.activityID)
	require.NoError(e.t, err)
	return c
}

func (e *env) pointsSince(at time.Time) []RequestCounts {
	e.t.Helper()
	points, err := e.CountsSince(e.t.Context(), e.activityID, at)
	require.NoError(e.t, err)
	return points
}

func TestCountsOfAllProcessesAddUp(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 5)
		require.Zero(t, e.totals())
		require.Empty(t, e.pointsSince(time.Now().Add(-time.Hour)))

		last := time.Now().UTC().Truncate(time.Second)
		first := last.Add(-61 * time.Second) // of another minute
		e.add("a", RequestCounts{At: first, Accepted: 1, Paths: 3, Refused: map[string]int64{"sold_out": 2}})
		e.add("b", RequestCounts{At: first, Accepted: 4, Refused: map[string]int64{"sold_out": 5, "rate_limited": 1}})
		e.add("a", RequestCounts{At: last, Paths: 7})
		e.add("a", RequestCounts{At: last.Add(time.Second)}) // nothing to add

		sum := RequestCounts{At: first, Accepted: 5, Paths: 3, Refused: map[string]int64{"sold_out": 7, "rate_limited": 1}}
		require.Equal(t, []RequestCounts{sum, {At: last, Paths: 7}}, e.pointsSince(time.Time{}))
		require.Equal(t, []RequestCounts{sum, {At: last, Paths: 7}}, e.pointsSince(first))
		require.Equal(t, []RequestCounts{{At: last, Paths: 7}}, e.pointsSince(first.Add(time.Second)))
		require.Empty(t, e.pointsSince(last.Add(time.Hour)))
		sum.At, sum.Accepted, sum.Paths = time.Time{}, 0, 10
		require.Equal(t, sum, e.totals())
	})
}

func TestRepeatedCountsAddNothing(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 5)
		at := time.Now().UTC().Truncate(time.Minute).Add(30 * time.Second)
		var same sync.WaitGroup
		for range 8 {
			same.Go(func() {
				assert.NoError(t, e.AddCounts(t.Context(), e.activityID, "a", RequestCounts{At: at, Accepted: 1}))
			})
		}
		same.Wait()
		e.add("a", RequestCounts{At: at.Add(-time.Second), Accepted: 1}) // late
		e.add("a", RequestCounts{At: at.Add(time.Second), Accepted: 1})
		e.add("b", RequestCounts{At: at.Add(-time.Second), Accepted: 1})
		require.Zero(t, e.totals(), "responses do not count in the total of accepted purchases")
		require.Equal(t, []RequestCounts{
			{At: at.Add(-time.Second), Accepted: 1}, {At: at, Accepted: 1}, {At: at.Add(time.Second), Accepted: 1},
		}, e.pointsSince(at.Add(-time.Minute)))
	})
}

func TestPointsExpireAndAreBounded(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 5)
		last := time.Now().UTC().Truncate(time.Second)
		e.add("a", RequestCounts{At: last, Accepted: 1})
		ttl, err := e.rdb.PTTL(ctx, pointsKey(e.activityID, last)).Result()
		require.NoError(t, err)
		require.InDelta(t, 16*time.Minute, ttl, float64(time.Minute))

		_, err = e.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range MaxPoints + 30 {
				at := last.Add(-time.Duration(i+1) * time.Second)
				p.HSet(ctx, pointsKey(e.activityID, at), strconv.FormatInt(at.Unix(), 10)+"|paths", 1)
				p.Expire(ctx, pointsKey(e.activityID, at), time.Minute)
			}
			return nil
		})
		require.NoError(t, err)
		points := e.pointsSince(time.Time{})
		require.Len(t, points, MaxPoints)
		require.Equal(t, last, points[MaxPoints-1].At)
		require.Equal(t, last.Add(-(MaxPoints-1)*time.Second), points[0].At)
	})
}

// The total of accepted purchases counts each purchase of the gate once, however its entry was created.
func TestAcceptedPurchasesAreCountedOnce(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx, accepted := t.Context(), func(n int64) {
			t.Helper()
			require.Equal(t, RequestCounts{Accepted: n}, e.totals())
		}
		e.open(openConfig(), 5)
		for range 2 { // the second time as a repetition after a lost reply
			_, err := e.Reserve(ctx, e.activityID, []Request{
				{OrderSN: "1", UserID: "ann", Lines: lines(1)},
				{OrderSN: "1", UserID: "ann", Lines: lines(1)},
				{OrderSN: "2", UserID: "bob", Lines: lines(2)},
				{OrderSN: "3", UserID: "bob", Lines: lines(1)}, // over the limit
			})
			require.NoError(t, err)
			accepted(2)
		}
		ends := func(sn string) []Ending {
			return []Ending{{OrderSN: sn, UserID: "eve", Lines: lines(1), Reason: "expired"}}
		}
		for range 2 {
			require.NoError(t, e.Settle(ctx, e.activityID, []Settlement{
				{OrderSN: "2", UserID: "bob", Lines: lines(2), Step: StepLanded},
				{OrderSN: "4", UserID: "eve", Lines: lines(1), Step: StepLanded}, // adopted
			}))
			accepted(3)
		}
		for range 2 { // unknown: the gate has lost them, and the ledger released and rejected them
			require.NoError(t, e.Release(ctx, e.activityID, ends("5")))
			require.NoError(t, e.Drop(ctx, e.activityID, ends("6")))
			accepted(5)
		}
		require.NoError(t, e.Release(ctx, e.activityID, []Ending{{OrderSN: "2", UserID: "bob", Lines: lines(2), Reason: "expired"}}))
		accepted(5)
		require.NoError(t, e.rdb.HSet(ctx, keyOf(e.activityID, "held"), "4", "?").Err())
		a, err := e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		done, err := e.Repair(ctx, e.activityID, a.Revision.Build, []Repair{{
			OrderSN: "4", Seen: "?", To: Entry{OrderSN: "4", UserID: "eve", Lines: lines(1), Status: StatusPaid},
		}})
		require.NoError(t, err)
		require.True(t, done["4"])
		accepted(5)
	})
}

// Counts that are of another type stop neither a purchase nor the building of a gate.
func TestDamagedCountsStopNoSale(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		require.NoError(t, e.rdb.Set(t.Context(), keyOf(e.activityID, "counts"), "x", 0).Err())
		e.open(openConfig(), 5)
		require.Equal(t, Accepted, e.reserve("1", "ann", lines(1)).Outcome)
		e.check()
	})
}

// A lost gate is built again. Its total of accepted purchases is then that of the ledger; the other totals stay, unless
// they are lost as well.
func TestTotalsOutliveTheGate(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		c := RequestCounts{At: time.Now().UTC().Truncate(time.Second), Paths: 1}
		require.ErrorIs(t, e.AddCounts(ctx, e.activityID, "a", c), ErrNoGate)
		require.Zero(t, e.totals())
		e.open(openConfig(), 5)
		e.add("a", c)
		e.reserve("1", "ann", lines(1))
		require.NoError(t, e.rdb.Del(ctx, keyOf(e.activityID, "gate")).Err())
		require.ErrorIs(t, e.AddCounts(ctx, e.activityID, "b", c), ErrNoGate)
		s := Snapshot{Config: openConfig(), Stock: map[string]int64{"1": 4}, Totals: map[string]int64{"1": 5}, EndedBefore: 7}
		s.Entries = []Entry{{OrderSN: "2", UserID: "bob", Lines: lines(1), Status: StatusPaid}}
		require.NoError(t, e.Preload(ctx, e.activityID, s))
		require.Equal(t, RequestCounts{Accepted: 8, Paths: 1}, e.totals())
		s.EndedBefore = -1
		require.Error(t, e.Preload(ctx, e.activityID, s))
	})
}

func TestDamagedCountsAreReported(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 5)
		at := time.Now().UTC().Truncate(time.Second)
		for key, field := range map[string]string{
			keyOf(e.activityID, "counts"): "paths", pointsKey(e.activityID, at): strconv.FormatInt(at.Unix(), 10) + "|paths",
		} {
			require.NoError(t, e.rdb.HSet(ctx, key, field, "many", "0|later", "1", "later", "1").Err())
		}
		_, err := e.Totals(ctx, e.activityID)
		require.ErrorIs(t, err, ErrBroken)
		_, err = e.CountsSince(ctx, e.activityID, at)
		require.ErrorIs(t, err, ErrBroken)
		require.NoError(t, e.rdb.Del(ctx, pointsKey(e.activityID, at)).Err())
	})
}

func TestMalformedCountsNeverReachRedis(t *testing.T) {
	ctx, g, at := t.Context(), New(nil, Options{}), time.Unix(1000, 0)
	many := map[string]int64{}
	for i := range maxCodes + 1 {
		many["c"+strconv.Itoa(i)] = 1
	}
	for name, c := range map[string]RequestCounts{
		"no time":    {Accepted: 1},
		"fraction":   {At: at.Add(time.Millisecond), Accepted: 1},
		"negative":   {At: at, Accepted: -1},
		"large":      {At: at, Paths: maxExact},
		"code":       {At: at, Refused: map[string]int64{"a|b": 1}},
		"empty code": {At: at, Refused: map[string]int64{"": 1}},
		"codes":      {At: at, Refused: many},
	} {
		require.Error(t, g.AddCounts(ctx, "1", "a", c), name)
	}
	fine := RequestCounts{At: at, Accepted: 1}
	require.Error(t, g.AddCounts(ctx, "x", "a", fine))
	require.Error(t, g.AddCounts(ctx, "1", "", fine))
	require.Error(t, g.AddCounts(ctx, "1", strings.Repeat("a", 65), fine))
	require.NoError(t, g.AddCounts(ctx, "1", "a", RequestCounts{At: at}), "nothing to add")
	_, err := g.Totals(ctx, "x")
	require.Error(t, err)
	_, err = g.CountsSince(ctx, "x", at)
	require.Error(t, err)
}
