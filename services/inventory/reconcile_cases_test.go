package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/record"
)

// Redis lost effects, and the gate controller has confirmed the gate since: its window does not contain them. Units of
// closed and refused purchases stay held in the gate, and it lacks landed ones.
func TestLossesOfAnOldFailoverAreRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.onMaster()
	a := w.sale(2, 10)
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	closed, failed := w.buy(a, "u1"), w.buy(a, "u2")
	w.land(closed, failed)
	w.follow(event(closed, contract.OrderCreated))
	w.loses(func() error {
		return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(closed, contract.OrderClosed)))
	})
	w.orders.set("tombstone", failed.OrderSN)
	w.faults.kill(3, false) // order, ledger
	require.Error(w.t, w.core.CloseDue(w.ctx, []contract.OrderClose{{OrderSNs: []string{failed.OrderSN}, ActivityID: a.ID}}, nil))
	require.True(w.t, w.faults.heal())
	unknown := contract.Reservation{OrderSN: newSN(), UserID: "u3", ActivityID: a.ID, Lines: closed.Lines, ReservedAt: w.parts.Now()}
	w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, unknown)) })

	w.shift = 3 * time.Hour
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	m.id = "second"
	w.restart()
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	require.Equal(w.t, int64(8), w.left(a, 0), "older than the window of the gate controller")
	r := w.reconcile(a)
	require.Equal(w.t, []string{"adopted", "released"}, kinds(r))
	require.Len(w.t, r.Repairs, 3)
	require.Equal(w.t, int64(9), w.left(a, 0))
	w.agree(a)
	w.whole(w.t, a)
}

// A row that changed within the grace is in flight, however far the gate is behind.
func TestRecentRowsAreNotRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Reconcile.Grace = time.Minute
	w.restart()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, r)) })
	require.Empty(w.t, w.reconcile(a).Repairs)
	w.shift = 2 * time.Minute
	require.Equal(w.t, []string{"settled"}, kinds(w.reconcile(a)))
	w.agree(a)
}

// meddler runs a function between the second reading of a purchase and its repair.
type meddler struct {
	reconcile.Repairs
	before func()
}

func (g *meddler) Repair(ctx context.Context, activityID, life string, list []ledger.EntryRepair) (map[string]bool, error) {
	if g.before != nil {
		g.before()
	}
	return g.Repairs.Repair(ctx, activityID, life, list)
}

// If the regular sync comes first, the repair finds another entry than it read, and changes nothing.
func TestARepairDoesNotOverwriteAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	meddler := &meddler{}
	w.parts = w.parts.with(func(p *ports) { meddler.Repairs, p.repairs = p.repairs, meddler })
	w.restart()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	landing := message(w.t, contract.TopicReservations, r)
	w.loses(func() error { return w.consumer.Reservations(w.ctx, landing) })
	w.settles()
	meddler.before = func() { require.NoError(w.t, w.consumer.Reservations(w.ctx, landing)) }
	require.Empty(w.t, w.reconcile(a).Repairs)
	w.agree(a)

	// The gate was built again meanwhile: the reading belongs to the old build.
	require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(a, "held"), r.OrderSN).Err())
	meddler.before = func() {
		meddler.before = nil
		require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	}
	_, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID)
	require.Error(w.t, err)
	w.agree(a)
	w.whole(w.t, a)
	require.Empty(w.t, w.reconcile(a).Repairs)
}

