package stockgate

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// allowance returns the allowance of one buyer, and checks that the call writes nothing.
func (e *env) allowance(user string) Allowance {
	e.t.Helper()
	before := e.image()
	all, err := e.Allowances(e.t.Context(), e.activityID, []string{user})
	require.NoError(e.t, err)
	require.Len(e.t, all, 1)
	require.Equal(e.t, before, e.image())
	return all[0]
}

// request reserves one unit of SKU 1 by a path that was issued at this time.
func (e *env) request(sn, user string, issued time.Time) Verdict {
	e.t.Helper()
	vs, err := e.Reserve(e.t.Context(), e.activityID, []Request{{OrderSN: sn, UserID: user, Lines: lines(1), IssuedAt: issued}})
	require.NoError(e.t, err)
	e.check()
	return vs[0]
}

func TestAllowanceIsUsedByWhatTheBuyerHolds(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		_, err := e.Allowances(t.Context(), e.activityID, []string{"ann"})
		require.ErrorIs(t, err, ErrNoGate)
		e.open(openConfig(), 10)
		require.Zero(t, e.allowance("ann"))
		e.reserve("1", "ann", lines(1))
		require.Zero(t, e.allowance("ann"), "the limit is 2")
		e.reserve("2", "ann", lines(1))
		require.Equal(t, Allowance{Used: true, OrderSNs: []string{"1", "2"}}, e.allowance("ann"))
		e.release("1", "ann", lines(1), "rejected")
		require.Zero(t, e.allowance("ann"))

		many := []string{"bob", "ann", "bob"}
		all, err := e.Allowances(t.Context(), e.activityID, many)
		require.NoError(t, err)
		require.Equal(t, make([]Allowance, 3), all)
		_, err = e.Allowances(t.Context(), e.activityID, []string{"a b"})
		require.Error(t, err)
		_, err = e.Allowances(t.Context(), e.activityID, make([]string, batchSize+1))
		require.Error(t, err)
	})
}

func TestPathsFromBeforeTheLatestReservationAreVoid(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := openConfig()
		c.PerUserLimit = 3
		e.open(c, 10)
		issued, err := e.Now(t.Context())
		require.NoError(t, err)
		issued = issued.Add(-time.Second)

		first := e.request("1", "ann", issued)
		require.Equal(t, Accepted, first.Outcome)
		require.Equal(t, PathVoid, e.request("2", "ann", issued).Outcome)
		require.Equal(t, Known, e.request("1", "ann", issued).Outcome, "a known purchase keeps its state")
		require.Equal(t, Accepted, e.request("3", "bob", issued).Outcome, "paths of others stay valid")
		require.Equal(t, Accepted, e.request("4", "ann", first.Entry.ReservedAt).Outcome, "issued in the same millisecond")

		// Also after the purchase has ended.
		e.release("4", "ann", lines(1), "cancelled")
		e.release("1", "ann", lines(1), "cancelled")
		require.Equal(t, PathVoid, e.request("5", "ann", issued).Outcome)
		now, err := e.Now(t.Context())
		require.NoError(t, err)
		require.Equal(t, Accepted, e.request("6", "ann", now).Outcome)

		// Within one group, too.
		vs, err := e.Reserve(t.Context(), e.activityID, []Request{
			{OrderSN: "7", UserID: "cid", Lines: lines(1), IssuedAt: issued},
			{OrderSN: "8", UserID: "cid", Lines: lines(1), IssuedAt: issued},
		})
		require.NoError(t, err)
		require.Equal(t, []Outcome{Accepted, PathVoid}, []Outcome{vs[0].Outcome, vs[1].Outcome})
	})
}

// ended returns an entry that ended this long ago.
func ended(sn int, user, reason string, ago time.Duration) Entry {
	return Entry{
		OrderSN: strconv.Itoa(sn), UserID: user, Lines: lines(1), Status: StatusClosed, Reason: reason,
		EndedAt: time.Now().Add(-ago).UTC().Truncate(time.Millisecond),
	}
}

