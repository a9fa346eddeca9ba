package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// closeLater delivers a closing and all that follow from it, on a bus that delivers each of them so much too early,
// until none is left. It returns the number of calls to the order service.
func (w *world) closeLater(early time.Duration, first contract.OrderClose) (calls int) {
	w.t.Helper()
	before := w.orders.closed()
	type closing struct {
		bus.Delivery
		delay time.Duration
	}
	next := []closing{{message(w.t, contract.TopicOrderClose, first), 0}}
	for len(next) > 0 && w.orders.closed()-before < 100 {
		w.shift += max(0, next[0].delay-early)
		began := time.Now()
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, next[0].Delivery))
		next = next[1:]
		for _, m := range w.broker.take(contract.TopicOrderClose) {
			next = append(next, closing{bus.Delivery{Message: m, Attempt: 1}, max(0, m.DeliverAt.Sub(began))})
		}
	}
	return w.orders.closed() - before
}

// A bus whose clock is ahead delivers delayed messages early: order responds not_due, or paying.
func TestABusThatIsAheadCausesFewCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		early, left time.Duration // by which the bus is ahead; until the deadline, when the first closing is delivered
		most        int
	}{
		{0, 0, 1},
		{5 * time.Second, 5 * time.Second, 6},
		{5 * time.Minute, 290 * time.Second, 8},
		{5 * time.Minute, 10 * time.Second, 8},
		{5 * time.Minute, time.Second, 8},
	} {
		for _, paying := range []time.Duration{0, 2 * time.Minute, time.Second} {
			t.Run(fmt.Sprint(c.early, c.left, paying), func(t *testing.T) {
				w := newWorld(t)
				began := time.Now()
				w.fixed = func() time.Time { return began.Add(w.shift) } // only delays pass
				w.orders.now = w.parts.Now
				a := w.sale(1, 2)
				r := w.buy(a, "u")
				w.land(r)
				w.follow(event(r, contract.OrderCreated))
				w.orders.set("pending", r.OrderSN)
				due := w.parts.Now().Add(c.left).UTC().Truncate(time.Millisecond)
				w.orders.due[r.OrderSN], w.orders.paying[r.OrderSN] = due, due.Add(paying)

				calls := w.closeLater(c.early, contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: due})
				if paying == 0 {
					require.LessOrEqual(t, calls, c.most)
				}
				require.LessOrEqual(t, calls, 12)
				require.Equal(t, ledger.StateReleased, w.row(r.OrderSN).State)
				w.agree(a)
			})
		}
	}
}

// The pauses between closings that come too early grow from 1 s to 30 s.
func TestThePausesAfterEarlyClosingsGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 2)
	r := w.buy(a, "u")
	w.land(r)
	w.orders.set("pending", r.OrderSN)
	due := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	w.orders.due[r.OrderSN] = due
	w.shift = 2 * time.Minute // this process is ahead of the order service
	next := message(w.t, contract.TopicOrderClose,
		contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: due})
	for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30, 30, 30, 30} {
		want := time.Duration(seconds) * time.Second
		began := time.Now()
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, next))
		sent := w.broker.take(contract.TopicOrderClose)
		require.Len(w.t, sent, 1)
		require.WithinRange(w.t, sent[0].DeliverAt, began.Add(want-time.Second/10), time.Now().Add(want))
		next.Message = sent[0]
	}
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, next))
	require.Empty(w.t, w.broker.take(contract.TopicOrderClose), "left to the sweep of the order service")
}

// A closing that came too early publishes one later closing, however often it is repeated because the gate is unavailable.
func TestAnEarlyClosingWithoutItsGateDoesNotMultiply(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	w := newWorldOn(t, dbtest.MariaDB(t, Migrations), []string{mini.Addr()}, 0)
	a := w.sale(1, 2)
	r := w.buy(a, "u")
	w.land(r)
	w.orders.set("pending", r.OrderSN)
	due := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	w.orders.due[r.OrderSN] = due
	early := message(w.t, contract.TopicOrderClose,
		contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: due})

	mini.SetError("LOADING Redis is loading the dataset in memory")
	for range 5 {
		require.Error(w.t, w.consumer.OrderClose(w.ctx, early))
	}
	require.Empty(w.t, w.broker.take(contract.TopicOrderClose))
	mini.SetError("")
	require.Eventually(w.t, func() bool { return w.consumer.OrderClose(w.ctx, early) == nil }, 30*time.Second, 50*time.Millisecond)
	require.Len(w.t, w.broker.take(contract.TopicOrderClose), 1)
}

