package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

func (w *world) sweepOrders() {
	w.t.Helper()
	for {
		more, err := w.orderSweep.RunBatch(w.ctx)
		require.NoError(w.t, err)
		if !more {
			return
		}
	}
}

func TestDeductionsArePublishedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 9)
	waiting, ordered := w.buy(a, "u1"), w.buy(a, "u2")
	w.land(waiting, ordered)
	require.Len(w.t, w.deductions(), 2)
	w.follow(event(ordered, contract.OrderCreated))
	now := w.row(waiting.OrderSN).LandedAt
	w.fixed = func() time.Time { return now }
	w.restart()
	for _, seconds := range []int{60, 120, 240, 480, 960, 1800, 1800} {
		pause := time.Duration(seconds) * time.Second
		now = now.Add(pause - time.Millisecond)
		w.sweepOrders()
		require.Empty(w.t, w.deductions(), "too early after %v", pause)
		now = now.Add(time.Millisecond)
		w.broker.setDown(true)
		_, err := w.orderSweep.RunBatch(w.ctx)
		require.Error(w.t, err)
		w.broker.setDown(false)
		now = now.Add(3 * time.Second) // the pause of an activity that failed
		w.sweepOrders()
		d := w.deductions()
		require.Len(w.t, d, 1)
		require.Contains(w.t, d, waiting.OrderSN)
	}
	require.Equal(w.t, ledger.StateReserved, w.row(waiting.OrderSN).State)
	w.follow(event(waiting, contract.OrderCreated))
	now = now.Add(2 * time.Hour)
	w.sweepOrders()
	require.Empty(w.t, w.deductions())
}

func TestAReservationWithoutAnOrderIsAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 9)
	var r []contract.Reservation
	for i := range 6 {
		r = append(r, w.buy(a, fmt.Sprint("u", i)))
	}
	w.land(r...)
	// 0 has no order. The others have one, but its event is missing. 5 has an open dead letter.
	w.orders.set("closed", r[1].OrderSN)
	w.orders.set("paid", r[2].OrderSN)
	w.orders.set("pending", r[3].OrderSN, r[4].OrderSN)
	w.orders.due[r[4].OrderSN] = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	require.NoError(w.t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{{Where: contract.GroupOrderDeductions, Topic: contract.TopicDeductions, OrderSN: r[5].OrderSN, Why: "w", Item: []byte("{}"), At: w.parts.Now()}}))
	w.deductions()
	w.shift = 24*time.Hour + time.Minute
	w.sweepOrders()
	closings := w.broker.take(contract.TopicOrderClose)
	require.Len(w.t, closings, 1)
	giveUp := bus.Delivery{Message: closings[0]}
	w.orders.setDown(true)
	require.Error(w.t, w.consumer.OrderClose(w.ctx, giveUp), "it is redelivered")
	w.orders.setDown(false)
	for at := 1; at <= 12; at++ { // the consumer may die at any step, and the next delivery continues
		w.faults.kill(at, true)
		_ = w.consumer.OrderClose(w.ctx, giveUp)
		if !w.faults.heal() {
			break
		}
		w.restart()
	}
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, giveUp))
	w.shift = 0
	w.agree(a)
	for i, want := range []ledger.State{ledger.StateReleased, ledger.StateReleased, ledger.StateSold, ledger.StateReleased, ledger.StateReserved, ledger.StateReserved} {
		require.Equal(w.t, want, w.row(r[i].OrderSN).State, i)
	}
	require.Equal(w.t, "tombstone", w.orders.of(r[0].OrderSN))
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, r[0].OrderSN).Status)
	require.Equal(w.t, "expired", w.entry(a, r[0].OrderSN).Reason)
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, r[1].OrderSN).Status)
	require.NotEmpty(w.t, w.broker.take(contract.TopicOrderClose), "the closing of the pending order is resent")
	require.Empty(w.t, w.deductions(), "an open dead letter is left alone")
	w.land(r...) // late deliveries change nothing
	w.agree(a)
}

