package inventory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Redis was unreachable for longer than the window, its master was replaced, and inventory was restarted meanwhile.
func TestAMasterReplacedAfterALongOutageAndARestartIsSynced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	for range 3 { // a master is confirmed once it is held for the window
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
		w.shift += w.parts.Timing.ResettleWindow + time.Second
	}
	w.loses(func() error {
		return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(r, contract.OrderPaid)))
	})
	w.shift += 30 * time.Minute
	m.id = "second"
	w.restart()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
}

// A process that synced some of the gates of a new master is killed at any step. The next process runs half an hour
// later.
func TestKilledWhileANewMasterIsSynced(t *testing.T) {
	t.Parallel()
	n := 0
	killedEverywhere(t, func(w *world) (func() error, func()) {
		m := w.master
		if m == nil {
			m = w.onMaster()
		}
		n++
		a, b := w.sale(1, 10), w.sale(1, 10)
		ra, rb := w.buy(a, "u1"), w.buy(b, "u1")
		w.land(ra, rb)
		require.NoError(t, w.gates.EnsureGates(w.ctx))
		w.loses(func() error {
			return w.consumer.OrderEvents(w.ctx, message(t, contract.TopicOrderEvents, event(ra, contract.OrderPaid), event(rb, contract.OrderPaid)))
		})
		m.id = fmt.Sprint("master ", n)
		w.restart()
		work := func() error {
			w.shift += 30 * time.Minute
			return w.gates.EnsureGates(w.ctx)
		}
		return work, func() {
			w.agree(a)
			w.agree(b)
			w.shift = 0
			w.leaveOut() // the next kill has other gates
		}
	})
}

// forgetful is a gate whose master confirms effects and is lost before it has replicated them.
type forgetful struct {
	gates.Effects
	on bool
}

func (g *forgetful) Settle(ctx context.Context, activityID string, s []ledger.Entry) error {
	if g.on {
		return nil
	}
	return g.Effects.Settle(ctx, activityID, s)
}

func (w *world) onForgetfulMaster() (*master, *forgetful) {
	f := &forgetful{}
	w.parts = w.parts.with(func(p *ports) { f.Effects, p.gate = p.gate, f })
	return w.onMaster(), f
}

// confirmLater confirms the gates once they were on their master for a long time.
func (w *world) confirmLater() {
	w.t.Helper()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.shift += 20 * time.Minute
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	var n int64
	since := w.parts.Now().Add(-time.Minute).UTC()
	require.NoError(w.t, w.db.Table("gate_confirmations").Where("confirmed_at > ?", since).Count(&n).Error)
	require.Positive(w.t, n)
}

// A new master got the effects of a long outage and is lost before it has replicated them.
func TestASecondFailoverAfterAnOutageIsSynced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, lost := w.onForgetfulMaster()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	w.confirmLater()
	w.loses(func() error {
		return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(r, contract.OrderPaid)))
	})
	w.shift += 2 * time.Hour
	m.id, lost.on = "second", true
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.shift += 5 * time.Minute
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	m.id, lost.on = "third", false
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
	w.confirmLater()
}

// A message is redelivered an hour after its transaction. The master gets its effect and is lost soon after.
func TestALateEffectOnALostMasterIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, lost := w.onForgetfulMaster()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	w.confirmLater()
	paid := message(w.t, contract.TopicOrderEvents, event(r, contract.OrderPaid))
	w.loses(func() error { return w.consumer.OrderEvents(w.ctx, paid) })
	w.shift += time.Hour
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	lost.on = true
	require.NoError(w.t, w.consumer.OrderEvents(w.ctx, paid))
	w.shift += 5 * time.Minute
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	m.id, lost.on = "second", false
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
	w.confirmLater()
}

// After the outage a purchase is refused before the first round of the gate controller.
func TestARefusalAfterALongOutageSettlesWhatTheGateLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a := w.sale(1, 1)
	first := w.buy(a, "u1")
	w.land(first)
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	// Redis lost the purchase in a failover.
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gate.Preload(w.ctx, a.ID, stockgate.Snapshot{
		Config: stockgate.Config{State: stockgate.GateOpen, StartsAt: a.StartsAt, EndsAt: a.EndsAt, PerUserLimit: 1, ReorderLimit: a.ReorderLimit, Version: a.Version},
		Stock:  map[string]int64{a.Items[0].SKUID: 1}, Totals: map[string]int64{a.Items[0].SKUID: 1},
	}))
	m.id = "second"
	second := w.buy(a, "u2")
	w.shift = 30 * time.Minute
	w.restart()
	w.land(second)
	w.agree(a)
	require.Zero(w.t, w.left(a, 0))
	require.Equal(w.t, ledger.StateRejected, w.row(second.OrderSN).State)
}

// stalling is a gate whose process stalls right after it has read the id of the master.
type stalling struct {
	gates.Redis
	stall func()
}

func (g *stalling) ReplicationID(ctx context.Context) (string, error) {
	id, err := g.Redis.ReplicationID(ctx)
	g.stall()
	return id, err
}

// A process stalls for half an hour while it checks the master. Meanwhile the master was replaced, and another
// process has synced the new one.
func TestAStalledProcessConfirmsNoReplacedMaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a := w.sale(1, 10)
	w.confirmLater()
	stored := func() gates.Confirmation {
		found, err := w.parts.Store.GateConfirmations(w.ctx, []string{a.ID})
		require.NoError(w.t, err)
		return found[a.ID]
	}
	// The other process has not run yet: the time is that before the id was read.
	other := w.parts.start()
	w.parts = w.parts.with(func(p *ports) { p.redis = &stalling{m, func() { w.shift += 30 * time.Minute }} })
	w.restart()
	w.shift += 5 * time.Minute
	before := w.parts.Now()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.Equal(w.t, "first", stored().Master)
	require.WithinDuration(w.t, before, stored().At, time.Minute)
	// The other process has run.
	w.parts = w.parts.with(func(p *ports) {
		p.redis = &stalling{m, func() {
			w.shift += 5 * time.Minute
			m.id = "second"
			require.NoError(w.t, other.gates.EnsureGates(w.ctx))
		}}
	})
	w.restart()
	synced := w.parts.Now()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	if now := stored(); now.Master == "first" { // its confirmation makes the next round repeat the effects
		require.True(w.t, now.At.Before(synced.Add(time.Minute)))
	}
}

// A restart on the same master repeats nothing, and the confirmation is renewed.
func TestAConfirmationIsRenewedOnTheSameMaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onMaster()
	a := w.sale(1, 10)
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	for range 3 {
		w.shift += 20 * time.Minute
		w.restart()
		w.faults.kill(1000, false)
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
		require.LessOrEqual(w.t, w.faults.n, 3, "steps of a round that has nothing to do")
		w.faults.heal()
		found, err := w.parts.Store.GateConfirmations(w.ctx, []string{a.ID})
		require.NoError(w.t, err)
		require.WithinDuration(w.t, w.parts.Now(), found[a.ID].At, time.Minute)
	}
}
