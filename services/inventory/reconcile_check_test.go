package inventory

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/record"
)

// compared counts the comparisons of all entries of each activity. before runs before a reading of the counters.
type compared struct {
	reconcile.Holdings
	of     map[string]int
	before func()
}

func (g *compared) TrackChanges(ctx context.Context, activityID string) (string, error) {
	g.of[activityID]++
	return g.Holdings.TrackChanges(ctx, activityID)
}

func (g *compared) Audit(ctx context.Context, activityID string) (core.GateAudit, error) {
	if do := g.before; do != nil {
		g.before = nil
		do()
	}
	return g.Holdings.Audit(ctx, activityID)
}

// checked collects the outcomes of checks.
type checked struct {
	reconcile.Recorder
	outcomes []reconcile.CheckOutcome
}

func (c *checked) Checked(ctx context.Context, outcome reconcile.CheckOutcome) {
	c.outcomes = append(c.outcomes, outcome)
	c.Recorder.Checked(ctx, outcome)
}

// comparisons makes the world count them. All entries are compared every 10 minutes to an hour.
func (w *world) comparisons() *compared {
	g := &compared{of: map[string]int{}}
	w.parts = w.parts.with(func(p *ports) { g.Holdings, p.compared = p.compared, g })
	w.parts.Reconcile.FullEvery = 10 * time.Minute
	w.restart()
	return g
}

// round runs one round of the timer, and returns the number of comparisons of all entries of an activity.
func (w *world) round(g *compared, a *core.Activity) int {
	w.t.Helper()
	w.shift += 10 * time.Second // after the rest that follows a check
	before := g.of[a.ID]
	require.NoError(w.t, w.reconciler.ReconcileAll(w.ctx))
	return g.of[a.ID] - before
}

// leaveOut makes the rounds of the timer leave out the activities so far.
func (w *world) leaveOut() {
	w.t.Helper()
	require.NoError(w.t, w.db.Exec("UPDATE activities SET state = 'draft'").Error)
}

// verified makes the world's process compare all entries of an activity, so that it only checks afterwards.
func (w *world) verified(g *compared, a *core.Activity) {
	w.t.Helper()
	require.Equal(w.t, 1, w.round(g, a))
	require.Zero(w.t, w.round(g, a), "nothing changed")
}

// Purchases that go on in the ordinary way need no comparison of all entries, however far they are.
func TestACheckFollowsThePurchases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.comparisons()
	m := w.mixed(true)
	w.verified(g, m.a)
	again := func(what string) {
		w.t.Helper()
		require.Zero(w.t, w.round(g, m.a), what)
	}
	late, outcome := w.reserve(m.a, "late")
	require.Equal(w.t, stockgate.Accepted, outcome)
	again("in the journal")
	w.relay(m.a)
	again("in the broker")
	w.land(late, m.queued)
	again("landed")
	w.follow(event(late, contract.OrderCreated), event(m.queued, contract.OrderCreated), event(m.landed, contract.OrderPaid))
	again("ordered and paid")
	w.follow(event(late, contract.OrderClosed))
	again("closed")
	_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: m.a.ID, SKUID: m.a.Items[0].SKUID, Delta: 3, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: newSN()},
	})
	require.NoError(w.t, err)
	again("adjusted")
	_, err = w.merchants.Pause(w.ctx, seller("m"), m.a.ID)
	require.NoError(w.t, err)
	again("paused")
	w.agree(m.a)
}

