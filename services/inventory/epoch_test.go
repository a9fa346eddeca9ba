package inventory

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// An adjustment after a restore never has an id that the gate has: it reaches the gate.
func TestAnAdjustmentAfterARestoreReachesTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 10)
	b := w.backup()
	top := func(key string, n int64) error {
		_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
			ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: n, Reason: "r",
			Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: key},
		})
		return err
	}
	require.NoError(w.t, top("k1", 5))
	w.restore(b)
	require.NoError(w.t, top("k2", 3), "not a conflict with the lost adjustment")
	require.Equal(w.t, int64(13), w.stock(a)[0].Total)
	w.newEpoch()
	w.imports()
	w.agree(a)
	require.Equal(w.t, int64(13), w.left(a, 0))
	require.Equal(w.t, int64(1), w.counts().Adjustments, "the lost one is listed")
	require.Len(w.t, w.findings(), 1)
}

// A refused buyer reads failed after a restore, although the gate has lost an adjustment of the same SKU.
func TestARefusedBuyerEndsAfterARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 1)
	b := w.backup()
	adjust := func(key string, n int64) {
		_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
			ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: n, Reason: "r",
			Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: key},
		})
		require.NoError(w.t, err)
	}
	adjust("k1", 2)
	w.restore(b)
	adjust("k2", 1) // the gate has 4 units, the database 2
	for i := range 3 {
		r := w.buy(a, fmt.Sprint("u", i))
		require.NoError(w.t, w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, r)), "not an error for ever")
		want := stockgate.StatusQueued
		if i == 2 {
			want = stockgate.StatusFailed
		}
		require.Equal(w.t, want, w.entry(a, r.OrderSN).Status)
	}
}

// lost is a sale whose database is restored to the middle of it: the purchases since are known to gate and orders.
type lost struct {
	a                                                *core.Activity
	before                                           contract.Reservation // of the backup, created
	paidSince, closedSince                           contract.Reservation // of the backup: paid and closed since
	landed, created, paid, closed, queued, orderless contract.Reservation // since the backup
	purchases                                        []contract.Reservation
}

func (w *world) lost() *lost {
	x := &lost{a: w.sale(1, 20)}
	buy := func(user string) contract.Reservation {
		r := w.buy(x.a, user)
		w.land(r)
		x.purchases = append(x.purchases, r)
		return r
	}
	ordered := func(user string) contract.Reservation {
		r := buy(user)
		w.order(r, "pending")
		w.follow(event(r, contract.OrderCreated))
		return r
	}
	to := func(r contract.Reservation, state string, kind contract.OrderEventType) {
		w.order(r, state)
		w.follow(event(r, kind))
	}
	x.before, x.paidSince, x.closedSince = ordered("b1"), ordered("b2"), ordered("b3")
	b := w.backup()
	to(x.paidSince, "paid", contract.OrderPaid)
	to(x.closedSince, "closed", contract.OrderClosed)
	x.landed, x.created, x.paid, x.closed = buy("l"), ordered("c"), ordered("p"), ordered("x")
	to(x.paid, "paid", contract.OrderPaid)
	to(x.closed, "closed", contract.OrderClosed)
	x.orderless = ordered("o") // order is restored as well
	w.orders.mu.Lock()
	delete(w.orders.items, x.orderless.OrderSN)
	delete(w.orders.state, x.orderless.OrderSN)
	w.orders.mu.Unlock()
	x.queued = w.buy(x.a, "q") // published, and lost
	x.purchases = append(x.purchases, x.queued)
	w.broker.take(contract.TopicDeductions)
	w.restore(b)
	return x
}

func (x *lost) check(w *world) {
	w.t.Helper()
	status := func(r contract.Reservation) stockgate.Status { return w.entry(x.a, r.OrderSN).Status }
	for _, r := range []contract.Reservation{x.before, x.landed, x.created, x.orderless, x.queued} {
		require.Equal(w.t, stockgate.StatusCreated, status(r))
		require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)
		require.Equal(w.t, "pending", w.orders.of(r.OrderSN))
	}
	for _, r := range []contract.Reservation{x.paidSince, x.paid} {
		require.Equal(w.t, stockgate.StatusPaid, status(r))
		require.Equal(w.t, ledger.StateSold, w.row(r.OrderSN).State)
	}
	for _, r := range []contract.Reservation{x.closedSince, x.closed} {
		require.Equal(w.t, stockgate.StatusClosed, status(r))
		require.False(w.t, w.row(r.OrderSN).Holds())
	}
	require.Empty(w.t, w.orders.refunded)
	require.Equal(w.t, int64(13), w.left(x.a, 0), "20 - 5 created - 2 paid")
	w.agree(x.a)
	require.Equal(w.t, stockgate.Accepted, w.sells(x.a))
}

