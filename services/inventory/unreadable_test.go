package inventory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One row of the ledger cannot be read. The other queued purchases of its gate are journaled again or synced.
func TestAnUnreadableRowDoesNotStopTheJournalSweep(t *testing.T) {
	eachDB(t, func(w *world) {
		w.parts.Sweep.RejournalAfter = time.Millisecond
		alarms := w.alarms()
		a := w.sale(1, 10)
		broken, lost, landed := w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3")
		w.loses(func() error { return w.consumer.Reservations(w.ctx, message(w.t, "t", broken, landed)) })
		require.NoError(w.t, w.db.Exec("UPDATE reservations SET line_items = 'rubbish' WHERE order_sn = ?", broken.OrderSN).Error)
		require.Eventually(w.t, func() bool {
			require.NoError(w.t, w.journalSweep.Run(w.ctx))
			entries, err := w.gate.ReadJournal(w.ctx, ref(a), "test", 10)
			require.NoError(w.t, err)
			for _, e := range entries {
				require.Equal(w.t, lost.OrderSN, e.OrderSN)
				require.NoError(w.t, w.gate.Ack(w.ctx, ref(a), []string{e.ID}))
			}
			return len(entries) == 1
		}, 30*time.Second, 20*time.Millisecond)
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		require.True(w.t, w.entry(a, landed.OrderSN).Landed, "the gate is synced with the ledger")
		require.False(w.t, w.entry(a, broken.OrderSN).Landed, "it waits for an operator")
		require.Equal(w.t, []string{"ledger row cannot be read"}, alarms.raised)
		w.land(lost)

		require.NoError(w.t, w.db.Exec("UPDATE reservations SET line_items = ? WHERE order_sn = ?",
			`[{"sku_id":"`+a.Items[0].SKUID+`","qty":1}]`, broken.OrderSN).Error)
		require.NoError(w.t, w.journalSweep.Run(w.ctx))
		w.agree(a)
	})
}
