package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/publisher"
	"flashsale.internal/services/order/internal/store"
)

// eachClock runs fn with a process whose clock is 5 min ahead, and one whose clock is 5 min behind.
func eachClock(t *testing.T, fn func(t *testing.T, w *world, wrong *core.Service)) {
	for _, offset := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			db := ordertest.MariaDB(t)
			w := newWorld(t, db)
			fn(t, w, w.process(t, offset))
		})
	}
}

func TestADeadlineDoesNotDependOnTheClockOfAProcess(t *testing.T) {
	t.Parallel()
	eachClock(t, func(t *testing.T, w *world, wrong *core.Service) {
		d := w.deduction("u1")
		require.NoError(t, wrong.Land(t.Context(), []contract.Deduction{d}, nil, nil))
		due := w.clock.Now().Add(payWithin)
		require.Equal(t, due, w.get(t, d).ExpiresAt)

		w.clock.advance(payWithin - time.Second)
		results, err := wrong.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonExpired)
		require.NoError(t, err)
		require.Equal(t, core.CloseNotDue, results[0].Outcome, "never early")
		require.Equal(t, due, results[0].At)
		p, err := wrong.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k"))
		require.NoError(t, err, "still payable")
		require.Equal(t, w.clock.Now(), w.get(t, d).Payments[0].CreatedAt)

		w.clock.advance(time.Second)
		_, err = wrong.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k2"))
		require.Equal(t, contract.CodeOrderNotPayable, contract.CodeOf(err), "no longer payable")
		results, err = wrong.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonExpired)
		require.NoError(t, err)
		require.Equal(t, core.ClosePaying, results[0].Outcome)
		w.clock.advance(120 * time.Second)
		results, err = wrong.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonExpired)
		require.NoError(t, err)
		require.Equal(t, core.CloseClosed, results[0].Outcome, "nor late")
		require.Equal(t, w.clock.Now(), w.get(t, d).ClosedAt)

		_, err = wrong.Callback(t.Context(), success(p.PaymentID))
		require.NoError(t, err)
		require.Equal(t, w.clock.Now(), w.get(t, d).Refunds[0].NextAttemptAt)
	})
}

func TestSweepsDoNotDependOnTheClockOfAProcess(t *testing.T) {
	t.Parallel()
	eachClock(t, func(t *testing.T, w *world, wrong *core.Service) {
		w.created(t, "u1")
		w.clock.advance(payWithin + 29*time.Second)
		n, err := wrong.ResendClosings(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "not before it is overdue")
		w.clock.advance(2 * time.Second)
		n, err = wrong.ResendClosings(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = w.ResendClosings(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "the back-off is the same for all")

		// A claim lasts for every process as long as for the one that made it.
		r := w.refundOf(t, "u2")
		w.provider.fail = func(string) error { return errors.New("time-out") }
		n, err = wrong.RefundDue(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		for _, s := range []*core.Service{w.Service, wrong} {
			n, err = s.RefundDue(t.Context())
			require.NoError(t, err)
			require.Zero(t, n)
		}
		w.clock.advance(3 * time.Second)
		n, err = w.RefundDue(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, 2, w.refund(t, r).Attempts)
	})
}

// The message that closes a batch is delayed until its deadline by the clock of the database, at each send.
func TestTheDelayOfAClosingDoesNotDependOnTheClockOfAProcess(t *testing.T) {
	t.Parallel()
	eachClock(t, func(t *testing.T, w *world, wrong *core.Service) {
		d := w.deduction("u1")
		for _, left := range []time.Duration{payWithin, 20 * time.Second} {
			before := time.Now()
			require.NoError(t, wrong.Land(t.Context(), []contract.Deduction{d}, nil, nil))
			sent := w.bus.all(contract.TopicOrderClose)
			w.bus.take("")
			require.Len(t, sent, 1)
			require.False(t, sent[0].DeliverAt.Before(before.Add(left)))
			require.False(t, sent[0].DeliverAt.After(time.Now().Add(left)))
			w.clock.advance(payWithin - 20*time.Second) // the message of deductions is delivered again
		}
		w.clock.advance(time.Hour)
		require.NoError(t, wrong.Land(t.Context(), []contract.Deduction{d}, nil, nil))
		require.True(t, w.bus.all(contract.TopicOrderClose)[0].DeliverAt.IsZero(), "due: at once")
	})
}

// A process that must not decide by time closes no expired order and starts no payment: another one does. What needs no
// clock goes on.
func TestAProcessWithAWrongClockDecidesNothingByTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	wrong := core.New(store.New(w.db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now)),
		publisher.New(w.bus, telemetry.Discard(t)), genes.ByUser{}, w.recorder, []core.Provider{w.provider}, w.sealer,
		core.Options{Now: w.clock.Now, CheckClocks: func(context.Context) error { return clocks.ErrOffset }})
	refused := func(err error) {
		t.Helper()
		require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
		require.ErrorIs(t, err, core.ErrClocks)
		require.Equal(t, 5*time.Second, contract.RefusalOf(err).RetryAfter)
	}
	d := w.created(t, "u1")
	_, err := wrong.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k"))
	refused(err)
	require.Empty(t, w.get(t, d).Payments)
	started, err := w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k"))
	require.NoError(t, err)
	repeated, err := wrong.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k"))
	require.NoError(t, err, "decided already")
	require.Equal(t, started, repeated)
	_, err = wrong.Callback(t.Context(), success(started.PaymentID))
	require.NoError(t, err)
	require.Equal(t, core.Paid, w.get(t, d).State)
	_, err = wrong.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k2"))
	require.Equal(t, contract.CodeOrderNotPayable, contract.CodeOf(err))

	d = w.created(t, "u2")
	w.clock.advance(payWithin)
	_, err = wrong.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonExpired)
	refused(err)
	require.Equal(t, core.Pending, w.get(t, d).State)
	results, err := w.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonExpired)
	require.NoError(t, err)
	require.Equal(t, core.CloseClosed, results[0].Outcome)
	d = w.created(t, "u3")
	results, err = wrong.CloseOrders(t.Context(), []string{d.OrderSN}, core.ReasonRejected)
	require.NoError(t, err)
	require.Equal(t, core.CloseClosed, results[0].Outcome)
}
