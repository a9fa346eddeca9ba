package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gates"
)

// intents writes n top-ups by one unit whose process died an hour ago, after the database had taken them.
func (w *world) intents(a *core.Activity, n int) {
	w.t.Helper()
	at := w.parts.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	for range n {
		require.NoError(w.t, w.db.Exec("INSERT INTO adjustments (activity_id, sku_id, delta, reason, state, decision, created_by, created_at, updated_at) "+
			"VALUES (?, ?, 1, 'r', 'intent', 'taken', 'm', ?, ?)", a.ID, a.Items[0].SKUID, at, at).Error)
	}
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET total = total + ?, available = available + ? WHERE activity_id = ?", n, n, a.ID).Error)
}

func (w *world) unfinished(a *core.Activity) (n int64) {
	w.t.Helper()
	require.NoError(w.t, w.db.Table("adjustments").Where("activity_id = ? AND state = 'intent'", a.ID).Count(&n).Error)
	return n
}

// Adjustments that cannot reach their gate do not keep those of other sales from theirs.
func TestStuckAdjustmentsDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stuck, other := w.sale(1, 5), w.sale(1, 5)
	w.intents(stuck, 300)
	w.intents(other, 1)
	require.NoError(w.t, w.rdb.HSet(w.ctx, gateKey(stuck, "gate"), "s:"+stuck.Items[0].SKUID, "many").Err())
	require.Error(w.t, w.adjustmentSweep.Run(w.ctx))
	require.Zero(w.t, w.unfinished(other), "300 stuck adjustments of another sale")
	require.Equal(w.t, int64(6), w.left(other, 0))
	require.Equal(w.t, int64(300), w.unfinished(stuck))
}

// flakyGate is a gate that cannot take the adjustments with these ids.
type flakyGate struct {
	gates.Effects
	bad   map[string]bool
	tries map[string]int
	err   error
}

func (g *flakyGate) Adjust(ctx context.Context, activityID string, a core.Adjustment, force bool) error {
	g.tries[a.ID]++
	if g.bad[a.ID] {
		return g.err
	}
	return g.Effects.Adjust(ctx, activityID, a, force)
}

// One adjustment fails for ever. The others of its sale are finished, and it is tried again after growing pauses.
func TestAStuckAdjustmentIsTriedAgainAfterGrowingPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := &flakyGate{bad: map[string]bool{}, tries: map[string]int{}, err: core.ErrGateBroken}
	w.parts = w.parts.with(func(p *ports) { g.Effects, p.gate = p.gate, g })
	w.restart()
	a := w.sale(1, 5)
	w.intents(a, 3)
	var ids []string
	require.NoError(w.t, w.db.Table("adjustments").Order("id").Pluck("id", &ids).Error)
	g.bad[ids[0]] = true
	require.Error(w.t, w.adjustmentSweep.Run(w.ctx))
	require.Equal(w.t, int64(1), w.unfinished(a))
	for range 1000 { // of 5 s
		w.shift += 5 * time.Second
		w.restart() // the pauses survive a restart
		_ = w.adjustmentSweep.Run(w.ctx)
	}
	require.GreaterOrEqual(w.t, g.tries[ids[0]], 10, "in 83 min")
	require.LessOrEqual(w.t, g.tries[ids[0]], 30, "in 83 min")
	g.bad[ids[0]] = false
	w.shift += 10 * time.Minute
	require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
	require.Zero(w.t, w.unfinished(a))
	w.agree(a)
}

// A gate that cannot be reached is not tried with each of its adjustments, and they need not wait once it is back.
func TestAdjustmentsAreFinishedAsSoonAsTheirGateIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := &flakyGate{bad: map[string]bool{}, tries: map[string]int{}, err: core.ErrGateUnavailable}
	w.parts = w.parts.with(func(p *ports) { g.Effects, p.gate = p.gate, g })
	w.restart()
	a := w.sale(1, 5)
	w.intents(a, 10)
	var ids []string
	require.NoError(w.t, w.db.Table("adjustments").Order("id").Pluck("id", &ids).Error)
	for _, id := range ids {
		g.bad[id] = true
	}
	require.Error(w.t, w.adjustmentSweep.Run(w.ctx))
	require.Len(w.t, g.tries, 1)
	g.bad = nil
	require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
	w.agree(a)
}

