package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// killedEverywhere runs work once for each of its steps, on the same world, killed before or after that step. Then it
// restarts the process, runs the work again, and checks that the result is the same as without the kill.
//
// A kill after a step leaves the dependencies as a kill before the next step does. So with -short only the last step is
// also killed after it.
func killedEverywhere(t *testing.T, prepare func(w *world) (work func() error, check func())) {
	w := newWorld(t)
	killed := func(step int, after bool) (died bool) {
		work, check := prepare(w)
		w.faults.kill(step, after)
		err := work()
		died = w.faults.heal()
		require.True(t, died || err == nil, "%v", err)
		if died {
			w.restart()
		}
		if err != nil { // work that succeeded is not repeated
			require.NoError(t, work(), "repeated after a kill at step %d, after=%v", step, after)
		}
		check()
		return died
	}
	steps := 0
	for killed(steps+1, false) {
		steps++
	}
	require.Positive(t, steps)
	for step := 1; step <= steps; step++ {
		if step == steps || !testing.Short() {
			require.True(t, killed(step, true), "step %d of %d", step, steps)
		}
	}
}

func TestKilledWhileLanding(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		a := w.sale(1, 2)
		good := w.buy(a, "u1")
		lost := contract.Reservation{OrderSN: newSN(), UserID: "u2", ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 2}}, ReservedAt: w.parts.Now()}
		bad := good
		bad.OrderSN, bad.ActivityID = newSN(), "999999"
		m := message(t, contract.TopicReservations, good, lost, bad)
		return func() error { return w.consumer.Reservations(w.ctx, m) }, func() {
			w.agree(a)
			require.Equal(t, ledger.StateReserved, w.row(good.OrderSN).State)
			require.Equal(t, ledger.StateRejected, w.row(lost.OrderSN).State)
			require.Equal(t, stockgate.StatusFailed, w.entry(a, lost.OrderSN).Status)
			require.Contains(t, w.deductions(), good.OrderSN)
			require.Equal(t, bad.OrderSN, w.deadLetters(core.DeadLetterOpen)[0].OrderSN)
		}
	})
}

func TestKilledWhileFollowing(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		a := w.sale(1, 4)
		var r []contract.Reservation
		for i := range 4 {
			r = append(r, w.buy(a, fmt.Sprint("u", i)))
		}
		w.land(r...)
		w.follow(event(r[3], contract.OrderClosed))
		w.orders.set("paid", r[3].OrderSN)
		m := message(t, contract.TopicOrderEvents, event(r[0], contract.OrderCreated), event(r[1], contract.OrderPaid), event(r[2], contract.OrderClosed), event(r[3], contract.OrderPaid))
		return func() error { return w.consumer.OrderEvents(w.ctx, m) }, func() {
			w.agree(a)
			require.Equal(t, int64(2), w.stock(a)[0].Available)
			require.Equal(t, int64(2), w.left(a, 0))
			require.Equal(t, "refunded", w.orders.of(r[3].OrderSN))
		}
	})
}

func TestKilledWhileClosing(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		a := w.sale(1, 6)
		var r []contract.Reservation
		var sns []string
		for i := range 6 {
			r = append(r, w.buy(a, fmt.Sprint("u", i)))
			sns = append(sns, r[i].OrderSN)
		}
		w.land(r...)
		for _, x := range r[:3] {
			w.follow(event(x, contract.OrderCreated))
		}
		w.follow(event(r[4], contract.OrderCreated), event(r[5], contract.OrderPaid))
		w.orders.set("refunded", sns[4], sns[5])
		w.orders.set("pending", sns[0], sns[1])
		w.orders.set("paid", sns[2])
		w.orders.due[sns[1]] = time.Now().Add(time.Hour)
		m := message(t, contract.TopicOrderClose, contract.OrderClose{OrderSNs: sns, ActivityID: a.ID, DueAt: time.Now()})
		return func() error { return w.consumer.OrderClose(w.ctx, m) }, func() {
			w.agree(a)
			it := w.stock(a)[0]
			require.Equal(t, []int64{4, 1, 1}, []int64{it.Available, it.Reserved, it.Sold})
			require.Equal(t, int64(4), w.left(a, 0))
			require.NotEmpty(t, w.broker.take(contract.TopicOrderClose))
		}
	})
}

func TestKilledWhilePublishing(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		a := w.draft(1, 4)
		return func() error { _, err := w.merchants.Publish(w.ctx, seller("m"), a.ID); return err }, func() {
			w.agree(a)
			require.Equal(t, int64(4), w.left(a, 0))
			sale, err := w.gate.Sale(w.ctx, a.ID)
			require.NoError(t, err)
			require.Equal(t, int64(4), sale.Items[0].Total)
		}
	})
}

