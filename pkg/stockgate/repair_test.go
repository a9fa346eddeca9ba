package stockgate

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inspect returns the stored form of an entry.
func (e *env) inspect(sn string) StoredEntry {
	e.t.Helper()
	found, err := e.Inspect(e.t.Context(), e.activityID, []string{sn})
	require.NoError(e.t, err)
	return found[sn]
}

// survey reads all entries.
func (e *env) survey(count int) (map[string]StoredEntry, Revision) {
	e.t.Helper()
	all := map[string]StoredEntry{}
	audit, err := e.Audit(e.t.Context(), e.activityID)
	require.NoError(e.t, err)
	for cursor := uint64(0); ; {
		page, build, next, err := e.Gate.Survey(e.t.Context(), e.activityID, cursor, count)
		require.NoError(e.t, err)
		require.Equal(e.t, audit.Revision.Build, build)
		for _, s := range page {
			all[s.OrderSN] = s
		}
		if cursor = next; cursor == 0 {
			return all, audit.Revision
		}
	}
}

func (e *env) repair(r Repair) bool {
	e.t.Helper()
	_, revision := e.survey(1000)
	done, err := e.Repair(e.t.Context(), e.activityID, revision.Build, []Repair{r})
	require.NoError(e.t, err)
	return done[r.OrderSN]
}

func TestSurveyFindsIndexMismatches(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		buyers := keyOf(e.activityID, "buyers")
		e.open(openConfig(), 100)
		e.reserve("1", "ann", lines(1))
		e.reserve("2", "bob", lines(1))
		e.settle("2", "bob", lines(1), StepCreated)
		e.drop("3", "cat", lines(1), "sold_out")
		for _, s := range first(e.survey(1)) {
			require.False(t, s.IndexMismatch, s.OrderSN)
			require.Equal(t, s.Stored, e.rdb.HGet(ctx, keyOf(e.activityID, "held"), s.OrderSN).Val())
		}
		mismatched := func() (users []string) {
			t.Helper()
			users, next, err := e.MismatchedBuyers(ctx, e.activityID, 0, 1000)
			require.NoError(t, err)
			require.Zero(t, next)
			return users
		}
		require.Empty(t, mismatched())
		for name, c := range map[string]struct {
			damage   func() error
			sn, user string
			mismatch bool // the buyer's record does not match its entries
		}{
			"record deleted":     {func() error { return e.rdb.HDel(ctx, buyers, "ann").Err() }, "1", "ann", false},
			"record counts more": {func() error { return e.rdb.HSet(ctx, buyers, "bob", "2|2|").Err() }, "", "bob", true},
			"record malformed":   {func() error { return e.rdb.HSet(ctx, buyers, "bob", "rubbish").Err() }, "2", "bob", true},
			"record of no entry": {func() error { return e.rdb.HSet(ctx, buyers, "dan", "1|77|").Err() }, "", "dan", true},
			"not in unlanded":    {func() error { return e.rdb.ZRem(ctx, keyOf(e.activityID, "unlanded"), "1").Err() }, "1", "ann", false},
			"not in ended":       {func() error { return e.rdb.Del(ctx, keyOf(e.activityID, "ended")).Err() }, "3", "cat", false},
			"listed twice":       {func() error { return e.rdb.HSet(ctx, buyers, "bob", "2|2,2|").Err() }, "", "bob", true},
		} {
			require.NoError(t, c.damage(), name)
			for sn, s := range first(e.survey(1000)) {
				require.Equal(t, sn == c.sn, s.IndexMismatch, "%s: %s", name, sn)
			}
			if c.mismatch {
				require.Equal(t, []string{c.user}, mismatched(), name)
			} else {
				require.Empty(t, mismatched(), name)
			}
			var sns []string
			if c.sn != "" {
				sns = []string{c.sn}
			}
			for _, want := range []bool{true, false} {
				changed, err := e.RebuildBuyer(ctx, e.activityID, c.user, sns)
				require.NoError(t, err, name)
				require.Equal(t, want, changed, name)
			}
			e.check()
			require.Empty(t, mismatched(), name)
		}
	})
}

func first[A, B any](a A, _ B) A { return a }

