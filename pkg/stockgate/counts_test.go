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
	require.NoError(e.t, e.AddCounts(e.t.Context(), e.ref.ActivityID, source, c))
	e.check()
}

func (e *env) totals() RequestCounts {
	e.t.Helper()
	c, err := e.Totals(e.t.Context(), e.ref.ActivityID)
	require.NoError(e.t, err)
	return c
}

func (e *env) pointsSince(at time.Time) []RequestCounts {
	e.t.Helper()
	points, err := e.CountsSince(e.t.Context(), e.ref.ActivityID, at)
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
		sum.At, sum.Paths = time.Time{}, 10
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
				assert.NoError(t, e.AddCounts(t.Context(), e.ref.ActivityID, "a", RequestCounts{At: at, Accepted: 1}))
			})
		}
		same.Wait()
		e.add("a", RequestCounts{At: at.Add(-time.Second), Accepted: 1}) // late
		e.add("a", RequestCounts{At: at.Add(time.Second), Accepted: 1})
		e.add("b", RequestCounts{At: at.Add(-time.Second), Accepted: 1})
		require.Equal(t, RequestCounts{Accepted: 3}, e.totals())
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
		ttl, err := e.rdb.PTTL(ctx, pointsKey(e.ref, last)).Result()
		require.NoError(t, err)
		require.InDelta(t, 16*time.Minute, ttl, float64(time.Minute))

		_, err = e.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range MaxPoints + 30 {
				at := last.Add(-time.Duration(i+1) * time.Second)
				p.HSet(ctx, pointsKey(e.ref, at), strconv.FormatInt(at.Unix(), 10)+"|paths", 1)
				p.Expire(ctx, pointsKey(e.ref, at), time.Minute)
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

// A lost gate is built again; its totals stay, unless they are lost as well.
func TestTotalsOutliveTheGate(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		c := RequestCounts{At: time.Now().UTC().Truncate(time.Second), Accepted: 1}
		require.ErrorIs(t, e.AddCounts(ctx, e.ref.ActivityID, "a", c), ErrNoGate)
		require.Zero(t, e.totals())
		e.open(openConfig(), 5)
		e.add("a", c)
		require.NoError(t, e.rdb.Del(ctx, keyOf(e.ref, "gate")).Err())
		require.ErrorIs(t, e.AddCounts(ctx, e.ref.ActivityID, "b", c), ErrNoGate)
		e.open(openConfig(), 5)
		require.Equal(t, RequestCounts{Accepted: 1}, e.totals())
	})
}

func TestDamagedCountsAreReported(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 5)
		at := time.Now().UTC().Truncate(time.Second)
		for key, field := range map[string]string{
			keyOf(e.ref, "counts"): "paths", pointsKey(e.ref, at): strconv.FormatInt(at.Unix(), 10) + "|paths",
		} {
			require.NoError(t, e.rdb.HSet(ctx, key, field, "many", "0|later", "1", "later", "1").Err())
		}
		_, err := e.Totals(ctx, e.ref.ActivityID)
		require.ErrorIs(t, err, ErrBroken)
		_, err = e.CountsSince(ctx, e.ref.ActivityID, at)
		require.ErrorIs(t, err, ErrBroken)
		require.NoError(t, e.rdb.Del(ctx, pointsKey(e.ref, at)).Err())
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
