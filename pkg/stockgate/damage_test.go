package stockgate

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A damaged gate, sale or entry yields an error only for itself. The others of the same call are returned.

func TestBrokenGateDoesNotHideOthers(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 5)
		for damage, do := range map[string]func(b *env) error{
			"a counter": func(b *env) error { return b.rdb.HSet(ctx, keyOf(b.activityID, "gate"), "s:1", "many").Err() },
			"a deadline": func(b *env) error {
				return b.rdb.HSet(ctx, keyOf(b.activityID, "gate"), "h:1", "1", "x:1", "soon").Err()
			},
			"its window": func(b *env) error { return b.rdb.HSet(ctx, keyOf(b.activityID, "gate"), "ends", "late").Err() },
			"another type": func(b *env) error {
				b.wipe()
				return b.rdb.Set(ctx, keyOf(b.activityID, "gate"), "x", 0).Err()
			},
		} {
			b := newEnv(t, e.rdb, Options{})
			t.Cleanup(b.wipe)
			b.open(openConfig(), 5)
			require.NoError(t, do(b), damage)
			absent := newEnv(t, e.rdb, Options{})
			levels, err := e.StockLevels(ctx, b.activityID, e.activityID, absent.activityID)
			require.NoError(t, err, damage)
			require.ErrorIs(t, levels[0].Err, ErrBroken, damage)
			require.False(t, levels[0].Found, damage)
			require.NoError(t, levels[1].Err, damage)
			require.Equal(t, map[string]int64{"1": 5}, levels[1].Left, damage)
			require.Equal(t, StockLevel{ActivityID: absent.activityID}, levels[2], damage)
			_, _, err = e.UnitsLeft(ctx, b.activityID)
			require.ErrorIs(t, err, ErrBroken, damage)
		}
		_, err := e.Reserve(ctx, otherType(t, e), []Request{{OrderSN: "1", UserID: "ann", Lines: lines(1)}})
		require.ErrorIs(t, err, ErrBroken)
		require.NotErrorIs(t, err, ErrUnavailable)
		require.Equal(t, "closed", e.Breaker(), "Redis replies")
	})
}

func otherType(t *testing.T, e *env) string {
	b := newEnv(t, e.rdb, Options{})
	t.Cleanup(b.wipe)
	require.NoError(t, b.rdb.Set(t.Context(), keyOf(b.activityID, "gate"), "x", 0).Err())
	return b.activityID
}

func TestBrokenSaleIsAbsentUntilReplaced(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		intact := Sale{
			ActivityID: e.activityID, Title: "intact", StartsAt: deadline, EndsAt: deadline.Add(time.Hour), Version: 3,
		}
		require.NoError(t, e.PutSale(ctx, intact))
		b := newEnv(t, e.rdb, Options{})
		t.Cleanup(b.wipe)
		mended := intact
		mended.ActivityID, mended.Version = b.activityID, 1
		key := keyOf(b.activityID, "sale")
		for damage, do := range map[string]func() error{
			"no JSON":      func() error { return e.rdb.Set(ctx, key, "{", 0).Err() },
			"no object":    func() error { return e.rdb.Set(ctx, key, `"sale"`, 0).Err() },
			"no version":   func() error { return e.rdb.Set(ctx, key, `{"version":"new"}`, 0).Err() },
			"later":        func() error { return e.rdb.Set(ctx, key, `{"version":99,"title":5}`, 0).Err() },
			"another's":    func() error { return e.rdb.Set(ctx, key, `{"version":99,"activity_id":"1"}`, 0).Err() },
			"another type": func() error { return e.rdb.HSet(ctx, key, "a", "b").Err() },
		} {
			require.NoError(t, e.rdb.Del(ctx, key).Err())
			require.NoError(t, do(), damage)
			_, err := e.Sale(ctx, b.activityID)
			require.ErrorIs(t, err, ErrNoSale, damage)
			got, err := e.sales(ctx, []string{b.activityID, e.activityID})
			require.NoError(t, err, damage)
			require.Equal(t, []Sale{intact}, got, damage)
			require.NoError(t, e.PutSale(ctx, mended), damage)
			again, err := e.Sale(ctx, b.activityID)
			require.NoError(t, err, damage)
			require.Equal(t, mended, again, damage)
		}
	})
}

