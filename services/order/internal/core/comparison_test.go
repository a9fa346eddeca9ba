package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
)

// compare compares with the provider after an hour, and returns the open differences, as "kind payment_id".
func (w *world) compare(t testing.TB) (open []string) {
	t.Helper()
	w.clock.advance(time.Hour)
	require.NoError(t, w.ComparePayments(t.Context()))
	return w.differences(t)
}

func (w *world) differences(t testing.TB) (open []string) {
	t.Helper()
	for after, more := "", true; more; {
		var page []core.Difference
		var err error
		page, more, err = w.Differences(t.Context(), after, 2)
		require.NoError(t, err)
		for _, d := range page {
			open, after = append(open, string(d.Kind)+" "+d.PaymentID), d.ID
		}
	}
	return open
}

// paidBy pays an order at the provider and here, and returns the charge.
func (w *world) paidBy(t testing.TB, d contract.Deduction) core.Charge {
	t.Helper()
	c := w.chargeOf(t, d)
	c.PaymentID = w.started(t, d, "k").PaymentID
	w.succeed(t, c.PaymentID)
	return w.provider.charge(c)
}

// A success that no callback reported is found within the hour: it pays its order, or goes back.
func TestALostSuccessIsFound(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		require.Empty(t, w.compare(t))
		lost, closed, young := w.created(t, "u1"), w.created(t, "u2"), w.created(t, "u3")
		known := w.paidBy(t, w.created(t, "u4"))
		w.provider.charge(w.chargeOf(t, lost))
		back := w.provider.charge(w.chargeOf(t, closed))
		_, err := w.Cancel(t.Context(), "u2", closed.OrderSN)
		require.NoError(t, err)
		w.clock.advance(50 * time.Minute)
		inFlight := w.provider.charge(w.chargeOf(t, young))

		w.clock.advance(-50 * time.Minute)
		require.Empty(t, w.compare(t))
		require.Equal(t, core.Paid, w.state(t, lost))
		require.Equal(t, core.Pending, w.state(t, young), "it may be in flight: its callback is awaited")
		require.Empty(t, w.payments(t, young.OrderSN))
		require.Equal(t, 2, w.recorder.count("payment_found"))
		_, err = w.RefundDue(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]int64{back.PaymentID: fullAmount}, w.provider.refunded)
		w.provider.giveBack(core.Charge{PaymentID: back.PaymentID, Amount: fullAmount, Currency: "EUR", At: w.clock.Now()})

		require.NoError(t, w.ComparePayments(t.Context()))
		require.Equal(t, core.Pending, w.state(t, young), "the next comparison is due in an hour")
		for range 2 {
			require.Empty(t, w.compare(t))
		}
		require.Equal(t, core.Paid, w.state(t, young))
		require.Equal(t, 3, w.recorder.count("payment_found"))
		require.Equal(t, 1, w.provider.calls, "nothing is refunded twice")
		require.Len(t, w.payments(t, known.OrderSN), 1)
		require.Equal(t, inFlight.PaymentID, w.get(t, young).PaidBy)
	})
}

