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
)

// Events overtake each other and are redelivered. The result is the same in any order.
func TestEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	created, paid, closed, refunded := contract.OrderCreated, contract.OrderPaid, contract.OrderClosed, contract.OrderRefunded
	w := newWorld(t)
	for i, c := range []struct {
		events []contract.OrderEventType
		row    ledger.State
		status stockgate.Status
	}{
		{[]contract.OrderEventType{created}, ledger.StateReserved, stockgate.StatusCreated},
		{[]contract.OrderEventType{created, created}, ledger.StateReserved, stockgate.StatusCreated},
		{[]contract.OrderEventType{created, paid}, ledger.StateSold, stockgate.StatusPaid},
		{[]contract.OrderEventType{paid, created, paid}, ledger.StateSold, stockgate.StatusPaid},
		{[]contract.OrderEventType{created, closed, closed}, ledger.StateReleased, stockgate.StatusClosed},
		{[]contract.OrderEventType{closed, created, closed}, ledger.StateReleased, stockgate.StatusClosed},
		{[]contract.OrderEventType{paid, refunded, created}, ledger.StateReleased, stockgate.StatusClosed},
		{[]contract.OrderEventType{refunded, paid, refunded}, ledger.StateReleased, stockgate.StatusClosed},
	} {
		for _, together := range []bool{true, false} {
			a := w.sale(1, 3)
			r := w.buy(a, fmt.Sprint("u", i))
			w.land(r)
			var events []contract.OrderEvent
			for _, k := range c.events {
				events = append(events, event(r, k))
				if k == refunded {
					w.orders.set("refunded", r.OrderSN)
				}
			}
			if together {
				w.follow(events...)
			} else {
				for _, e := range events {
					w.follow(e)
				}
			}
			w.agree(a)
			require.Equal(w.t, c.row, w.row(r.OrderSN).State, "%v", c.events)
			require.Equal(w.t, c.status, w.entry(a, r.OrderSN).Status, "%v", c.events)
			if c.row == ledger.StateReleased { // the unit and the allowance are free again
				w.land(w.buy(a, fmt.Sprint("u", i)))
				w.agree(a)
			}
		}
	}
	require.Empty(w.t, w.deadLetters(core.DeadLetterOpen))
}

func TestPaidWithoutReservedUnitsIsRefunded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 1)
	released := w.buy(a, "u1")
	w.land(released)
	w.follow(event(released, contract.OrderCreated), event(released, contract.OrderClosed))
	missing := contract.Reservation{OrderSN: newSN(), UserID: "u2", ActivityID: a.ID, Lines: released.Lines, ReservedAt: w.parts.Now()}
	rejected := contract.Reservation{OrderSN: newSN(), UserID: "u3", ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 2}}, ReservedAt: w.parts.Now()}
	w.land(rejected)
	w.orders.set("paid", released.OrderSN, missing.OrderSN, rejected.OrderSN)

	w.orders.setDown(true)
	late := message(w.t, contract.TopicOrderEvents, event(released, contract.OrderPaid), event(missing, contract.OrderPaid), event(rejected, contract.OrderPaid))
	require.Error(w.t, w.consumer.OrderEvents(w.ctx, late), "the order service is unreachable: the message has to be redelivered")
	w.orders.setDown(false)
	for range 2 {
		require.NoError(w.t, w.consumer.OrderEvents(w.ctx, late))
	}
	w.agree(a)
	for _, r := range []contract.Reservation{released, missing, rejected} {
		require.Equal(w.t, "refunded", w.orders.of(r.OrderSN))
		w.follow(event(r, contract.OrderRefunded))
	}
	w.agree(a)
	require.Equal(w.t, int64(1), w.stock(a)[0].Available)
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, released.OrderSN).Status)
}

func TestEventsWithoutALedgerRowBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 1)
	r := contract.Reservation{OrderSN: newSN(), UserID: "u2", ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}}
	w.follow(event(r, contract.OrderCreated), event(r, contract.OrderClosed))
	require.Len(w.t, w.deadLetters(core.DeadLetterOpen), 2)
	w.agree(a)
}

func TestDueClosingsFollowTheResponseOfOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 6)
	var all []contract.Reservation
	var sns []string
	for i := range 6 {
		r := w.buy(a, fmt.Sprint("u", i))
		all, sns = append(all, r), append(sns, r.OrderSN)
	}
	w.land(all...)
	for _, r := range all[:4] {
		w.follow(event(r, contract.OrderCreated))
	}
	w.orders.set("pending", sns[0], sns[2], sns[3], sns[4])
	w.orders.set("paid", sns[1])
	notDue, paying := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond), time.Now().Add(30*time.Second).UTC().Truncate(time.Millisecond)
	w.orders.due[sns[2]], w.orders.paying[sns[3]], w.orders.due[sns[4]] = notDue, paying, notDue
	due := message(w.t, contract.TopicOrderClose, contract.OrderClose{OrderSNs: append(sns, "77"), ActivityID: a.ID, DueAt: time.Now()})

	w.orders.setDown(true)
	require.Error(w.t, w.consumer.OrderClose(w.ctx, due))
	w.orders.setDown(false)
	for range 2 {
		began := time.Now()
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, due))
		took := time.Since(began)
		w.agree(a)
		later := w.broker.take(contract.TopicOrderClose)
		require.Len(w.t, later, 2)
		for i, want := range []struct {
			at  time.Time
			sns []string
		}{{paying, sns[3:4]}, {notDue, []string{sns[2], sns[4]}}} {
			require.WithinDuration(w.t, want.at, later[i].DeliverAt, 5*time.Second+took)
			require.False(w.t, later[i].DeliverAt.Before(want.at.Add(-time.Millisecond)), "%v %v", later[i].DeliverAt, want.at)
			items, _ := contract.Decode[contract.OrderClose](later[i].Body)
			require.Len(w.t, items, 1)
			require.Equal(w.t, want.sns, items[0].OrderSNs)
		}
	}
	states := map[int]ledger.State{0: ledger.StateReleased, 1: ledger.StateSold, 2: ledger.StateReserved, 3: ledger.StateReserved, 4: ledger.StateReserved, 5: ledger.StateReleased}
	for i, want := range states {
		require.Equal(w.t, want, w.row(sns[i]).State, i)
	}
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, sns[0]).Status)
	require.Equal(w.t, stockgate.StatusFailed, w.entry(a, sns[5]).Status) // never had an order
	require.Equal(w.t, "expired", w.entry(a, sns[5]).Reason)
	require.NotNil(w.t, w.row(sns[4]).OrderCreatedAt, "not_due shows that there is an order")
}

// An order that was paid and then refunded has no claim to its units, whatever events reached the ledger.
func TestARefundedOrderReleasesItsUnitsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(1, 9)
	reserved, queued, sold, released := w.buy(a, "u0"), w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3")
	kept := w.buy(a, "u4")
	w.land(reserved, queued, sold, released, kept)
	w.follow(event(reserved, contract.OrderCreated), event(sold, contract.OrderPaid), event(released, contract.OrderClosed), event(kept, contract.OrderPaid))
	missing := newSN()
	absent := []string{reserved.OrderSN, queued.OrderSN, sold.OrderSN, released.OrderSN, missing}
	w.orders.set("refunded", absent...)
	w.orders.set("paid", kept.OrderSN)
	due := message(w.t, contract.TopicOrderClose, contract.OrderClose{OrderSNs: append(absent, kept.OrderSN), ActivityID: a.ID, DueAt: time.Now()})

	for range 3 { // the message may be redelivered
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, due))
		w.agree(a)
		it := w.stock(a)[0]
		require.Equal(w.t, []int64{8, 0, 1}, []int64{it.Available, it.Reserved, it.Sold})
		require.Equal(w.t, int64(8), w.left(a, 0))
		for sn, reason := range map[string]string{
			reserved.OrderSN: "refunded", queued.OrderSN: "refunded", sold.OrderSN: "refunded", released.OrderSN: "expired",
		} {
			require.Equal(w.t, ledger.StateReleased, w.row(sn).State)
			require.Equal(w.t, reason, w.row(sn).Reason)
			require.Equal(w.t, stockgate.StatusClosed, w.entry(a, sn).Status)
			require.Equal(w.t, reason, w.entry(a, sn).Reason)
		}
		// The earlier events of its order arrive late.
		w.follow(event(reserved, contract.OrderPaid), event(sold, contract.OrderPaid), event(queued, contract.OrderCreated), event(sold, contract.OrderRefunded))
	}
	require.Empty(w.t, w.orders.refunded, "their money is on its way back already")
	require.Empty(w.t, incidents.raised)
	require.Empty(w.t, w.deadLetters(core.DeadLetterOpen))
	w.land(w.buy(a, "u0"), w.buy(a, "u2")) // units and allowances are free again
	w.agree(a)
}