// Purchases after the backup do not hold units for ever: they get their rows back, by their orders or by the gate.
func TestARestoredDatabaseGetsBackWhatOrdersAndGateKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.lost()
	w.newEpoch()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.Equal(w.t, stockgate.Importing, w.sells(x.a), "the gate sells nothing until the import is complete")
	v, err := w.gate.Reserve(w.ctx, x.a.ID, []stockgate.Request{{OrderSN: x.paid.OrderSN, UserID: "p", Lines: x.paid.Lines}})
	require.NoError(w.t, err)
	require.Equal(w.t, stockgate.Known, v[0].Outcome, "a known purchase has its status meanwhile")
	w.imports()
	x.check(w)
	c := w.counts()
	require.Equal(w.t, core.ImportCounts{Released: 2, Paid: 2, Pending: 1, Journaled: 3, Corrected: c.Corrected}, c)
	require.Empty(w.t, w.reconcile(x.a).Differences)
}

// TestKilledDuringAnImport kills the process before and after every step of an import, or with -short before every other
// step. Another one completes it, and no buyer reads a lower status at any time.
func TestKilledDuringAnImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.backup()
	sides, stride := []bool{false, true}, 1
	if testing.Short() { // a kill after a step leaves what one before the next step leaves; and every other step
		sides, stride = sides[:1], 2
	}
	for at := 1; ; at += stride {
		died := false
		for _, after := range sides {
			died = w.importsInSpiteOfAKill(empty, at, after) || died
		}
		if !died {
			require.Greater(w.t, at, 20)
			break
		}
	}
}

// importsInSpiteOfAKill kills the process before or after a step of an import, if there is such a step.
func (w *world) importsInSpiteOfAKill(empty backup, at int, after bool) (died bool) {
	w.restore(empty)
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	w.shift = 0
	x := w.lost()
	w.newEpoch()
	ranks := map[string]int{}
	w.faults.kill(at, after)
	for n := 0; w.importing(); n++ {
		require.Less(w.t, n, 80, "step %d: the import does not end: %+v", at, w.progress())
		_ = w.importRound()
		if w.faults.heal() {
			died = true
			w.restart()
		}
		w.neverFalls(x, ranks)
	}
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.NoError(w.t, w.ordersFollow())
	w.landAgain(x)
	x.check(w)
	w.orders.mu.Lock()
	defer w.orders.mu.Unlock()
	clear(w.orders.items)
	return died
}

// landAgain redelivers what a killed process had not acknowledged.
func (w *world) landAgain(x *lost) {
	for _, r := range x.purchases {
		w.land(r)
	}
	require.NoError(w.t, w.ordersFollow())
	for _, r := range x.purchases {
		switch w.orders.of(r.OrderSN) {
		case "paid":
			w.follow(event(r, contract.OrderPaid))
		case "closed":
			w.follow(event(r, contract.OrderClosed))
		case "pending":
			w.follow(event(r, contract.OrderCreated))
		}
	}
}

// neverFalls checks that every buyer reads at least the status that was read before.
func (w *world) neverFalls(x *lost, ranks map[string]int) {
	w.t.Helper()
	rank := map[stockgate.Status]int{
		stockgate.StatusQueued: 1, stockgate.StatusCreated: 2, stockgate.StatusPaid: 3, stockgate.StatusClosed: 3, stockgate.StatusFailed: 3,
	}
	for _, r := range x.purchases {
		s := w.entry(x.a, r.OrderSN).Status
		require.GreaterOrEqual(w.t, rank[s], ranks[r.OrderSN], "order_sn %s reads %s", r.OrderSN, s)
		ranks[r.OrderSN] = rank[s]
	}
}