// A sweep that dies at any step, also right after the release in the ledger, is continued.
func TestAKilledAbandonmentIsFinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 20)
	for at, died := 1, true; died; at++ {
		r := w.buy(a, fmt.Sprint("u", at))
		w.land(r)
		w.shift = 24*time.Hour + time.Minute
		w.faults.kill(at, true)
		_, _ = w.orderSweep.RunBatch(w.ctx)
		died = w.faults.heal()
		w.restart()
		w.shift += time.Hour
		w.sweepOrders()
		for _, m := range w.broker.take(contract.TopicOrderClose) {
			require.NoError(w.t, w.consumer.OrderClose(w.ctx, bus.Delivery{Message: m}))
		}
		w.shift = 0
		w.agree(a)
		require.Equal(w.t, stockgate.StatusFailed, w.entry(a, r.OrderSN).Status, "died at step %d", at)
	}
}

func TestUnlandedEntriesAreJournaledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Sweep.RejournalAfter, w.parts.Sweep.RejournalCap = 50*time.Millisecond, 100*time.Millisecond
	w.restart()
	a := w.sale(1, 9)
	lost, landed, poisoned := w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3")
	w.faults.kill(2, false) // landed, but the gate is not synced
	require.Error(w.t, w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, landed)))
	require.True(w.t, w.faults.heal())
	require.NoError(w.t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{{Where: contract.GroupInventoryReservations, Topic: contract.TopicReservations, OrderSN: poisoned.OrderSN, Why: "w", Item: []byte("{}"), At: w.parts.Now()}}))
	for range 3 {
		require.Eventually(w.t, func() bool {
			require.NoError(w.t, w.journalSweep.Run(w.ctx))
			entries, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 10)
			require.NoError(w.t, err)
			for _, e := range entries {
				require.Equal(w.t, lost.OrderSN, e.OrderSN)
				require.NoError(w.t, w.gate.Ack(w.ctx, a.ID, []string{e.ID}))
			}
			return len(entries) == 1
		}, 30*time.Second, 20*time.Millisecond)
	}
	require.True(w.t, w.entry(a, landed.OrderSN).Landed, "the gate is synced with the ledger")
	w.land(lost)
	require.NoError(w.t, w.journalSweep.Run(w.ctx))
	v, err := w.merchants.StockView(w.ctx, core.AllMerchants(), a.ID)
	require.NoError(w.t, err)
	require.Equal(w.t, int64(1), v.SKUs[0].Gate.InFlight)
	require.Zero(w.t, v.SKUs[0].Difference)
}

