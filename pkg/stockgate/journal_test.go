package stockgate

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func (e *env) read(consumer string, max int) []JournalEntry {
	e.t.Helper()
	entries, _, err := e.ReadJournal(e.t.Context(), e.activityID, consumer, max)
	require.NoError(e.t, err)
	return entries
}

func (e *env) ack(entries ...JournalEntry) {
	e.t.Helper()
	var ids []string
	for _, en := range entries {
		ids = append(ids, en.ID)
	}
	require.NoError(e.t, e.Ack(e.t.Context(), e.activityID, ids))
	e.check()
}

func (e *env) unacked() map[string][]JournalEntry {
	e.t.Helper()
	read, err := e.Unacked(e.t.Context(), e.activityID)
	require.NoError(e.t, err)
	return read
}

func (e *env) journalLen() int64 {
	e.t.Helper()
	n, err := e.JournalLen(context.Background(), e.activityID)
	require.NoError(e.t, err)
	return n
}

func TestRelaysShareTheJournal(t *testing.T) {
	eachServer(t, Options{ClaimAfter: time.Hour}, func(t *testing.T, e *env) {
		require.Empty(t, e.unacked(), "no gate, no journal")
		require.Empty(t, e.read("a", 10), "no gate, no journal")
		exists, err := e.rdb.Exists(t.Context(), keysOf(e.activityID)...).Result()
		require.NoError(t, err)
		require.Zero(t, exists, "reading creates no key")

		e.open(openConfig(), 9)
		for _, sn := range []string{"1", "2", "3", "4"} {
			require.Equal(t, Accepted, e.reserve(sn, "u"+sn, lines(1)).Outcome)
		}
		first := e.read("a", 2)
		require.Len(t, first, 2)
		rest := e.read("b", 10)
		require.Len(t, rest, 2)
		require.Empty(t, e.read("a", 10))
		require.Equal(t, map[string][]JournalEntry{"a": first, "b": rest}, e.unacked())
		e.ack(first...)
		e.ack(first...)
		require.Equal(t, map[string][]JournalEntry{"b": rest}, e.unacked())
		require.Equal(t, Counts{Left: 5, Held: 4, Total: 9, Journal: 2, InFlight: 2}, e.counts("1"))

		var claimed []JournalEntry // b is dead
		hasty := *e
		hasty.Gate = New(e.rdb, Options{ClaimAfter: 300 * time.Millisecond, Timeout: patience})
		require.Eventually(t, func() bool {
			claimed = hasty.read("a", 10)
			return len(claimed) > 0
		}, 30*time.Second, 10*time.Millisecond)
		require.Equal(t, rest, claimed)
		require.Equal(t, map[string][]JournalEntry{"a": rest}, e.unacked())
		e.ack(claimed...)
		require.Empty(t, e.unacked())
		require.Zero(t, e.journalLen())
		require.Equal(t, Counts{Left: 5, Held: 4, Total: 9, InFlight: 4}, e.counts("1"))
		e.settle("1", "u1", lines(1), StepLanded)
		require.Equal(t, Counts{Left: 5, Held: 4, Total: 9, InFlight: 3}, e.counts("1"))
	})
}

func TestLostConsumerGroupReadsFromTheBeginning(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 9)
		e.reserve("1", "ann", lines(1))
		e.reserve("2", "bob", lines(1))
		before := e.read("a", 10)
		require.NoError(t, e.rdb.XGroupDestroy(t.Context(), keyOf(e.activityID, "journal"), "relays").Err())
		e.ack(before[0]) // published, although its group was lost
		again := e.read("b", 10)
		require.Equal(t, before[1:], again)
		e.ack(again...)
		require.Zero(t, e.journalLen())
	})
}

func TestJournalOutlivesGateAndSale(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := openConfig()
		e.open(c, 9)
		e.reserve("1", "ann", lines(1))
		e.reserve("2", "bob", lines(1))
		c.State = GateEnded
		require.NoError(t, e.Configure(t.Context(), e.activityID, c))
		e.release("1", "ann", lines(1), "expired")
		e.settle("2", "bob", lines(1), StepPaid)
		one := e.read("a", 1)
		require.Len(t, one, 1)
		require.NoError(t, e.rdb.Del(t.Context(), keyOf(e.activityID, "gate")).Err())
		two := e.read("a", 1)
		require.Len(t, two, 1)
		e.ack(one[0], two[0])
		require.Zero(t, e.journalLen())
	})
}