// An adjustment between its steps blocks a correction. A purchase in flight does not: the sums contain it.
func TestCountersWaitForAdjustments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 10)
	w.land(w.buy(a, "u1"))
	w.settles()
	sku := a.Items[0].SKUID
	require.NoError(w.t, w.rdb.HIncrBy(w.ctx, gateKey(a, "gate"), "s:"+sku, -4).Err())
	w.faults.kill(3, false) // intent, decision
	_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: a.ID, SKUID: sku, Delta: 3, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "k"},
	})
	require.Error(w.t, err)
	require.True(w.t, w.faults.heal())
	r := w.reconcile(a)
	require.Empty(w.t, r.Repairs, "the gate lacks an adjustment")
	require.NotEmpty(w.t, r.Differences)
	w.shift += time.Hour
	require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))

	queued, outcome := w.reserve(a, "u2")
	require.Equal(w.t, stockgate.Accepted, outcome)
	before := w.rdb.HGet(w.ctx, gateKey(a, "held"), queued.OrderSN).Val()
	require.Equal(w.t, []string{"counters"}, kinds(w.reconcile(a)), "in the journal")
	w.whole(w.t, a)
	w.relay(a)
	require.NoError(w.t, w.rdb.HIncrBy(w.ctx, gateKey(a, "gate"), "h:"+sku, 4).Err())
	require.Equal(w.t, []string{"counters"}, kinds(w.reconcile(a)), "in flight")
	w.whole(w.t, a)
	require.NoError(w.t, w.rdb.HIncrBy(w.ctx, gateKey(a, "gate"), "s:"+sku, 4).Err())
	require.NoError(w.t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{{
		Where: contract.GroupInventoryReservations, Topic: contract.TopicReservations, OrderSN: queued.OrderSN, ActivityID: a.ID, Why: "w", Item: []byte("{}"), At: w.parts.Now(),
	}}))
	require.Equal(w.t, []string{"counters"}, kinds(w.reconcile(a)), "a dead letter")
	w.whole(w.t, a)
	require.NotEmpty(w.t, before)
	w.land(queued)
	w.agree(a)
}

// tallied runs a function right after the counters were read.
type tallied struct {
	reconcile.Holdings
	then func()
}

func (g tallied) CollectChanges(ctx context.Context, activityID, token string) (core.GateAudit, []ledger.StoredEntry, bool, error) {
	audit, touched, ok, err := g.Holdings.CollectChanges(ctx, activityID, token)
	g.then()
	return audit, touched, ok, err
}

// An adjustment that reaches the gate after its counters were read, and that ends before open ones are counted, is not
// mistaken for units that the gate lacks.
func TestAnAdjustmentThatEndsDuringAComparisonCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 10)
	w.settles()
	w.parts.Reconcile.Confirmations = 1
	then := func() {
		w.shift += time.Hour
		require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
	}
	w.parts = w.parts.with(func(p *ports) { p.compared = tallied{p.compared, then} })
	w.restart()
	w.faults.kill(3, false) // intent, decision
	_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 3, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "k"},
	})
	require.Error(w.t, err)
	require.True(w.t, w.faults.heal())
	require.Empty(w.t, w.reconcile(a).Repairs)
	w.shift = 0
	require.Equal(w.t, int64(13), w.left(a, 0))
	w.agree(a)
}

// Units that were written into the gate by hand are sold before a comparison finds them. The ledger refuses them,
// their buyers see that, and nothing is sold twice.
func TestUnitsThatDoNotExistAreNotSold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 2)
	require.NoError(w.t, w.rdb.HIncrBy(w.ctx, gateKey(a, "gate"), "s:"+a.Items[0].SKUID, 3).Err())
	var all []contract.Reservation
	for i := range 5 {
		all = append(all, w.buy(a, fmt.Sprint("u", i)))
	}
	w.land(all...)
	for i, r := range all {
		if i < 2 {
			require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)
			continue
		}
		require.Equal(w.t, ledger.ReasonSoldOut, w.row(r.OrderSN).Reason)
		require.Equal(w.t, stockgate.StatusFailed, w.entry(a, r.OrderSN).Status)
	}
	w.settles()
	require.Equal(w.t, []string{"counters"}, kinds(w.reconcile(a)))
	require.Zero(w.t, w.left(a, 0))
	_, outcome := w.reserve(a, "late")
	require.Equal(w.t, stockgate.SoldOut, outcome)
	w.agree(a)
	w.whole(w.t, a)
}

// The gate lacks a counter that an adjustment needs: neither waits for the other.
func TestAMissingCounterDoesNotWaitForAnAdjustment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 10)
	w.land(w.buy(a, "u1"))
	w.settles()
	require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(a, "gate"), "s:"+a.Items[0].SKUID).Err())
	_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 3, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "k"},
	})
	require.Error(w.t, err)
	w.reconcile(a)
	w.shift += time.Hour
	require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
	require.Empty(w.t, w.reconcile(a).Differences)
	w.shift = 0
	w.whole(w.t, a)
	w.agree(a)
}

// An allowance that is too high keeps its buyer from buying more until it is repaired. It blocks no release.
func TestADamagedAllowanceDoesNotBlockClosings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 9)
	r := w.buy(a, "u1")
	w.land(r)
	w.follow(event(r, contract.OrderCreated))
	require.NoError(w.t, w.db.Exec("UPDATE allowances SET held = held + 3 WHERE activity_id = ? AND user_id = 'u1'", a.ID).Error)
	w.follow(event(r, contract.OrderClosed))
	require.Equal(w.t, ledger.StateReleased, w.row(r.OrderSN).State)
	w.settles()
	require.Equal(w.t, []string{string(reconcile.RepairAllowance)}, kinds(w.reconcile(a)))
	w.agree(a)
}

