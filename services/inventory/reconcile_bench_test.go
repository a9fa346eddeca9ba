package inventory

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// One reconciliation of a clean sale with 400,000 purchases that did not change, on MariaDB and Redis: with a comparison
// of all entries, and with a check.
func BenchmarkReconcile(b *testing.B) {
	const purchases = 400_000
	addr := os.Getenv("REDIS_ADDRS")
	if addr == "" {
		addr = "127.0.0.1:16379"
	}
	w := newWorldOn(b, dbtest.MariaDB(b, Migrations), []string{strings.Split(addr, ",")[0]}, 3)
	require.NoError(b, w.rdb.FlushDB(w.ctx).Err())
	b.Cleanup(func() { _ = w.rdb.FlushDB(w.ctx).Err() })
	w.parts.Reconcile.Pause = reconcile.DefaultConfig().Pause
	w.restart()
	a := w.sale(1, 2*purchases)
	now := time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond)
	lines := fmt.Sprintf(`[{"sku_id":%q,"qty":1}]`, a.Items[0].SKUID)
	for from := 1; from <= purchases; from += 1000 {
		var rows, allowances []map[string]any
		for i := from; i < from+1000; i++ {
			user := fmt.Sprint("u", i)
			rows = append(rows, map[string]any{
				"order_sn": 7_000_000_000_000_000 + i*1009, "activity_id": a.ID, "user_id": user, "bucket": 0, "line_items": lines, "state": "sold", "reason": "",
				"reserved_at": now, "landed_at": now, "order_created_at": now, "expires_at": now, "changed_at": now, "republish_attempt": 0, "traceparent": "",
			})
			allowances = append(allowances, map[string]any{"activity_id": a.ID, "user_id": user, "held": 1})
		}
		require.NoError(b, w.db.Table("reservations").Create(&rows).Error)
		require.NoError(b, w.db.Table("allowances").Create(&allowances).Error)
	}
	require.NoError(b, w.db.Exec("UPDATE stocks SET available = available - ?, sold = ? WHERE activity_id = ?", purchases, purchases, a.ID).Error)
	require.NoError(b, w.rdb.FlushDB(w.ctx).Err())
	require.NoError(b, w.gates.EnsureGates(w.ctx))
	b.Run("entries", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := w.reconciler.Reconcile(w.ctx, operator("bench"), a.ID)
			require.NoError(b, err)
			require.Empty(b, r.Repairs)
			require.Empty(b, r.Differences)
		}
	})
	b.Run("check", func(b *testing.B) {
		seen := &checked{Recorder: w.parts.Recorder}
		w.parts.Recorder, w.parts.Reconcile.FullEvery = seen, 24*time.Hour
		w.restart()
		require.NoError(b, w.reconciler.ReconcileAll(w.ctx))
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			w.shift += time.Hour // after the rest that follows a comparison
			require.NoError(b, w.reconciler.ReconcileAll(w.ctx))
			n++
		}
		require.Equal(b, slices.Repeat([]reconcile.CheckOutcome{reconcile.CheckClean}, n), seen.outcomes)
	})
}