// A row that no gate takes and an end without an entry are not differences.
func TestRowsWithoutAnEntryNeedNoComparison(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.comparisons()
	m := w.mixed(false)
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET user_id = '' WHERE order_sn = ?", m.rejected.OrderSN).Error)
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET changed_at = ? WHERE order_sn = ?", time.Now().UTC().Add(-25*time.Hour), m.closed.OrderSN).Error)
	for _, r := range []contract.Reservation{m.rejected, m.closed} {
		require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(m.a, "held"), r.OrderSN).Err())
		require.NoError(w.t, w.rdb.ZRem(w.ctx, gateKey(m.a, "ended"), r.OrderSN).Err())
		require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(m.a, "buyers"), r.UserID).Err())
	}
	unknown := contract.Reservation{OrderSN: newSN(), UserID: "u", ActivityID: m.a.ID, Lines: m.landed.Lines}
	require.NoError(w.t, w.gate.Drop(w.ctx, m.a.ID, []stockgate.Ending{{OrderSN: unknown.OrderSN, UserID: "u", Lines: unknown.Lines, Reason: "system"}}))
	w.verified(g, m.a)
	w.land(w.buy(m.a, "later", contract.Line{SKUID: m.a.Items[0].SKUID, Qty: 1}))
	require.Zero(w.t, w.round(g, m.a))
}

// Entries that are trimmed meanwhile need no comparison.
func TestTrimmedEntriesNeedNoComparison(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.comparisons()
	m := w.mixed(false)
	w.shift += time.Minute // a check compares the purchases that changed just before
	w.verified(g, m.a)
	old := float64(time.Now().Add(-25 * time.Hour).UnixMilli())
	require.NoError(w.t, w.rdb.ZAdd(w.ctx, gateKey(m.a, "ended"), redis.Z{Score: old, Member: m.closed.OrderSN}).Err())
	removed, err := w.gate.Trim(w.ctx, m.a.ID, 10)
	require.NoError(w.t, err)
	require.Equal(w.t, 1, removed)
	require.Zero(w.t, w.round(g, m.a))
}

// unseen are the damages that leave all counters equal: the entries differ, their numbers and units do not.
var unseen = map[string]bool{
	"all buyers missing": true, "a buyer has too many units": true, "a landed one stored as closed": true,
	"a closed one stored as landed": true, "a rejected one stored as queued": true, "a created one stored as paid": true,
	"a paid one stored as landed": true, "a landed one stored as paid": true, "another buyer": true, "another deadline": true,
	"other lines": true, "rubbish instead of a paid one": true, "rubbish instead of a closed one": true,
}

// The timer finds each damage that changes a counter in its next round, and any other one with the next comparison of
// all entries.
func TestTheTimerFindsDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outer := w.t
	defer func() { w.t = outer }()
	g := w.comparisons()
	for i, c := range damages {
		if testing.Short() && i%3 != 0 && !unseen[c.name] { // a third of what the counters show, and all that they do not
			continue
		}
		outer.(*testing.T).Run(c.name, func(t *testing.T) {
			w.t, w.shift = t, 0
			w.leaveOut()
			w.restart()
			m := w.mixed(c.queued)
			w.shift += time.Minute // a check compares the purchases that changed just before
			w.verified(g, m.a)
			require.NoError(w.t, c.do(w, m))
			n := w.round(g, m.a)
			if unseen[c.name] {
				require.Zero(w.t, n)
				w.shift += 6 * w.parts.Reconcile.FullEvery
				n = w.round(g, m.a)
			}
			require.NotZero(w.t, n)
			w.whole(w.t, m.a)
			w.sound(m.a)
			if c.queued {
				w.land(m.queued)
			}
			w.agree(m.a)
		})
	}
}

// A check relies on a comparison of all entries that found nothing, by this process and of this gate.
func TestWhatNeedsAComparisonOfAllEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onMaster()
	g := w.comparisons()
	cases := []struct {
		name string
		do   func(w *world, m *mixed)
	}{
		{"an operator's request", func(w *world, m *mixed) { w.reconcile(m.a) }},
		{"another process", func(w *world, _ *mixed) { w.restart() }},
		{"another Redis master", func(w *world, _ *mixed) { w.master.id = "second" }},
		{"a gate built again", func(w *world, m *mixed) {
			require.NoError(w.t, w.rdb.Del(w.ctx, gateKey(m.a, "gate")).Err())
			require.NoError(w.t, w.gates.EnsureGates(w.ctx))
		}},
		{"counters that another process corrected", func(w *world, m *mixed) {
			require.NoError(w.t, hincr("s:", -2)(w, m))
			other := w.parts.start()
			_, err := other.reconciler.Reconcile(w.ctx, operator("other"), m.a.ID)
			require.NoError(w.t, err)
			g.of[m.a.ID] = 1
		}},
		{"another epoch", func(w *world, _ *mixed) {
			w.newEpoch()
			w.imports()
		}},
		{"time", func(w *world, _ *mixed) { w.shift += 6 * w.parts.Reconcile.FullEvery }},
	}
	outer := w.t
	defer func() { w.t = outer }()
	for _, c := range cases {
		outer.(*testing.T).Run(c.name, func(t *testing.T) {
			w.t = t
			w.leaveOut()
			w.restart()
			m := w.mixed(false)
			w.settles()
			g.of = map[string]int{}
			w.verified(g, m.a)
			c.do(w, m)
			w.round(g, m.a)
			require.Equal(w.t, 2, g.of[m.a.ID])
			require.Zero(w.t, w.round(g, m.a), "once")
		})
	}
}