// The reconciler ignores a deleted journal: the journal sweep journals its entries again.
func TestADeletedJournalIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 10)
	r, outcome := w.reserve(a, "u1")
	require.Equal(w.t, stockgate.Accepted, outcome)
	require.NoError(w.t, w.rdb.Del(w.ctx, gateKey(a, "journal")).Err())
	require.Empty(w.t, w.reconcile(a).Repairs)
	require.Eventually(w.t, func() bool {
		w.parts.Sweep.RejournalAfter = time.Millisecond
		w.restart()
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		entries, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 10)
		require.NoError(w.t, err)
		return len(entries) == 1 && entries[0].OrderSN == r.OrderSN
	}, 30*time.Second, 10*time.Millisecond)
	require.Empty(w.t, w.reconcile(a).Repairs)
}

// A landed entry without a ledger row becomes queued again.
func TestALandedEntryWithoutARowIsJournaledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	require.NoError(w.t, w.gate.Settle(w.ctx, a.ID, []stockgate.Settlement{{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Step: stockgate.StepLanded}}))
	for range 2 { // the second one draws an epoch
		require.Empty(w.t, w.reconcile(a).Repairs)
		require.True(w.t, w.entry(a, r.OrderSN).Landed)
	}
	w.imports()
	w.agree(a)
	require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)
}

// incidents collects incidents.
type incidents struct {
	*record.Recorder
	raised []string
}

func (a *incidents) Incident(ctx context.Context, what string, attrs ...any) {
	a.raised = append(a.raised, what)
	a.Recorder.Incident(ctx, what, attrs...)
}

func (w *world) incidents() *incidents {
	a := &incidents{Recorder: w.parts.Recorder}
	w.parts = w.parts.with(func(p *ports) { p.recorder, p.repaired = a, a })
	w.restart()
	return a
}

// Differences that cannot be repaired raise an incident now and then, and are left alone.
func TestDifferencesLeftToTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(3, 10)
	r, other := w.buy(a, "u1"), w.buy(a, "u2")
	w.land(r)
	w.settles()
	before, err := w.rdb.HGetAll(w.ctx, gateKey(a, "gate")).Result()
	require.NoError(w.t, err)
	left := func(want reconcile.Difference, incident string) {
		w.t.Helper()
		incidents.raised = nil
		for n := range 2 {
			out := w.reconcile(a)
			require.Empty(w.t, out.Repairs)
			require.Len(w.t, out.Differences, 1)
			require.NotEmpty(w.t, out.Differences[0].Why)
			want.Why = out.Differences[0].Why
			require.Equal(w.t, want, out.Differences[0])
			require.Len(w.t, incidents.raised, 1, "%d: raised once an hour at most", n)
			require.Contains(w.t, incidents.raised[0], incident)
		}
		now, err := w.rdb.HGetAll(w.ctx, gateKey(a, "gate")).Result()
		require.NoError(w.t, err)
		require.Equal(w.t, before, now)
	}
	// The ledger has another buyer's purchase under the order_sn of a queued entry.
	stranger := other
	stranger.UserID = "stranger"
	w.loses(func() error {
		return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, stranger))
	})
	w.settles()
	left(reconcile.Difference{OrderSN: other.OrderSN}, "belongs to another buyer")
	require.NoError(w.t, w.db.Exec("DELETE FROM reservations WHERE order_sn = ?", other.OrderSN).Error)
	require.NoError(w.t, w.db.Exec("DELETE FROM allowances WHERE user_id = 'stranger'").Error)
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available + 1, reserved = reserved - 1 WHERE activity_id = ?", a.ID).Error)
	require.NoError(w.t, w.gate.Release(w.ctx, a.ID, []stockgate.Ending{{OrderSN: other.OrderSN, UserID: "u2", Lines: other.Lines, Reason: "system"}}))

	// A stock row that does not match the ledger.
	before = w.rdb.HGetAll(w.ctx, gateKey(a, "gate")).Val()
	w.settles()
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available - 2, reserved = reserved + 2 WHERE activity_id = ?", a.ID).Error)
	left(reconcile.Difference{SKUID: a.Items[0].SKUID, Delta: 2}, "do not add up")
	require.Equal(w.t, int64(3), w.stock(a)[0].Reserved, "the reconciler does not decide which is right")

	// A gate whose counters cannot be read.
	require.NoError(w.t, w.rdb.HSet(w.ctx, gateKey(a, "gate"), "s:"+a.Items[0].SKUID, "many").Err())
	before["s:"+a.Items[0].SKUID] = "many"
	left(reconcile.Difference{}, "broken")
}

