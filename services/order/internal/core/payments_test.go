package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

func TestPaying(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	p := w.started(t, d, "k1")
	require.Equal(t, core.PaymentStarted, p.State)
	require.Equal(t, "/pay/"+p.PaymentID, p.PayURL)
	w.clock.advance(time.Second)
	require.Equal(t, p, w.started(t, d, "k1"), "the same call, the same payment")
	require.NotEqual(t, p.PaymentID, w.started(t, d, "k2").PaymentID)
	expires := w.get(t, d).ExpiresAt

	w.succeed(t, p.PaymentID)
	o := w.get(t, d)
	require.Equal(t, core.Paid, o.State)
	require.Equal(t, w.clock.Now(), o.PaidAt)
	require.Equal(t, expires, o.ExpiresAt)
	require.Equal(t, p.PaymentID, o.PaidBy)
	require.Empty(t, o.Refunds)
	events := w.outbox(t)
	require.Len(t, events, 1)
	require.Equal(t, contract.OrderPaid, events[0].Type)
	require.Equal(t, contract.PlainLines(d.Lines), events[0].Lines)

	for range 3 { // the same event
		handled, err := w.Callback(t.Context(), success(p.PaymentID))
		require.NoError(t, err)
		require.Equal(t, core.EventApplied, handled)
	}
	require.Equal(t, o, w.get(t, d))
	require.Len(t, w.outbox(t), 1)

	_, err := w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k3"))
	require.Equal(t, contract.CodeOrderNotPayable, contract.CodeOf(err))
	_, err = w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k1"))
	require.Equal(t, contract.CodeOrderNotPayable, contract.CodeOf(err), "the order is paid: there is nothing to go on with")
	_, err = w.Cancel(t.Context(), "u1", d.OrderSN)
	require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err))
}

func TestARefusedCallIsNotStored(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.deduction("u1")
	_, err := w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k"))
	require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, nil, nil))
	w.started(t, d, "k")

	other := call(d, "k")
	other.Body = []byte(`{"x":1}`)
	_, err = w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, other)
	require.Equal(t, contract.CodeIdempotencyConflict, contract.CodeOf(err))
}

func TestPayingAtTheDeadline(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	w.clock.advance(payWithin - time.Millisecond)
	p := w.started(t, d, "k1")
	w.clock.advance(time.Millisecond)
	_, err := w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k2"))
	require.Equal(t, contract.CodeOrderNotPayable, contract.CodeOf(err))
	// No closing has closed the order, so a payment that succeeds now still pays it.
	w.clock.advance(time.Hour)
	w.succeed(t, p.PaymentID)
	require.Equal(t, core.Paid, w.state(t, d))
	require.Equal(t, core.ClosePaid, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
}

func TestPaymentsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	for i := range 20 {
		w.started(t, d, fmt.Sprint(i))
	}
	_, err := w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "x"))
	require.Equal(t, contract.CodeOrderNotPayable, contract.CodeOf(err))
}

