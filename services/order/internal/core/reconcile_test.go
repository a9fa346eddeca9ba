package core_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
	"flashsale.internal/services/order/internal/ordertest"
)

// chargeOf returns a charge for the order of a deduction, of a payment that this database lacks.
func (w *world) chargeOf(t testing.TB, d contract.Deduction) core.Charge {
	t.Helper()
	id, err := genes.ByUser{}.NewPaymentID(d.UserID)
	require.NoError(t, err)
	return core.Charge{
		PaymentID: id, OrderSN: d.OrderSN, UserID: d.UserID, Amount: fullAmount, Currency: "EUR", At: w.clock.Now(),
	}
}

// reconcile returns the result of each charge and each refund by payment id, and the counts.
func (w *world) reconcile(t testing.TB, since time.Time, keep bool) (charges, refunds map[string]core.ReconcileResult) {
	t.Helper()
	charges, refunds = map[string]core.ReconcileResult{}, map[string]core.ReconcileResult{}
	require.NoError(t, w.ReconcilePayments(t.Context(), since, keep, func(r core.Reconciled) {
		into := charges
		if r.Refund {
			into = refunds
		}
		require.NotContains(t, into, r.PaymentID)
		into[r.PaymentID] = r.Result
	}))
	return charges, refunds
}

func TestChargesOfTheProviderAreRecorded(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	since := w.clock.Now()
	charge := func(d contract.Deduction, edit ...func(*core.Charge)) core.Charge {
		c := w.chargeOf(t, d)
		for _, e := range edit {
			e(&c)
		}
		return w.provider.charge(c)
	}
	of := func(p core.StartedPayment) func(*core.Charge) {
		return func(c *core.Charge) { c.PaymentID = p.PaymentID }
	}
	w.clock.advance(-time.Second)
	early := charge(w.created(t, "u0"))
	w.clock.advance(time.Second)

	known := w.created(t, "u1")
	p := w.started(t, known, "k")
	w.succeed(t, p.PaymentID)
	knownCharge := charge(known, of(p))

	unpaid := w.created(t, "u2")
	unpaidCharge := charge(unpaid, of(w.started(t, unpaid, "k")))
	lost := w.created(t, "u3") // its payment was lost
	lostCharge := charge(lost)
	cancelled := w.created(t, "u4")
	_, err := w.Cancel(t.Context(), "u4", cancelled.OrderSN)
	require.NoError(t, err)
	cancelledCharge := charge(cancelled)
	second := charge(known)
	wrong := w.created(t, "u5")
	wrongCharge := charge(wrong, func(c *core.Charge) { c.Amount = 1 })
	gone := w.deduction("u6") // its order was lost
	goneCharge := charge(gone)
	never := w.deduction("u7")
	w.close(t, core.ReasonRejected, never.OrderSN) // a tombstone
	neverCharge := charge(never)
	nobody := charge(gone, func(c *core.Charge) { c.OrderSN = "" })
	returned := w.created(t, "u8")
	returnedCharge := charge(returned)
	w.provider.giveBack(returnedCharge)
	differs := w.created(t, "u9")
	p = w.started(t, differs, "k")
	w.succeed(t, p.PaymentID)
	differsCharge := charge(differs, of(p), func(c *core.Charge) { c.Amount = 5 })
	foreign := charge(gone, func(c *core.Charge) { c.PaymentID = "ch_1" })
	before := len(w.outbox(t))

	// What has no order can be left for a later run.
	charges, _ := w.reconcile(t, since, true)
	for _, c := range []core.Charge{goneCharge, neverCharge, nobody} {
		require.Equal(t, core.ReconcileKept, charges[c.PaymentID])
		require.Empty(t, w.payments(t, c.OrderSN))
		require.Empty(t, w.refunds(t, c.OrderSN))
	}
	want := map[string]core.ReconcileResult{
		knownCharge.PaymentID: core.ReconcileKnown, unpaidCharge.PaymentID: core.ReconcilePaid,
		lostCharge.PaymentID: core.ReconcilePaid, cancelledCharge.PaymentID: core.ReconcileRefunded,
		second.PaymentID: core.ReconcileRefunded, wrongCharge.PaymentID: core.ReconcileRefunded,
		goneCharge.PaymentID: core.ReconcileKept, neverCharge.PaymentID: core.ReconcileKept,
		nobody.PaymentID: core.ReconcileKept, returnedCharge.PaymentID: core.ReconcileReturned,
		differsCharge.PaymentID: core.ReconcileDiffers, foreign.PaymentID: core.ReconcileForeign,
	}
	require.Equal(t, want, charges)
	require.NotContains(t, charges, early.PaymentID)

	for d, state := range map[string]core.State{
		unpaid.UserID: core.Paid, lost.UserID: core.Paid, cancelled.UserID: core.Closed, wrong.UserID: core.Pending,
		returned.UserID: core.Pending, known.UserID: core.Paid,
	} {
		orders, _, err := w.List(t.Context(), core.ListQuery{UserID: d, Limit: 5})
		require.NoError(t, err)
		require.Len(t, orders, 1)
		require.Equal(t, state, orders[0].State, d)
	}
	var paid []string
	for _, e := range w.outbox(t)[before:] {
		require.Equal(t, contract.OrderPaid, e.Type)
		paid = append(paid, e.OrderSN)
	}
	require.ElementsMatch(t, []string{unpaid.OrderSN, lost.OrderSN}, paid)

	// Now their money goes back.
	charges, _ = w.reconcile(t, since, false)
	for _, c := range []core.Charge{goneCharge, neverCharge, nobody} {
		require.Equal(t, core.ReconcileNoOrder, charges[c.PaymentID])
		want[c.PaymentID] = core.ReconcileKnown
	}
	require.Equal(t, 3, w.recorder.count("charge_without_order"))
	for id, result := range want {
		if result != core.ReconcileDiffers && result != core.ReconcileForeign {
			want[id] = core.ReconcileKnown
		}
	}
	charges, _ = w.reconcile(t, since, false)
	require.Equal(t, want, charges, "repeated")

	_, err = w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{
		cancelledCharge.PaymentID: fullAmount, second.PaymentID: fullAmount, wrongCharge.PaymentID: 1,
		goneCharge.PaymentID: fullAmount, neverCharge.PaymentID: fullAmount, nobody.PaymentID: fullAmount,
		returnedCharge.PaymentID: fullAmount,
	}, w.provider.refunded, "each in full, once")
	reasons := map[string]string{}
	for _, sn := range []string{cancelled.OrderSN, known.OrderSN, wrong.OrderSN, gone.OrderSN, never.OrderSN, returned.OrderSN} {
		for _, r := range w.refunds(t, sn) {
			require.Equal(t, core.RefundDone, r.State)
			reasons[r.PaymentID] = r.Reason
		}
	}
	require.Equal(t, map[string]string{
		cancelledCharge.PaymentID: core.RefundCancelled, second.PaymentID: core.RefundSecond,
		wrongCharge.PaymentID: core.RefundWrongAmount, goneCharge.PaymentID: core.RefundNoOrder,
		neverCharge.PaymentID: core.RefundNoOrder, returnedCharge.PaymentID: core.RefundByProvider,
	}, reasons)
}