// A gate that cannot be built does not block the others: Redis is filled, and a new master is synced once.
func TestABrokenGateDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	m := w.onMaster()
	broken, sound := w.sale(1, 10), w.sale(1, 10)
	r := w.buy(sound, "u1")
	w.land(r)
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available - 1, reserved = reserved + 1 WHERE activity_id = ?", broken.ID).Error)
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	for range 3 {
		require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	}
	ready, err := w.gate.Ready(w.ctx)
	require.NoError(w.t, err)
	require.True(w.t, ready)
	w.agree(sound)
	require.Equal(w.t, []string{"a gate is broken"}, incidents.raised, "raised once")
	_, err = w.gate.Audit(w.ctx, broken.ID)
	require.ErrorIs(w.t, err, stockgate.ErrNoGate)

	// The intact gate gets what the new master lacks.
	w.loses(func() error {
		return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(r, contract.OrderPaid)))
	})
	m.id = "second"
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(sound)
	// It is synced once, not again and again because of the other gate.
	w.loses(func() error {
		late := w.buy(sound, "u2")
		return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, late))
	})
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	v, err := w.merchants.StockView(w.ctx, core.AllMerchants(), sound.ID)
	require.NoError(w.t, err)
	require.NotZero(w.t, v.SKUs[0].Difference, "no new master, so nothing is synced again")

	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available + 1, reserved = reserved - 1 WHERE activity_id = ?", broken.ID).Error)
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	w.agree(broken)
}

// A gate that no retry can cure is an incident, once, and others are repaired.
func TestABrokenGateDoesNotStopTheReconciler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	broken, damaged := w.sale(1, 10), w.sale(1, 10)
	landed := w.buy(damaged, "u1")
	w.land(landed)
	w.relay(damaged)
	w.settles()
	require.NoError(t, w.rdb.Set(w.ctx, gateKey(broken, "held"), "x", 0).Err())
	for range 2 {
		require.Equal(t, int64(1), w.rdb.HDel(w.ctx, gateKey(damaged, "held"), landed.OrderSN).Val())
		require.NoError(t, w.reconciler.ReconcileAll(w.ctx))
		w.agree(damaged)
	}
	require.Equal(t, []string{"a gate is broken"}, incidents.raised)
}

// During an overload the timer yields, but not for ever. An operator's request runs.
func TestTheReconcilerYieldsToBuyers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(100, 3000)
	sku := a.Items[0].SKUID
	landed := w.buy(a, "landed", contract.Line{SKUID: sku, Qty: 1})
	w.land(landed)
	w.relay(a)
	w.settles()
	for i := range 20 {
		_, outcome := w.reserve(a, fmt.Sprint("u", i), contract.Line{SKUID: sku, Qty: 100})
		require.Equal(t, stockgate.Accepted, outcome)
	}
	damage := func() {
		require.Equal(t, int64(1), w.rdb.HDel(w.ctx, gateKey(a, "held"), landed.OrderSN).Val())
	}
	round := func() (repaired bool) {
		require.NoError(t, w.reconciler.ReconcileAll(w.ctx))
		return w.rdb.HExists(w.ctx, gateKey(a, "held"), landed.OrderSN).Val()
	}
	damage()
	require.False(t, round(), "2,000 units wait in the journal")
	w.shift += 4 * time.Minute
	require.False(t, round())
	w.shift += time.Minute
	require.True(t, round(), "it has waited for long enough")
	damage()
	require.False(t, round(), "and yields again")
	// The journal is full and no purchase changes, as without a broker: counters are repaired too.
	left := w.left(a, 0)
	require.NoError(t, w.rdb.HIncrBy(w.ctx, gateKey(a, "gate"), "s:"+sku, -5).Err())
	w.shift += 5 * time.Minute
	require.True(t, round())
	require.Equal(t, left, w.left(a, 0))
	damage()
	require.False(t, round())
	require.NotEmpty(t, w.reconcile(a).Repairs)
	damage()
	require.False(t, round())
	w.relay(a)
	require.True(t, round(), "the overload has ended")
}