func TestASuccessThatDoesNotPayIsRefunded(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	for name, tt := range map[string]struct {
		before func(t *testing.T, d contract.Deduction)
		change func(e *core.PaymentEvent)
		state  core.State
		reason string
	}{
		"second": {func(t *testing.T, d contract.Deduction) { w.succeed(t, w.started(t, d, "first").PaymentID) }, nil, core.Paid, core.RefundSecond},
		"late": {func(t *testing.T, d contract.Deduction) {
			w.clock.advance(payWithin + 120*time.Second)
			require.Equal(t, core.CloseClosed, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
		}, nil, core.Closed, core.RefundLate},
		"cancelled": {func(t *testing.T, d contract.Deduction) {
			_, err := w.Cancel(t.Context(), d.UserID, d.OrderSN)
			require.NoError(t, err)
		}, nil, core.Closed, core.RefundCancelled},
		"rejected": {func(t *testing.T, d contract.Deduction) {
			require.Equal(t, core.CloseClosed, w.close(t, core.ReasonRejected, d.OrderSN)[0].Outcome)
		}, nil, core.Closed, core.RefundRejected},
		"too little": {nil, func(e *core.PaymentEvent) { e.Amount-- }, core.Pending, core.RefundWrongAmount},
		"too much":   {nil, func(e *core.PaymentEvent) { e.Amount++ }, core.Pending, core.RefundWrongAmount},
		"currency":   {nil, func(e *core.PaymentEvent) { e.Currency = "USD" }, core.Pending, core.RefundWrongAmount},
	} {
		t.Run(name, func(t *testing.T) {
			d := w.created(t, "u1")
			p := w.started(t, d, "k")
			if tt.before != nil {
				tt.before(t, d)
			}
			e := success(p.PaymentID)
			if tt.change != nil {
				tt.change(&e)
			}
			for range 2 {
				handled, err := w.Callback(t.Context(), e)
				require.NoError(t, err)
				require.Equal(t, core.EventApplied, handled)
			}
			o := w.get(t, d)
			require.Equal(t, tt.state, o.State)
			require.Len(t, o.Refunds, 1)
			require.Equal(t, core.RefundPending, o.Refunds[0].State)
			require.Equal(t, e.Amount, o.Refunds[0].Amount, "the amount that was taken, in full")
			require.Equal(t, e.Currency, o.Refunds[0].Currency)
			require.Equal(t, tt.reason, o.Refunds[0].Reason)

			_, err := w.RefundDue(t.Context())
			require.NoError(t, err)
			o = w.get(t, d)
			require.Equal(t, core.RefundDone, o.Refunds[0].State)
			require.Equal(t, e.Amount, w.provider.refunded[p.PaymentID])
			require.Equal(t, tt.state, o.State)
		})
	}
	require.Equal(t, 7, w.recorder.count("payment_refunded"))
}

func TestAPaymentOfTheWrongAmountLeavesTheOrderPayable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	wrong := success(w.started(t, d, "k1").PaymentID)
	wrong.Amount = 1
	_, err := w.Callback(t.Context(), wrong)
	require.NoError(t, err)
	w.succeed(t, w.started(t, d, "k2").PaymentID)
	require.Equal(t, core.Paid, w.state(t, d))

	// A later event for a payment that has succeeded changes nothing.
	again := success(wrong.PaymentID)
	handled, err := w.Callback(t.Context(), core.PaymentEvent{
		Provider: again.Provider, EventID: "another", PaymentID: again.PaymentID, Outcome: again.Outcome, Amount: again.Amount, Currency: again.Currency,
	})
	require.NoError(t, err)
	require.Equal(t, core.EventIgnored, handled)
	require.Equal(t, 1, w.recorder.count("payment_disagreement"))
	require.Len(t, w.get(t, d).Refunds, 1)
}

func TestAFailedPayment(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	p := w.started(t, d, "k1")
	_, err := w.Callback(t.Context(), failure(p.PaymentID))
	require.NoError(t, err)
	require.Equal(t, core.PaymentFailed, w.payments(t, d.OrderSN)[0].State)
	require.Equal(t, core.Pending, w.state(t, d), "still payable")
	w.started(t, d, "k2")

	// The provider took the money although it had reported a failure.
	w.succeed(t, p.PaymentID)
	require.Equal(t, core.Paid, w.state(t, d))
	late := failure(p.PaymentID)
	late.EventID = "late"
	handled, err := w.Callback(t.Context(), late)
	require.NoError(t, err)
	require.Equal(t, core.EventIgnored, handled)
	require.Equal(t, core.Paid, w.state(t, d))
}

func TestACallbackForAnUnknownPaymentIsKept(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	e := success("123456789")
	for range 3 {
		handled, err := w.Callback(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, core.EventUnknown, handled)
	}
	require.Equal(t, 1, w.recorder.count("unknown_payment"))
	var kept int64
	require.NoError(t,
		db.Table("payment_events").Where("handled = 'unknown' AND payment_id = 123456789").Count(&kept).Error)
	require.EqualValues(t, 1, kept)

	// If the payment exists later (in a restored database), a repeated event takes effect.
	d := w.created(t, "u1")
	w.started(t, d, "k")
	require.NoError(t, db.Exec("UPDATE payments SET payment_id = 123456789 WHERE order_sn = ?", d.OrderSN).Error)
	w.succeed(t, "123456789")
	require.Equal(t, core.Paid, w.state(t, d))
}

func TestAnEventIDUsedForTwoEventsIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	p := w.started(t, d, "k1")
	_, err := w.Callback(t.Context(), failure(p.PaymentID))
	require.NoError(t, err)
	e := success(p.PaymentID)
	e.EventID = failure(p.PaymentID).EventID
	_, err = w.Callback(t.Context(), e)
	require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err))
	require.Equal(t, 1, w.recorder.count("event_reused"))
	require.Equal(t, core.Pending, w.state(t, d))
}

func TestAnotherUsersOrder(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	p := w.started(t, d, "k")
	other := sameGene(t, "u1")
	for _, user := range []string{"u2", other} {
		_, err := w.Order(t.Context(), user, d.OrderSN)
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		_, err = w.Cancel(t.Context(), user, d.OrderSN)
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		_, err = w.Payment(t.Context(), user, p.PaymentID)
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		stolen := call(d, "k") // the key that the owner used
		stolen.Caller = user
		_, err = w.StartPayment(t.Context(), user, d.OrderSN, providerName, stolen)
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		page, _, err := w.List(t.Context(), core.ListQuery{UserID: user, Limit: 10})
		require.NoError(t, err)
		require.Empty(t, page)
	}
	require.Equal(t, core.Pending, w.state(t, d))
}