func TestADeadLetterOfAReservationIsReplayedOrRejected(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		a := w.sale(1, 5)
		replayed, rejected := w.buy(a, "u1"), w.buy(a, "u2")
		raw := func(r contract.Reservation, qty string) []byte {
			return []byte(fmt.Sprintf(`{"order_sn":%q,"user_id":%q,"activity_id":%q,"lines":[{"sku_id":%q,"qty":%s}],"reserved_at":"2026-01-01T00:00:00Z"}`,
				r.OrderSN, r.UserID, a.ID, a.Items[0].SKUID, qty))
		}
		// One is valid and was refused by mistake, the other is unreadable. Both hold a unit in the gate.
		require.NoError(t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{
			{Where: contract.GroupInventoryReservations, Topic: contract.TopicReservations, OrderSN: replayed.OrderSN, ActivityID: a.ID, Why: "w", Item: raw(replayed, "1"), At: w.parts.Now()},
			{Where: contract.GroupInventoryReservations, Topic: contract.TopicReservations, OrderSN: rejected.OrderSN, ActivityID: a.ID, Why: "w", Item: raw(rejected, "1.5"), At: w.parts.Now()},
		}))
		id := map[string]string{}
		for _, l := range w.deadLetters(core.DeadLetterOpen) {
			id[l.OrderSN] = l.ID
		}
		work := func() error {
			for _, m := range w.broker.take(contract.TopicReservations) {
				if err := w.consumer.Reservations(w.ctx, delivered(m)); err != nil {
					return err
				}
			}
			if _, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), id[replayed.OrderSN]); err != nil {
				return err
			}
			_, err := w.core.RejectDeadLetter(w.ctx, operator("op"), id[rejected.OrderSN])
			return err
		}
		return work, func() {
			for _, m := range w.broker.take(contract.TopicReservations) {
				require.NoError(t, w.consumer.Reservations(w.ctx, delivered(m)))
			}
			w.agree(a)
			require.Equal(t, ledger.StateReserved, w.row(replayed.OrderSN).State)
			require.Equal(t, ledger.StateRejected, w.row(rejected.OrderSN).State)
			e := w.entry(a, rejected.OrderSN)
			require.Equal(t, stockgate.StatusFailed, e.Status)
			require.Equal(t, "system", e.Reason)
			require.Equal(t, int64(4), w.left(a, 0))
			_, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), id[rejected.OrderSN])
			require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err))
			w.land(rejected) // the valid message arrives late: it takes nothing
			require.Equal(t, int64(4), w.left(a, 0))
			var changes []string
			require.NoError(t, w.db.Table("changes").Where("object = 'dead_letter' AND who = 'op'").Distinct().Order("action").Pluck("action", &changes).Error)
			require.Equal(t, []string{"dead_letter.reject", "dead_letter.replay"}, changes)
		}
	})
}

// What is left of an item that was cut is never published, and a rejection still ends its purchase.
func TestADeadLetterWhoseItemWasCutIsOnlyRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	r := w.buy(a, "u")
	w.broker.take(contract.TopicReservations)
	item := []byte(fmt.Sprintf(`{"order_sn":%q,"user_id":"u","activity_id":%q,"lines":%q}`, r.OrderSN, a.ID, strings.Repeat("x", 128<<10)))
	d := contract.NewDeadLetter(contract.GroupInventoryReservations, contract.TopicReservations, item, "w", w.parts.Now())
	require.NoError(w.t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{d.Cut()}))
	id := w.deadLetters(core.DeadLetterOpen)[0].ID
	_, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), id)
	require.Equal(w.t, contract.CodeStateConflict, contract.CodeOf(err))
	require.Empty(w.t, w.broker.take(contract.TopicReservations))
	_, err = w.core.RejectDeadLetter(w.ctx, operator("op"), id)
	require.NoError(w.t, err)
	require.Equal(w.t, ledger.StateRejected, w.row(r.OrderSN).State)
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, r.OrderSN).Status)
	require.Equal(w.t, int64(5), w.left(a, 0))
	w.agree(a)
}

// A message of a later version becomes one dead letter, however long it is. Its replay publishes all of it.
func TestALongDeadLetterOfInventoryIsReplayedWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := []byte(`{"v":2,"items":["` + strings.Repeat("x", 200<<10) + `"]}`)
	require.NoError(w.t, w.consumer.Reservations(w.ctx, delivered(bus.Message{Topic: contract.TopicReservations, Body: body})))
	_, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), w.deadLetters(core.DeadLetterOpen)[0].ID)
	require.NoError(w.t, err)
	replayed := w.broker.take(contract.TopicReservations)
	require.Len(w.t, replayed, 1)
	require.Equal(w.t, body, replayed[0].Body)
}