// eachSkew runs a test with a process whose clock is 5 min ahead of database and Redis, and one that is 5 min behind.
func eachSkew(t *testing.T, fn func(w *world)) {
	for _, skew := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		t.Run(fmt.Sprint(skew), func(t *testing.T) {
			w := newWorld(t)
			w.skew = skew
			fn(w)
		})
	}
}

func TestSweepsOfRowsDoNotDependOnTheClockOfAProcess(t *testing.T) {
	t.Parallel()
	eachSkew(t, func(w *world) {
		a := w.sale(1, 5)
		lost, overdue := w.buy(a, "u1"), w.buy(a, "u2")
		began := w.databaseNow().Truncate(time.Millisecond)
		w.land(lost, overdue)
		row := w.row(lost.OrderSN)
		require.WithinRange(w.t, row.LandedAt, began, w.databaseNow())
		require.Equal(w.t, row.LandedAt, row.ChangedAt)
		require.Equal(w.t, row.LandedAt.Add(time.Minute), *row.RepublishAt)
		w.follow(event(overdue, contract.OrderCreated))
		require.WithinRange(w.t, w.row(overdue.OrderSN).ChangedAt, began, w.databaseNow())
		w.orders.set("pending", overdue.OrderSN)
		w.deductions()

		after := func(from time.Time, d time.Duration) {
			w.fixed = func() time.Time { return from.Add(d) }
		}
		after(row.LandedAt, 59*time.Second)
		require.NoError(w.t, w.orderSweep.Run(w.ctx))
		require.Empty(w.t, w.deductions(), "not before it is due")
		after(row.LandedAt, 61*time.Second)
		require.NoError(w.t, w.orderSweep.Run(w.ctx))
		require.Contains(w.t, w.deductions(), lost.OrderSN)

		late, created := 15*time.Minute+w.parts.Sweep.AskAfter, w.row(overdue.OrderSN).ChangedAt
		after(created, late-time.Second)
		sns, _ := w.askedAbout()
		require.Empty(w.t, sns, "not before it is overdue")
		after(created, late+time.Second)
		sns, _ = w.askedAbout()
		require.Equal(w.t, []string{overdue.OrderSN}, sns)

		after(row.LandedAt, w.parts.Sweep.AbandonAfter-time.Second)
		require.NoError(w.t, w.orderSweep.Run(w.ctx))
		require.Empty(w.t, w.broker.take(contract.TopicOrderClose), "not given up early")
		after(row.LandedAt, w.parts.Sweep.AbandonAfter+time.Second)
		require.NoError(w.t, w.orderSweep.Run(w.ctx))
		require.Len(w.t, w.broker.take(contract.TopicOrderClose), 1)
	})
}

// Another process is in the middle of an adjustment.
func TestAnAdjustmentInProgressIsNotResumedByAProcessThatIsAhead(t *testing.T) {
	t.Parallel()
	eachSkew(t, func(w *world) {
		a := w.sale(1, 5)
		made, err := w.parts.Store.BeginAdjustment(w.ctx, core.AllMerchants(), adjustmentKey(0), core.Adjustment{
			ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 5, Reason: "r", State: core.AdjustmentIntent, CreatedBy: "m",
			CreatedAt: w.databaseNow(), UpdatedAt: w.databaseNow(),
		}, core.Change{At: w.databaseNow(), Who: "m", Action: "stock.adjust", Object: "activity", ObjectID: a.ID},
			func(*core.Activity) error { return nil })
		require.NoError(w.t, err)
		require.NotEmpty(w.t, made.ID)
		w.shift = w.parts.Sweep.ResumeAfter - 5*time.Second
		require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
		require.Equal(w.t, int64(5), w.left(a, 0), "its process may still be at it")
		w.shift = w.parts.Sweep.ResumeAfter + time.Second
		require.NoError(w.t, w.adjustmentSweep.Run(w.ctx))
		require.Equal(w.t, int64(10), w.left(a, 0))
	})
}