// A new Redis is filled from a restored database as one that sells nothing, until the orders are imported.
func TestAnEmptyRedisAfterARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.lost()
	w.newEpoch()
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.Equal(w.t, stockgate.Importing, w.sells(x.a))
	w.imports()
	w.agree(x.a)
	require.Equal(w.t, ledger.StateSold, w.row(x.paid.OrderSN).State)
	require.Equal(w.t, ledger.StateReserved, w.row(x.created.OrderSN).State)
	require.Equal(w.t, stockgate.Accepted, w.sells(x.a))
}

// A payment that arrives before its row is imported is not refunded.
func TestEventsWaitForTheImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.lost()
	w.newEpoch()
	paid := message(w.t, contract.TopicOrderEvents, event(x.paid, contract.OrderPaid))
	require.ErrorIs(w.t, w.consumer.OrderEvents(w.ctx, paid), core.ErrImporting)
	due := contract.OrderClose{OrderSNs: []string{x.orderless.OrderSN}, ActivityID: x.a.ID, DueAt: time.Now()}
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, due)))
	require.Empty(w.t, w.orders.of(x.orderless.OrderSN), "no tombstone")
	require.Len(w.t, w.broker.take(contract.TopicOrderClose), 1, "tried again later")
	w.sweepOrders()
	require.Empty(w.t, w.orders.refunded)
	w.imports()
	require.NoError(w.t, w.consumer.OrderEvents(w.ctx, paid))
	x.check(w)
}

// Paid orders come first; one for which no unit is left is closed or refunded, and listed. This takes a top-up that the
// database has lost.
func TestOrdersWithoutAUnit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 2)
	b := w.backup()
	require.NoError(w.t, w.add(a, 3))
	var all []contract.Reservation
	for i, state := range []string{"pending", "pending", "paid", "paid", "paid"} {
		r := w.buy(a, fmt.Sprint("u", i))
		w.land(r)
		w.order(r, state)
		w.follow(event(r, contract.OrderCreated))
		if state == "paid" {
			w.follow(event(r, contract.OrderPaid))
		}
		all = append(all, r)
	}
	w.restore(b)
	w.newEpoch()
	w.imports()
	require.Equal(w.t, []string{all[4].OrderSN}, w.orders.refunded)
	require.Equal(w.t, "closed", w.orders.of(all[0].OrderSN))
	require.Equal(w.t, "closed", w.orders.of(all[1].OrderSN))
	for i, want := range []stockgate.Status{"closed", "closed", "paid", "paid", "closed"} {
		require.Equal(w.t, want, w.entry(a, all[i].OrderSN).Status, "%d", i)
	}
	w.agree(a)
	require.Zero(w.t, w.left(a, 0))
	c := w.counts()
	require.Equal(w.t, int64(2), c.Closed)
	require.Equal(w.t, int64(1), c.Refunded)
	require.Equal(w.t, int64(2), c.Paid)
	require.Equal(w.t, int64(1), c.Adjustments)
}

// A gate and orders of an activity that the database has lost end: closed or refunded, and listed.
func TestAnActivityThatTheDatabaseLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept := w.sale(1, 5)
	b := w.backup()
	a := w.sale(1, 5)
	pending, paid, queued := w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3")
	w.land(pending, paid)
	w.order(pending, "pending")
	w.order(paid, "paid")
	w.follow(event(pending, contract.OrderCreated), event(paid, contract.OrderPaid))
	w.restore(b)
	w.newEpoch()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.Equal(w.t, stockgate.Importing, w.sells(a))
	w.imports()
	require.Equal(w.t, "closed", w.orders.of(pending.OrderSN))
	require.Equal(w.t, []string{paid.OrderSN}, w.orders.refunded)
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, pending.OrderSN).Status)
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, paid.OrderSN).Status)
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, queued.OrderSN).Status)
	require.Equal(w.t, core.FindingForeign, w.findings()[paid.OrderSN])
	require.NotEqual(w.t, stockgate.Accepted, w.sells(a))
	require.Equal(w.t, stockgate.Accepted, w.sells(kept))
}

