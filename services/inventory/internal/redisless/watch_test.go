package redisless

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/inventory/internal/core"
)

// watched is the tables and gates of a number of sales. It counts the calls.
type watched struct {
	mu            sync.Mutex
	sales         int
	startsIn      time.Duration
	down          bool // the gates
	statements    int
	commands      int
	writes, noted int
}

func (w *watched) Now(context.Context) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statements++
	return time.Now(), nil
}

func (w *watched) DegradedActivities(context.Context, time.Time) ([]core.Activity, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statements++
	list := make([]core.Activity, w.sales)
	for i := range list {
		list[i].ID, list[i].StartsAt = fmt.Sprint(i+1), time.Now().Add(w.startsIn)
	}
	return list, nil
}

func (w *watched) NoteGates(_ context.Context, _, _ time.Time, unlanded map[string]map[string]int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	w.noted += len(unlanded)
	return nil
}

type watchedGates struct{ *watched }

func (w watchedGates) Now(context.Context) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands++
	if w.down {
		return time.Time{}, core.ErrGateUnavailable
	}
	return time.Now(), nil
}

func (w watchedGates) Audit(context.Context, string) (core.GateAudit, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands++
	return core.GateAudit{}, nil
}

// What a process of inventory spends on sales without Redis in a minute: with a hundred sales that start next month at most
// two statements and two commands a second, and one write a round for all that are near.
func TestCostOfTheWatch(t *testing.T) {
	const minute, month = time.Minute - 50*time.Millisecond, 30 * 24 * time.Hour
	for _, c := range []struct {
		sales                        int
		startsIn                     time.Duration
		statements, commands, writes int
	}{
		{0, 0, 2 * 60, 0, 0},
		{100, month, 2 * 60, 2 * 60, 1},
		{100, nearBefore, 300 + 60, 300 * 101, 300},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{sales: c.sales, startsIn: c.startsIn}
			ctx, cancel := context.WithTimeout(t.Context(), minute)
			defer cancel()
			require.NoError(t, NewWatch(w, watchedGates{w}).Run(ctx, func(err error) { require.NoError(t, err) }))
			require.LessOrEqual(t, w.statements, c.statements)
			require.LessOrEqual(t, w.commands, c.commands)
			require.LessOrEqual(t, w.writes, c.writes)
			require.Equal(t, w.writes*c.sales, w.noted)
		})
	}
}

// While Redis does not respond, all of its gates are lost, and nothing is noted.
func TestALostRedisLosesAllGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{sales: 3, down: true}
		watch := NewWatch(w, watchedGates{w})
		ctx, cancel := context.WithTimeout(t.Context(), lostAfter+time.Second)
		defer cancel()
		require.NoError(t, watch.Run(ctx, func(error) {}))
		for _, id := range []string{"1", "2", "3"} {
			require.True(t, watch.lost(id))
			require.False(t, watch.steady(id))
		}
		require.Zero(t, w.noted)
	})
}
