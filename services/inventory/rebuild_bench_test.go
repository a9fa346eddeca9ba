package inventory

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory/internal/core"
)

// The rebuild of a lost gate with 1,000,000 ledger rows (REBUILD_ROWS) on MariaDB and Redis. It reports the seconds of a
// build, the largest resident memory of the process in the meantime, which has the test's own part of some 30 MB, and
// the longest wait of a transaction that changes a stock row all the time. docs/benchmarks.md has the figures.
func BenchmarkRebuild(b *testing.B) {
	n := 1_000_000
	if s := os.Getenv("REBUILD_ROWS"); s != "" {
		var err error
		n, err = strconv.Atoi(s)
		require.NoError(b, err)
	}
	addr := os.Getenv("REDIS_ADDRS")
	if addr == "" {
		addr = "127.0.0.1:16379"
	}
	db := dbtest.MariaDB(b, Migrations)
	w := newWorldOn(b, db, []string{strings.Split(addr, ",")[0]}, 3)
	require.NoError(b, w.rdb.FlushDB(w.ctx).Err())
	b.Cleanup(func() { _ = w.rdb.FlushDB(w.ctx).Err() })
	a := w.sale(1, int64(2*n))
	w.fillMixed(a, n)
	for b.Loop() {
		b.StopTimer()
		require.NoError(b, w.rdb.FlushDB(w.ctx).Err())
		runtime.GC()
		ctx, end := context.WithCancel(w.ctx)
		longest, rss := make(chan time.Duration, 1), make(chan int64, 1)
		go func() { longest <- w.probeStock(ctx, a.ID) }()
		go func() { rss <- peakRSS(ctx) }()
		b.StartTimer()
		err := w.syncer.Fill(w.ctx, a.ID)
		b.StopTimer()
		end()
		require.NoError(b, err)
		b.ReportMetric(float64((<-longest).Milliseconds()), "ms-longest-stock-update")
		b.ReportMetric(float64(<-rss)/(1<<20), "MiB-peak-rss")
		audit, err := w.gate.Audit(w.ctx, a.ID)
		require.NoError(b, err)
		require.EqualValues(b, n, audit.EntriesLen)
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/build")
}

// fillMixed inserts n rows that changed in the last hour: of ten, four are sold, four reserved with an order, one is
// reserved and one released.
func (w *world) fillMixed(a *core.Activity, n int) {
	w.t.Helper()
	require.Zero(w.t, n%10)
	began := long()
	lines := fmt.Sprintf(`[{"sku_id":%q,"qty":1}]`, a.Items[0].SKUID)
	const batch = 2000
	for from := 0; from < n; from += batch {
		rows := make([]map[string]any, 0, batch)
		for i := from; i < min(n, from+batch); i++ {
			changed := began.Add(time.Hour / time.Duration(n) * time.Duration(i))
			row := map[string]any{
				"order_sn": 7_000_000_000_000_000 + i*1009, "activity_id": a.ID, "user_id": fmt.Sprint("u", i), "line_items": lines,
				"state": "sold", "reason": "", "reserved_at": changed, "landed_at": changed, "order_created_at": changed, "expires_at": changed.Add(time.Hour),
				"changed_at": changed, "republish_attempt": 0, "traceparent": "",
			}
			switch i % 10 {
			case 4, 5, 6, 7:
				row["state"] = "reserved"
			case 8:
				row["state"], row["order_created_at"], row["expires_at"] = "reserved", nil, nil
			case 9:
				row["state"], row["reason"] = "released", "expired"
			}
			rows = append(rows, row)
		}
		require.NoError(w.t, w.db.Table("reservations").Create(&rows).Error)
	}
	tenth := n / 10
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available - ?, sold = ?, reserved = ? WHERE activity_id = ?",
		9*tenth, 4*tenth, 5*tenth, a.ID).Error)
}

// probeStock changes a stock row, and back, until ctx ends. It returns the longest time that took.
func (w *world) probeStock(ctx context.Context, activityID string) (longest time.Duration) {
	for ctx.Err() == nil {
		began := time.Now()
		err := w.db.Exec("UPDATE stocks SET price = price + 1 WHERE activity_id = ?", activityID).Error
		longest = max(longest, time.Since(began))
		if err != nil {
			w.t.Error(err)
			return longest
		}
		time.Sleep(5 * time.Millisecond)
	}
	return longest
}

// peakRSS samples the resident memory of this process, in bytes, until ctx ends.
func peakRSS(ctx context.Context) (peak int64) {
	for ctx.Err() == nil {
		text, err := os.ReadFile("/proc/self/statm")
		if f := strings.Fields(string(text)); err == nil && len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			peak = max(peak, pages*int64(os.Getpagesize()))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return peak
}