// After a restore of order alone, a row without an order gets one: its deduction is published again, never its closing.
func TestRowsWithoutAnOrderAfterARestoreOfOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	created, sold, never := w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3")
	w.land(created, sold, never)
	w.follow(event(created, contract.OrderCreated), event(sold, contract.OrderCreated), event(sold, contract.OrderPaid),
		event(never, contract.OrderCreated))
	w.orders.set("tombstone", never.OrderSN)
	w.broker.take(contract.TopicDeductions)
	w.newEpoch()
	w.imports()
	require.Equal(w.t, "pending", w.orders.of(created.OrderSN))
	require.Equal(w.t, "pending", w.orders.of(sold.OrderSN), "`order payments reconcile` makes it paid")
	require.Equal(w.t, ledger.StateSold, w.row(sold.OrderSN).State)
	require.Equal(w.t, stockgate.StatusPaid, w.entry(a, sold.OrderSN).Status)
	require.Equal(w.t, ledger.StateReleased, w.row(never.OrderSN).State, "it can never get an order")
	w.agree(a)

	// Its payment stays lost: the order closes, and the unit is on sale again.
	w.orders.set("closed", sold.OrderSN)
	due := contract.OrderClose{OrderSNs: []string{sold.OrderSN}, ActivityID: a.ID, DueAt: time.Now()}
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, due)))
	require.Equal(w.t, ledger.StateReleased, w.row(sold.OrderSN).State)
	w.agree(a)
}

// A purchase that had ended in the gate stays ended, although the restored row holds units and order has no order of it.
func TestAnEndedPurchaseStaysEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 1)
	r := w.buy(a, "u1")
	w.land(r)
	b := w.backup()
	w.orders.set("tombstone", r.OrderSN)
	due := contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: time.Now()}
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, due)))
	again := w.buy(a, "u1")
	w.land(again)
	w.order(again, "paid")
	w.follow(event(again, contract.OrderCreated), event(again, contract.OrderPaid))
	w.restore(b)
	w.newEpoch()
	w.imports()
	require.Empty(w.t, w.orders.refunded, "the unit and the allowance are those of the paid order")
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, r.OrderSN).Status)
	require.Equal(w.t, ledger.StateSold, w.row(again.OrderSN).State)
	w.agree(a)
}

// Two purchases have one order_sn, and the one that the ledger has has ended. The buyer of the other one, which is in the
// gate, reads that it failed.
func TestAnImportEndsTheEntryOfAnotherBuyer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	second := w.buy(a, "u2")
	first := second
	first.UserID = "u1"
	w.loses(func() error {
		return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, first))
	})
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET state = 'released', reason = 'system' WHERE order_sn = ?", first.OrderSN).Error)
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available + 1, reserved = reserved - 1 WHERE activity_id = ?", a.ID).Error)
	require.NoError(w.t, w.db.Exec("UPDATE allowances SET held = 0 WHERE activity_id = ?", a.ID).Error)
	w.newEpoch()
	w.imports()
	e := w.entry(a, second.OrderSN)
	require.Equal(w.t, []any{"u2", stockgate.StatusFailed}, []any{e.UserID, e.Status})
	require.EqualValues(w.t, 1, w.counts().Corrected)
	require.Equal(w.t, int64(5), w.left(a, 0))
}

// A purchase that had ended, and whose row and order a restore of both databases has lost, does not land again when its
// message is delivered once more: neither during the import nor afterwards.
func TestALostPurchaseThatHadEndedStaysEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 2)
	b := w.backup()
	closed, refused := w.buy(a, "u1"), w.buy(a, "u2")
	w.land(closed)
	w.order(closed, "closed")
	w.follow(event(closed, contract.OrderCreated), event(closed, contract.OrderClosed))
	w.orders.set("tombstone", refused.OrderSN)
	w.land(refused)
	due := contract.OrderClose{OrderSNs: []string{refused.OrderSN}, ActivityID: a.ID, DueAt: time.Now()}
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, due)))
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, closed.OrderSN).Status)
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, refused.OrderSN).Status)

	w.restore(b)
	w.orders.set("", closed.OrderSN, refused.OrderSN)
	w.newEpoch()
	again := message(w.t, contract.TopicReservations, closed, refused)
	require.ErrorIs(w.t, w.consumer.Reservations(w.ctx, again), core.ErrImporting)
	w.imports()
	require.NoError(w.t, w.consumer.Reservations(w.ctx, again))
	require.Equal(w.t, ledger.StateReleased, w.row(closed.OrderSN).State)
	require.Equal(w.t, ledger.StateRejected, w.row(refused.OrderSN).State)
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, closed.OrderSN).Status)
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, refused.OrderSN).Status)
	require.Equal(w.t, "tombstone", w.orders.of(closed.OrderSN))
	require.EqualValues(w.t, 2, w.counts().Ended)
	w.agree(a)
	w.land(w.buy(a, "u1"))
	w.agree(a)
}

