package core_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
)

var errRefused = fmt.Errorf("%w: account closed", core.ErrRefundDeclined)

var settlement = core.Settlement{By: "op", Reference: "transfer 17", Reason: "account closed"}

// refused returns a refund that its provider has refused for good.
func (w *world) refused(t *testing.T, user string) core.Refund {
	t.Helper()
	r := w.refundOf(t, user)
	w.provider.fail = func(string) error { return errRefused }
	_, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	w.provider.fail = nil
	r = w.refund(t, r)
	require.Equal(t, core.RefundFailed, r.State)
	return r
}

func TestARefusedRefundWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	r := w.refused(t, "u1")
	require.Equal(t, errRefused.Error(), r.LastError)
	require.Equal(t, 1, w.recorder.count("refund_failed"))
	w.clock.advance(time.Hour)
	n, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Zero(t, n, "only an operator continues it")
	require.Equal(t, 1, r.Attempts)

	other := w.refundOf(t, "u2")
	w.provider.fail = func(string) error { return errors.New("time-out") }
	for range 5 {
		list, more, err := w.WaitingRefunds(t.Context(), core.Position{}, 20)
		require.NoError(t, err)
		require.False(t, more)
		require.Len(t, list, 1)
		require.Equal(t, r, list[0])
		_, err = w.RefundDue(t.Context())
		require.NoError(t, err)
		w.clock.advance(10 * time.Minute)
	}
	first, more, err := w.WaitingRefunds(t.Context(), core.Position{}, 1)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, r.PaymentID, first[0].PaymentID)
	rest, more, err := w.WaitingRefunds(t.Context(), core.Position{CreatedAt: r.CreatedAt, OrderSN: r.PaymentID}, 1)
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, other.PaymentID, rest[0].PaymentID, "a pending one that failed five times waits, too")
}

func TestRetryingARefusedRefund(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	r := w.refused(t, "u1")
	got, err := w.RetryRefund(t.Context(), r.PaymentID, "op")
	require.NoError(t, err)
	require.Equal(t, core.RefundPending, got.State)
	got, err = w.RetryRefund(t.Context(), r.PaymentID, "op")
	require.NoError(t, err, "repeated")
	require.Equal(t, w.refund(t, r), got)
	require.Equal(t, 1, w.provider.lookups, "a pending refund needs no question")
	_, err = w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, core.RefundDone, w.refund(t, r).State)
	require.EqualValues(t, fullAmount, w.provider.refunded[r.PaymentID])
	require.Equal(t, []string{"retry op"}, w.decisions(t, r))

	// The provider has made the refund that it had refused: nothing is attempted.
	r = w.refused(t, "u2")
	w.provider.refunded[r.PaymentID] = fullAmount
	calls := w.provider.calls
	got, err = w.RetryRefund(t.Context(), r.PaymentID, "op")
	require.NoError(t, err)
	require.Equal(t, core.RefundDone, got.State)
	require.Equal(t, w.clock.Now(), w.refund(t, r).FinishedAt)
	require.Equal(t, calls, w.provider.calls)
	require.Equal(t, []string{"found op"}, w.decisions(t, r))
}

func TestSettlingARefusedRefundByHand(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	r := w.refused(t, "u1")
	for range 2 {
		got, err := w.SettleRefund(t.Context(), r.PaymentID, settlement)
		require.NoError(t, err)
		require.Equal(t, core.RefundDone, got.State)
		require.Equal(t, settlement, got.Settled)
	}
	require.Equal(t, core.RefundDone, w.refund(t, r).State)
	require.Empty(t, w.provider.refunded)
	require.Equal(t, []string{"settle op"}, w.decisions(t, r))
	other := settlement
	other.Reference = "transfer 18"
	_, err := w.SettleRefund(t.Context(), r.PaymentID, other)
	require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err))

	// The provider has made this one.
	r = w.refused(t, "u2")
	w.provider.refunded[r.PaymentID] = fullAmount
	for range 2 {
		_, err := w.SettleRefund(t.Context(), r.PaymentID, settlement)
		require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err))
		require.Equal(t, core.RefundDone, w.refund(t, r).State)
	}
	require.Equal(t, []string{"found op"}, w.decisions(t, r))
	require.Equal(t, 1, w.recorder.count("refund_twice"))

	// It has refunded another amount under this id. The operator may not have known it.
	r = w.refused(t, "u3")
	w.provider.refunded[r.PaymentID] = 1
	for range 2 {
		got, err := w.SettleRefund(t.Context(), r.PaymentID, settlement)
		require.NoError(t, err)
		require.Equal(t, settlement, got.Settled)
	}
	require.Equal(t, []string{"settle op", "found op"}, w.decisions(t, r))
	require.Equal(t, 2, w.recorder.count("refund_twice"))
	var reason string
	require.NoError(t, w.db.Table("refund_decisions").Where("payment_id = ? AND action = 'found'", r.PaymentID).Pluck("reason", &reason).Error)
	require.Equal(t, "provider has refunded 1 EUR", reason)

	pending := w.refundOf(t, "u4")
	_, err = w.SettleRefund(t.Context(), pending.PaymentID, settlement)
	require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err), "it is still attempted")
	require.Equal(t, core.RefundPending, w.refund(t, pending).State)
	_, err = w.SettleRefund(t.Context(), "42", settlement)
	require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
}

// A call of the provider hangs. Meanwhile another attempt is declined and an operator returns the money. Then the
// provider makes the refund of the first call.
func TestARefundMadeAfterItWasSettledByHandIsAnIncident(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	r := w.refundOf(t, "u1")
	w.provider.fail = func(string) error {
		w.provider.mu.Unlock()
		defer w.provider.mu.Lock()
		require.NoError(t, w.db.Exec("UPDATE refunds SET state = 'refund_failed' WHERE payment_id = ?", r.PaymentID).Error)
		_, err := w.SettleRefund(t.Context(), r.PaymentID, settlement)
		require.NoError(t, err)
		return nil
	}
	_, err := w.RefundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, core.RefundDone, w.refund(t, r).State)
	require.Equal(t, 1, w.recorder.count("refund_twice"))
}

func TestAProviderThatDoesNotRespondDecidesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	r := w.refused(t, "u1")
	w.provider.unreachable = errors.New("time-out")
	for _, s := range []*core.Service{w.Service, w.service(t)} { // the second has no provider
		_, err := s.RetryRefund(t.Context(), r.PaymentID, "op")
		require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
		_, err = s.SettleRefund(t.Context(), r.PaymentID, settlement)
		require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	}
	require.Equal(t, r, w.refund(t, r))
	require.Empty(t, w.decisions(t, r))
}

// decisions returns the action and the operator of each decision about a refund.
func (w *world) decisions(t *testing.T, r core.Refund) (all []string) {
	t.Helper()
	var rows []struct{ Action, DecidedBy string }
	require.NoError(t, w.db.Table("refund_decisions").Where("payment_id = ?", r.PaymentID).Order("id").Find(&rows).Error)
	for _, d := range rows {
		all = append(all, d.Action+" "+d.DecidedBy)
	}
	return all
}
