package stockgate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// figuresOf returns the figures of a gate with SKU 1 only.
func figuresOf(left, held, sold int64) Figures {
	return Figures{Config: openConfig(), SKUs: map[string]Shelf{"1": {left, held, sold, left + held + sold}}}
}

// purchase returns an entry of one unit of SKU 1. One that has ended ended now.
func purchase(sn, user string, s Status) Entry {
	e := Entry{OrderSN: sn, UserID: user, Lines: lines(1), Status: s, Landed: s == StatusQueued}
	switch s {
	case StatusCreated:
		e.ExpiresAt = deadline
	case StatusClosed, StatusFailed:
		e.Reason, e.EndedAt = "expired", time.Now()
	}
	return e
}

// A later entry replaces an earlier one, with its units, its buyer's record and its indexes, as Settle and Release do.
func TestABuildFollowsItsEntries(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		b, err := e.BeginBuild(ctx, e.activityID)
		require.NoError(t, err)
		require.NoError(t, b.Put(ctx, []Entry{
			purchase("1", "ann", StatusQueued), purchase("2", "ann", StatusCreated), purchase("3", "bob", StatusPaid),
		}))
		require.NoError(t, b.PutAdjusted(ctx, []string{"7", "8"}))
		require.NoError(t, b.Put(ctx, []Entry{
			purchase("1", "ann", StatusCreated), purchase("2", "ann", StatusClosed), purchase("3", "bob", StatusPaid),
			purchase("4", "cid", StatusQueued),
		}))
		_, err = e.Lookup(ctx, e.activityID, []string{"1"})
		require.ErrorIs(t, err, ErrNoGate, "not visible yet")
		require.ErrorIs(t, e.Settle(ctx, e.activityID, []Settlement{{OrderSN: "1", UserID: "ann", Lines: lines(1), Step: StepPaid}}), ErrNoGate)
		require.ErrorIs(t, b.Commit(ctx, figuresOf(9, 1, 1)), ErrBuildDiffers)
		require.ErrorIs(t, b.Commit(ctx, figuresOf(9, 2, 0)), ErrBuildDiffers)
		foreign := figuresOf(9, 2, 1)
		foreign.SKUs = map[string]Shelf{"2": {Left: 1, Total: 1}}
		require.ErrorIs(t, b.Commit(ctx, foreign), ErrBuildDiffers)
		_, err = e.Lookup(ctx, e.activityID, []string{"1"})
		require.ErrorIs(t, err, ErrNoGate)

		require.NoError(t, b.Commit(ctx, figuresOf(9, 2, 1)))
		e.check()
		require.Equal(t, Counts{Left: 9, Held: 2, Sold: 1, Total: 12}, e.counts("1"))
		require.Equal(t, StatusClosed, e.entry("2").Status)
		require.NoError(t, b.Commit(ctx, figuresOf(9, 2, 1)), "repeated")
		require.NoError(t, b.Put(ctx, []Entry{purchase("5", "dan", StatusPaid)}), "too late: no effect")
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "8", SKUID: "1", Delta: 3}), "contained already")
		require.Equal(t, Counts{Left: 9, Held: 2, Sold: 1, Total: 12}, e.counts("1"))
		e.check()
		_, err = e.BeginBuild(ctx, e.activityID)
		require.ErrorIs(t, err, ErrGateExists)
	})
}

