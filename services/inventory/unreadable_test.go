package inventory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/redisless"
)

// eachUnreadable runs a test with lines that cannot be parsed, and with lines that can but are invalid.
func eachUnreadable(t *testing.T, fn func(w *world, lines string)) {
	for name, lines := range map[string]string{
		"no JSON": `rubbish`, "no quantity": `[{"sku_id":"1","qty":0}]`, "no SKU": `[{"sku_id":"0","qty":1}]`, "none": `[]`,
	} {
		t.Run(name, func(t *testing.T) { fn(newWorld(t), lines) })
	}
}

func (w *world) damage(r contract.Reservation, lines string) {
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET line_items = ? WHERE order_sn = ?", lines, r.OrderSN).Error)
}

// A row cannot be read, and another purchase is refused since the gate sold a unit twice. The refusal ends it.
func TestAnUnreadableRowDoesNotStopARefusal(t *testing.T) {
	t.Parallel()
	eachUnreadable(t, func(w *world, lines string) {
		incidents := w.incidents()
		a := w.sale(1, 2)
		broken := w.buy(a, "u1")
		w.land(broken)
		w.damage(broken, lines)
		// The ledger has fewer units left than the gate.
		require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = 0, reserved = 2").Error)
		refused := w.buy(a, "u2")
		w.land(refused)
		require.Equal(w.t, ledger.StateRejected, w.row(refused.OrderSN).State)
		require.Equal(w.t, stockgate.StatusFailed, w.entry(a, refused.OrderSN).Status)
		require.Equal(w.t, []string{"ledger row cannot be read"}, incidents.raised)
	})
}

// The gate does not take the purchases that have landed. Those that were lost are journaled again all the same.
func TestAGateThatCannotBeSyncedGetsLostPurchasesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Sweep.RejournalAfter = time.Millisecond
	w.restart()
	a := w.sale(1, 10)
	lost, landed := w.buy(a, "u1"), w.buy(a, "u2")
	w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, "t", landed)) })
	require.Eventually(w.t, func() bool {
		w.faults.kill(1, false)
		err := w.journalSweep.Run(w.ctx)
		return w.faults.heal() && err != nil
	}, 30*time.Second, 20*time.Millisecond)
	require.Eventually(w.t, func() bool {
		w.faults.kill(1, false)
		_ = w.journalSweep.Run(w.ctx)
		w.faults.heal()
		entries, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 10)
		require.NoError(w.t, err)
		return len(entries) == 1 && entries[0].OrderSN == lost.OrderSN
	}, 30*time.Second, 20*time.Millisecond)
}

// A process of seckill hands over purchases of which one has a row that cannot be read. The others land.
func TestAnUnreadableRowDoesNotStopAHandOver(t *testing.T) {
	t.Parallel()
	eachUnreadable(t, func(w *world, lines string) {
		s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
		incidents := w.incidents()
		list := []redisless.Purchase{s.purchase("u1", 1), s.purchase("u2", 1), s.purchase("u3", 1)}
		for i := range list {
			list[i].Accepted, list[i].ReservedAt = true, time.Now().UTC()
		}
		require.Equal(w.t, []string{"reserved"}, s.reserve(list[1]))
		w.damage(contract.Reservation{OrderSN: list[1].OrderSN}, lines)
		require.Equal(w.t, []string{"reserved", "conflict", "reserved"}, s.reserve(list...))
		require.Len(w.t, incidents.raised, 1)
		require.Contains(w.t, []string{
			"ledger row cannot be read", "a purchase that was handed over contradicts the ledger",
		}, incidents.raised[0])
		require.Equal(w.t, int64(7), s.available())
		repeated := list[1]
		repeated.Accepted = false
		require.Equal(w.t, []string{"conflict", "fresh reserved"}, s.reserve(repeated, s.purchase("u4", 1)))
	})
}

// One row of the ledger cannot be read. The other queued purchases of its gate are journaled again or synced.
func TestAnUnreadableRowDoesNotStopTheJournalSweep(t *testing.T) {
	t.Parallel()
	eachUnreadable(t, func(w *world, lines string) {
		w.parts.Sweep.RejournalAfter = time.Millisecond
		incidents := w.incidents()
		a := w.sale(1, 10)
		broken, lost, landed := w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3")
		w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, "t", broken, landed)) })
		w.damage(broken, lines)
		require.Eventually(w.t, func() bool {
			require.NoError(w.t, w.journalSweep.Run(w.ctx))
			entries, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 10)
			require.NoError(w.t, err)
			for _, e := range entries {
				require.Equal(w.t, lost.OrderSN, e.OrderSN)
				require.NoError(w.t, w.gate.Ack(w.ctx, a.ID, []string{e.ID}))
			}
			return len(entries) == 1
		}, 30*time.Second, 20*time.Millisecond)
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		require.True(w.t, w.entry(a, landed.OrderSN).Landed, "the gate is synced with the ledger")
		require.False(w.t, w.entry(a, broken.OrderSN).Landed, "it waits for an operator")
		require.Equal(w.t, []string{"ledger row cannot be read"}, incidents.raised)
		w.land(lost)

		w.damage(broken, `[{"sku_id":"`+a.Items[0].SKUID+`","qty":1}]`)
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		w.agree(a)
	})
}
