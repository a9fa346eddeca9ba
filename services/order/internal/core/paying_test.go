package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
)

// refusal starts a payment and returns why it was refused.
func (w *world) refusal(t testing.TB, d contract.Deduction, key string) *contract.Refusal {
	t.Helper()
	_, err := w.StartPayment(t.Context(), d.UserID, d.OrderSN, providerName, call(d, key))
	var refusal *contract.Refusal
	require.ErrorAs(t, err, &refusal)
	return refusal
}

func TestAProviderLearnsAmountAndDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	w.provider.reference = "cs_1"
	d := w.created(t, "u1")
	p := w.started(t, d, "k")
	w.started(t, d, "k")
	require.Len(t, w.provider.begun, 2, "a repeated call is repeated at the provider, with the same payment")
	for _, b := range w.provider.begun {
		require.Equal(t, p.PaymentID, b.PaymentID)
		require.Equal(t, d.OrderSN, b.OrderSN)
		require.EqualValues(t, fullAmount, b.Amount)
		require.Equal(t, "EUR", b.Currency)
		require.Equal(t, w.get(t, d).ExpiresAt, b.deadline)
	}
	require.Equal(t, "cs_1", w.provider.begun[1].Reference)

	e := success(p.PaymentID)
	e.Reference = "pi_1" // known once it was paid
	_, err := w.Callback(t.Context(), e)
	require.NoError(t, err)
	stored, err := w.Payment(t.Context(), "u1", p.PaymentID)
	require.NoError(t, err)
	require.Equal(t, "pi_1", stored.Reference)
}

// A buyer whose turn was reserved keeps it: calls before it do not reach the provider, and the first one after it does.
func TestABuyerKeepsTheReservedTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	w.provider.begin = func(p core.Payment) error {
		if p.TurnAt.IsZero() {
			return &core.ProviderBusy{After: 20 * time.Second, Reserved: true}
		}
		return nil
	}
	first := w.refusal(t, d, "k")
	require.Equal(t, contract.CodeProviderBusy, first.Code)
	require.Equal(t, 20*time.Second, first.RetryAfter)
	w.clock.advance(19 * time.Second)
	second := w.refusal(t, d, "k")
	require.Equal(t, contract.CodeProviderBusy, second.Code)
	require.Equal(t, time.Second, second.RetryAfter)
	require.Len(t, w.provider.begun, 1)
	w.clock.advance(time.Second)
	p := w.started(t, d, "k")
	require.Equal(t, w.provider.begun[0].PaymentID, p.PaymentID)
	w.succeed(t, p.PaymentID)
	require.Equal(t, core.Paid, w.get(t, d).State)
}

// A turn is used up by a call that fails, as the provider counts that call, too. The buyer gets another turn.
func TestAFailedCallUsesItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	for _, failure := range []error{context.DeadlineExceeded, &core.ProviderBusy{After: time.Second}} {
		w.provider.begin = func(p core.Payment) error {
			if p.TurnAt.IsZero() {
				return &core.ProviderBusy{After: 9 * time.Second, Reserved: true}
			}
			return failure
		}
		require.Equal(t, 9*time.Second, w.refusal(t, d, "k").RetryAfter)
		w.clock.advance(9 * time.Second)
		require.NotEqual(t, 9*time.Second, w.refusal(t, d, "k").RetryAfter)
		require.False(t, w.provider.begun[len(w.provider.begun)-1].TurnAt.IsZero())
	}
	require.Equal(t, 9*time.Second, w.refusal(t, d, "k").RetryAfter)
	w.clock.advance(9 * time.Second)
	w.provider.begin = nil
	w.started(t, d, "k")
	require.Len(t, w.provider.begun, 6)
}

// A turn that comes after the order was closed is none.
func TestATurnEndsWithItsOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	w.provider.begin = func(core.Payment) error { return &core.ProviderBusy{After: time.Second, Reserved: true} }
	require.Equal(t, contract.CodeProviderBusy, w.refusal(t, d, "k").Code)
	_, err := w.Cancel(t.Context(), "u1", d.OrderSN)
	require.NoError(t, err)
	w.clock.advance(time.Second)
	require.Equal(t, contract.CodeOrderNotPayable, w.refusal(t, d, "k").Code)
	require.Len(t, w.provider.begun, 1)
}

func TestAProviderThatDoesNotTakeACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	w.provider.begin = func(core.Payment) error { return &core.ProviderBusy{After: 3 * time.Second} }
	busy := w.refusal(t, d, "k")
	require.Equal(t, contract.CodeProviderBusy, busy.Code)
	require.Equal(t, 3*time.Second, busy.RetryAfter)
	w.provider.begin = func(core.Payment) error { return context.DeadlineExceeded }
	require.Equal(t, contract.CodeUnavailable, w.refusal(t, d, "k").Code)
	w.provider.begin = nil
	p := w.started(t, d, "k")
	for _, b := range w.provider.begun {
		require.Equal(t, p.PaymentID, b.PaymentID, "one payment, whatever was refused")
	}
	require.Len(t, w.provider.begun, 3)
}

func TestAPaymentThatTheProviderDeclines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	w.provider.begin = func(core.Payment) error { return core.ErrPaymentDeclined }
	require.Equal(t, contract.CodeOrderNotPayable, w.refusal(t, d, "k").Code)
	require.Equal(t, 1, w.recorder.count("payment_declined"))
	require.Equal(t, contract.CodeOrderNotPayable, w.refusal(t, d, "k").Code)
	require.Len(t, w.provider.begun, 1, "a payment that was declined is not tried again")
	w.provider.begin = nil
	w.succeed(t, w.started(t, d, "k2").PaymentID)
}

func TestAPaymentThatHasEndedAtTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	w.provider.begin = func(core.Payment) error { return core.ErrPaymentEnded }
	require.Equal(t, contract.CodeOrderNotPayable, w.refusal(t, d, "k").Code)
	require.Equal(t, core.PaymentFailed, w.payments(t, d.OrderSN)[0].State)
	require.Zero(t, w.recorder.count("payment_declined"))
	w.provider.begin = nil
	w.succeed(t, w.started(t, d, "k2").PaymentID)
}

// The closing may come between the payment and the response of the provider, and its cancellation even before the
// provider has the payment.
func TestAnOrderIsClosedWhileItsProviderIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	w.provider.reference = "cs_1"
	d := w.created(t, "u1")
	w.provider.begin = func(core.Payment) error {
		_, err := w.Cancel(t.Context(), "u1", d.OrderSN)
		if err == nil {
			_, err = w.CancelDue(t.Context())
		}
		return err
	}
	require.Equal(t, contract.CodeOrderNotPayable, w.refusal(t, d, "k").Code)
	w.provider.begin = nil
	w.provider.cancelled = nil
	_, err := w.CancelDue(t.Context())
	require.NoError(t, err)
	require.Len(t, w.provider.cancelled, 1)
	require.Equal(t, "cs_1", w.provider.cancelled[0].Reference)
}

func TestPaymentsOfClosedOrdersAreCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *testing.T, w *world, d contract.Deduction)
		want int
	}{
		"cancelled by the buyer": {func(t *testing.T, w *world, d contract.Deduction) {
			_, err := w.Cancel(t.Context(), "u1", d.OrderSN)
			require.NoError(t, err)
		}, 3},
		"rejected": {func(t *testing.T, w *world, d contract.Deduction) {
			_, err := w.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonRejected)
			require.NoError(t, err)
		}, 3},
		"expired, after the grace": {func(t *testing.T, w *world, d contract.Deduction) {
			for range 2 {
				w.clock.advance(payWithin + 2*time.Minute)
				_, err := w.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonExpired)
				require.NoError(t, err)
			}
			require.Equal(t, core.Closed, w.get(t, d).State)
		}, 3},
		"expired, within the grace": {func(t *testing.T, w *world, d contract.Deduction) {
			w.clock.advance(payWithin)
			_, err := w.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonExpired)
			require.NoError(t, err)
			require.Equal(t, core.Pending, w.get(t, d).State)
		}, 0},
		"pending": {func(*testing.T, *world, contract.Deduction) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ordertest.MariaDB(t))
			d := w.created(t, "u1")
			w.started(t, d, "k1")
			w.started(t, d, "k2")
			failed := w.started(t, d, "k3")
			_, err := w.Callback(t.Context(), failure(failed.PaymentID))
			require.NoError(t, err)
			c.end(t, w, d)
			for range 2 { // once each
				_, err := w.CancelDue(t.Context())
				require.NoError(t, err)
			}
			require.Len(t, w.provider.cancelled, c.want)
		})
	}
}

