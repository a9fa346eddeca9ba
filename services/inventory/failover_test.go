package inventory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/sweep"
)

// master is a gate on a Redis whose master can be replaced.
type master struct {
	gates.Redis
	id string
}

func (m *master) ReplicationID(context.Context) (string, error) { return m.id, nil }

// comparedMaster is what the reconciler reads in a gate on it.
type comparedMaster struct {
	reconcile.Holdings
	m *master
}

func (c comparedMaster) ReplicationID(context.Context) (string, error) { return c.m.id, nil }

func (w *world) onMaster() *master {
	m := &master{id: "first"}
	w.master = m
	w.parts = w.parts.with(func(p *ports) {
		m.Redis, p.redis = p.redis, m
		p.compared = comparedMaster{p.compared, m}
	})
	w.restart()
	return m
}

// loses handles a message whose effects on the gate are acknowledged and then lost in a failover.
func (w *world) loses(handle func() error) {
	w.t.Helper()
	w.faults.kill(2, false) // the ledger's transaction is the first step
	require.Error(w.t, handle())
	require.True(w.t, w.faults.heal())
}

// The new master lacks the last effects, whatever they were.
func TestANewMasterIsSynced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a := w.sale(1, 10)
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	var r []contract.Reservation
	for i := range 4 {
		r = append(r, w.buy(a, fmt.Sprint("u", i)))
	}
	w.land(r...)
	w.follow(event(r[2], contract.OrderCreated))
	events := message(w.t, contract.TopicOrderEvents, event(r[0], contract.OrderCreated), event(r[1], contract.OrderPaid), event(r[2], contract.OrderClosed))
	w.loses(func() error { return w.consumer.OrderEvents(w.ctx, events) })
	unheard := contract.Reservation{OrderSN: newSN(), UserID: "u4", ActivityID: a.ID, Lines: r[0].Lines, ReservedAt: w.parts.Now()}
	w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, unheard)) })
	refused := w.buy(a, "u4") // the gate accepts another purchase of the buyer
	w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, refused)) })

	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.Equal(w.t, int64(5), w.left(a, 0), "the same master has lost nothing")
	m.id = "second"
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
	require.Equal(w.t, int64(6), w.left(a, 0))
}

// An unreadable row and a damaged sale document do not keep the other effects from the new master.
func TestANewMasterIsSyncedInSpiteOfUnreadableRows(t *testing.T) {
	t.Parallel()
	eachUnreadable(t, func(w *world, lines string) {
		incidents := w.incidents()
		m := w.onMaster()
		a := w.sale(1, 10)
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
		broken, sound := w.buy(a, "u0"), w.buy(a, "u1")
		w.land(broken)
		w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, sound)) })
		w.damage(broken, lines)
		require.NoError(w.t, w.rdb.Set(w.ctx, "fs:{"+a.ID+"}:sale", "{", 0).Err())
		m.id = "second"
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
		require.True(w.t, w.entry(a, sound.OrderSN).Landed)
		require.Equal(w.t, []string{"ledger row cannot be read"}, incidents.raised)
		shown, err := w.gate.Sale(w.ctx, a.ID)
		require.NoError(w.t, err)
		require.Equal(w.t, a.Title, shown.Title)
	})
}

// A gate is confirmed for the first time, as after an upgrade, or after more than a day. Purchases that ended longer ago
// than gates keep them get no entry again. Those that the gate still has live are ended.
func TestANewMasterGetsNoEntriesThatWereTrimmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a := w.sale(1, 10)
	held, trimmed, rejected, lost := w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3"), w.buy(a, "u4")
	w.land(held, trimmed, rejected, lost)
	w.follow(event(trimmed, contract.OrderCreated), event(lost, contract.OrderCreated))
	w.follow(event(trimmed, contract.OrderClosed))
	w.loses(func() error {
		return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(lost, contract.OrderClosed)))
	})
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET state = 'rejected', reason = 'sold_out' WHERE order_sn = ?", rejected.OrderSN).Error)
	forgotten := []string{trimmed.OrderSN, rejected.OrderSN}
	require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(a, "held"), forgotten...).Err())
	w.shift = 25 * time.Hour
	m.id = "second"
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	found, err := w.gate.Lookup(w.ctx, a.ID, forgotten)
	require.NoError(w.t, err)
	require.Empty(w.t, found)
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, lost.OrderSN).Status)
	require.Equal(w.t, stockgate.StatusQueued, w.entry(a, held.OrderSN).Status)
}