// The gate has undone a withdrawal that the database had refused, and a failover of the database lost that decision.
func TestAWithdrawalThatTheGateHasUndoneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 3)
	w.faults.kill(1, true)
	require.Error(w.t, w.withdraw(a))
	require.True(w.t, w.faults.heal())
	b := w.backup("adjustments", "idempotency_keys") // with the intent
	require.Len(w.t, b["adjustments"], 1)
	bought := w.buy(a, "u1")
	w.land(bought)
	require.Equal(w.t, contract.CodeInsufficientStock, contract.CodeOf(w.withdraw(a)))
	w.follow(event(bought, contract.OrderClosed)) // now enough units are left

	w.restore(b)
	require.Equal(w.t, contract.CodeInsufficientStock, contract.CodeOf(w.withdraw(a)))
	require.Equal(w.t, int64(3), w.left(a, 0))
	w.agree(a)
}

func (w *world) add(a *core.Activity, units int64) error {
	_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: units, Reason: "more",
		Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "more"},
	})
	return err
}

// The gate has units of an addition that the database has lost; in the database they belong to an order that the import
// has not brought back yet.
func TestAWithdrawalWaitsForTheImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 3)
	b := w.backup()
	require.NoError(w.t, w.add(a, 3))
	bought := w.buy(a, "u1")
	w.land(bought)

	w.restore(b)
	w.order(bought, "paid")
	w.newEpoch()
	require.Equal(w.t, contract.CodeGateUnavailable, contract.CodeOf(w.withdraw(a)))
	require.Equal(w.t, int64(5), w.left(a, 0), "the gate has all units but the one that was bought")
	w.imports()
	require.Equal(w.t, ledger.StateSold, w.row(bought.OrderSN).State)
	require.Equal(w.t, contract.CodeInsufficientStock, contract.CodeOf(w.withdraw(a)), "two units are left of three")
	w.agree(a)
}

// gateBeforeEpoch is a gate after whose next adjustment another process draws an epoch.
type gateBeforeEpoch struct {
	gates.Effects
	draw func()
}

func (g *gateBeforeEpoch) Adjust(ctx context.Context, activityID string, a core.Adjustment, force bool) error {
	err := g.Effects.Adjust(ctx, activityID, a, force)
	if !force {
		g.draw()
	}
	return err
}

// The epoch is drawn after the gate has given up the units, and before the database decides.
func TestAnEpochDuringAWithdrawal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 3)
	b := w.backup()
	bought := w.buy(a, "u1")
	w.land(bought)
	w.restore(b)
	w.order(bought, "paid")
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gates.EnsureGates(w.ctx)) // a gate without the purchase
	ours := w.parts
	w.parts = ours.with(func(p *ports) { p.gate = &gateBeforeEpoch{p.gate, w.newEpoch} })
	w.restart()
	require.Equal(w.t, contract.CodeGateUnavailable, contract.CodeOf(w.withdraw(a)))
	w.parts = ours
	w.restart()
	w.imports()
	require.Empty(w.t, w.orders.refunded, "its unit was not withdrawn")
	require.Equal(w.t, ledger.StateSold, w.row(bought.OrderSN).State)
	require.Equal(w.t, contract.CodeInsufficientStock, contract.CodeOf(w.withdraw(a)), "two units are left of three")
	w.agree(a)
}

