package core_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/publisher"
	"flashsale.internal/services/order/internal/store"
)

func TestClosingAtTheDeadline(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	due := w.clock.Now().Add(payWithin)
	w.clock.advance(payWithin - time.Millisecond)
	require.Equal(t, []core.CloseResult{{OrderSN: d.OrderSN, Outcome: core.CloseNotDue, At: due}},
		w.close(t, core.ReasonExpired, d.OrderSN))
	require.Equal(t, core.Pending, w.state(t, d), "never early")
	w.clock.advance(time.Millisecond)
	for range 2 {
		require.Equal(t, []core.CloseResult{{OrderSN: d.OrderSN, Outcome: core.CloseClosed, Reason: core.ReasonExpired}}, w.close(t, core.ReasonExpired, d.OrderSN, d.OrderSN))
	}
	o := w.get(t, d)
	require.Equal(t, core.Closed, o.State)
	require.Equal(t, core.ReasonExpired, o.CloseReason)
	require.Equal(t, due, o.ClosedAt)
	require.Empty(t, w.outbox(t), "inventory requested the closing: the response is enough")
	require.Equal(t, []time.Duration{0}, w.recorder.late)
}

func TestClosingOrdersInEveryState(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	closed, paid, refunded, paying, cancelled := w.created(t, "a"), w.created(t, "b"), w.created(t, "c"), w.created(t, "d"), w.created(t, "e")
	never := w.deduction("f")
	w.succeed(t, w.started(t, paid, "k").PaymentID)
	w.succeed(t, w.started(t, refunded, "k").PaymentID)
	r, err := w.RefundOrders(t.Context(), []string{refunded.OrderSN}, core.RefundNoStock)
	require.NoError(t, err)
	require.Equal(t, []core.RefundResult{{refunded.OrderSN, core.OrderRefunded}}, r)
	_, err = w.Cancel(t.Context(), "e", cancelled.OrderSN)
	require.NoError(t, err)
	w.clock.advance(payWithin - time.Second)
	w.started(t, paying, "k")
	begun := w.clock.Now()
	w.clock.advance(time.Second)
	young := w.created(t, "g")

	got := map[string]core.CloseResult{}
	for _, r := range w.close(t, core.ReasonExpired, closed.OrderSN, paid.OrderSN, refunded.OrderSN, paying.OrderSN, cancelled.OrderSN, never.OrderSN, young.OrderSN) {
		got[r.OrderSN] = r
	}
	require.Equal(t, core.CloseResult{OrderSN: closed.OrderSN, Outcome: core.CloseClosed, Reason: core.ReasonExpired}, got[closed.OrderSN])
	require.Equal(t, core.ClosePaid, got[paid.OrderSN].Outcome)
	require.Equal(t, core.CloseResult{OrderSN: refunded.OrderSN, Outcome: core.CloseRefunded},
		got[refunded.OrderSN])
	require.Equal(t, core.CloseResult{OrderSN: cancelled.OrderSN, Outcome: core.CloseClosed, Reason: core.ReasonCancelled}, got[cancelled.OrderSN],
		"the reason that closed it, not the requested one")
	require.Equal(t, core.CloseUnknown, got[never.OrderSN].Outcome)
	require.Equal(t, core.CloseResult{OrderSN: young.OrderSN, Outcome: core.CloseNotDue, At: w.clock.Now().Add(payWithin)}, got[young.OrderSN])
	require.Equal(t, core.CloseResult{OrderSN: paying.OrderSN, Outcome: core.ClosePaying, At: begun.Add(120 * time.Second)}, got[paying.OrderSN])
}

// lateSight is a store whose first reading of open payments finds none: they are committed right after it.
type lateSight struct {
	core.Store
	reads int
}

func (s *lateSight) InTx(ctx context.Context, name string, fn func(core.Tx) error) error {
	return s.Store.InTx(ctx, name, func(tx core.Tx) error { return fn(&lateSightTx{tx, s}) })
}

type lateSightTx struct {
	core.Tx
	store *lateSight
}

func (t *lateSightTx) OpenPayments(orderSNs []string) (map[string]bool, error) {
	if t.store.reads++; t.store.reads == 1 {
		return nil, nil
	}
	return t.Tx.OpenPayments(orderSNs)
}