func TestBrokenEntryDoesNotHideOthers(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 100)
		for _, rubbish := range []string{"rubbish", "z|ann|1:1||||||", "l|ann|||||||"} {
			e.reserve("1", "ann", lines(1))
			e.settle("1", "ann", lines(1), StepLanded)
			held := keyOf(e.activityID, "held")
			require.NoError(t, e.rdb.HSet(ctx, held, "1", rubbish, "2", e.rdb.HGet(ctx, held, "1").Val()).Err())
			all, _ := e.survey(1000)
			require.Len(t, all, 2)
			require.True(t, all["1"].Broken, rubbish)
			require.Equal(t, "1", all["1"].OrderSN)
			require.Equal(t, StatusQueued, all["2"].Status, rubbish)
			failed := Entry{UserID: "ann", Lines: lines(1), Status: StatusFailed, Reason: "system"}
			require.True(t, e.repair(Repair{OrderSN: "2", Seen: all["2"].Stored, To: failed}))
			require.True(t, e.repair(Repair{OrderSN: "1", Seen: rubbish, Remove: true}))
			require.NotContains(t, first(e.survey(1000)), "1")
			e.wipe()
			e.open(openConfig(), 100)
		}
	})
}

func TestRepairChangesOnlyUnchangedEntries(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 10)
		e.reserve("1", "ann", lines(2))
		queued := e.inspect("1")
		landed := Entry{UserID: "ann", Lines: lines(2), Status: StatusQueued, Landed: true}
		require.False(t, e.repair(Repair{OrderSN: "1", Seen: "", To: landed}), "it exists")
		e.settle("1", "ann", lines(2), StepCreated)
		require.False(t, e.repair(Repair{OrderSN: "1", Seen: queued.Stored, To: landed}), "it changed")
		require.Equal(t, StatusCreated, e.entry("1").Status)

		// Every status can be replaced by any other one, and the counters stay consistent with the entries.
		want := func(status Status, landed bool) Entry {
			en := Entry{UserID: "ann", Lines: lines(2), Status: status, Landed: landed}
			if en.terminal() {
				en.Reason = "expired"
			}
			if status == StatusCreated {
				en.ExpiresAt = deadline
			}
			return en
		}
		for _, to := range []Entry{
			want(StatusQueued, true), want(StatusPaid, true), want(StatusClosed, false), want(StatusCreated, true),
			want(StatusFailed, false), want(StatusPaid, true), want(StatusQueued, false), want(StatusCreated, true),
		} {
			require.True(t, e.repair(Repair{OrderSN: "1", Seen: e.inspect("1").Stored, To: to}))
			e.check()
			got := e.entry("1")
			require.Equal(t, to.Status, got.Status)
			require.Equal(t, to.Landed, got.Landed)
			require.True(t, to.ExpiresAt.Equal(got.ExpiresAt))
			require.Equal(t, queued.ReservedAt, got.ReservedAt)
			require.Equal(t, to.terminal(), !got.EndedAt.IsZero())
			left := int64(8)
			if to.terminal() {
				left = 10
			}
			require.Equal(t, left, e.counts("1").Left)
		}
		// Another buyer, other lines.
		paid := Entry{UserID: "bob", Lines: lines(1), Status: StatusPaid}
		require.True(t, e.repair(Repair{OrderSN: "1", Seen: e.inspect("1").Stored, To: paid}))
		e.check()
		require.Equal(t, int64(9), e.counts("1").Left)
		// Adoption.
		adopted := Entry{UserID: "cat", Lines: lines(3), Status: StatusQueued, Landed: true}
		require.True(t, e.repair(Repair{OrderSN: "9", To: adopted}))
		e.check()
		require.Equal(t, int64(6), e.counts("1").Left)

		done, err := e.Repair(ctx, e.activityID, "another build", []Repair{{OrderSN: "1", To: want(StatusPaid, true)}})
		require.ErrorIs(t, err, ErrSuperseded)
		require.Empty(t, done)
		for _, r := range []Repair{
			{OrderSN: "x"},
			{OrderSN: "1"},
			{OrderSN: "1", To: Entry{UserID: "a", Lines: lines(1), Status: StatusFailed}},
		} {
			_, err := e.Repair(ctx, e.activityID, "", []Repair{r})
			require.Error(t, err)
		}
	})
}