// Redis was unreachable for longer than the window: the effects that it lost were written before the outage.
func TestAMasterReplacedAfterALongOutageIsSyncedFromItsBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.loses(func() error {
		return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(r, contract.OrderPaid)))
	})
	w.shift = 30 * time.Minute
	m.id = "second"
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
}

// The list of gates may be on another node than the gate. Without it no relay reads the journal.
func TestAnUnregisteredGateIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 10)
	require.NoError(w.t, w.gate.Unregister(w.ctx, a.ID))
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	activityIDs, err := w.gate.Registered(w.ctx)
	require.NoError(w.t, err)
	require.Contains(w.t, activityIDs, a.ID)
}

// withdraw withdraws three of five units, while the ledger holds four that the gate lacks. The gate takes them, the
// database refuses, and the gate's part is undone.
func (w *world) withdraw(a *core.Activity) error {
	_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: -3, Reason: "count",
		Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/v1/merchant/activities/" + a.ID + "/stock-adjustments", Value: "k"},
	})
	return err
}

func (w *world) short() (*core.Activity, contract.Reservation) {
	a := w.sale(10, 5)
	r := contract.Reservation{OrderSN: newSN(), UserID: "u1", ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 4}}, ReservedAt: w.parts.Now()}
	w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, r)) })
	return a, r
}

// The undo of a refused withdrawal was acknowledged and then lost.
func TestARefusedWithdrawalIsUndoneOnANewMaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a, _ := w.short()
	require.Equal(w.t, contract.CodeInsufficientStock, contract.CodeOf(w.withdraw(a)))
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	var id string
	require.NoError(w.t, w.db.Table("adjustments").Where("activity_id = ?", a.ID).Pluck("id", &id).Error)
	sku := a.Items[0].SKUID
	epoch, err := w.parts.Store.PresentEpoch(w.ctx)
	require.NoError(w.t, err)
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gate.Preload(w.ctx, a.ID, stockgate.Snapshot{
		Epoch:  epoch.Value,
		Config: stockgate.Config{State: stockgate.GateOpen, StartsAt: a.StartsAt, EndsAt: a.EndsAt, PerUserLimit: 10, ReorderLimit: a.ReorderLimit, Version: a.Version},
		Stock:  map[string]int64{sku: 5}, Totals: map[string]int64{sku: 5},
	}))
	require.NoError(w.t, w.gate.Adjust(w.ctx, a.ID, stockgate.Adjustment{ID: id, SKUID: sku, Delta: -3}))
	m.id = "second"
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
	require.Equal(w.t, int64(1), w.left(a, 0))
}

// lateSweeper is a sweep that is overtaken between its query and its work.
type lateSweeper struct {
	sweep.AdjustmentsStore
	meanwhile func()
}

func (s *lateSweeper) AdjustmentsToResume(
	ctx context.Context, activityID string, before, due time.Time, limit int,
) ([]core.Adjustment, error) {
	list, err := s.AdjustmentsStore.AdjustmentsToResume(ctx, activityID, before, due, limit)
	s.meanwhile()
	return list, err
}

// A sweep that is late and dies leaves nothing unfinished, neither in the gate that it read nor in one that was built
// since.
func TestALateStepOfARefusedWithdrawalChangesNothing(t *testing.T) {
	t.Parallel()
	for name, rebuilt := range map[string]bool{"same gate": false, "rebuilt gate": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, r := w.short()
			w.faults.kill(1, true)
			require.Error(w.t, w.withdraw(a))
			require.True(w.t, w.faults.heal())
			ours := w.parts
			late := func() {
				require.Equal(w.t, contract.CodeInsufficientStock, contract.CodeOf(w.withdraw(a)))
				w.follow(event(r, contract.OrderClosed)) // now enough units are left
				if rebuilt {
					require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
				}
				require.NoError(w.t, w.parts.start().gates.EnsureGates(w.ctx))
				w.faults.kill(1, true)
			}
			w.parts = ours.with(func(p *ports) { p.adjustments = &lateSweeper{p.adjustments, late} })
			w.restart()
			w.shift = time.Minute
			require.Error(w.t, w.adjustmentSweep.Run(w.ctx))
			require.True(w.t, w.faults.heal())
			w.parts = ours
			w.restart()
			require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
			w.agree(a)
			require.Equal(w.t, int64(5), w.left(a, 0))
		})
	}
}