// A payment that is begun in time, and committed while a closing reads the payments, holds its order open.
func TestAPaymentBegunDuringAClosing(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	sight := &lateSight{Store: store.New(db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now))}
	svc := w.serviceOn(t, sight)
	unpaid, paying := w.created(t, "u1"), w.created(t, "u2")
	w.clock.advance(payWithin - time.Second)
	w.started(t, paying, "k")
	until := w.clock.Now().Add(120 * time.Second)
	w.clock.advance(time.Second)
	got, err := svc.CloseOrders(t.Context(), []string{unpaid.OrderSN, paying.OrderSN}, core.ReasonExpired)
	require.NoError(t, err)
	require.Equal(t, []core.CloseResult{
		{OrderSN: unpaid.OrderSN, Outcome: core.CloseClosed, Reason: core.ReasonExpired},
		{OrderSN: paying.OrderSN, Outcome: core.ClosePaying, At: until},
	}, got)
	require.Equal(t, core.Pending, w.state(t, paying))
	require.Equal(t, map[string]int{core.ReasonExpired: 1}, w.recorder.closed)
	require.Equal(t, []time.Duration{0}, w.recorder.late)
}

// Orders that are due and unpaid are closed without being read; the counts show whether there are others.
func TestAClosingReadsOnlyWhatItCannotCloseAtOnce(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	early, late := w.created(t, "u1"), w.created(t, "u2")
	w.clock.advance(time.Second)
	young := w.created(t, "u3")
	w.clock.advance(payWithin - time.Second)
	w.close(t, core.ReasonExpired, early.OrderSN)
	w.clock.advance(time.Second / 2)
	got := w.close(t, core.ReasonExpired, early.OrderSN, late.OrderSN, young.OrderSN)
	require.Equal(t, []core.CloseResult{
		{OrderSN: early.OrderSN, Outcome: core.CloseClosed, Reason: core.ReasonExpired},
		{OrderSN: late.OrderSN, Outcome: core.CloseClosed, Reason: core.ReasonExpired},
		{OrderSN: young.OrderSN, Outcome: core.CloseNotDue, At: w.clock.Now().Add(time.Second / 2)},
	}, got)
	require.Equal(t, core.Pending, w.state(t, young))
	require.Equal(t, map[string]int{core.ReasonExpired: 2}, w.recorder.closed)
	require.Equal(t, []time.Duration{0, time.Second / 2}, w.recorder.late)
}