// unreadableActivity is a store that cannot read one activity, or all before it.
type unreadableActivity struct {
	core.Store
	id     string
	before bool
}

func (s *unreadableActivity) DatedActivity(ctx context.Context, id string) (*core.Activity, time.Time, error) {
	if id == s.id || s.before && number(id) < number(s.id) {
		return nil, time.Time{}, errors.New("a broken activity")
	}
	return s.Store.DatedActivity(ctx, id)
}

// landMany lands a purchase of each of n buyers.
func (w *world) landMany(a *core.Activity, n int) {
	w.t.Helper()
	var items []contract.Reservation
	for i := range n {
		items = append(items, contract.Reservation{
			OrderSN: newSN(), UserID: fmt.Sprint("u", i), ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}, ReservedAt: w.parts.Now(),
		})
		if len(items) == 250 || i == n-1 {
			w.land(items...)
			items = nil
		}
	}
}

// Deductions that cannot be published do not keep those of other sales from being published.
func TestAStuckSaleDoesNotStarveTheDeductionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stuck, other := w.sale(1, 400), w.sale(1, 400)
	w.landMany(stuck, 300)
	r := w.buy(other, "u")
	w.land(r)
	w.deductions()
	w.parts = w.parts.with(func(p *ports) { p.tables = &unreadableActivity{p.tables, stuck.ID, false} })
	w.restart()
	w.shift = 2 * time.Minute
	require.Error(w.t, w.orderSweep.Run(w.ctx))
	require.Contains(w.t, w.deductions(), r.OrderSN)
}

func number(id string) int {
	n, _ := strconv.Atoi(id)
	return n
}

// Many stuck sales end the rounds, and each round continues behind the last one.
func TestManyStuckSalesDoNotStarveTheDeductionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var last *core.Activity
	for range 4 {
		last = w.sale(1, 5)
		w.landMany(last, 1)
	}
	other := w.sale(1, 5)
	r := w.buy(other, "u")
	w.land(r)
	w.deductions()
	w.parts = w.parts.with(func(p *ports) { p.tables = &unreadableActivity{p.tables, last.ID, true} })
	w.restart()
	w.shift = 2 * time.Minute
	require.Error(w.t, w.orderSweep.Run(w.ctx))
	require.Empty(w.t, w.deductions(), "three failures end a round")
	w.shift += 5 * time.Second
	require.Error(w.t, w.orderSweep.Run(w.ctx))
	require.Contains(w.t, w.deductions(), r.OrderSN)
}

// Each sale with deductions to publish again has its turn, however many another sale has.
func TestALargeSaleDoesNotDelayTheDeductionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large, other := w.sale(1, 1000), w.sale(1, 400)
	w.landMany(large, 600)
	r := w.buy(other, "u")
	w.land(r)
	w.deductions()
	w.shift = 2 * time.Minute
	more, err := w.orderSweep.RunBatch(w.ctx)
	require.NoError(t, err)
	require.True(t, more)
	require.Contains(t, w.deductions(), r.OrderSN)
	w.sweepOrders()
	require.Len(t, w.deductions(), 600-256)
}

// Nothing is published while the broker is down, and a round does not wait for each sale's time-out.
func TestARoundEndsSoonWhileTheBrokerIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 6 {
		a := w.sale(1, 5)
		w.land(w.buy(a, "u"))
	}
	w.deductions()
	w.shift = 2 * time.Minute
	pub := &countingPub{Publisher: w.parts.Pub}
	w.parts.Pub = pub
	w.restart()
	w.broker.setDown(true)
	require.Error(t, w.orderSweep.Run(w.ctx))
	require.LessOrEqual(t, pub.calls, 3*3, "three sales, three attempts each")
	w.broker.setDown(false)
	w.shift += 5 * time.Second
	require.NoError(t, w.orderSweep.Run(w.ctx))
	require.Len(t, w.deductions(), 6)
}

type countingPub struct {
	core.Publisher
	calls int
}

func (p *countingPub) Deductions(ctx context.Context, d []contract.Deduction, about []contract.ActivityInfo) error {
	p.calls++
	return p.Publisher.Deductions(ctx, d, about)
}