// TestBuildsDoNotMix interleaves the steps of builds, late and repeated ones too.
func TestBuildsDoNotMix(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		step := func(args ...any) any {
			reply, err := e.run(ctx, scriptPreload, e.activityID, args...)
			require.NoError(t, err)
			return reply
		}
		stored := func(s Status) string {
			text, err := purchase("1", "ann", s).encode()
			require.NoError(t, err)
			return text
		}
		commit := func(token string, number, held, sold int) any {
			return step("commit", token, number, "open", "1", "2", "1", "1", "0", "0", "", 0, "", "", "1", 1, held, sold, 1+held+sold)
		}
		require.Equal(t, "ok", step("begin", "dead"))
		require.Equal(t, "ok", step("put", "dead", 1, "1", stored(StatusCreated)))
		require.Equal(t, "ok", step("begin", "dead"), "a repeated step")
		require.Len(t, e.image().entries, 1)

		require.Equal(t, "ok", step("begin", "new"))
		require.Empty(t, e.image().entries)
		require.Equal(t, "superseded", step("put", "dead", 2, "1", stored(StatusCreated)))
		require.Equal(t, "superseded", commit("dead", 2, 1, 0))
		require.Equal(t, "superseded", step("put", "new", 2, "1", stored(StatusCreated)), "Redis lost the first step")
		require.Equal(t, "superseded", commit("new", 2, 0, 0))
		require.Equal(t, "ok", step("put", "new", 1, "1", stored(StatusCreated)))
		require.Equal(t, "ok", step("put", "new", 2, "1", stored(StatusPaid)))
		require.Equal(t, "ok", step("put", "new", 1, "1", stored(StatusCreated)), "late")
		require.Equal(t, "superseded", commit("new", 2, 1, 0), "of before the second step")
		require.Equal(t, StatusPaid, e.image().entries["1"].Status)
		require.Contains(t, commit("new", 3, 1, 0), "differs 1 0 1")
		require.Equal(t, "ok", commit("new", 3, 0, 1))
		require.Equal(t, "ok", commit("new", 3, 0, 1), "a repeated step")
		require.Equal(t, "ok", step("put", "new", 3, "1", stored(StatusCreated)), "after the commit: no effect")
		require.Equal(t, "live", step("begin", "late"))
		require.Equal(t, "live", step("put", "dead", 2, "1", stored(StatusCreated)))
		require.Equal(t, "live", commit("dead", 2, 0, 0))
		require.Equal(t, StatusPaid, e.image().entries["1"].Status)
		e.check()
	})
}

// lossy loses the reply of the next script call, or its request.
type lossy struct {
	armed, executed bool
}

var errLost = errors.New("connection lost")

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" || !l.armed {
			return next(ctx, cmd)
		}
		l.armed = false
		if l.executed {
			_ = next(ctx, cmd)
		}
		return errLost
	}
}

// Calls that were lost are repeated by the next call, and have their effect once.
func TestABuildSurvivesLostCalls(t *testing.T) {
	for _, executed := range []bool{false, true} {
		rdb := miniRedis(t)
		e := newEnv(t, rdb, Options{BreakerFailures: 1000})
		ctx := t.Context()
		b, err := e.BeginBuild(ctx, e.activityID) // also loads the script
		require.NoError(t, err)
		l := &lossy{executed: executed}
		rdb.AddHook(l)
		lose := func(do func() error) {
			t.Helper()
			l.armed = true
			require.ErrorIs(t, do(), ErrUnavailable)
		}
		put := func(list ...Entry) func() error { return func() error { return b.Put(ctx, list) } }
		lose(put(purchase("1", "ann", StatusCreated)))
		lose(put(purchase("9", "eve", StatusCreated))) // the first one is lost again, and this one not sent
		require.NoError(t, put(purchase("1", "ann", StatusClosed), purchase("2", "bob", StatusQueued))())
		lose(func() error { return b.PutAdjusted(ctx, []string{"7"}) })
		require.NoError(t, put(purchase("2", "bob", StatusQueued))())
		lose(func() error { return b.Commit(ctx, figuresOf(3, 1, 0)) })
		require.NoError(t, put(purchase("2", "bob", StatusPaid))())
		err = b.Commit(ctx, figuresOf(3, 0, 1))
		require.NoError(t, err)
		if executed { // the first commit made the gate, as it was then
			require.Equal(t, Counts{Left: 3, Held: 1, Total: 4}, e.counts("1"))
		} else {
			require.Equal(t, Counts{Left: 3, Sold: 1, Total: 4}, e.counts("1"))
		}
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "7", SKUID: "1", Delta: 3}), "contained already")
		require.Equal(t, int64(4), e.counts("1").Total)
		e.check()
	}
}