func TestRejournalSkipsJournaledEntries(t *testing.T) {
	eachServer(t, Options{JournalMax: 4}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 20)
		for _, sn := range []string{"1", "2", "3", "4"} {
			e.reserve(sn, "u"+sn, lines(1))
		}
		rejournal := func(sns ...string) int {
			n, err := e.Rejournal(ctx, e.activityID, sns)
			require.NoError(t, err)
			e.check()
			return n
		}
		require.Zero(t, rejournal("1", "99"), "still in the journal; unknown")
		all := e.read("a", 10)
		e.ack(all[:3]...)
		e.settle("2", "u2", lines(1), StepLanded)
		e.release("3", "u3", lines(1), "expired")
		unlanded, err := e.Unlanded(ctx, e.activityID, time.Time{}, time.Now().Add(time.Minute), 10)
		require.NoError(t, err)
		require.Len(t, unlanded, 2)
		require.Equal(t, []string{"1", "4"}, []string{unlanded[0].OrderSN, unlanded[1].OrderSN})
		require.Equal(t, unlanded[0].ReservedAt, unlanded[0].JournaledAt)
		none, err := e.Unlanded(ctx, e.activityID, time.Time{}, unlanded[0].ReservedAt, 10)
		require.NoError(t, err)
		require.Empty(t, none, "journaled then, not before")
		last := unlanded[1].JournaledAt
		rest, err := e.Unlanded(ctx, e.activityID, last, last.Add(time.Minute), 10)
		require.NoError(t, err)
		require.Contains(t, rest, unlanded[1], "the next page begins with the last one")
		rest, err = e.Unlanded(ctx, e.activityID, last.Add(time.Millisecond), last.Add(time.Minute), 10)
		require.NoError(t, err)
		require.Empty(t, rest)

		require.Equal(t, 1, rejournal("1", "2", "3", "4"))
		require.Zero(t, rejournal("1"))
		again := e.read("a", 10)
		require.Len(t, again, 1)
		require.Equal(t, all[0].Reservation, again[0].Reservation)
		require.NotEqual(t, all[0].ID, again[0].ID)
		e.ack(all[0])
		want := Counts{Left: 17, Held: 3, Total: 20, Journal: 2}
		require.Equal(t, want, e.counts("1"), "an ack of an older journal entry changes nothing")
		e.ack(again...)

		require.Equal(t, Accepted, e.reserve("5", "u5", lines(1)).Outcome)
		require.Equal(t, Accepted, e.reserve("6", "u6", lines(1)).Outcome)
		require.Equal(t, Accepted, e.reserve("7", "u7", lines(1)).Outcome)
		require.Zero(t, rejournal("1"), "the journal is full")

		// A Redis that lost the journal but not the entries. A stream that began anew in the same millisecond would give
		// the same ids again.
		made, err := e.rdb.Time(ctx).Result()
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			now, err := e.rdb.Time(ctx).Result()
			return err == nil && now.UnixMilli() > made.UnixMilli()
		}, time.Minute, time.Millisecond)
		require.NoError(t, e.rdb.Del(ctx, keyOf(e.activityID, "journal")).Err())
		require.Equal(t, 2, rejournal("1", "5"))
		require.Len(t, e.read("a", 10), 2)
	})
}

// The journal outlives its gate: entries of a lost gate still wait for their relay, and must be counted.
func TestJournalLenNeedsNoGate(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		require.Zero(t, e.journalLen())
		e.open(openConfig(), 9)
		require.Equal(t, Accepted, e.reserve("1", "ann", lines(1)).Outcome)
		require.Equal(t, Accepted, e.reserve("2", "bob", lines(1)).Outcome)
		require.NoError(t, e.rdb.Del(t.Context(), keyOf(e.activityID, "gate")).Err())
		require.EqualValues(t, 2, e.journalLen())
	})
}

// reserveMany reserves one unit for each of n buyers with one call. Their order_sns follow first.
func (e *env) reserveMany(first, n int) {
	e.t.Helper()
	requests := make([]Request, n)
	for i := range requests {
		sn := strconv.Itoa(first + i)
		requests[i] = Request{OrderSN: sn, UserID: "u" + sn, Lines: lines(1)}
	}
	verdicts, err := e.Reserve(e.t.Context(), e.activityID, requests)
	require.NoError(e.t, err)
	for _, v := range verdicts {
		require.Equal(e.t, Accepted, v.Outcome)
	}
	e.check()
}