// One reconciliation of an activity runs at a time. A call that waits too long is refused and may be repeated.
func TestConcurrentReconciliationsRunOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 10)
	held, let := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- w.parts.Locks.Do(w.ctx, "inventory reconcile "+a.ID, func(context.Context) error {
			close(held)
			<-let
			return nil
		})
	}()
	<-held
	require.NoError(t, w.reconciler.ReconcileAll(w.ctx), "the timer passes over it")
	_, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID)
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	waiting := make(chan error, 1)
	go func() {
		_, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID)
		waiting <- err
	}()
	close(let)
	require.NoError(t, <-done)
	require.NoError(t, <-waiting, "it waits for a moment")
}

func TestReconcileOverHTTP(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(c *Config) {
		c.TestTimers = map[string]time.Duration{"inventory.reconcile_pause": time.Millisecond}
	})
	sku := s.product("EUR")[0]
	id := s.draft(sku, 5)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	operator := s.mint("o", auth.Operator)
	s.mini.HIncrBy("fs:{"+id+"}:gate", "s:"+sku, -2)
	var out struct {
		LookedAt time.Time `json:"looked_at"`
		Repairs  []struct {
			OrderSN *string `json:"order_sn"`
			SKUID   string  `json:"sku_id"`
			Delta   int64   `json:"delta"`
			Why     string  `json:"why"`
		} `json:"repairs"`
		Differences []json.RawMessage `json:"differences"`
	}
	s.as(operator, "POST", "/v1/merchant/activities/"+id+"/reconciliations", "").into(t, &out)
	require.Len(t, out.Repairs, 1)
	require.Nil(t, out.Repairs[0].OrderSN)
	require.Equal(t, sku, out.Repairs[0].SKUID)
	require.Equal(t, int64(2), out.Repairs[0].Delta)
	require.NotEmpty(t, out.Repairs[0].Why)
	require.Empty(t, out.Differences)
	require.NotNil(t, out.Differences, "a list, if an empty one")
	require.WithinDuration(t, time.Now(), out.LookedAt, time.Minute)
	require.Equal(t, 404, s.as(operator, "POST", "/v1/merchant/activities/99999/reconciliations", "").status)
}

// A repair leaves a log line, a metric by kind, and a span in the trace of the purchase.
func TestARepairIsRecorded(t *testing.T) {
	t.Parallel()
	tel, recorder := telemetry.Recording()
	var log bytes.Buffer
	tel.Log = slog.New(slog.NewTextHandler(&log, nil))
	w := newWorld(t)
	seen, err := record.New(tel, "mysql")
	require.NoError(t, err)
	w.tel, w.parts.Recorder = tel, seen
	w.restart()
	a := w.sale(1, 5)
	r := w.buy(a, "u1")
	ctx, end := tel.Span(t.Context(), "the purchase", trace.SpanKindInternal)
	r.Traceparent = telemetry.Traceparent(ctx)
	end(nil)
	w.land(r)
	w.settles()
	require.NoError(t, w.rdb.HDel(w.ctx, gateKey(a, "held"), r.OrderSN).Err())
	w.reconcile(a)
	found := false
	for _, span := range recorder.Ended() {
		if span.Name() == "repair" && span.SpanContext().TraceID() == trace.SpanContextFromContext(ctx).TraceID() {
			found = true
			require.Contains(t, fmt.Sprint(span.Attributes()), r.OrderSN)
		}
	}
	require.True(t, found, "a span in the trace of the purchase")
	require.Equal(t, 1, strings.Count(log.String(), "msg=repaired kind=adopted activity_id="+a.ID+" order_sn="+r.OrderSN))
	require.NotContains(t, log.String(), "u1")
	page := metricsOf(t, tel)
	require.Contains(t, page, `flashsale_inventory_repairs_total{flashsale_repair="adopted"} 1`)
	require.NotContains(t, page, r.OrderSN)
}