func TestADeadLetterOfADeductionIsRejected(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		a := w.sale(1, 5)
		var r []contract.Reservation
		for i := range 3 {
			r = append(r, w.buy(a, fmt.Sprint("u", i)))
		}
		w.land(r...)
		w.orders.set("paid", r[1].OrderSN)
		w.orders.set("pending", r[2].OrderSN)
		var ids []string
		for _, x := range r {
			d := contract.DeadLetter{Where: contract.GroupOrderDeductions, Topic: contract.TopicDeductions, OrderSN: x.OrderSN, ActivityID: a.ID, Why: "w", Item: []byte(`{"order_sn":"` + x.OrderSN + `"}`), At: w.parts.Now()}
			require.NoError(t, w.consumer.DeadLetters(w.ctx, message(t, contract.TopicDeadLetters, d)))
			ids = append(ids, w.deadLetters(core.DeadLetterOpen)[0].ID)
		}
		work := func() error {
			for _, id := range ids {
				if _, err := w.core.RejectDeadLetter(w.ctx, operator("op"), id); err != nil {
					return err
				}
			}
			return nil
		}
		return work, func() {
			w.agree(a)
			require.Equal(t, "tombstone", w.orders.of(r[0].OrderSN))
			e := w.entry(a, r[0].OrderSN)
			require.Equal(t, []any{stockgate.StatusFailed, "system"}, []any{e.Status, e.Reason})
			require.Equal(t, ledger.StateSold, w.row(r[1].OrderSN).State)
			require.Equal(t, stockgate.StatusClosed, w.entry(a, r[2].OrderSN).Status)
			require.Equal(t, int64(4), w.left(a, 0))
		}
	})
}

// Order wrote the tombstone, and then the rejecting process died. A replay of the dead letter would create no order,
// and the reservation would stay for a day.
func TestADeadLetterWhoseRejectionHasBegunIsNotReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	r := w.buy(a, "u")
	w.land(r)
	w.deductions()
	item, err := json.Marshal(contract.Deduction{
		OrderSN: r.OrderSN, UserID: r.UserID, ActivityID: r.ActivityID, Currency: "EUR", PayWithinS: 60,
		Lines: []contract.PricedLine{{SKUID: r.Lines[0].SKUID, Qty: r.Lines[0].Qty, Price: 1}},
	})
	require.NoError(w.t, err)
	require.NoError(w.t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{{
		Where: contract.GroupOrderDeductions, Topic: contract.TopicDeductions, OrderSN: r.OrderSN, Why: "w", Item: item, At: w.parts.Now(),
	}}))
	deadLetter := w.deadLetters(core.DeadLetterOpen)[0]
	d, err := w.core.ReplayDeadLetter(w.ctx, operator("operator"), deadLetter.ID)
	require.NoError(w.t, err)
	require.Equal(w.t, core.DeadLetterReplayed, d.State)
	w.deductions()

	w.faults.kill(2, true) // the first step is that it begins
	_, err = w.core.RejectDeadLetter(w.ctx, operator("operator"), deadLetter.ID)
	require.Error(w.t, err)
	require.True(w.t, w.faults.heal())
	w.restart()
	require.Equal(w.t, "tombstone", w.orders.of(r.OrderSN))
	require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)

	_, err = w.core.ReplayDeadLetter(w.ctx, operator("operator"), deadLetter.ID)
	require.Equal(w.t, contract.CodeStateConflict, contract.CodeOf(err))
	require.Empty(w.t, w.deductions())
	late, err := w.parts.Store.DecideDeadLetter(w.ctx, deadLetter, core.DeadLetterReplayed, core.Change{
		At: w.parts.Now(), Who: "operator", Action: "dead_letter.replay", Object: "dead_letter", ObjectID: deadLetter.ID,
	})
	require.NoError(w.t, err)
	require.Equal(w.t, core.DeadLetterOpen, late.State, "a concurrent replay does not close it")
	require.Len(w.t, w.deadLetters(core.DeadLetterOpen), 1, "it still waits for an operator")

	d, err = w.core.RejectDeadLetter(w.ctx, operator("operator"), deadLetter.ID)
	require.NoError(w.t, err)
	require.Equal(w.t, core.DeadLetterRejected, d.State)
	require.Equal(w.t, ledger.StateReleased, w.row(r.OrderSN).State)
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, r.OrderSN).Status)
	require.Equal(w.t, int64(5), w.left(a, 0))
	w.agree(a)
}