// The sweep leaves withdrawals alone until the import is complete, and goes on with additions.
func TestTheSweepOfAdjustmentsDuringAnImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 3)
	w.faults.kill(1, true)
	require.Error(w.t, w.withdraw(a))
	require.True(w.t, w.faults.heal())
	w.faults.kill(1, true)
	require.Error(w.t, w.add(a, 2))
	require.True(w.t, w.faults.heal())
	w.newEpoch()
	w.shift += time.Minute
	for range 3 {
		require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
		w.shift += time.Minute
	}
	require.Equal(w.t, int64(5), w.stock(a)[0].Total)
	w.imports()
	require.NoError(w.t, w.adjustmentSweep.Run(w.ctx), "it does not wait for longer than the import")
	require.Equal(w.t, int64(2), w.stock(a)[0].Total)
	w.agree(a)
}

// A bus that delivers closings at once, whatever their delay is, causes few calls during an import.
func TestABusThatIsAheadDuringAnImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 1)
	r := w.buy(a, "u1")
	w.land(r)
	w.newEpoch()
	due := contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: time.Now()}
	next := []bus.Delivery{message(w.t, contract.TopicOrderClose, due)}
	n := 0
	for ; len(next) > 0 && n <= 12; n++ {
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, next[0]))
		next = next[1:]
		for _, m := range w.broker.take(contract.TopicOrderClose) {
			next = append(next, bus.Delivery{Message: m, Attempt: 1})
		}
	}
	require.LessOrEqual(w.t, n, 12)
	require.Empty(w.t, w.orders.of(r.OrderSN), "no tombstone during an import")
}

// Entries and rows that cannot be read are set aside; their neighbours are imported.
func TestAnImportSetsAsideWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.lost()
	broken := x.queued.OrderSN
	require.NoError(w.t, w.rdb.HSet(w.ctx, gateKey(x.a, "held"), broken, "nonsense").Err())
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET line_items = '{' WHERE order_sn = ?", x.paidSince.OrderSN).Error)
	w.newEpoch()
	w.imports()
	require.Equal(w.t, core.FindingUnreadable, w.findings()[broken])
	require.Equal(w.t, core.FindingUnreadable, w.findings()[x.paidSince.OrderSN])
	require.Equal(w.t, ledger.StateSold, w.row(x.paid.OrderSN).State)
	require.Equal(w.t, ledger.StateReserved, w.row(x.landed.OrderSN).State)
	require.Equal(w.t, ledger.StateRejected, w.row(broken).State, "a late message takes no unit")
	require.Equal(w.t, stockgate.Accepted, w.sells(x.a))
	require.Equal(w.t, int64(1), w.counts().Unreadable)
}

// A gate of an epoch that the database has lost, one of an earlier state of Redis, and one that has lost its epoch, are
// imported.
func TestAGateOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.lost()
	first, err := w.parts.Store.PresentEpoch(w.ctx)
	require.NoError(w.t, err)
	require.NoError(w.t, w.rdb.HSet(w.ctx, gateKey(x.a, "gate"), "epoch", "unknown").Err())
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.Equal(w.t, stockgate.Importing, w.sells(x.a))
	require.False(w.t, w.importing(), "one reading is no proof")
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.True(w.t, w.importing())
	w.imports()
	x.check(w)

	for _, lose := range []func() error{
		func() error { return w.rdb.HSet(w.ctx, gateKey(x.a, "gate"), "epoch", first.Value).Err() },
		func() error { return w.rdb.HDel(w.ctx, gateKey(x.a, "gate"), "epoch").Err() },
	} {
		require.NoError(w.t, lose())
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
		require.True(w.t, w.importing())
		w.imports()
	}
	w.relay(x.a)
	require.Equal(w.t, stockgate.Accepted, w.sells(x.a))
}