// A difference that nothing repairs, and one that was repaired just now, need a comparison in the next round too.
func TestAMismatchNeedsComparisonsUntilItIsResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.comparisons()
	m := w.mixed(true)
	w.verified(g, m.a)
	stranger := m.queued
	stranger.UserID = "stranger"
	w.loses(func() error {
		return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, stranger))
	})
	w.settles()
	for range 3 {
		require.NotZero(w.t, w.round(g, m.a), "it belongs to another buyer")
	}
	require.NoError(w.t, w.db.Exec("DELETE FROM reservations WHERE order_sn = ?", m.queued.OrderSN).Error)
	require.NoError(w.t, w.db.Exec("DELETE FROM allowances WHERE user_id = 'stranger'").Error)
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available + 1, reserved = reserved - 1 WHERE activity_id = ? AND sku_id = ?",
		m.a.ID, m.a.Items[1].SKUID).Error)
	w.verified(g, m.a)

	require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(m.a, "held"), m.closed.OrderSN).Err())
	require.NotZero(w.t, w.round(g, m.a), "repaired")
	require.NotZero(w.t, w.round(g, m.a), "is it?")
	require.Zero(w.t, w.round(g, m.a))
}

// A purchase whose sync was in flight during the comparison is read again. It may have no effect on any counter.
func TestAPurchaseInFlightDuringAComparisonIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Reconcile.Grace = time.Minute
	g := w.comparisons()
	a := w.sale(1, 10)
	arrives, lost := w.buy(a, "u1"), w.buy(a, "u2")
	w.land(arrives, lost)
	for _, r := range []contract.Reservation{arrives, lost} {
		w.loses(func() error {
			return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(r, contract.OrderCreated)))
		})
	}
	require.Equal(w.t, 1, w.round(g, a), "they are in flight")
	w.follow(event(arrives, contract.OrderCreated), event(lost, contract.OrderCreated))
	require.Zero(w.t, w.round(g, a), "they have arrived")

	w.restart()
	lost = w.buy(a, "u3")
	w.land(lost)
	w.loses(func() error {
		return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(lost, contract.OrderCreated)))
	})
	require.Equal(w.t, 1, w.round(g, a), "it is in flight")
	w.shift += 2 * time.Minute
	require.NotZero(w.t, w.round(g, a), "it did not arrive")
	w.agree(a)
}

// An effect that the gate never got leaves the counters equal, if its order was created. The check finds it all the same
// after the grace, however many other purchases have changed.
func TestACheckFindsALostEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Reconcile.Grace = time.Minute
	g := w.comparisons()
	a := w.sale(1, 400)
	var made []contract.Reservation
	for n := range 400 {
		made = append(made, w.buy(a, fmt.Sprint("u", n)))
	}
	for some := range slices.Chunk(made, 100) {
		w.land(some...)
	}
	w.shift += 2 * time.Minute
	w.verified(g, a)
	created := func(some []contract.Reservation) bus.Delivery {
		events := make([]contract.OrderEvent, len(some))
		for i, r := range some {
			events[i] = event(r, contract.OrderCreated)
		}
		return message(w.t, contract.TopicOrderEvents, events...)
	}
	lost := made[350]
	for some := range slices.Chunk(slices.Delete(slices.Clone(made), 350, 351), 100) {
		require.NoError(w.t, w.consumer.OrderEvents(w.ctx, created(some)))
	}
	w.loses(func() error { return w.consumer.OrderEvents(w.ctx, created([]contract.Reservation{lost})) })
	require.Zero(w.t, w.round(g, a), "it may be in flight")
	w.shift += time.Minute
	require.NotZero(w.t, w.round(g, a))
	require.Equal(w.t, stockgate.StatusCreated, w.entry(a, lost.OrderSN).Status)
	w.verified(g, a)
}