// Who wins the race between closing and paying decides: a success after the cancellation is refunded as any late one.
func TestACancellationIsRepeatedAndEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d, paid := w.created(t, "u1"), w.created(t, "u2")
	w.started(t, d, "k")
	late := w.started(t, paid, "k")
	for _, o := range []contract.Deduction{d, paid} {
		_, err := w.Cancel(t.Context(), o.UserID, o.OrderSN)
		require.NoError(t, err)
	}
	w.succeed(t, late.PaymentID)
	require.Len(t, w.get(t, paid).Refunds, 1)

	w.provider.cancel = func(core.Payment) error { return errors.New("broken") }
	for range 20 {
		_, err := w.CancelDue(t.Context())
		require.NoError(t, err)
		w.clock.advance(15 * time.Minute)
	}
	require.Len(t, w.provider.cancelled, 12, "none for the payment that has succeeded")
	require.Equal(t, 1, w.recorder.count("cancel_failing"))
}

func TestDisputesAndReturnsAreAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	p := w.started(t, d, "k")
	w.succeed(t, p.PaymentID)
	before := w.get(t, d)
	for outcome, kind := range map[core.Outcome]string{
		core.OutcomeDisputed: "payment_disputed", core.OutcomeReturned: "payment_returned",
	} {
		e := success(p.PaymentID)
		e.Outcome, e.EventID, e.Amount = outcome, string(outcome), 100
		for range 2 {
			handled, err := w.Callback(t.Context(), e)
			require.NoError(t, err)
			require.Equal(t, core.EventIgnored, handled)
		}
		require.Equal(t, 1, w.recorder.count(kind), kind)
	}
	require.Equal(t, before, w.get(t, d))
}

// A return is no news if it is the refund of this service.
func TestAReturnByThisServiceIsNoAlarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	r := w.refundOf(t, "u1")
	_, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	e := success(r.PaymentID)
	e.Outcome = core.OutcomeReturned
	for amount, alarms := range map[int64]int{fullAmount: 0, 100: 1} {
		e.EventID, e.Amount = fmt.Sprint("returned ", amount), amount
		before := w.recorder.count("payment_returned")
		_, err = w.Callback(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, alarms, w.recorder.count("payment_returned")-before)
	}
}

// A bank may send a refund back days later. Then an operator decides as about one that was refused.
func TestARefundThatFailsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	r := w.refundOf(t, "u1")
	_, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	e := success(r.PaymentID)
	e.Outcome = core.OutcomeRefundFailed
	report := func(want core.Handled) {
		t.Helper()
		handled, err := w.Callback(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, want, handled)
	}
	report(core.EventIgnored) // the provider has made another one
	require.Equal(t, core.RefundDone, w.refund(t, r).State)
	w.provider.unreachable = errors.New("time-out")
	_, err = w.Callback(t.Context(), e)
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	w.provider.unreachable = nil
	delete(w.provider.refunded, r.PaymentID)
	report(core.EventApplied)
	report(core.EventIgnored)
	require.Equal(t, core.RefundFailed, w.refund(t, r).State)
	require.Equal(t, 1, w.recorder.count("refund_failed"))
	got, err := w.RetryRefund(t.Context(), r.PaymentID, "op")
	require.NoError(t, err)
	require.Equal(t, core.RefundPending, got.State)
	_, err = w.RefundDue(t.Context())
	require.NoError(t, err)
	report(core.EventIgnored)
	require.Equal(t, core.RefundDone, w.refund(t, r).State)
	e.PaymentID = "77"
	report(core.EventIgnored)

	// The money of this one was returned in another way.
	hand := w.refused(t, "u2")
	_, err = w.SettleRefund(t.Context(), hand.PaymentID, settlement)
	require.NoError(t, err)
	e.PaymentID = hand.PaymentID
	report(core.EventIgnored)
	require.Equal(t, core.RefundDone, w.refund(t, hand).State)
}

func TestADisputeOfAPaymentThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	handled, err := w.Callback(t.Context(), core.PaymentEvent{
		Provider: providerName, EventID: "e", Outcome: core.OutcomeDisputed, Reference: "pi_1", Amount: 1, Currency: "EUR",
	})
	require.NoError(t, err)
	require.Equal(t, core.EventIgnored, handled)
	require.Equal(t, 1, w.recorder.count("payment_disputed"))
}