func TestRefundsOfTheProviderAreRecorded(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	since := w.clock.Now()
	back := func(paymentID string, amount int64) {
		w.provider.giveBack(core.Charge{PaymentID: paymentID, Amount: amount, Currency: "EUR", At: w.clock.Now()})
	}
	pending, refused := w.refundOf(t, "u1"), w.refused(t, "u2")
	w.clock.advance(time.Second)
	back(pending.PaymentID, fullAmount)
	back(refused.PaymentID, fullAmount)
	paid := w.created(t, "u3") // the refund of its order was lost
	p := w.started(t, paid, "k")
	w.succeed(t, p.PaymentID)
	back(p.PaymentID, fullAmount)
	part := w.created(t, "u4")
	partly := w.started(t, part, "k")
	w.succeed(t, partly.PaymentID)
	back(partly.PaymentID, 1)
	hand := w.refused(t, "u5")
	_, err := w.SettleRefund(t.Context(), hand.PaymentID, settlement)
	require.NoError(t, err)
	back(hand.PaymentID, fullAmount)
	back("42", fullAmount)
	early := w.created(t, "u6") // charged before the time, and its payment was lost
	charge := w.chargeOf(t, early)
	charge.At = since.Add(-time.Hour)
	w.provider.charge(charge)
	back(charge.PaymentID, fullAmount)
	before := len(w.outbox(t))

	calls := w.provider.calls
	_, refunds := w.reconcile(t, since, false)
	want := map[string]core.ReconcileResult{
		pending.PaymentID: core.ReconcileRecorded, refused.PaymentID: core.ReconcileRecorded,
		p.PaymentID: core.ReconcileRecorded, partly.PaymentID: core.ReconcileDiffers,
		hand.PaymentID: core.ReconcileByHand, "42": core.ReconcileNoCharge, charge.PaymentID: core.ReconcileRecorded,
	}
	require.Equal(t, want, refunds)
	for _, r := range []core.Refund{pending, refused} {
		require.Equal(t, core.RefundDone, w.refund(t, r).State)
	}
	require.Equal(t, core.Refunded, w.state(t, paid))
	require.Equal(t, core.Paid, w.state(t, part))
	require.Equal(t, core.Pending, w.state(t, early), "the money went back: it pays nothing")
	events := w.outbox(t)[before:]
	require.Len(t, events, 1)
	require.Equal(t, []any{contract.OrderRefunded, paid.OrderSN}, []any{events[0].Type, events[0].OrderSN})
	closings := inOutbox[contract.OrderClose](t, w, contract.TopicOrderClose)
	require.Len(t, closings, 1, "at which the ledger releases the units of the order")
	require.Equal(t, []any{[]string{paid.OrderSN}, paid.ActivityID}, []any{closings[0].OrderSNs, closings[0].ActivityID})

	_, refunds = w.reconcile(t, since, false)
	for id, result := range want {
		if result == core.ReconcileRecorded {
			want[id] = core.ReconcileKnown
		}
	}
	require.Equal(t, want, refunds, "repeated")
	w.clock.advance(time.Hour)
	_, err = w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, calls, w.provider.calls, "nothing is refunded twice")
}