// The reconciler proves in two passes that the database has lost commits, repairs nothing, and draws a new epoch.
func TestTheReconcilerProvesALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world, x *lost){
		"entries": func(*world, *lost) {},
		"an adjustment": func(w *world, x *lost) {
			keep := w.backup("reservations", "stocks", "allowances")
			_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
				ActivityID: x.a.ID, SKUID: x.a.Items[0].SKUID, Delta: 3, Reason: "r",
				Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "k"},
			})
			require.NoError(w.t, err)
			require.NoError(w.t, w.db.Exec("DELETE FROM adjustments").Error)
			require.NoError(w.t, w.db.Exec("DELETE FROM idempotency_keys").Error)
			w.restore(keep)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			x := w.lost()
			lose(w, x)
			w.settles()
			before := w.rdb.HGetAll(w.ctx, gateKey(x.a, "held")).Val()
			out := w.reconcile(x.a)
			require.Empty(w.t, out.Repairs)
			require.NotEmpty(w.t, out.Differences)
			require.Equal(w.t, before, w.rdb.HGetAll(w.ctx, gateKey(x.a, "held")).Val())
			require.False(w.t, w.importing())
			w.reconcile(x.a)
			require.True(w.t, w.importing())
			e, err := w.parts.Store.PresentEpoch(w.ctx)
			require.NoError(w.t, err)
			require.True(w.t, e.Since.Equal(x.a.StartsAt), "the start of the oldest activity that is not over")
			require.Len(w.t, w.reconcile(x.a).Differences, 1, "nothing is compared during the import")
			w.imports()
			x.check(w)
			require.Empty(w.t, w.reconcile(x.a).Differences)
		})
	}
}

// An epoch that is drawn during an import covers what the import had not reached.
func TestAnEpochDuringAnImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.lost()
	early := time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Millisecond)
	first, err := w.parts.Store.DrawEpoch(w.ctx, early, "test", "", time.Now().UTC())
	require.NoError(w.t, err)
	require.NoError(w.t, w.importRound())
	second, err := w.parts.Store.DrawEpoch(w.ctx, time.Now(), "test", "", time.Now().UTC())
	require.NoError(w.t, err)
	require.NotEqual(w.t, first.Value, second.Value)
	require.True(w.t, second.Since.Equal(early))
	same, err := w.parts.Store.DrawEpoch(w.ctx, time.Now(), "test", first.Value, time.Now().UTC())
	require.NoError(w.t, err)
	require.Equal(w.t, second.Value, same.Value, "another process has drawn it")
	w.imports()
	x.check(w)
}

func TestEpochsAreStorable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, err := w.parts.Store.PresentEpoch(w.ctx)
	require.NoError(w.t, err)
	require.Zero(w.t, e.Since)
	require.Regexp(w.t, "^[a-z0-9]{26,32}$", e.Value)
	require.Equal(w.t, strings.ToLower(e.Value), e.Value)
	w.newEpoch()
	next, err := w.parts.Store.PresentEpoch(w.ctx)
	require.NoError(w.t, err)
	require.NotEqual(w.t, e.Value, next.Value)
	require.Regexp(w.t, "^[a-z0-9]{26,32}$", next.Value)
	w.imports()
	require.False(w.t, w.importing())
}

func TestEpochCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var out strings.Builder
	require.NoError(w.t, EpochStatus(w.ctx, w.db, &out))
	require.Contains(w.t, out.String(), "The import is complete.")
	require.ErrorContains(w.t, NewEpoch(w.ctx, w.db, time.Now().Add(time.Hour), &out), "in the future")
	require.False(w.t, w.importing())

	x := w.lost()
	out.Reset()
	require.NoError(w.t, NewEpoch(w.ctx, w.db, time.Now().Add(-time.Hour), &out))
	require.Contains(w.t, out.String(), "Gates sell nothing until that is complete.")
	out.Reset()
	require.NoError(w.t, EpochStatus(w.ctx, w.db, &out))
	require.Contains(w.t, out.String(), "The import is not complete.")
	w.imports()
	x.check(w)
	out.Reset()
	require.NoError(w.t, EpochStatus(w.ctx, w.db, &out))
	require.Contains(w.t, out.String(), "3 purchases of the gate journaled again")
	require.True(w.t, strings.HasSuffix(out.String(), "\nThe import is complete.\n"))
}