// A row may commit long after it was stamped: a check before the commit does not read it.
func TestACheckFindsALostEffectOfALateCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.comparisons()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	w.shift += time.Minute
	w.verified(g, a)
	stamped := w.databaseNow().UTC().Truncate(time.Millisecond)
	w.shift += 10 * time.Second
	require.Zero(w.t, w.round(g, a))
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET order_created_at = ?, expires_at = ?, changed_at = ? WHERE order_sn = ?",
		stamped, stamped.Add(time.Hour), stamped, r.OrderSN).Error)
	require.NotZero(w.t, w.round(g, a))
	require.Equal(w.t, stockgate.StatusCreated, w.entry(a, r.OrderSN).Status)
}

// Each check counts in a metric, by its outcome.
func TestChecksAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tel, _ := telemetry.Recording()
	seen, err := record.New(tel, "mysql")
	require.NoError(t, err)
	w.parts.Recorder = seen
	g := w.comparisons()
	m := w.mixed(false)
	w.verified(g, m.a)
	require.NoError(t, hincr("s:", 1)(w, m))
	require.NotZero(t, w.round(g, m.a))
	page := metricsOf(t, tel)
	for _, outcome := range []reconcile.CheckOutcome{reconcile.CheckClean, reconcile.CheckCounters} {
		require.Regexp(t, `flashsale_inventory_reconcile_checks_total\{[^}]*flashsale_outcome="`+string(outcome)+`"[^}]*\} 1`, page)
	}
}

// A difference that only purchases in flight make ends within the samples of a check.
func TestACheckTakesSeveralSamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.comparisons()
	a := w.sale(2, 10)
	r := w.buy(a, "u1")
	w.verified(g, a)
	landing := message(w.t, contract.TopicReservations, r)
	w.loses(func() error { return w.consumer.Reservations(w.ctx, landing) })
	arrives := func() { require.NoError(w.t, w.consumer.Reservations(w.ctx, landing)) }
	second := func() { g.before = arrives }
	g.before = func() { g.before = second } // an audit for the overload, one of the first sample, and the next one
	require.Zero(w.t, w.round(g, a))
	require.Nil(w.t, g.before)
	w.agree(a)
}

// Whatever the damage of the counters: the next round compares all entries exactly if an equation does not hold that
// gate and tables must fulfil.
func TestACheckMissesNoDifferenceOfCounters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.comparisons()
	fields := []string{"s:", "h:", "p:", "t:", "u:", "held"}
	rapid.Check(t, func(r *rapid.T) {
		w.leaveOut()
		w.restart()
		m := w.mixed(rapid.Bool().Draw(r, "queued"))
		w.verified(g, m.a)
		by := map[string]int64{} // what each counter of the gate has too many
		var sums [2]struct{ left, held, sold, total, unlanded int64 }
		for n := range rapid.IntRange(1, 4).Draw(r, "damages") {
			field := rapid.SampledFrom(fields).Draw(r, fmt.Sprint("field", n))
			d := rapid.Int64Range(-3, 3).Draw(r, fmt.Sprint("by", n))
			item := rapid.IntRange(0, 1).Draw(r, fmt.Sprint("item", n))
			name := field
			if field != "held" {
				name += m.a.Items[item].SKUID
			}
			require.NoError(t, w.rdb.HIncrBy(w.ctx, gateKey(m.a, "gate"), name, d).Err())
			by[field] += d
			s := &sums[item]
			for of, at := range map[string]*int64{"s:": &s.left, "h:": &s.held, "p:": &s.sold, "t:": &s.total, "u:": &s.unlanded} {
				if of == field {
					*at += d
				}
			}
		}
		visible := by["held"] != sums[0].held+sums[1].held
		queued, unlanded := m.queued.OrderSN != "", [2]int64{sums[0].unlanded, sums[1].unlanded}
		if queued {
			unlanded[1]++ // its unit
			visible = visible || unlanded[0]+unlanded[1] < 1
		}
		for i, s := range sums {
			visible = visible || s.left+s.held+s.sold != s.total || s.total != 0 || s.sold != 0 || s.left+s.unlanded != 0 ||
				unlanded[i] < 0 || unlanded[i] != 0 && !queued
		}
		require.Equal(t, visible, w.round(g, m.a) > 0, "%+v", sums)
		w.reconcile(m.a)
		w.whole(t, m.a)
	})
}