// A run that the provider interrupts is repeated from its beginning. Callbacks that arrive meanwhile change nothing.
func TestReconcilingIsRepeatedAfterAnInterruption(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	var all []contract.Deduction
	for i := range 250 {
		d := w.created(t, fmt.Sprint("u", i))
		all = append(all, d)
		w.provider.charge(w.chargeOf(t, d))
	}
	down := errors.New("time-out")
	w.provider.broken = func(page int) error {
		if page >= 3 && page < 7 { // four attempts
			return down
		}
		return nil
	}
	seen := 0
	err := w.ReconcilePayments(t.Context(), w.clock.Now(), false, func(core.Reconciled) { seen++ })
	require.ErrorIs(t, err, down)
	require.Equal(t, 200, seen)

	var wg sync.WaitGroup
	wg.Go(func() {
		for _, c := range w.provider.charges {
			_, err := w.Callback(t.Context(), success(c.PaymentID))
			if err != nil {
				t.Errorf("callback: %v", err)
			}
		}
	})
	charges, _ := w.reconcile(t, w.clock.Now(), false)
	wg.Wait()
	require.Len(t, charges, 250)
	for _, d := range all {
		require.Equal(t, core.Paid, w.state(t, d))
		require.Empty(t, w.refunds(t, d.OrderSN))
	}
}