// The item of another buyer under the order_sn of a valid purchase is rejected; the purchase is not.
func TestADeadLetterThatContradictsTheLedgerReleasesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	r := w.buy(a, "u")
	w.land(r)
	w.orders.set("pending", r.OrderSN)
	item, err := json.Marshal(contract.Deduction{
		OrderSN: r.OrderSN, UserID: "other", ActivityID: r.ActivityID, Currency: "EUR", PayWithinS: 60,
		Lines: []contract.PricedLine{{SKUID: r.Lines[0].SKUID, Qty: 1, Price: 1}},
	})
	require.NoError(w.t, err)
	require.NoError(w.t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{{
		Where: contract.GroupOrderDeductions, Topic: contract.TopicDeductions, OrderSN: r.OrderSN, Why: "w", Item: item, At: w.parts.Now(),
	}}))
	d, err := w.core.RejectDeadLetter(w.ctx, operator("operator"), w.deadLetters(core.DeadLetterOpen)[0].ID)
	require.NoError(w.t, err)
	require.Equal(w.t, core.DeadLetterRejected, d.State)
	require.Equal(w.t, "pending", w.orders.of(r.OrderSN))
	require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)
}

func TestAReplayThatFailsAgainStaysOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	r := w.buy(a, "u1")
	r.Lines = []contract.Line{{SKUID: "999999", Qty: 1}}
	w.land(r)
	deadLetter := w.deadLetters(core.DeadLetterOpen)[0]
	got, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), deadLetter.ID)
	require.NoError(t, err)
	require.Equal(t, core.DeadLetterReplayed, got.State)
	for _, m := range w.broker.take(contract.TopicReservations) {
		require.NoError(t, w.consumer.Reservations(w.ctx, delivered(m)))
	}
	again := w.deadLetters(core.DeadLetterOpen)
	require.Len(t, again, 1)
	require.Equal(t, deadLetter.ID, again[0].ID)
	got, err = w.core.RejectDeadLetter(w.ctx, operator("op"), deadLetter.ID)
	require.NoError(t, err)
	require.Equal(t, core.DeadLetterRejected, got.State)
	require.Equal(t, int64(5), w.left(a, 0))
	require.NoError(t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(t, w.gates.EnsureGates(w.ctx), "what was rejected with an unknown SKU does not keep the gate from being rebuilt")
	w.agree(a)
	_, err = w.core.ReplayDeadLetter(w.ctx, operator("op"), "424242")
	require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
}

// Each delivery of a sampled item has a span of its own. It must not make another dead letter.
func TestARedeliveredItemKeepsItsDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tel, _ = telemetry.Recording()
	w.restart()
	a := w.sale(1, 5)
	r := w.buy(a, "u1")
	r.Lines = []contract.Line{{SKUID: "999999", Qty: 1}}
	ctx, end := w.tel.Span(t.Context(), "the gate", trace.SpanKindInternal)
	r.Traceparent = telemetry.Traceparent(ctx)
	end(nil)
	w.land(r)
	w.land(r)
	deadLetters := w.deadLetters(core.DeadLetterOpen)
	require.Len(t, deadLetters, 1)
	require.Equal(t, int64(2), deadLetters[0].Occurrences)
	_, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), deadLetters[0].ID)
	require.NoError(t, err)
	for _, m := range w.broker.take(contract.TopicReservations) {
		require.NoError(t, w.consumer.Reservations(w.ctx, delivered(m)))
	}
	again := w.deadLetters(core.DeadLetterOpen)
	require.Len(t, again, 1)
	require.Equal(t, deadLetters[0].ID, again[0].ID)
}