// After a kill at any step the next reconciliation finishes, and nothing is counted twice.
func TestAKilledReconciliationIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts = w.parts.with(func(p *ports) { p.repairs = &faultyRepairs{p.repairs, w.faults} })
	w.restart()
	// killed runs a reconciliation that is killed at a step, and the next one. It reports whether there was such a step.
	killed := func(at int, after bool) bool {
		m := w.mixed(false)
		require.NoError(t, w.rdb.HDel(w.ctx, gateKey(m.a, "held"), m.landed.OrderSN, m.paid.OrderSN).Err())
		require.NoError(t, w.rdb.HIncrBy(w.ctx, gateKey(m.a, "gate"), "s:"+m.a.Items[0].SKUID, 5).Err())
		require.NoError(t, w.db.Exec("UPDATE allowances SET held = 0 WHERE activity_id = ?", m.a.ID).Error)
		w.faults.kill(at, after)
		_, err := w.reconciler.Reconcile(w.ctx, operator("operator"), m.a.ID)
		died := w.faults.heal()
		if died {
			require.ErrorIs(t, err, errKilled)
		}
		w.restart()
		require.Empty(t, w.reconcile(m.a).Differences)
		w.agree(m.a)
		w.whole(t, m.a)
		return died
	}
	steps := 0
	for killed(steps+1, false) {
		steps++
		require.True(t, killed(steps, true), "step %d", steps)
	}
	require.GreaterOrEqual(t, steps, 5, "steps at which it was killed")
}

// faultyRepairs can be killed at each step that changes the gate.
type faultyRepairs struct {
	reconcile.Repairs
	f *faults
}

func (g *faultyRepairs) Repair(ctx context.Context, activityID, life string, list []ledger.EntryRepair) (done map[string]bool, err error) {
	err = g.f.step(func() error { done, err = g.Repairs.Repair(ctx, activityID, life, list); return err })
	return done, err
}

func (g *faultyRepairs) RebuildBuyer(ctx context.Context, activityID, user string, sns []string) (changed bool, err error) {
	err = g.f.step(func() error { changed, err = g.Repairs.RebuildBuyer(ctx, activityID, user, sns); return err })
	return changed, err
}

func (g *faultyRepairs) Correct(ctx context.Context, activityID string, seen core.GateRevision, held int64, list []reconcile.Correction) error {
	return g.f.step(func() error { return g.Repairs.Correct(ctx, activityID, seen, held, list) })
}

// loseAdjustment adjusts the stock of a SKU. Then the gate loses the adjustment.
func (w *world) loseAdjustment(m *mixed) error {
	sku := m.a.Items[0].SKUID
	adj, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: m.a.ID, SKUID: sku, Delta: 5, Reason: "r",
		Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: newSN()},
	})
	if err != nil {
		return err
	}
	w.rdb.HIncrBy(w.ctx, gateKey(m.a, "gate"), "s:"+sku, -5)
	w.rdb.HIncrBy(w.ctx, gateKey(m.a, "gate"), "t:"+sku, -5)
	return w.rdb.HDel(w.ctx, gateKey(m.a, "adjusted"), adj.ID).Err()
}

// A new Redis master lacks an adjustment, and receives it from the gate controller after the reconciler has compared and
// before it corrects. The counters are right then.
func TestAnAdjustmentThatArrivesAfterTheComparisonIsNotAddedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := &lateAdjustments{}
	w.parts = w.parts.with(func(p *ports) { late.Holdings, p.compared = p.compared, late })
	w.restart()
	m := w.mixed(false)
	require.NoError(t, w.loseAdjustment(m))
	late.arrive = func() {
		decided, err := w.parts.Store.DecidedAdjustments(w.ctx, m.a.ID)
		require.NoError(t, err)
		for _, a := range decided {
			require.NoError(t, w.syncer.SendAdjustment(w.ctx, a))
		}
	}
	require.Empty(t, w.reconcile(m.a).Repairs)
	require.True(t, late.arrived)
	w.whole(t, m.a)
	w.agree(m.a)
}

// lateAdjustments makes adjustments arrive before the audit that precedes a correction: the first that follows enough
// comparisons.
type lateAdjustments struct {
	reconcile.Holdings
	arrive   func()
	compared int
	arrived  bool
}

func (g *lateAdjustments) CollectChanges(
	ctx context.Context, activityID, token string,
) (core.GateAudit, []ledger.StoredEntry, bool, error) {
	g.compared++
	return g.Holdings.CollectChanges(ctx, activityID, token)
}

func (g *lateAdjustments) Audit(ctx context.Context, activityID string) (core.GateAudit, error) {
	if g.compared == reconcile.DefaultConfig().Confirmations && !g.arrived {
		g.arrived = true
		g.arrive()
	}
	return g.Holdings.Audit(ctx, activityID)
}