// After a restore of this database inventory publishes deductions again: each order is created once, under its old
// order_sn, and the charge of its lost payment pays it.
func TestAnOrderThatWasLostIsCreatedAgainAndItsChargeFound(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.deduction("u1")
	c := w.provider.charge(w.chargeOf(t, d))
	late := w.deduction("u2") // is created again only after the money went back
	lateCharge := w.provider.charge(w.chargeOf(t, late))
	since := w.clock.Now()
	w.clock.advance(time.Hour)

	for range 3 {
		require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, nil, nil))
	}
	require.Equal(t, 1, w.recorder.created)
	require.Equal(t, w.clock.Now().Add(payWithin), w.get(t, d).ExpiresAt, "a new window to pay")
	charges, _ := w.reconcile(t, since, false)
	require.Equal(t, core.ReconcilePaid, charges[c.PaymentID])
	require.Equal(t, core.ReconcileNoOrder, charges[lateCharge.PaymentID])
	o := w.get(t, d)
	require.Equal(t, []any{core.Paid, c.PaymentID, d.OrderSN}, []any{o.State, o.PaidBy, o.OrderSN})
	require.Equal(t, c.At, o.Payments[0].CreatedAt)

	require.NoError(t, w.Land(t.Context(), []contract.Deduction{late}, nil, nil))
	_, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	o = w.get(t, late)
	require.Equal(t, core.Pending, o.State)
	require.Equal(t, []any{core.PaymentSucceeded, core.RefundDone}, []any{o.Payments[0].State, o.Refunds[0].State},
		"its buyer reads both")
}

// What another installation of the account has taken and returned is none of this one, unless it is recorded here.
func TestAnotherInstallationOfTheAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	since := w.clock.Now()
	require.Empty(t, w.compare(t))
	charged := func(paymentID, orderSN string) core.Charge {
		return w.provider.charge(core.Charge{
			PaymentID: paymentID, OrderSN: orderSN, Amount: fullAmount, Currency: "EUR", At: w.clock.Now(), OtherInstallation: true,
		})
	}
	theirs := charged("77", "78")
	charged("x", "y")
	for range 2 { // in parts
		w.provider.giveBack(core.Charge{PaymentID: "77", Amount: 1, Currency: "EUR", At: w.clock.Now()})
		w.provider.made[len(w.provider.made)-1].OtherInstallation = true
		w.clock.advance(time.Second)
	}
	d := w.created(t, "u1")
	ours := charged(w.started(t, d, "k").PaymentID, d.OrderSN) // PUBLIC_URL was another one
	mixed := w.started(t, w.created(t, "u2"), "k")
	wrong := w.provider.charge(core.Charge{
		PaymentID: mixed.PaymentID, OrderSN: "79", Amount: fullAmount, Currency: "EUR", At: w.clock.Now(),
	})
	require.Equal(t, []string{"charge_foreign " + wrong.PaymentID}, w.compare(t))
	require.Equal(t, core.Paid, w.state(t, d))
	require.Equal(t, ours.PaymentID, w.get(t, d).PaidBy)
	require.NoError(t, w.ReconcilePayments(t.Context(), since, false, func(core.Reconciled) {}))
	require.Zero(t, w.recorder.count("charge_without_order"))

	e := success(theirs.PaymentID)
	e.OtherInstallation = true
	handled, err := w.Callback(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, core.EventIgnored, handled)
	require.Zero(t, w.recorder.count("unknown_payment"))
	var recorded int64
	require.NoError(t, w.db.Table("payments").Where("payment_id = ?", theirs.PaymentID).Count(&recorded).Error)
	require.Zero(t, recorded)
	calls := w.provider.calls
	_, err = w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, calls, w.provider.calls, "nothing is refunded")
}

// A list that does not go on ends with an error, and an error of the provider is repeated a few times.
func TestAListOfAProviderHasAnEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	for i := range 250 {
		w.provider.charge(core.Charge{PaymentID: fmt.Sprint("x", i), Amount: 1, Currency: "EUR", At: w.clock.Now()})
	}
	since := w.clock.Now()
	failures := 0
	w.provider.broken = func(int) error {
		if failures++; failures <= 3 {
			return errors.New("time-out")
		}
		return nil
	}
	charges, _ := w.reconcile(t, since, false)
	require.Len(t, charges, 250)
	failures = -1
	w.provider.broken = func(int) error { failures++; return errors.New("time-out") }
	require.ErrorContains(t, w.ReconcilePayments(t.Context(), since, false, func(core.Reconciled) {}), "time-out")
	require.Equal(t, 3, failures)

	w.provider.broken, w.provider.stuck = nil, true
	n := 0
	err := w.ReconcilePayments(t.Context(), since, false, func(core.Reconciled) { n++ })
	require.ErrorContains(t, err, "same cursor")
	require.Equal(t, 200, n)
}