func TestPurchasesOfACallShareAJournalEntry(t *testing.T) {
	eachServer(t, Options{ClaimAfter: time.Hour, JournalMax: 302}, func(t *testing.T, e *env) {
		e.open(openConfig(), 1000)
		for i := range 3 {
			e.reserveMany(1+100*i, 100)
		}
		e.reserveMany(301, 1)
		e.reserveMany(302, 1)
		require.Len(t, e.image().messages, 5)
		require.EqualValues(t, 302, e.journalLen())
		require.Equal(t, JournalFull, e.reserve("999", "zoe", lines(1)).Outcome, "purchases are counted, not entries")
		require.Equal(t, Counts{Left: 698, Held: 302, Total: 1000, Journal: 302}, e.counts("1"))

		read := func(consumer string, want int, wantMore bool) []JournalEntry {
			t.Helper()
			entries, more, err := e.ReadJournal(t.Context(), e.activityID, consumer, 256)
			require.NoError(t, err)
			require.Len(t, entries, want)
			require.Equal(t, wantMore, more)
			return entries
		}
		first := read("a", 200, true)
		rest := read("b", 102, false)
		read("a", 0, false)
		for i, entry := range slices.Concat(first, rest) {
			require.NoError(t, entry.Err)
			require.Equal(t, strconv.Itoa(1+i), entry.OrderSN)
		}
		require.Empty(t, e.read("a", 1))
		require.Equal(t, map[string][]JournalEntry{"a": first, "b": rest}, e.unacked())
		e.ack(first...)
		e.ack(first[:1]...) // a second ack counts nothing
		require.EqualValues(t, 102, e.journalLen())
		require.Equal(t, Counts{Left: 698, Held: 302, Total: 1000, Journal: 102, InFlight: 200}, e.counts("1"))

		hasty := *e // b is dead
		hasty.Gate = New(e.rdb, Options{ClaimAfter: 10 * time.Millisecond, Timeout: patience})
		var claimed []JournalEntry
		require.Eventually(t, func() bool {
			claimed = append(claimed, hasty.read("a", 256)...)
			return len(claimed) >= 102
		}, 30*time.Second, 20*time.Millisecond)
		require.Equal(t, rest, claimed[:102])
		e.ack(claimed...)
		require.Zero(t, e.journalLen())
		require.Empty(t, e.image().journaled, "the counters of an empty journal")
		require.Equal(t, Counts{Left: 698, Held: 302, Total: 1000, InFlight: 302}, e.counts("1"))
	})
}

// The counters of a journal that was lost count nothing, and those that were lost do not count below 0.
func TestCountersOfTheJournalRecover(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 100)
		e.reserveMany(1, 10)
		require.NoError(t, e.rdb.Del(ctx, keyOf(e.activityID, "journal")).Err())
		require.Zero(t, e.journalLen())
		require.Equal(t, Counts{Left: 90, Held: 10, Total: 100, InFlight: 10}, e.counts("1"))
		e.reserveMany(11, 10)
		require.EqualValues(t, 10, e.journalLen())

		require.NoError(t, e.rdb.Del(ctx, keyOf(e.activityID, "journaled")).Err())
		require.EqualValues(t, 1, e.journalLen())
		entries := e.read("a", 256)
		require.Len(t, entries, 10)
		require.NoError(t, e.Ack(ctx, e.activityID, []string{entries[0].ID}))
		require.Zero(t, e.journalLen())
		e.reserveMany(21, 10)
		require.EqualValues(t, 10, e.journalLen())
	})
}

func TestBacklog(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		backlog := func(journal, unlanded, purchases int64) Backlog {
			t.Helper()
			b, err := e.Backlog(ctx, e.activityID)
			require.NoError(t, err)
			require.Equal(t, Backlog{
				JournalLen: journal, OldestAge: b.OldestAge, UnlandedLen: unlanded, UnlandedAge: b.UnlandedAge,
				Purchases: purchases, Build: b.Build,
			}, b)
			return b
		}
		e.open(openConfig(), 20)
		first := backlog(0, 0, 0)
		require.NotEmpty(t, first.Build)
		require.Zero(t, first.OldestAge, "the journal is empty")
		require.Zero(t, first.UnlandedAge, "everything has landed")
		e.reserve("1", "ann", lines(1))
		e.reserveMany(2, 4)
		require.Eventually(t, func() bool { return backlog(5, 5, 5).OldestAge > 0 }, patience, time.Millisecond)

		e.settle("1", "ann", lines(1), StepLanded)
		backlog(5, 4, 5)
		e.ack(e.read("relay", 10)...)
		require.Zero(t, backlog(0, 4, 5).OldestAge)
		require.Positive(t, backlog(0, 4, 5).UnlandedAge, "published, and not in the ledger")

		e.release("1", "ann", lines(1), "expired")
		require.NoError(t, e.rdb.ZAdd(ctx, keyOf(e.activityID, "ended"), redis.Z{Member: "1"}).Err()) // long ago
		n, err := e.Trim(ctx, e.activityID, 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, first.Build, backlog(0, 4, 5).Build, "a trimmed purchase still counts")
	})
}