func TestReorderLimitEndsTheAllowanceForTenMinutes(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := openConfig()
		c.ReorderLimit = 2
		s := Snapshot{Config: c, Stock: map[string]int64{"1": 100}, Totals: map[string]int64{"1": 100}}
		add := func(user string, reasons []string, agos ...time.Duration) {
			for i, ago := range agos {
				s.Entries = append(s.Entries, ended(len(s.Entries)+1, user, reasons[i%len(reasons)], ago))
			}
		}
		both := []string{"expired", "cancelled"}
		add("two", both, time.Minute, time.Minute)
		add("three", both, time.Hour, 2*time.Hour, time.Minute)
		add("past", both, 11*time.Minute, 11*time.Minute, 11*time.Minute)
		add("again", both, time.Hour, time.Hour, time.Hour, time.Second)
		add("rejected", []string{"rejected", "voided", "refunded"}, time.Minute, time.Minute, time.Minute)
		require.NoError(t, e.Preload(t.Context(), e.activityID, s))
		e.check()

		sn := 1000
		for user, barred := range map[string]bool{
			"none": false, "two": false, "three": true, "past": false, "again": true, "rejected": false,
		} {
			sn++
			a := e.allowance(user)
			require.Equal(t, barred, a.Used, user)
			mine, err := e.Purchases(t.Context(), e.activityID, user)
			require.NoError(t, err)
			require.Equal(t, map[string]int64{"none": 2, "rejected": 2}[user], *mine.CancellationsLeft, user)
			require.Equal(t, a.BarredUntil, mine.BarredUntil, user)
			v := e.reserve(strconv.Itoa(sn), user, lines(1))
			if !barred {
				require.Equal(t, Accepted, v.Outcome, user)
				continue
			}
			require.Equal(t, LimitReached, v.Outcome, user)
			require.Empty(t, v.OrderSNs)
			require.Equal(t, a.BarredUntil, v.BarredUntil)
			left := time.Until(v.BarredUntil)
			require.True(t, left > 5*time.Minute && left <= 10*time.Minute+time.Second, "%s: %s", user, left)
		}

		c.Version, c.ReorderLimit = 2, 0
		require.NoError(t, e.Configure(t.Context(), e.activityID, c))
		require.Equal(t, Accepted, e.reserve("2000", "three", lines(1)).Outcome, "0 is no limit")
	})
}

// The rule takes effect with the release that is one too many.
func TestReorderLimitFollowsReleases(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := openConfig()
		c.ReorderLimit = 1
		e.open(c, 10)
		for i, reason := range []string{"cancelled", "expired"} {
			sn := strconv.Itoa(i + 1)
			require.Equal(t, Accepted, e.reserve(sn, "ann", lines(1)).Outcome)
			e.settle(sn, "ann", lines(1), StepCreated)
			e.release(sn, "ann", lines(1), reason)
		}
		require.Equal(t, LimitReached, e.reserve("3", "ann", lines(1)).Outcome)
		require.True(t, e.allowance("ann").Used)
	})
}

// A gate that has lost its reorder limit has none until it is configured again.
func TestGateWithoutReorderLimit(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := openConfig()
		c.ReorderLimit = 1
		e.open(c, 10)
		require.NoError(t, e.rdb.HDel(t.Context(), keysOf(e.activityID)[0], "reorders").Err())
		a, err := e.Audit(t.Context(), e.activityID)
		require.NoError(t, err)
		require.EqualValues(t, -1, a.ReorderLimit)
		for i := range 3 {
			sn := strconv.Itoa(i + 1)
			require.Equal(t, Accepted, e.reserve(sn, "ann", lines(1)).Outcome)
			e.release(sn, "ann", lines(1), "cancelled")
		}
		require.NoError(t, e.Configure(t.Context(), e.activityID, c))
		a, err = e.Audit(t.Context(), e.activityID)
		require.NoError(t, err)
		require.EqualValues(t, 1, a.ReorderLimit)
		require.Equal(t, LimitReached, e.reserve("4", "ann", lines(1)).Outcome)
		for _, wrong := range []int64{-1, MaxReorderLimit + 1} {
			c.ReorderLimit = wrong
			require.Error(t, e.Configure(t.Context(), e.activityID, c))
		}
	})
}

func BenchmarkAllowances(b *testing.B) {
	e := newEnv(b, realRedis(b), Options{})
	b.Cleanup(e.wipe)
	e.open(openConfig(), 1000)
	users := make([]string, 64)
	for i := range users {
		users[i] = fmt.Sprintf("u%d", i)
	}
	ctx := context.Background()
	for b.Loop() {
		if _, err := e.Allowances(ctx, e.activityID, users); err != nil {
			b.Fatal(err)
		}
	}
}