func TestTheDelayOfAClosingDoesNotDependOnTheClockOfAProcess(t *testing.T) {
	t.Parallel()
	eachSkew(t, func(w *world) {
		a := w.sale(1, 2)
		r := w.buy(a, "u")
		w.land(r)
		w.orders.set("pending", r.OrderSN)
		due := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
		w.orders.due[r.OrderSN] = due
		began := time.Now()
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose,
			contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: due})))
		took := time.Since(began)
		sent := w.broker.take(contract.TopicOrderClose)
		require.Len(w.t, sent, 1)
		require.WithinDuration(w.t, due, sent[0].DeliverAt, 2*time.Second+took)
	})
}

// sellsLostUnits lets the gate sell a unit again because it has lost a reservation, n times. Each time that the purchase
// which it accepted since is refused, the gate gets the reservation that it lacks before it gets the unit back: also
// after a settling that began earlier.
func (w *world) sellsLostUnits(n int, before func(i int)) {
	w.t.Helper()
	a := w.sale(9, 1)
	for i := range n {
		before(i)
		if i > 0 {
			_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
				ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 1, Reason: "r", Key: adjustmentKey(i),
			})
			require.NoError(w.t, err)
		}
		lost := contract.Reservation{
			OrderSN: newSN(), UserID: fmt.Sprint("u", i), ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}},
			ReservedAt: time.Now().UTC().Truncate(time.Millisecond),
		}
		w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, lost)) })
		again := w.buy(a, fmt.Sprint("v", i)) // the unit is sold again
		w.land(again)
		require.Equal(w.t, ledger.StateRejected, w.row(again.OrderSN).State)
		require.Zero(w.t, w.left(a, 0), "the unit belongs to the lost reservation, purchase %d", i)
		w.entry(a, lost.OrderSN)
	}
}

func TestRefusedUnitsReturnAfterTheLostReservationWhateverTheClockShows(t *testing.T) {
	t.Parallel()
	eachSkew(t, func(w *world) { w.sellsLostUnits(3, func(int) {}) })
}

// shiftedGate is a gate whose Redis server has a clock that differs from the one that stamps reservations.
type shiftedGate struct {
	gates.Effects
	ahead time.Duration
}

func (g *shiftedGate) Now(ctx context.Context) (time.Time, error) {
	now, err := g.Effects.Now(ctx)
	return now.Add(g.ahead), err
}

// A replica whose clock is behind that of the old master becomes the master.
func TestRefusedUnitsReturnAfterTheLostReservationWhenRedisTimeGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := &shiftedGate{ahead: 5 * time.Minute}
	w.parts = w.parts.with(func(p *ports) { g.Effects, p.gate = p.gate, g })
	w.restart()
	w.sellsLostUnits(3, func(i int) {
		if i > 0 {
			g.ahead = 0
		}
	})
}

// A process that must not decide by time settles all rows instead.
func TestRefusedUnitsReturnAfterTheLostReservationWithoutAClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts = w.parts.with(func(p *ports) { p.gate = &shiftedGate{p.gate, 5 * time.Minute} })
	w.sellsLostUnits(3, func(i int) {
		if i == 0 { // the gate exists
			w.parts.Clocks = func(context.Context) error { return clocks.ErrOffset }
			w.restart()
		}
	})
}

// A process that must not decide by time does not take an absent gate for one that is not due any more.
func TestAProcessWithAWrongClockLeavesNoEffectOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	r := w.buy(a, "u")
	w.land(r)
	w.follow(event(r, contract.OrderCreated), event(r, contract.OrderPaid))
	w.shift = time.Until(a.EndsAt) + ledger.GateKept + time.Hour
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	paid := message(w.t, contract.TopicOrderEvents, event(r, contract.OrderPaid))
	w.parts.Clocks = func(context.Context) error { return clocks.ErrOffset }
	w.restart()
	require.ErrorIs(w.t, w.consumer.OrderEvents(w.ctx, paid), core.ErrGateUnavailable, "the message returns")
	_, err := w.merchants.StockView(w.ctx, core.AllMerchants(), a.ID)
	require.Equal(w.t, contract.CodeGateUnavailable, contract.CodeOf(err))
	w.parts.Clocks = nil
	w.restart()
	require.NoError(w.t, w.consumer.OrderEvents(w.ctx, paid))
}

