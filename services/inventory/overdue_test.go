package inventory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// askedAbout runs the sweep and returns the order_sns of the closings that it sent.
func (w *world) askedAbout() (sns []string, messages []bus.Message) {
	w.t.Helper()
	require.NoError(w.t, w.overdueSweep.Run(w.ctx))
	messages = w.broker.take(contract.TopicOrderClose)
	for _, m := range messages {
		closings, bad := contract.Decode[contract.OrderClose](m.Body)
		require.Empty(w.t, bad)
		for _, c := range closings {
			sns = append(sns, c.OrderSNs...)
		}
	}
	slices.Sort(sns)
	return sns, messages
}

// Neither the events of the orders nor their closings arrived.
func TestClosingsOfOverdueReservationsAreResent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 9)
	var r []contract.Reservation
	for i := range 7 {
		r = append(r, w.buy(a, fmt.Sprint("u", i)))
	}
	paid, closed, pending, paying, lettered, sold, without := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	w.land(r...)
	var created []contract.OrderEvent
	for _, it := range r[:6] {
		created = append(created, event(it, contract.OrderCreated))
	}
	w.follow(created...)
	// The end of its pay window is unknown, as after a closing during a payment.
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET expires_at = NULL WHERE order_sn = ?", closed.OrderSN).Error)
	w.follow(event(sold, contract.OrderPaid))
	require.NoError(w.t, w.core.AddDeadLetters(w.ctx, []contract.DeadLetter{{
		Where: contract.GroupInventoryOrderEvents, Topic: contract.TopicOrderEvents, OrderSN: lettered.OrderSN, Why: "w", Item: []byte("{}"), At: w.parts.Now(),
	}}))
	w.orders.set("paid", paid.OrderSN, lettered.OrderSN)
	w.orders.set("closed", closed.OrderSN)
	w.orders.set("pending", pending.OrderSN, paying.OrderSN)
	w.orders.paying[paying.OrderSN] = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)

	late := 15*time.Minute + w.parts.Sweep.AskAfter
	w.shift = late - time.Minute
	sns, _ := w.askedAbout()
	require.Empty(w.t, sns, "too early")
	w.shift = late + time.Minute
	w.broker.setDown(true)
	require.Error(w.t, w.overdueSweep.Run(w.ctx))
	w.broker.setDown(false)
	want := []string{paid.OrderSN, closed.OrderSN, pending.OrderSN, paying.OrderSN}
	slices.Sort(want)
	sns, _ = w.askedAbout()
	require.Equal(w.t, want, sns)
	// It is lost too: the pauses grow up to a limit.
	for _, minutes := range []int{20, 40, 60, 60} {
		w.shift += time.Duration(minutes-1) * time.Minute
		sns, _ = w.askedAbout()
		require.Empty(w.t, sns, "too early after %d min", minutes)
		w.shift += time.Minute
		var messages []bus.Message
		sns, messages = w.askedAbout()
		require.Equal(w.t, want, sns)
		if minutes == 60 {
			for _, m := range messages {
				require.NoError(w.t, w.consumer.OrderClose(w.ctx, delivered(m)))
			}
			want = []string{paying.OrderSN}
			require.Len(w.t, w.broker.take(contract.TopicOrderClose), 1, "an order that is being paid gets another closing")
		}
	}
	require.Empty(w.t, w.orders.of(without.OrderSN), "no tombstone was requested")
	w.shift = 0
	w.agree(a)
	for _, c := range []struct {
		of   contract.Reservation
		want ledger.State
	}{
		{paid, ledger.StateSold},
		{closed, ledger.StateReleased},
		{pending, ledger.StateReleased},
		{paying, ledger.StateReserved},
		{lettered, ledger.StateReserved},
		{sold, ledger.StateSold},
		{without, ledger.StateReserved},
	} {
		require.Equal(w.t, c.want, w.row(c.of.OrderSN).State)
	}
	require.Equal(w.t, stockgate.StatusPaid, w.entry(a, paid.OrderSN).Status)
	// The dead letter is rejected without a replay: nothing waits for it any more.
	_, err := w.core.RejectDeadLetter(w.ctx, operator("op"), w.deadLetters(core.DeadLetterOpen)[0].ID)
	require.NoError(w.t, err)
	w.shift = 12 * time.Hour
	sns, messages := w.askedAbout()
	require.Contains(w.t, sns, lettered.OrderSN)
	for _, m := range messages {
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, delivered(m)))
	}
	require.Equal(w.t, ledger.StateSold, w.row(lettered.OrderSN).State)
}