func TestALostGateIsRebuiltDuringConcurrentLandings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 400)
	var all []contract.Reservation
	for i := range 120 {
		all = append(all, w.buy(a, fmt.Sprint("u", i)))
	}
	w.land(all[:40]...)
	w.follow(event(all[0], contract.OrderCreated), event(all[1], contract.OrderPaid), event(all[2], contract.OrderClosed))
	_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 10, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "k"}})
	require.NoError(t, err)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = w.gates.EnsureGates(w.ctx) // may run during the flush
			}
		}
	})
	for i := 40; i < 120; i += 10 {
		m := message(t, contract.TopicReservations, all[i:i+10]...)
		wg.Go(func() {
			for w.consumer.Reservations(w.ctx, m) != nil {
			}
		})
		if i%30 == 10 {
			require.NoError(t, w.rdb.FlushAll(w.ctx).Err())
		}
		e := message(t, contract.TopicOrderEvents, event(all[i/4], contract.OrderPaid))
		wg.Go(func() {
			for w.consumer.OrderEvents(w.ctx, e) != nil {
			}
		})
	}
	require.Eventually(t, func() bool {
		var n int64
		require.NoError(t, w.db.Table("reservations").Count(&n).Error)
		return n == 120
	}, 2*time.Minute, 20*time.Millisecond)
	close(stop)
	wg.Wait()
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
	require.Equal(t, int64(410), w.stock(a)[0].Total)
	adj, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 10, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "k"}})
	require.NoError(t, err)
	require.Equal(t, core.AdjustmentApplied, adj.State)
	w.agree(a) // the repeated key adds nothing, not even to the rebuilt gate
}

// An activity that ended a day ago and holds nothing has no gate. Its late messages are processed without one.
func TestAnExpiredGateBlocksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	r := w.buy(a, "u1")
	w.land(r)
	w.follow(event(r, contract.OrderPaid))
	w.shift = 26 * time.Hour
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
	_, _, err := w.gate.UnitsLeft(w.ctx, a.ID)
	require.ErrorIs(w.t, err, stockgate.ErrNoGate)
	w.follow(event(r, contract.OrderPaid), event(r, contract.OrderCreated))
	w.land(r)
	v, err := w.merchants.StockView(w.ctx, core.AllMerchants(), a.ID)
	require.NoError(w.t, err)
	require.Nil(w.t, v.SKUs[0].Gate)
	// A reservation that lands even now is valid, and its gate is rebuilt for as long as it is held.
	late := contract.Reservation{OrderSN: newSN(), UserID: "u2", ActivityID: a.ID, Lines: r.Lines, ReservedAt: time.Now()}
	w.land(late)
	require.Equal(w.t, int64(3), w.left(a, 0))
	w.follow(event(late, contract.OrderClosed))
	require.Equal(w.t, int64(4), w.left(a, 0))
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gate.PutSale(w.ctx, stockgate.Sale{ActivityID: a.ID}))
	require.NoError(w.t, w.gates.TrimGates(w.ctx))
	activityIDs, err := w.gate.Registered(w.ctx)
	require.NoError(w.t, err)
	require.Empty(w.t, activityIDs)
}

// The controller returns an error for the broken gate, each time, and drops the other one.
func TestABrokenGateDoesNotStopTheTidying(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken, expired := w.sale(1, 5), w.sale(1, 5)
	w.shift = 26 * time.Hour
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gate.PutSale(w.ctx, stockgate.Sale{ActivityID: broken.ID}))
	require.NoError(w.t, w.gate.PutSale(w.ctx, stockgate.Sale{ActivityID: expired.ID}))
	require.NoError(w.t, w.rdb.Set(w.ctx, "fs:{"+broken.ID+"}:gate", "x", 0).Err())
	for range 2 {
		require.ErrorIs(w.t, w.gates.TrimGates(w.ctx), core.ErrGateBroken)
	}
	activityIDs, err := w.gate.Registered(w.ctx)
	require.NoError(w.t, err)
	require.Equal(w.t, []string{broken.ID}, activityIDs)
}

// No queued purchase is abandoned, not even long after the end of the sale when the ledger holds nothing.
func TestAQueuedPurchaseOfAnEndedSaleIsJournaledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Sweep.RejournalAfter = time.Millisecond
	w.restart()
	a := w.sale(1, 5)
	r := w.buy(a, "u1") // published, and lost by the broker
	w.shift = 26 * time.Hour
	require.Eventually(w.t, func() bool {
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		entries, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 10)
		require.NoError(w.t, err)
		return len(entries) == 1 && entries[0].OrderSN == r.OrderSN
	}, 30*time.Second, 5*time.Millisecond)
}