// What cannot be repaired stays as a difference until a comparison does not find it.
func TestADifferenceStaysUntilItIsGone(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		require.Empty(t, w.compare(t))
		p := w.started(t, w.created(t, "u1"), "k")
		w.succeed(t, p.PaymentID) // the provider has no charge of it
		differs := w.paidBy(t, w.created(t, "u2"))
		w.provider.charges[0].Amount = 5
		w.provider.charge(core.Charge{PaymentID: "ch_1\xff", OrderSN: "x", Amount: 7, Currency: "EUR", At: w.clock.Now()})
		gone := w.provider.charge(w.chargeOf(t, w.deduction("u3"))) // its order is not created yet
		twice := w.paidBy(t, w.created(t, "u4"))
		again := twice
		again.At = again.At.Add(time.Second)
		w.provider.charge(again)

		refund := w.refundOf(t, "u5") // charged, and recorded as refunded; the provider has not made it
		w.provider.charge(core.Charge{PaymentID: refund.PaymentID, Amount: fullAmount, Currency: "EUR", At: w.clock.Now()})
		_, err := w.RefundDue(t.Context())
		require.NoError(t, err)
		delete(w.provider.refunded, refund.PaymentID)
		hand := w.refused(t, "u6")
		w.provider.charge(core.Charge{PaymentID: hand.PaymentID, Amount: fullAmount, Currency: "EUR", At: w.clock.Now()})
		_, err = w.SettleRefund(t.Context(), hand.PaymentID, settlement)
		require.NoError(t, err)
		w.provider.giveBack(core.Charge{PaymentID: "42", Amount: 1, Currency: "EUR", At: w.clock.Now()})

		want := []string{
			"charge_differs " + differs.PaymentID, "charge_foreign ch_1", "charge_without_order " + gone.PaymentID,
			"refund_without_charge 42", "charge_twice " + twice.PaymentID, "charge_missing " + p.PaymentID,
			"refund_missing " + refund.PaymentID,
		}
		require.ElementsMatch(t, want, w.compare(t))
		require.Equal(t, core.RefundFailed, w.refund(t, refund).State, "an operator may attempt it again")
		seen := w.clock.Now()
		all, _, err := w.Differences(t.Context(), "", 100)
		require.NoError(t, err)
		for _, d := range all {
			if d.Kind == core.ChargeDiffers {
				require.Equal(t, []any{differs.OrderSN, int64(5), "EUR", int64(fullAmount), "EUR", seen, seen, differs.At},
					[]any{d.OrderSN, d.Amount, d.Currency, d.RecordedAmount, d.RecordedCurrency, d.FirstSeen, d.LastSeen, d.At})
			}
		}

		// Refunded by hand and at the provider.
		w.provider.giveBack(core.Charge{PaymentID: hand.PaymentID, Amount: fullAmount, Currency: "EUR", At: w.clock.Now()})
		w.clock.advance(30 * time.Minute)
		want = append(want, "refund_twice "+hand.PaymentID)
		require.ElementsMatch(t, want, w.compare(t))

		// The provider repairs what it had lost, and the lost order comes back.
		w.provider.refunded[refund.PaymentID] = fullAmount
		w.provider.charge(core.Charge{PaymentID: p.PaymentID, Amount: fullAmount, Currency: "EUR", At: w.clock.Now().Add(-time.Hour)})
		w.provider.charges[0].Amount = fullAmount
		w.clock.advance(-48 * time.Hour)
		d := w.deduction("u3")
		w.clock.advance(48 * time.Hour)
		d.OrderSN = gone.OrderSN
		require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, nil, nil))
		want = []string{"charge_foreign ch_1", "refund_without_charge 42", "charge_twice " + twice.PaymentID, "refund_twice " + hand.PaymentID}
		require.ElementsMatch(t, want, w.compare(t))
		require.Equal(t, core.Paid, w.state(t, d))

		// No later comparison reaches these. They stay for a week.
		for range 6 * 24 {
			w.compare(t)
		}
		require.ElementsMatch(t, want, w.differences(t))
		for range 3 * 24 {
			w.compare(t)
		}
		require.Empty(t, w.differences(t))
	})
}

// What is missing at the provider is queried until it is there, also when no comparison reaches its time any more.
func TestAMissingChargeDoesNotExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	require.Empty(t, w.compare(t))
	d := w.created(t, "u1")
	p := w.started(t, d, "k")
	w.succeed(t, p.PaymentID)
	for range 9 * 24 {
		require.Equal(t, []string{"charge_missing " + p.PaymentID}, w.compare(t))
	}
	list, _, err := w.Differences(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []any{d.OrderSN, int64(0), int64(fullAmount), 9*24*time.Hour - time.Hour},
		[]any{list[0].OrderSN, list[0].Amount, list[0].RecordedAmount, list[0].LastSeen.Sub(list[0].FirstSeen)})
	c := w.chargeOf(t, d)
	c.PaymentID = p.PaymentID
	w.provider.charge(c)
	require.Empty(t, w.compare(t))
}

// After an outage of the provider for days, or of order, the comparison reaches back to the last completed one.
func TestAComparisonReachesBackToTheLastCompletedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	require.Empty(t, w.compare(t))
	down := errors.New("time-out")
	w.provider.broken = func(int) error { return down }
	d := w.created(t, "u1")
	w.provider.charge(w.chargeOf(t, d))
	for range 3 {
		w.clock.advance(24 * time.Hour)
		err := w.ComparePayments(t.Context())
		require.ErrorIs(t, err, down)
		require.ErrorContains(t, err, providerName)
	}
	w.provider.broken = nil
	require.NoError(t, w.ComparePayments(t.Context()), "a failed one is repeated at once")
	require.Equal(t, core.Paid, w.state(t, d))
}