func TestCorrectAppliesOnce(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 10)
		e.reserve("1", "ann", lines(2))
		_, revision := e.survey(1000)
		require.NoError(t, e.rdb.HIncrBy(ctx, keyOf(e.activityID, "gate"), "s:1", -3).Err())
		require.NoError(t, e.rdb.HIncrBy(ctx, keyOf(e.activityID, "gate"), "u:1", 7).Err())
		fix := []Correction{{SKUID: "1", Left: 3, Unlanded: -7}}
		_, err := e.Reserve(ctx, e.activityID, []Request{{OrderSN: "2", UserID: "bob", Lines: lines(1)}}) // other purchases continue
		require.NoError(t, err)
		require.NoError(t, e.Correct(ctx, e.activityID, revision, 0, fix))
		e.check()
		require.Equal(t, int64(7), e.counts("1").Left)
		require.ErrorIs(t, e.Correct(ctx, e.activityID, revision, 0, fix), ErrSuperseded, "a repeated or late attempt")
		e.check()
		revision.Corrections++
		revision.Build = "another"
		require.ErrorIs(t, e.Correct(ctx, e.activityID, revision, 0, fix), ErrSuperseded)
		require.Error(t, e.Correct(ctx, e.activityID, revision, 0, nil))
		require.Error(t, e.Correct(ctx, e.activityID, revision, 0, []Correction{{SKUID: "x", Left: 1}}))

		// A missing counter is reported, and Correct creates it.
		before := e.counts("1")
		require.NoError(t, e.rdb.HDel(ctx, keyOf(e.activityID, "gate"), "s:1").Err())
		a, err := e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, []string{"1"}, a.Incomplete)
		require.ErrorIs(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "a", SKUID: "1", Delta: 1}), ErrUnknownSKU)
		require.NoError(t, e.Correct(ctx, e.activityID, a.Revision, 0, []Correction{{SKUID: "1"}}))
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "a", SKUID: "1", Delta: 1}))
		a, err = e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		require.Empty(t, a.Incomplete)
		require.Equal(t, int64(1), a.SKUs["1"].Left)
		require.Equal(t, before.Held, a.SKUs["1"].Held)
	})
}

// trackChanges starts the tracking and returns its token.
func (e *env) trackChanges() string {
	e.t.Helper()
	token, err := e.TrackChanges(e.t.Context(), e.activityID)
	require.NoError(e.t, err)
	return token
}

// collectChanges ends the tracking, and checks what it returns against the audit and the stored entries.
func (e *env) collectChanges(token string) map[string]StoredEntry {
	e.t.Helper()
	ctx := e.t.Context()
	audit, touched, err := e.CollectChanges(ctx, e.activityID, token)
	require.NoError(e.t, err)
	now, err := e.Audit(ctx, e.activityID)
	require.NoError(e.t, err)
	require.Equal(e.t, now.SKUs, audit.SKUs)
	require.Equal(e.t, now.Revision, audit.Revision)
	require.Equal(e.t, now.Held, audit.Held)
	byOrderSN := map[string]StoredEntry{}
	for _, s := range touched {
		require.Equal(e.t, e.rdb.HGet(ctx, keyOf(e.activityID, "held"), s.OrderSN).Val(), s.Stored)
		byOrderSN[s.OrderSN] = s
	}
	return byOrderSN
}

// Entries that were read since TrackChanges and are not returned by CollectChanges have not changed, so both together
// are a snapshot.
func TestCollectChangesReturnsChangedEntries(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 100)
		for i := range 5 {
			e.reserve(strconv.Itoa(i+1), "u"+strconv.Itoa(i+1), lines(1))
		}
		require.Empty(t, e.collectChanges(e.trackChanges()))

		token := e.trackChanges()
		e.settle("1", "u1", lines(1), StepLanded)
		e.settle("1", "u1", lines(1), StepLanded) // nothing new
		e.release("2", "u2", lines(1), "expired")
		e.reserve("6", "u6", lines(1))
		e.reserve("6", "u6", lines(1)) // known
		entries, _, err := e.ReadJournal(ctx, e.activityID, "relay", 10)
		require.NoError(t, err)
		require.NoError(t, e.Ack(ctx, e.activityID, []string{entries[2].ID}))
		require.True(t, e.repair(Repair{OrderSN: "7", To: Entry{UserID: "u7", Lines: lines(1), Status: StatusPaid}}))
		require.NoError(t, e.rdb.HSet(ctx, keyOf(e.activityID, "held"), "8", "rubbish").Err())
		require.True(t, e.repair(Repair{OrderSN: "8", Seen: "rubbish", Remove: true}))
		touched := e.collectChanges(token)
		require.Len(t, touched, 5, "an ack changes no entry")
		require.True(t, touched["1"].Landed)
		require.Equal(t, StatusClosed, touched["2"].Status)
		require.Equal(t, StatusQueued, touched["6"].Status)
		require.Equal(t, StatusPaid, touched["7"].Status)
		require.Empty(t, touched["8"].Stored)
		e.check()
	})
}