// The call is not repeated: the gate controller finishes what a killed process began.
func TestTheGateControllerFinishesKilledChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, after := range []bool{false, true} {
		for step := 1; step < 5; step++ {
			a := w.draft(1, 4)
			w.faults.kill(step, after)
			_, err := w.merchants.Publish(w.ctx, seller("m"), a.ID)
			died := w.faults.heal()
			require.Equal(w.t, died, err != nil)
			if step == 1 && !after { // not even decided
				continue
			}
			w.restart()
			require.NoError(w.t, w.gates.EnsureGates(w.ctx))
			w.agree(a)
			_, state, err := w.gate.UnitsLeft(w.ctx, a.ID)
			require.NoError(w.t, err)
			require.Equal(w.t, stockgate.GateOpen, state)

			w.faults.kill(step, after)
			_, err = w.merchants.Pause(w.ctx, seller("m"), a.ID)
			died = w.faults.heal()
			require.Equal(w.t, died, err != nil)
			if step == 1 && !after {
				continue
			}
			w.restart()
			require.NoError(w.t, w.gates.EnsureGates(w.ctx))
			_, outcome := w.reserve(a, "u1")
			require.Equal(w.t, stockgate.Paused, outcome)
			sale, err := w.gate.Sale(w.ctx, a.ID)
			require.NoError(w.t, err)
			require.Equal(w.t, stockgate.GatePaused, sale.State)
		}
	}
	ready, err := w.gate.Ready(w.ctx)
	require.NoError(w.t, err)
	require.True(w.t, ready)
}

func TestKilledWhileAdjusting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		delta int64
		hold  int64 // units that the ledger holds and the gate lacks
		want  []int64
	}{
		"top-up":                         {5, 0, []int64{10, 10}},
		"withdrawal":                     {-3, 0, []int64{2, 2}},
		"refused by the gate":            {-6, 0, nil},
		"refused by the database":        {-3, 4, nil},
		"withdrawal of the last ones":    {-5, 0, []int64{0, 0}},
		"top-up while the gate is short": {2, 4, []int64{3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			killedEverywhere(t, func(w *world) (func() error, func()) {
				n++
				a := w.sale(10, 5)
				if c.hold > 0 { // landed, but the gate is not synced
					r := contract.Reservation{OrderSN: newSN(), UserID: "u1", ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: c.hold}}, ReservedAt: w.parts.Now()}
					w.faults.kill(2, false)
					require.Error(t, w.consumer.Reservations(w.ctx, message(t, contract.TopicReservations, r)))
					require.True(t, w.faults.heal())
				}
				req := merchants.AdjustmentRequest{ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: c.delta, Reason: "count", Key: core.IdempotencyKey{
					Caller: "m", Method: "POST", Path: "/v1/merchant/activities/" + a.ID + "/stock-adjustments", Value: fmt.Sprint("k", n),
				}}
				work := func() error {
					_, err := w.merchants.AdjustStock(w.ctx, seller("m"), req)
					if c.want == nil && contract.CodeOf(err) == contract.CodeInsufficientStock {
						return nil
					}
					if err == nil {
						require.NotNil(t, c.want, "it should have been refused")
					}
					return err
				}
				return work, func() {
					w.shift += time.Hour // the unfinished adjustment of a killed call is resumed
					require.NoError(t, w.adjustmentSweep.Run(w.ctx))
					w.shift = 0
					if c.hold > 0 {
						w.process = w.parts.start()
						require.NoError(t, w.gates.EnsureGates(w.ctx)) // settles again
					}
					w.agree(a)
					want := c.want
					if want == nil {
						want = []int64{5 - c.hold, 5 - c.hold}
					}
					require.Equal(t, want, []int64{w.stock(a)[0].Available, w.left(a, 0)})
				}
			})
		})
	}
}

// The call is not repeated: the sweep applies or refuses the unfinished adjustment.
func TestAnUnfinishedAdjustmentIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, delta := range []int64{7, -2, -9} {
		for _, after := range []bool{false, true} {
			for step := 1; ; step++ {
				a := w.sale(1, 5)
				w.faults.kill(step, after)
				_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: delta, Reason: "r", Key: core.IdempotencyKey{
					Caller: "m", Method: "POST", Path: "/x", Value: newSN(),
				}})
				if !w.faults.heal() {
					break
				}
				_ = err // the caller does not retry
				w.restart()
				w.shift += time.Hour
				require.NoError(t, w.adjustmentSweep.Run(w.ctx))
				w.shift = 0
				w.agree(a)
				want := int64(5) + delta
				if delta == -9 || step == 1 && !after {
					want = 5
				}
				require.Equal(t, want, w.left(a, 0), "delta %d killed at %d after=%v", delta, step, after)
			}
		}
	}
}