func TestBrokenEntryAffectsOnlyItself(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 9)
		e.reserve("1", "ann", lines(1))
		e.reserve("2", "bob", lines(1))
		held := keyOf(e.activityID, "held")
		intact := e.rdb.HGet(ctx, held, "1").Val()
		// Entry 4 cannot be parsed at all. Entry 1 can be parsed by scripts only, because its deadline is no time.
		e.reserve("4", "dan", lines(1))
		require.NoError(t, e.rdb.HSet(ctx, held, "4", "nonsense").Err())
		f := strings.Split(intact, "|")
		f[4] = "soon"
		require.NoError(t, e.rdb.HSet(ctx, held, "1", strings.Join(f, "|")).Err())

		found, err := e.Lookup(ctx, e.activityID, []string{"1", "2", "3", "4"})
		require.NoError(t, err)
		require.Len(t, found, 3)
		require.Equal(t, Entry{OrderSN: "4", Broken: true}, found["4"])
		require.Equal(t, Entry{OrderSN: "1", Broken: true}, found["1"])
		require.Equal(t, StatusQueued, found["2"].Status)

		verdicts, err := e.Reserve(ctx, e.activityID, []Request{
			{OrderSN: "1", UserID: "ann", Lines: lines(1)},
			{OrderSN: "3", UserID: "cid", Lines: lines(1)},
			{OrderSN: "2", UserID: "bob", Lines: lines(1)},
			{OrderSN: "4", UserID: "dan", Lines: lines(1)},
		})
		require.NoError(t, err)
		var outcomes []Outcome
		for _, v := range verdicts {
			outcomes = append(outcomes, v.Outcome)
		}
		require.Equal(t, []Outcome{Known, Accepted, Known, Known}, outcomes)
		require.True(t, verdicts[0].Entry.Broken)
		require.True(t, verdicts[3].Entry.Broken)
		require.False(t, verdicts[2].Entry.Broken)

		waiting, err := e.Unlanded(ctx, e.activityID, time.Time{}, time.Now().Add(time.Hour), 10)
		require.NoError(t, err)
		require.Len(t, waiting, 3, "without 4, whose stage is unknown")
		for _, w := range waiting {
			require.Equal(t, w.OrderSN == "1", w.Broken)
			require.False(t, w.JournaledAt.IsZero(), "it starts the next page")
		}
		require.NoError(t, e.rdb.HSet(ctx, held, "1", intact, "4", strings.Replace(intact, "|ann|", "|dan|", 1)).Err())
		e.entry("4")
	})
}

// A journal entry that cannot be decoded would otherwise be claimed again and again, together with all that were read
// beside it. It can be acked, and Rejournal writes it again from the entry in the gate.
func TestBrokenJournalEntryCanBeAckedAndRejournaled(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 9)
		e.reserve("1", "ann", lines(1))
		journal := keyOf(e.activityID, "journal")
		e.ack(e.read("relay", 1)...)
		for _, rubbish := range []string{
			"rubbish", "1|ann|1:1|now|", "1|ann|1:1|1|trace|more", "one|ann|1:1|1|", "", "1|ann|1:many|1|",
		} {
			require.NoError(t, e.rdb.XAdd(ctx, &redis.XAddArgs{Stream: journal, Values: []string{"r", rubbish}}).Err())
		}
		e.reserve("2", "bob", lines(1))
		read := e.read("relay", 10)
		require.Len(t, read, 7)
		for _, r := range read[:6] {
			require.ErrorContains(t, r.Err, "journal entry")
			require.NotContains(t, r.Err.Error(), "ann")
			require.Empty(t, r.OrderSN)
		}
		require.NoError(t, read[6].Err)
		require.Equal(t, "2", read[6].OrderSN)
		var ids []string
		for _, r := range read {
			ids = append(ids, r.ID)
		}
		require.NoError(t, e.Ack(ctx, e.activityID, ids))
		require.Zero(t, e.journalLen())

		n, err := e.Rejournal(ctx, e.activityID, []string{"1"})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		again := e.read("relay", 10)
		require.Len(t, again, 1)
		require.NoError(t, again[0].Err)
		require.Equal(t, "1", again[0].OrderSN)
		require.Equal(t, "ann", again[0].UserID)
		e.ack(again...)
	})
}
