package inventory

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/procstat"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// One reconciliation of a clean sale with 400,000 purchases that did not change, on MariaDB and Redis: with a comparison
// of all entries, and with a check. It reports the processor time that this process, MariaDB and Redis used together.
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
	began := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Millisecond)
	lines := fmt.Sprintf(`[{"sku_id":%q,"qty":1}]`, a.Items[0].SKUID)
	for from := 1; from <= purchases; from += 1000 {
		var rows, allowances []map[string]any
		for i := from; i < from+1000; i++ {
			user, at := fmt.Sprint("u", i), began.Add(time.Hour/purchases*time.Duration(i)).Truncate(time.Millisecond)
			rows = append(rows, map[string]any{
				"order_sn": 7_000_000_000_000_000 + i*1009, "activity_id": a.ID, "user_id": user, "line_items": lines, "state": "sold", "reason": "",
				"reserved_at": at, "landed_at": at, "order_created_at": at, "expires_at": at, "changed_at": at, "republish_attempt": 0, "traceparent": "",
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
		defer w.reportCPU(b)()
		for b.Loop() {
			r, err := w.reconciler.Reconcile(w.ctx, operator("bench"), a.ID)
			require.NoError(b, err)
			require.Empty(b, r.Repairs)
			require.Empty(b, r.Differences)
		}
	})
	b.Run("check", func(b *testing.B) {
		seen := &checked{Recorder: w.parts.Recorder}
		w.parts = w.parts.with(func(p *ports) { p.repaired = seen })
		w.parts.Reconcile.FullEvery = 24 * time.Hour
		w.restart()
		require.NoError(b, w.reconciler.ReconcileAll(w.ctx))
		b.ReportAllocs()
		defer w.reportCPU(b)()
		n := 0
		for b.Loop() {
			w.shift += time.Hour // after the rest that follows a comparison
			require.NoError(b, w.reconciler.ReconcileAll(w.ctx))
			n++
		}
		require.Equal(b, slices.Repeat([]reconcile.CheckOutcome{reconcile.CheckClean}, n), seen.outcomes)
	})
}

// reportCPU returns a function that reports the processor time for each iteration since the call, of this process,
// MariaDB and Redis, which run on this machine.
func (w *world) reportCPU(b *testing.B) func() {
	used := func() (sum time.Duration) {
		for _, pid := range []int{os.Getpid(), w.pidOfMariaDB(), w.pidOfRedis()} {
			cpu, err := procstat.CPU(pid)
			require.NoError(b, err)
			sum += cpu
		}
		return sum
	}
	began := used()
	return func() { b.ReportMetric(float64((used()-began).Milliseconds())/float64(b.N), "ms-cpu/op") }
}

func (w *world) pidOfMariaDB() int {
	var file string
	require.NoError(w.t, w.db.Raw("SELECT @@pid_file").Scan(&file).Error)
	text, err := os.ReadFile(file)
	require.NoError(w.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(w.t, err)
	return pid
}

func (w *world) pidOfRedis() int {
	info := w.rdb.InfoMap(w.ctx, "server")
	require.NoError(w.t, info.Err())
	pid, err := strconv.Atoi(info.Item("Server", "process_id"))
	require.NoError(w.t, err)
	return pid
}