func TestCancelling(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	o, err := w.Cancel(t.Context(), "u1", d.OrderSN)
	require.NoError(t, err)
	require.Equal(t, core.Closed, o.State)
	require.Equal(t, core.ReasonCancelled, o.CloseReason)
	w.clock.advance(time.Minute)
	again, err := w.Cancel(t.Context(), "u1", d.OrderSN)
	require.NoError(t, err)
	require.Equal(t, o, again)
	events := w.outbox(t)
	require.Len(t, events, 1)
	require.Equal(t, contract.OrderClosed, events[0].Type)
	require.Equal(t, core.ReasonCancelled, events[0].Reason)
	require.Equal(t, core.CloseClosed, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
	require.Len(t, w.outbox(t), 1)
	require.Equal(t, map[string]int{core.ReasonCancelled: 1}, w.recorder.closed)
}

// blindStore cannot read an order outside of a transaction.
type blindStore struct{ core.Store }

func (blindStore) Order(context.Context, string) (core.Order, bool, error) {
	return core.Order{}, false, contract.Refuse(contract.CodeUnavailable, "no connection")
}

// A cancellation that is committed is reported as done, whatever fails after its commit.
func TestACancellationNeedsNoReadAfterItsCommit(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	blind := w.serviceOn(t, blindStore{store.New(db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now))})
	d := w.created(t, "u1")
	p := w.started(t, d, "k")
	tooLittle := success(p.PaymentID)
	tooLittle.Amount--
	_, err := w.Callback(t.Context(), tooLittle)
	require.NoError(t, err)

	o, err := blind.Cancel(t.Context(), "u1", d.OrderSN)
	require.NoError(t, err)
	require.Equal(t, core.Closed, o.State)
	require.Len(t, o.Refunds, 1)
	require.Equal(t, w.get(t, d), o)
	w.clock.advance(time.Minute)
	again, err := blind.Cancel(t.Context(), "u1", d.OrderSN)
	require.NoError(t, err)
	require.Equal(t, o, again)
}

func TestRefundsAreRetriedUntilTheySucceed(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	p := w.started(t, d, "k")
	_, err := w.Cancel(t.Context(), "u1", d.OrderSN)
	require.NoError(t, err)
	w.succeed(t, p.PaymentID)

	attempt := 0
	w.provider.late = func(string) error { // the refund was made, its response was lost
		if attempt++; attempt < 6 {
			return errors.New("time-out")
		}
		return nil
	}
	for range 200 {
		if w.get(t, d).Refunds[0].State != core.RefundPending {
			break
		}
		_, err := w.RefundDue(t.Context())
		require.NoError(t, err)
		w.clock.advance(10 * time.Second)
	}
	r := w.get(t, d).Refunds[0]
	require.Equal(t, core.RefundDone, r.State)
	require.Equal(t, 6, r.Attempts)
	require.Equal(t, map[string]int64{p.PaymentID: fullAmount}, w.provider.refunded, "one refund under one id")
	require.Equal(t, 1, w.recorder.count("refund_failing"))
	n, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// A provider that times out for days decides nothing: the refund stays pending and is made once it responds.
func TestATransientErrorNeverEndsARefund(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	r := w.refundOf(t, "u1")
	w.provider.fail = func(string) error { return errors.New("time-out") }
	for range 300 { // two days
		_, err := w.RefundDue(t.Context())
		require.NoError(t, err)
		w.clock.advance(10 * time.Minute)
	}
	r = w.refund(t, r)
	require.Equal(t, core.RefundPending, r.State, "after %d attempts", r.Attempts)
	require.Equal(t, "time-out", r.LastError)
	require.Greater(t, r.Attempts, 150)
	require.Equal(t, 1+r.Attempts/144, w.recorder.count("refund_failing"), "at the fifth attempt, then once a day")
	require.Zero(t, w.recorder.count("refund_failed"))

	w.provider.fail = nil
	w.clock.advance(15 * time.Minute)
	_, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, core.RefundDone, w.refund(t, r).State)
	require.Equal(t, map[string]int64{r.PaymentID: fullAmount}, w.provider.refunded)
}

func TestARefundWaitsForItsProviderToBeConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	d := w.created(t, "u1")
	p := w.started(t, d, "k")
	_, err := w.Cancel(t.Context(), "u1", d.OrderSN)
	require.NoError(t, err)
	w.succeed(t, p.PaymentID)

	without := w.service(t)
	for range 20 {
		_, err := without.RefundDue(t.Context())
		require.NoError(t, err)
		w.clock.advance(20 * time.Minute)
	}
	require.Equal(t, core.RefundPending, w.get(t, d).Refunds[0].State)
	require.Equal(t, 1, w.recorder.count("refund_failing"), "one incident")

	_, err = w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, core.RefundDone, w.get(t, d).Refunds[0].State)
}
