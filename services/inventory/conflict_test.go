package inventory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// twice makes two accepted purchases under one order_sn, each in the gate of its own activity. The first has landed and
// has an order; the second became a dead letter.
func (w *world) twice(user string) (a, b *core.Activity, first, second contract.Reservation, id string) {
	w.t.Helper()
	a, b = w.sale(1, 5), w.sale(1, 5)
	first = w.buy(a, "u1")
	w.land(first)
	w.follow(event(first, contract.OrderCreated))
	second = first
	second.UserID, second.ActivityID = user, b.ID
	second.Lines = []contract.Line{{SKUID: b.Items[0].SKUID, Qty: 1}}
	verdicts, err := w.gate.Reserve(w.ctx, b.ID, []stockgate.Request{{OrderSN: second.OrderSN, UserID: user, Lines: second.Lines}})
	require.NoError(w.t, err)
	require.Equal(w.t, stockgate.Accepted, verdicts[0].Outcome)
	w.relay(b)
	w.land(second)
	require.Equal(w.t, int64(4), w.left(b, 0))
	deadLetters := w.deadLetters(core.DeadLetterOpen)
	require.Len(w.t, deadLetters, 1)
	require.Equal(w.t, b.ID, deadLetters[0].ActivityID)
	return a, b, first, second, deadLetters[0].ID
}

// The ledger has another purchase under the order_sn of a dead letter. Its rejection ends the entry that holds units
// for the dead letter's purchase, in that entry's gate, and nothing else.
func TestRejectingAConflictingOrderSNEndsTheEntryThatHoldsItsUnits(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]string{"another buyer": "u2", "same buyer": "u1"} {
		t.Run(name, func(t *testing.T) {
			killedEverywhere(t, func(w *world) (func() error, func()) {
				a, b, first, second, id := w.twice(user)
				work := func() error {
					_, err := w.core.RejectDeadLetter(w.ctx, operator("op"), id)
					return err
				}
				return work, func() {
					require.NoError(t, work(), "a repetition changes nothing")
					e := w.entry(b, second.OrderSN)
					require.Equal(t, []any{stockgate.StatusFailed, "system", user}, []any{e.Status, e.Reason, e.UserID})
					require.Equal(t, int64(5), w.left(b, 0), "released once")
					w.land(second) // a late delivery takes nothing
					require.Equal(t, int64(5), w.left(b, 0))
					_, outcome := w.reserve(b, user)
					require.Equal(t, stockgate.Accepted, outcome, "the allowance is released")
					require.Equal(t, ledger.StateReserved, w.row(first.OrderSN).State)
					require.Equal(t, stockgate.StatusCreated, w.entry(a, first.OrderSN).Status)
					require.Empty(t, w.orders.of(first.OrderSN), "its order is not closed")
					w.agree(a)
					require.Empty(t, w.deadLetters(core.DeadLetterOpen))
				}
			})
		})
	}
}

// The item of the dead letter cannot be read. The gate has the purchase.
func TestRejectingAnUnreadableConflictEndsTheEntryThatHoldsItsUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, first, second, id := w.twice("u2")
	require.NoError(w.t, w.db.Exec("UPDATE dead_letters SET item = ? WHERE id = ?",
		[]byte(`{"order_sn":"`+second.OrderSN+`","activity_id":"`+b.ID+`","lines":[]}`), id).Error)
	_, err := w.core.RejectDeadLetter(w.ctx, operator("op"), id)
	require.NoError(w.t, err)
	require.Equal(w.t, stockgate.StatusFailed, w.entry(b, second.OrderSN).Status)
	require.Equal(w.t, int64(5), w.left(b, 0))
	require.Equal(w.t, stockgate.StatusCreated, w.entry(a, first.OrderSN).Status)
	w.agree(a)
}

// A third purchase under the order_sn holds the units. It has a dead letter of its own.
func TestRejectingAConflictLeavesAThirdPurchase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, b, _, second, id := w.twice("u2")
	third := second
	third.UserID = "u3"
	w.land(third)
	for _, l := range w.deadLetters(core.DeadLetterOpen) {
		if l.ID == id {
			continue
		}
		_, err := w.core.RejectDeadLetter(w.ctx, operator("op"), l.ID)
		require.NoError(w.t, err)
	}
	require.Equal(w.t, stockgate.StatusQueued, w.entry(b, second.OrderSN).Status, "u2 still waits")
	require.Equal(w.t, int64(4), w.left(b, 0))
}

// Both purchases are of one gate: it lost the first and accepted the second. A gate has one entry for an order_sn, and
// it belongs to the purchase that the ledger has.
func TestRejectingAConflictWithinOneGateGivesTheEntryToTheLedgersPurchase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	second := w.buy(a, "u2")
	first := second
	first.UserID = "u1"
	w.loses(func() error {
		return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, first))
	})
	w.land(second)
	require.Equal(w.t, "u2", w.entry(a, second.OrderSN).UserID)
	_, err := w.core.RejectDeadLetter(w.ctx, operator("op"), w.deadLetters(core.DeadLetterOpen)[0].ID)
	require.NoError(w.t, err)
	e := w.entry(a, first.OrderSN)
	require.Equal(w.t, []any{"u1", true}, []any{e.UserID, e.Landed})
	require.Equal(w.t, ledger.StateReserved, w.row(first.OrderSN).State)
	w.agree(a)
	require.Equal(w.t, int64(4), w.left(a, 0))
	_, outcome := w.reserve(a, "u2")
	require.Equal(w.t, stockgate.Accepted, outcome, "the allowance of the second buyer is released")
}

// The message of the purchase that holds the units was lost. It is journaled again, so that it becomes a dead letter.
func TestALostConflictingPurchaseIsJournaledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Sweep.RejournalAfter = time.Millisecond
	w.restart()
	_, b, _, second, id := w.twice("u1")
	require.NoError(w.t, w.journalSweep.Run(w.ctx))
	entries, _, err := w.gate.ReadJournal(w.ctx, b.ID, "test", 10)
	require.NoError(w.t, err)
	require.Empty(w.t, entries, "its dead letter waits for an operator")
	require.NoError(w.t, w.db.Exec("DELETE FROM dead_letters WHERE id = ?", id).Error)
	require.Eventually(w.t, func() bool {
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		entries, _, err = w.gate.ReadJournal(w.ctx, b.ID, "test", 10)
		require.NoError(w.t, err)
		return len(entries) == 1 && entries[0].OrderSN == second.OrderSN
	}, 30*time.Second, 5*time.Millisecond)
}

// A rejected conflict is no difference between the second gate and the ledger.
func TestTheReconcilerAcceptsARejectedConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, b, _, _, id := w.twice("u2")
	_, err := w.core.RejectDeadLetter(w.ctx, operator("op"), id)
	require.NoError(w.t, err)
	w.settles()
	out := w.reconcile(b)
	require.Empty(w.t, out.Repairs)
	require.Equal(w.t, []reconcile.Difference(nil), out.Differences)
}