// A thousand purchases with open dead letters do not block the one behind them.
func TestAQueuedPurchaseBehindManyDeadLettersIsJournaledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Sweep.RejournalAfter = time.Millisecond
	w.restart()
	a := w.sale(1, 2000)
	var deadLetters []contract.DeadLetter
	for n := range 1000 / 125 {
		var group []stockgate.Request
		for i := range 125 {
			q := stockgate.Request{OrderSN: newSN(), UserID: fmt.Sprint("u", n, "-", i), Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}}
			group = append(group, q)
			deadLetters = append(deadLetters, contract.DeadLetter{
				Where: contract.GroupInventoryReservations, Topic: contract.TopicReservations, OrderSN: q.OrderSN, Why: "w", Item: []byte(q.OrderSN), At: w.parts.Now(),
			})
		}
		_, err := w.gate.Reserve(w.ctx, a.ID, group)
		require.NoError(t, err)
		w.relay(a)
	}
	require.NoError(t, w.core.AddDeadLetters(w.ctx, deadLetters))
	behind := w.buy(a, "behind")
	require.Eventually(t, func() bool {
		require.NoError(t, w.journalSweep.Run(w.ctx))
		entries, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 10)
		require.NoError(t, err)
		return len(entries) == 1 && entries[0].OrderSN == behind.OrderSN
	}, 30*time.Second, 5*time.Millisecond)
}

// The gate lost a reservation in a failover and sold its unit again. The refused buyer's unit must neither be sold a
// third time nor be lost.
func TestARefusalFirstSettlesWhatTheGateLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 1)
	first := w.buy(a, "u1")
	w.land(first)
	w.deductions()
	// Redis lost the purchase.
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	require.NoError(w.t, w.gate.Preload(w.ctx, a.ID, stockgate.Snapshot{
		Config: stockgate.Config{State: stockgate.GateOpen, StartsAt: a.StartsAt, EndsAt: a.EndsAt, PerUserLimit: 1, ReorderLimit: a.ReorderLimit, Version: a.Version},
		Stock:  map[string]int64{a.Items[0].SKUID: 1}, Totals: map[string]int64{a.Items[0].SKUID: 1},
	}))
	second := w.buy(a, "u2")
	w.land(second)
	w.agree(a)
	require.Zero(w.t, w.left(a, 0))
	require.Equal(w.t, "sold_out", w.entry(a, second.OrderSN).Reason)
	_, outcome := w.reserve(a, "u3")
	require.Equal(w.t, stockgate.SoldOut, outcome)
	require.Empty(w.t, w.deductions()[second.OrderSN])
}

func TestDeadLettersOfOrderAreStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	d := contract.DeadLetter{Where: contract.GroupOrderDeductions, Topic: contract.TopicDeductions, OrderSN: "5", ActivityID: "6", Why: "no price", Item: []byte(`{"order_sn":"5"}`), At: at}
	for range 2 {
		require.NoError(w.t, w.consumer.DeadLetters(w.ctx, message(w.t, contract.TopicDeadLetters, d)))
	}
	list := w.deadLetters(core.DeadLetterOpen)
	require.Len(w.t, list, 1)
	require.Equal(w.t, "no price", list[0].Why)
	require.True(w.t, list[0].FailedAt.Equal(at))
	_, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), list[0].ID)
	require.NoError(w.t, err)
	sent := w.broker.take(contract.TopicDeductions)
	require.Len(w.t, sent, 1)
	var doc struct {
		Items []json.RawMessage `json:"items"`
	}
	require.NoError(w.t, json.Unmarshal(sent[0].Body, &doc))
	require.JSONEq(w.t, `{"order_sn":"5"}`, string(doc.Items[0]))
}