// The provider fails within a comparison, and the process ends within another: each begins again, and nothing doubles.
func TestAComparisonThatEndedBeginsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	require.Empty(t, w.compare(t))
	var all []contract.Deduction
	for i := range 250 {
		d := w.created(t, fmt.Sprint("u", i))
		all = append(all, d)
		w.provider.charge(w.chargeOf(t, d))
	}
	w.clock.advance(time.Hour)
	down := errors.New("time-out")
	w.provider.pages = 0
	w.provider.broken = func(page int) error {
		if page >= 2 {
			return down
		}
		return nil
	}
	require.ErrorIs(t, w.ComparePayments(t.Context()), down)
	require.Equal(t, 100, w.recorder.count("payment_found"))

	killed, kill := context.WithCancel(t.Context())
	w.provider.broken = func(page int) error {
		if page == 7 { // the second of this one, after four attempts at the one before
			kill()
			return killed.Err()
		}
		return nil
	}
	require.ErrorIs(t, w.ComparePayments(killed), context.Canceled)
	require.NoError(t, w.ComparePayments(t.Context()))
	require.Equal(t, core.Pending, w.state(t, all[249]), "its claim holds")
	w.clock.advance(21 * time.Minute)
	require.NoError(t, w.ComparePayments(t.Context()))
	for _, d := range all {
		require.Equal(t, core.Paid, w.state(t, d))
	}
	require.Equal(t, 250, w.recorder.count("payment_found"))
	require.Empty(t, w.differences(t))
	require.Len(t, w.outbox(t), 250)
}

// together has each process read the claim before one of them moves it.
type together struct {
	core.Store
	read *sync.WaitGroup
}

func (s together) Comparison(ctx context.Context, provider string, now time.Time) (core.Comparison, error) {
	c, err := s.Store.Comparison(ctx, provider, now)
	s.read.Done()
	s.read.Wait()
	return c, err
}

// Of several processes one compares; also two at once, one of which was stopped for longer than its claim, do nothing
// twice.
func TestConcurrentComparisons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	require.Empty(t, w.compare(t))
	for i := range 30 {
		w.provider.charge(w.chargeOf(t, w.created(t, fmt.Sprint("u", i))))
	}
	w.clock.advance(time.Hour)
	w.provider.pages = 0
	var wg, read sync.WaitGroup
	read.Add(4)
	for range 4 {
		other := w.processOn(t, together{w.tables(t), &read}, 0)
		wg.Go(func() {
			if err := other.ComparePayments(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, w.provider.pages, "one lists")
	require.Equal(t, 30, w.recorder.count("payment_found"))

	for i := range 30 {
		w.provider.charge(w.chargeOf(t, w.created(t, fmt.Sprint("v", i))))
	}
	w.clock.advance(time.Hour)
	second := w.process(t, 0)
	first := true
	w.provider.broken = func(int) error {
		if first {
			first = false
			w.clock.advance(25 * time.Minute)
			require.NoError(t, second.ComparePayments(t.Context()))
		}
		return nil
	}
	require.NoError(t, w.ComparePayments(t.Context()), "the other has it: nothing to repeat")
	require.Len(t, w.outbox(t), 60)
	require.Equal(t, 60, w.recorder.count("payment_found"))
}

// A backup is restored: the comparison of the restored tables begins a day before the last one that they have, leaves
// charges alone whose orders may come back, and the command and the loop may run beside each other.
func TestComparingAfterARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	require.Empty(t, w.compare(t))
	since := w.clock.Now()
	pending := w.created(t, "u1")
	paid := w.provider.charge(w.chargeOf(t, pending))
	lost := w.deduction("u2") // its order is not in the backup
	kept := w.provider.charge(w.chargeOf(t, lost))
	never := w.provider.charge(w.chargeOf(t, w.deduction("u3")))
	w.clock.advance(2 * 24 * time.Hour)

	require.ElementsMatch(t, []string{"charge_without_order " + kept.PaymentID, "charge_without_order " + never.PaymentID}, w.compare(t))
	require.Equal(t, paid.PaymentID, w.get(t, pending).PaidBy)
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{lost}, nil, nil))
	require.Equal(t, []string{"charge_without_order " + never.PaymentID}, w.compareAgain(t, since))
	require.Equal(t, kept.PaymentID, w.get(t, lost).PaidBy)
	charges, _ := w.reconcile(t, since, false)
	require.Equal(t, core.ReconcileNoOrder, charges[never.PaymentID])
	require.Empty(t, w.compareAgain(t, since))
	_, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{never.PaymentID: fullAmount}, w.provider.refunded)
}

// compareAgain compares from a day before a time.
func (w *world) compareAgain(t testing.TB, since time.Time) []string {
	t.Helper()
	require.NoError(t, w.db.Exec("UPDATE payment_comparisons SET compared_to = ?", since).Error)
	return w.compare(t)
}
