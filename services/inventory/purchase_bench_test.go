package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/stockgate"
)

// What a purchase costs this process and MariaDB, in messages of 128: its landing, the event of its order, and
// its closing. The statements of the test itself are left out; those of the broker and the order service are not there.
func BenchmarkPurchase(b *testing.B) {
	addr := os.Getenv("REDIS_ADDRS")
	if addr == "" {
		addr = "127.0.0.1:16379"
	}
	w := newWorldOn(b, dbtest.MariaDB(b, Migrations), []string{strings.Split(addr, ",")[0]}, 3)
	require.NoError(b, w.rdb.FlushDB(w.ctx).Err())
	b.Cleanup(func() { _ = w.rdb.FlushDB(w.ctx).Err() })
	a := w.sale(1, 1_000_000)
	const batch = 128
	mariadb := w.pidOfMariaDB()
	spent := map[string]time.Duration{}
	timed := func(step string, work func() error) {
		before, beforeMariaDB := processorTime(b), cpuOf(b, mariadb)
		b.StartTimer()
		err := work()
		b.StopTimer()
		spent[step] += processorTime(b) - before
		spent[step+"-mariadb"] += cpuOf(b, mariadb) - beforeMariaDB
		require.NoError(b, err)
	}
	buyer := 0
	for b.Loop() {
		b.StopTimer()
		reservations := make([]contract.Reservation, batch)
		requests := make([]stockgate.Request, batch)
		created := make([]contract.OrderEvent, batch)
		sns := make([]string, batch)
		for i := range batch {
			buyer++
			r := contract.Reservation{
				OrderSN: newSN(), UserID: fmt.Sprint("u", buyer), ActivityID: a.ID, ReservedAt: time.Now().UTC(),
				Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}},
			}
			reservations[i], sns[i] = r, r.OrderSN
			requests[i] = stockgate.Request{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines}
			created[i] = event(r, contract.OrderCreated)
		}
		_, err := w.gate.Reserve(w.ctx, a.ID, requests)
		require.NoError(b, err)
		w.orders.set("closed", sns...)
		landed := message(b, contract.TopicReservations, reservations...)
		ordered := message(b, contract.TopicOrderEvents, created...)
		due := message(b, contract.TopicOrderClose, contract.OrderClose{OrderSNs: sns, ActivityID: a.ID, DueAt: time.Now()})
		timed("landed", func() error { return w.consumer.Reservations(w.ctx, landed) })
		timed("created", func() error { return w.consumer.OrderEvents(w.ctx, ordered) })
		timed("closed", func() error { return w.consumer.OrderClose(w.ctx, due) })
		b.StartTimer()
	}
	for step, d := range spent {
		b.ReportMetric(float64(d.Microseconds())/float64(b.N*batch), "us-"+step+"/purchase")
	}
}

// cpuOf returns the processor time that a process has used, by its scheduler's count, which is exact.
func cpuOf(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(b, err)
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		var ran int64
		_, err = fmt.Sscan(string(text), &ran)
		require.NoError(b, err)
		sum += time.Duration(ran)
	}
	return sum
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