// The broker is unavailable, and holds back the event of a buyer's cancellation, or a closing.
func TestReservationsAreOverdueSoonerWithoutTheBroker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 9)
	r := w.buy(a, "u")
	w.land(r)
	w.follow(event(r, contract.OrderCreated))
	held := false
	w.parts.Held = func() bool { return held }
	w.process = w.parts.start()
	w.shift = 15*time.Minute + 31*time.Second
	sns, _ := w.askedAbout()
	require.Empty(w.t, sns)
	held = true
	w.shift = 15*time.Minute + 29*time.Second
	sns, _ = w.askedAbout()
	require.Empty(w.t, sns, "too early")
	w.shift = 15*time.Minute + 31*time.Second
	sns, _ = w.askedAbout()
	require.Equal(w.t, []string{r.OrderSN}, sns)
}

// Hundreds of reservations whose closings change nothing, and rows that cannot be read, do not block those behind
// them.
func TestOverdueReservationsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(1, 2000)
	var all []contract.Reservation
	for n := range 3 {
		var part []contract.Reservation
		for i := range 200 {
			r := contract.Reservation{OrderSN: newSN(), UserID: fmt.Sprint("u", n, "-", i), ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}, ReservedAt: time.Now()}
			part = append(part, r)
		}
		w.land(part...)
		var created []contract.OrderEvent
		for _, r := range part {
			created = append(created, event(r, contract.OrderCreated))
		}
		w.follow(created...)
		all = append(all, part...)
	}
	broken := all[3].OrderSN
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET line_items = 'rubbish' WHERE order_sn = ?", broken).Error)
	w.shift = time.Hour
	resent := map[string]int{}
	for range 3 {
		sns, _ := w.askedAbout()
		for _, sn := range sns {
			resent[sn]++
		}
	}
	require.Len(w.t, resent, 599)
	require.NotContains(w.t, resent, broken)
	for sn, n := range resent {
		require.Equal(w.t, 1, n, sn)
	}
	require.Equal(w.t, []string{"ledger row cannot be read"}, incidents.raised)
	w.shift += time.Hour
	again := 0
	for range 4 {
		sns, _ := w.askedAbout()
		again += len(sns)
	}
	require.Equal(w.t, 599, again, "their closings are resent")
	require.Len(w.t, incidents.raised, 2)
}

// An unreadable row, and one whose SKU was deleted, do not keep the others from their orders.
func TestAnUnreadableRowDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(1, 300, 300)
	var all []contract.Reservation
	for i := range 260 { // more than one batch of the sweep
		all = append(all, contract.Reservation{
			OrderSN: newSN(), UserID: fmt.Sprint("u", i), ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}, ReservedAt: time.Now(),
		})
	}
	all[1].Lines[0].SKUID = a.Items[1].SKUID
	w.land(all[:250]...)
	w.land(all[250:]...)
	require.Len(t, w.deductions(), 260)
	require.NoError(t, w.db.Exec("UPDATE reservations SET line_items = 'rubbish' WHERE order_sn = ?", all[0].OrderSN).Error)
	require.NoError(t, w.db.Exec("DELETE FROM stocks WHERE sku_id = ?", a.Items[1].SKUID).Error)
	for n := 1; n <= 3; n++ {
		w.shift += 10 * time.Minute
		w.sweepOrders()
		again := w.deductions()
		require.Len(t, again, 258)
		require.NotContains(t, again, all[0].OrderSN)
		require.NotContains(t, again, all[1].OrderSN)
	}
	require.Equal(t, []string{"ledger row cannot be read", "activity or SKU of a ledger row does not exist"}, incidents.raised)
	// The same holds for a message that names it among others.
	w.land(all[1], all[2])
	require.Len(t, w.deductions(), 1)
}

// A closing names one activity. A row of another one follows the response too, and an order without a row changes nothing.
func TestAClosingWithARowOfAnotherActivity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.sale(5, 9), w.sale(5, 9)
	mine, other, never := w.buy(a, "u1"), w.buy(b, "u2"), w.buy(a, "u3")
	w.land(mine, other)
	w.follow(event(mine, contract.OrderCreated), event(other, contract.OrderCreated))
	w.orders.set("closed", mine.OrderSN, other.OrderSN, never.OrderSN)
	due := contract.OrderClose{OrderSNs: []string{mine.OrderSN, other.OrderSN, never.OrderSN}, ActivityID: a.ID, DueAt: time.Now()}
	for range 2 { // delivered twice
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, due)))
	}
	for _, of := range []*core.Activity{a, b} {
		now, err := w.merchants.Activity(w.ctx, core.AllMerchants(), of.ID)
		require.NoError(w.t, err)
		require.EqualValues(w.t, 9, now.Items[0].Available)
		require.Zero(w.t, now.Items[0].Reserved)
	}
}