func adjustmentKey(n int) core.IdempotencyKey {
	return core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/adjustments", Value: fmt.Sprint("k", n)}
}

// An activity ends, and its gate is due, by the time of the database.
func TestTheEndOfAnActivityDoesNotDependOnTheClockOfAProcess(t *testing.T) {
	t.Parallel()
	eachSkew(t, func(w *world) {
		a := w.sale(1, 5)
		w.shift = time.Until(a.EndsAt) - 10*time.Second
		_, err := w.merchants.Pause(w.ctx, seller("m"), a.ID)
		require.NoError(w.t, err, "not over")
		w.shift = time.Until(a.EndsAt) + time.Second
		_, err = w.merchants.Resume(w.ctx, seller("m"), a.ID)
		require.Equal(w.t, contract.CodeActivityEnded, contract.CodeOf(err))

		gate := a.ID
		w.shift = time.Until(a.EndsAt) + ledger.GateKept - 10*time.Second
		due, err := w.syncer.Due(w.ctx, gate)
		require.NoError(w.t, err)
		require.True(w.t, due)
		w.shift = time.Until(a.EndsAt) + ledger.GateKept + time.Second
		due, err = w.syncer.Due(w.ctx, gate)
		require.NoError(w.t, err)
		require.False(w.t, due)
	})
}

// A process whose clock differs from Redis's by more than 2 s sweeps nothing and builds no gate, reports it in its
// health, and stays ready.
func TestAProcessWithAWrongClockSweepsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	r := w.buy(a, "u1")
	w.land(r)
	w.deductions()
	require.NoError(t, w.db.Exec("UPDATE reservations SET republish_at = ?", time.Now().Add(-24*time.Hour)).Error)
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	var skew atomic.Int64
	svc, err := New(Config{
		Auth: settings.Auth{Lenient: true, HS256Secrets: []string{testSecret}}, Internal: settings.Internal{Secrets: []string{"x"}},
		Timers: often(10 * time.Millisecond),
	}, Deps{
		DB: w.db, Redis: w.rdb, Bus: discardBus{w.broker}, Telemetry: w.tel, DatabaseNow: time.Now,
		Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) },
	})
	require.NoError(t, err)
	skew.Store(int64(5 * time.Minute))
	state := svc.presence.State(t.Context())
	require.True(t, state.Ready)
	require.Len(t, state.Reasons, 1)
	require.Contains(t, state.Reasons[0], "nothing is decided by time (redis +")
	require.Contains(t, state.Reasons[0], "database +")
	require.InDelta(t, 300_000, state.ClockOffsetMS["database"], 30_000)

	run := func(name string, until func() bool) {
		t.Helper()
		all := svc.Components()
		i := slices.IndexFunc(all, func(c lifecycle.Component) bool { return c.Name == name })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- all[i].Run(ctx) }()
		require.Eventually(t, until, 30*time.Second, time.Millisecond)
		stop()
		require.NoError(t, <-done)
	}
	rounds := func(name string) func() bool { // each round takes its lock first, also one that is left out
		fences := map[int64]bool{}
		return func() bool {
			n, err := w.rdb.Get(t.Context(), "fs:lock:{"+name+"}:fence").Int64()
			if !errors.Is(err, redis.Nil) {
				require.NoError(t, err)
			}
			fences[n] = true
			return len(fences) >= 5
		}
	}
	const sweep, controller = "inventory order sweep", "inventory gate controller"
	built := func() bool {
		_, err := w.gate.Audit(t.Context(), a.ID)
		return err == nil
	}
	run(sweep, rounds(sweep))
	require.Empty(t, w.deductions())
	run(controller, rounds(controller))
	require.False(t, built())

	skew.Store(0)
	require.Empty(t, svc.presence.State(t.Context()).Reasons)
	run(sweep, func() bool { return len(w.deductions()) == 1 })
	run(controller, built)
}