// Whatever happened, kills and damage that changes counters included: after a clean check, a comparison of all entries
// finds nothing either.
func TestAfterACleanCheckAComparisonFindsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.comparisons()
	w.parts.Reconcile.FullEvery = 24 * time.Hour
	clean, not := 0, map[reconcile.CheckOutcome]int{}
	rapid.Check(t, func(r *rapid.T) {
		w.faults.heal()
		w.shift = 0
		seen := &checked{Recorder: w.parts.Recorder}
		timer := w.parts.with(func(p *ports) { p.repaired = seen }).start().reconciler
		limit := rapid.Int64Range(1, 3).Draw(r, "limit")
		w.leaveOut()
		a := w.sale(limit, rapid.Int64Range(4, 12).Draw(r, "stock"), 5)
		h := &history{world: w, a: a, limit: limit}
		check := func(r *rapid.T) {
			w.faults.heal()
			w.shift += 10 * time.Second // past the grace, and the rest that follows a check
			if rapid.Bool().Draw(r, "late") {
				w.shift += time.Minute
			}
			seen.outcomes = nil
			if err := timer.ReconcileAll(w.ctx); err != nil {
				r.Fatalf("reconcile: %v", err)
			}
			if len(seen.outcomes) == 0 {
				return
			}
			if outcome := seen.outcomes[len(seen.outcomes)-1]; outcome != reconcile.CheckClean {
				not[outcome]++
				return
			}
			clean++
			out, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID)
			require.NoError(r, err)
			require.Empty(r, out.Repairs)
			require.Empty(r, out.Differences)
		}
		r.Repeat(map[string]func(*rapid.T){
			"buy":     h.buySome,
			"deliver": h.deliver,
			"event":   h.orderStep,
			"event2":  h.orderStep,
			"adjust":  h.adjust,
			"keep":    func(*rapid.T) { _ = w.gates.EnsureGates(w.ctx); w.faults.heal() },
			"check":   check,
			"check2":  check,
			"count": func(r *rapid.T) {
				field := rapid.SampledFrom([]string{"s:", "h:", "p:", "t:", "u:"}).Draw(r, "field") + a.Items[0].SKUID
				require.NoError(r, w.rdb.HIncrBy(w.ctx, gateKey(a, "gate"), field, rapid.Int64Range(1, 3).Draw(r, "by")).Err())
			},
			"entry": func(r *rapid.T) {
				if len(h.made) > 0 {
					sn := h.made[rapid.IntRange(0, len(h.made)-1).Draw(r, "order")].OrderSN
					require.NoError(r, w.rdb.HDel(w.ctx, gateKey(a, "held"), sn).Err())
				}
			},
			"fault next": func(r *rapid.T) { w.faults.kill(rapid.IntRange(1, 4).Draw(r, "step"), rapid.Bool().Draw(r, "after")) },
			"":           func(r *rapid.T) { h.addsUp(r) },
		})
	})
	t.Logf("%d clean checks, others: %v", clean, not)
	require.Positive(t, clean)
	require.NotEmpty(t, not)
}