func TestCollectChangesFailsAfterTheEndOfTracking(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 100)
		for i := range 5 {
			e.reserve(strconv.Itoa(i+1), "u"+strconv.Itoa(i+1), lines(1))
		}
		token := e.trackChanges()
		e.collectChanges(token)
		_, _, err := e.CollectChanges(ctx, e.activityID, token)
		require.ErrorIs(t, err, ErrSuperseded, "it has ended")
		first, second := e.trackChanges(), e.trackChanges()
		_, _, err = e.CollectChanges(ctx, e.activityID, first)
		require.ErrorIs(t, err, ErrSuperseded, "another one began")
		require.Empty(t, e.collectChanges(second))

		// After too many changes or too much time, the recorded entries are deleted.
		for _, exceed := range []func(token string){
			func(string) {
				var many []any
				for i := range 2000 {
					many = append(many, 1000+i)
				}
				require.NoError(t, e.rdb.SAdd(ctx, keyOf(e.activityID, "touched"), many...).Err())
				e.settle("5", "u5", lines(1), StepLanded)
			},
			func(token string) {
				require.NoError(t, e.rdb.HSet(ctx, keyOf(e.activityID, "gate"), "watch", token+"|1").Err())
				e.settle("3", "u3", lines(1), StepLanded)
			},
		} {
			token = e.trackChanges()
			e.settle("4", "u4", lines(1), StepLanded)
			exceed(token)
			_, _, err = e.CollectChanges(ctx, e.activityID, token)
			require.ErrorIs(t, err, ErrSuperseded)
			require.Zero(t, e.rdb.Exists(ctx, keyOf(e.activityID, "touched")).Val())
			require.False(t, e.rdb.HExists(ctx, keyOf(e.activityID, "gate"), "watch").Val())
		}
		e.check()
	})
}

func TestOverrideConfigNeedsTheSeenVersion(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx, c := t.Context(), openConfig()
		e.open(c, 1)
		require.NoError(t, e.rdb.HSet(ctx, keyOf(e.activityID, "gate"), "version", "9", "limit", "77").Err())
		require.ErrorIs(t, e.Configure(ctx, e.activityID, c), ErrStaleVersion)
		require.ErrorIs(t, e.OverrideConfig(ctx, e.activityID, 8, c), ErrStaleVersion)
		require.NoError(t, e.OverrideConfig(ctx, e.activityID, 9, c))
		a, err := e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, c, a.Config)
	})
}

// Entries that are removed by hand leave their order_sn in the index of unlanded ones. That hid all others from the
// sweeper.
func TestUnlandedSkipsMissingEntries(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 10)
		for _, sn := range []string{"1", "2", "3"} {
			e.reserve(sn, "u"+sn, lines(1))
		}
		require.NoError(t, e.rdb.HDel(ctx, keyOf(e.activityID, "held"), "1").Err())
		stored := e.rdb.HGet(ctx, keyOf(e.activityID, "held"), "2").Val()
		require.NoError(t, e.rdb.HSet(ctx, keyOf(e.activityID, "held"), "2", "l"+strings.TrimPrefix(stored, "q")).Err())
		for range 2 {
			found, err := e.Unlanded(ctx, e.activityID, time.Time{}, time.Now().Add(time.Minute), 10)
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, "3", found[0].OrderSN)
		}
		require.Equal(t, []string{"3"}, e.rdb.ZRange(ctx, keyOf(e.activityID, "unlanded"), 0, -1).Val())
	})
}