func TestAPaymentInFlightHoldsItsOrderOnce(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	t.Run("until the grace ends", func(t *testing.T) {
		w := newWorld(t, db)
		d := w.created(t, "u1")
		w.clock.advance(payWithin - 10*time.Second)
		p := w.started(t, d, "k")
		until := w.clock.Now().Add(120 * time.Second)
		w.clock.advance(10 * time.Second)
		for range 3 { // repeated closings return the same result: no second grace
			require.Equal(t, core.CloseResult{OrderSN: d.OrderSN, Outcome: core.ClosePaying, At: until},
				w.close(t, core.ReasonExpired, d.OrderSN)[0])
			w.clock.advance(30 * time.Second)
		}
		w.clock.advance(until.Sub(w.clock.Now()))
		require.Equal(t, core.CloseClosed, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
		w.succeed(t, p.PaymentID)
		require.Equal(t, core.RefundLate, w.get(t, d).Refunds[0].Reason)
	})
	t.Run("and pays it during the grace", func(t *testing.T) {
		w := newWorld(t, db)
		d := w.created(t, "u2")
		p := w.started(t, d, "k")
		w.clock.advance(payWithin)
		require.Equal(t, core.ClosePaying, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
		w.succeed(t, p.PaymentID)
		require.Equal(t, core.Paid, w.state(t, d))
		require.Equal(t, core.ClosePaid, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
	})
	t.Run("not if it has failed", func(t *testing.T) {
		w := newWorld(t, db)
		d := w.created(t, "u3")
		p := w.started(t, d, "k")
		w.clock.advance(payWithin)
		_, err := w.Callback(t.Context(), failure(p.PaymentID))
		require.NoError(t, err)
		require.Equal(t, core.CloseClosed, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
	})
	t.Run("not if it is older than the grace", func(t *testing.T) {
		w := newWorld(t, db)
		d := w.deduction("u4")
		d.PayWithinS = 121
		require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, nil, nil))
		w.started(t, d, "k")
		w.clock.advance(121 * time.Second)
		require.Equal(t, core.CloseClosed, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
	})
}

func TestRefundingPaidOrders(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	paid, pending, never := w.created(t, "a"), w.created(t, "b"), w.deduction("c")
	p := w.started(t, paid, "k")
	w.succeed(t, p.PaymentID)
	for range 2 {
		r, err := w.RefundOrders(t.Context(), []string{paid.OrderSN, pending.OrderSN, never.OrderSN},
			core.RefundNoStock)
		require.NoError(t, err)
		require.Equal(t, []core.RefundResult{
			{paid.OrderSN, core.OrderRefunded}, {pending.OrderSN, core.OrderNotPaid}, {never.OrderSN, core.OrderIsUnknown},
		}, r)
	}
	o := w.get(t, paid)
	require.Equal(t, core.Refunded, o.State)
	require.Len(t, o.Refunds, 1)
	require.Equal(t, core.RefundNoStock, o.Refunds[0].Reason)
	events := w.outbox(t)
	require.Len(t, events, 2)
	require.Equal(t, contract.OrderRefunded, events[1].Type)
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{never}, nil, nil),
		"a refund request leaves no tombstone")
	require.Equal(t, core.Pending, w.state(t, never))
}

func TestLostClosingsArePublishedAgain(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	var batch []contract.Deduction
	for i := range 40 {
		batch = append(batch, w.deduction(fmt.Sprintf("u%d", i)))
	}
	require.NoError(t, w.Land(t.Context(), batch, nil, nil))
	w.succeed(t, w.started(t, batch[0], "k").PaymentID)
	w.bus.take("")
	sweep := func() []contract.OrderClose {
		t.Helper()
		_, err := w.ResendClosings(t.Context())
		require.NoError(t, err)
		require.Empty(t, w.bus.all(contract.TopicOrderClose))
		found := inOutbox[contract.OrderClose](t, w, contract.TopicOrderClose)
		require.NoError(t, w.db.Exec("DELETE FROM outbox").Error)
		return found
	}
	w.clock.advance(payWithin + 29*time.Second)
	require.Empty(t, sweep())
	w.clock.advance(2 * time.Second)
	resent := sweep()
	require.Len(t, resent, 1)
	require.Len(t, resent[0].OrderSNs, 39)
	require.Empty(t, sweep(), "not before the back-off has ended")
	w.clock.advance(80 * time.Second)
	require.Len(t, sweep(), 1)
	w.close(t, core.ReasonExpired, resent[0].OrderSNs...)
	w.clock.advance(time.Hour)
	require.Empty(t, sweep())
}

// The sweep leaves the closings to the outbox, which keeps each until it is published: when inventory has closed an
// order, but not yet restored its units, nothing else would repeat the closing. Of two processes, one sends it.
func TestResentClosingsAreInTheOutbox(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	w.bus.take("")
	w.clock.advance(payWithin + time.Minute)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			_, err := w.ResendClosings(t.Context())
			assert.NoError(t, err)
		})
	}
	both.Wait()
	w.close(t, core.ReasonExpired, d.OrderSN)
	left := inOutbox[contract.OrderClose](t, w, contract.TopicOrderClose)
	require.Len(t, left, 1)
	require.Equal(t, []string{d.OrderSN}, left[0].OrderSNs)
	require.Empty(t, w.bus.all(contract.TopicOrderClose))
}

// While delayed closings may not be delivered, the sweep replaces them.
func TestTheSweepReplacesClosingsThatWereNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	unsent := true
	svc := core.New(store.New(w.db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now)),
		publisher.New(w.bus, telemetry.Discard(t)), genes.ByUser{}, w.recorder, nil, w.sealer,
		core.Options{Now: w.clock.Now, ClosingsUnsent: func() bool { return unsent }})
	w.created(t, "u1")
	w.bus.take("")
	sweep := func() int {
		t.Helper()
		n, err := svc.ResendClosings(t.Context())
		require.NoError(t, err)
		return n
	}
	w.clock.advance(payWithin)
	require.Zero(t, sweep(), "not before the deadline")
	w.clock.advance(2 * time.Second)
	require.Equal(t, 1, sweep())
	require.Zero(t, sweep())
	unsent = false
	w.created(t, "u2")
	w.bus.take("")
	w.clock.advance(payWithin + 5*time.Second)
	sweep()
	for _, c := range inOutbox[contract.OrderClose](t, w, contract.TopicOrderClose) {
		require.NotEqual(t, w.clock.Now().Add(-5*time.Second), c.DueAt, "the broker's timers are in time again")
	}
}