// After a paid event for a released row its order is refunded. A later closing changes nothing.
func TestTheClosingAfterARefundWithoutUnitsChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 1)
	r := w.buy(a, "u1")
	w.land(r)
	w.follow(event(r, contract.OrderCreated), event(r, contract.OrderClosed))
	w.orders.set("paid", r.OrderSN)
	w.follow(event(r, contract.OrderPaid))
	require.Equal(w.t, "refunded", w.orders.of(r.OrderSN))
	incidents := w.incidents()
	before := w.row(r.OrderSN)
	require.NoError(w.t, w.core.CloseDue(w.ctx, []contract.OrderClose{{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID}}, nil))
	require.Equal(w.t, before, w.row(r.OrderSN))
	require.Len(w.t, w.orders.refunded, 1)
	require.Empty(w.t, incidents.raised)
	w.agree(a)
}

// The process dies between the ledger and the gate, and no message is redelivered. The reconciler finds an entry that
// is behind, and raises no incident.
func TestTheReconcilerReleasesARefundedOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(1, 3)
	r := w.buy(a, "u1")
	w.land(r)
	w.follow(event(r, contract.OrderPaid))
	w.orders.set("refunded", r.OrderSN)
	w.faults.kill(3, false) // order, ledger
	require.Error(w.t, w.core.CloseDue(w.ctx, []contract.OrderClose{{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID}}, nil))
	require.True(w.t, w.faults.heal())
	require.Equal(w.t, ledger.StateReleased, w.row(r.OrderSN).State)
	require.Equal(w.t, stockgate.StatusPaid, w.entry(a, r.OrderSN).Status)
	w.settles()
	require.Equal(w.t, []string{"released"}, kinds(w.reconcile(a)))
	require.Equal(w.t, stockgate.StatusClosed, w.entry(a, r.OrderSN).Status)
	require.Empty(w.t, incidents.raised)
	w.agree(a)
	w.whole(w.t, a)
}

// The closing of a cancelled order may arrive before the event of its cancellation. Its buyer sees one reason.
func TestACancelledOrderStaysCancelledWhicheverMessageComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 2)
	r := w.buy(a, "u1")
	w.land(r)
	w.follow(event(r, contract.OrderCreated))
	w.orders.set("cancelled", r.OrderSN)
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose,
		contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: time.Now()})))
	cancelled := event(r, contract.OrderClosed)
	cancelled.Reason = "cancelled"
	w.follow(cancelled)
	require.Equal(w.t, "cancelled", w.row(r.OrderSN).Reason)
	require.Equal(w.t, "cancelled", w.entry(a, r.OrderSN).Reason)
	w.agree(a)
}

// The gate is released even if another message released the ledger and its process was killed before the sync.
func TestTheGateIsReleasedEvenIfTheLedgerIsReleasedAlready(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 1)
	r := w.buy(a, "u1")
	w.land(r)
	w.follow(event(r, contract.OrderCreated))
	w.faults.kill(2, false) // after the ledger transaction, before the gate
	require.Error(w.t, w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(r, contract.OrderClosed))))
	require.True(w.t, w.faults.heal())
	require.Equal(w.t, ledger.StateReleased, w.row(r.OrderSN).State)
	require.Zero(w.t, w.left(a, 0))
	w.orders.set("closed", r.OrderSN)
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: time.Now()})))
	require.Equal(w.t, int64(1), w.left(a, 0))
	w.agree(a)
}