// After a restore of both databases a paid purchase keeps its status until its payment is found at the provider, and
// follows the order if there is none.
func TestAPaidPurchaseThatOrderHasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, charged := range []bool{true, false} {
		a := w.sale(1, 5)
		b := w.backup()
		r := w.buy(a, "u")
		w.land(r)
		w.follow(event(r, contract.OrderCreated), event(r, contract.OrderPaid))
		w.broker.take(contract.TopicDeductions)
		w.restore(b)
		w.newEpoch()
		w.imports()
		w.settles()
		require.Empty(w.t, w.reconcile(a).Repairs)
		require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)
		require.Equal(w.t, stockgate.StatusPaid, w.entry(a, r.OrderSN).Status)
		require.Equal(w.t, core.FindingAhead, w.findings()[r.OrderSN])
		require.Equal(w.t, "pending", w.orders.of(r.OrderSN))
		if charged {
			w.order(r, "paid")
			w.follow(event(r, contract.OrderPaid))
			require.Equal(w.t, stockgate.StatusPaid, w.entry(a, r.OrderSN).Status)
		} else {
			w.order(r, "closed")
			w.follow(event(r, contract.OrderClosed))
			w.settles()
			w.reconcile(a)
			require.Equal(w.t, stockgate.StatusClosed, w.entry(a, r.OrderSN).Status)
		}
		w.agree(a)
		w.settles()
		require.Empty(w.t, w.reconcile(a).Differences)
	}
}

// After a restore of both databases a purchase lands again, and the events that its lost order had published come
// before its deduction is published: they do not prove that the order exists. The import creates it.
func TestEventsOfALostOrderDoNotReplaceIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	b := w.backup()
	pending, paid := w.buy(a, "u1"), w.buy(a, "u2")
	w.land(pending, paid)
	w.broker.take(contract.TopicDeductions)
	w.restore(b)
	w.newEpoch()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.NoError(w.t, w.importer.Run(w.ctx))
	require.NoError(w.t, w.relayAndLand(a.ID))
	w.broker.take(contract.TopicDeductions) // inventory was killed before it published them
	w.follow(event(pending, contract.OrderCreated), event(paid, contract.OrderCreated), event(paid, contract.OrderPaid))
	w.imports()
	require.Equal(w.t, "pending", w.orders.of(pending.OrderSN))
	require.Equal(w.t, "pending", w.orders.of(paid.OrderSN), "`order payments reconcile` makes it paid")
	require.Equal(w.t, ledger.StateSold, w.row(paid.OrderSN).State)
	require.EqualValues(w.t, 2, w.counts().Republished)
	w.agree(a)
}

// Without an operator, too, purchases that only the gate has do not hold units for ever.
func TestPurchasesAfterTheBackupDoNotHoldUnitsForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	b := w.backup()
	for i := range 2 {
		r := w.buy(a, fmt.Sprint("u", i))
		w.land(r)
		w.follow(event(r, contract.OrderCreated))
		w.order(r, "pending")
	}
	w.restore(b)
	for range 5 {
		w.shift += time.Minute
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
		w.reconcile(a)
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		require.NoError(w.t, w.importRound())
	}
	require.Equal(w.t, w.stock(a)[0].Available, w.left(a, 0), "units available in the database, left in the gate")
	w.agree(a)
}

// One adjustment that the gate does not take stops nothing else: refused buyers end, and the other adjustments arrive.
func TestABadAdjustmentStopsNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(1, 1)
	now := time.Now().UTC().Truncate(time.Millisecond)
	require.NoError(w.t, w.db.Exec("INSERT INTO adjustments (id, activity_id, sku_id, delta, reason, state, decision, created_by, "+
		"created_at, updated_at) VALUES (7, ?, ?, -1, 'r', 'applied', 'refused', 'm', ?, ?), (8, ?, ?, 1, 'r', 'applied', 'taken', 'm', ?, ?)",
		a.ID, a.Items[0].SKUID, now, now, a.ID, a.Items[0].SKUID, now, now).Error)
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET total = total + 1, available = available + 1 WHERE activity_id = ?", a.ID).Error)
	require.NoError(w.t, w.gate.Adjust(w.ctx, a.ID, stockgate.Adjustment{ID: "8", SKUID: a.Items[0].SKUID, Delta: 2}))
	var last contract.Reservation
	for i := range 3 {
		last = w.buy(a, fmt.Sprint("u", i))
		w.land(last)
	}
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, last.OrderSN).Status)
	require.Equal(w.t, []string{"a gate does not take an adjustment"}, incidents.raised)
}
