package store_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

const benchBatch = 128 // orders of one transaction

// BenchmarkOrderTables measures landings and closings with each number of tables: the time of an order, and its ratio
// to that with the 16 tables of version 1. The layouts take turns, batch by batch, so that other load hits all alike.
// With MYSQL_PID, the id of the local server's process, it is processor time of the server. See ADR 0019.
//
//	MYSQL_PID=$(pgrep -n mariadbd) go test -run '^$' -bench OrderTables -benchtime 60x ./services/order/internal/store
func BenchmarkOrderTables(b *testing.B) {
	type side struct {
		name            string
		store           *store.Store
		landing, closed []time.Duration // of each batch
	}
	open := func(name string, db *gorm.DB) *side {
		return &side{name: name, store: store.New(db, telemetry.Discard(b), nil)}
	}
	sides := []*side{open("version1_16", dbtest.MariaDB(b, order.Migrations))}
	for _, n := range []int{1, 4, 16} {
		sides = append(sides, open(fmt.Sprintf("version2_%d", n), ordertest.MariaDB(b, n)))
	}
	measured := func(s *side, fn func(tx core.Tx) error) time.Duration {
		before := serverTime(b)
		require.NoError(b, s.store.InTx(b.Context(), "bench", fn))
		return serverTime(b) - before
	}
	began := time.Now().UTC().Truncate(time.Millisecond)
	for n := range b.N {
		for turn := range sides {
			s := sides[(n+turn)%len(sides)]
			orders, sns := make([]core.Order, benchBatch), make([]string, benchBatch)
			at := began.Add(time.Duration(n) * 10 * time.Millisecond)
			for i := range orders {
				o := newOrder("u"+strconv.FormatUint(uint64(n*benchBatch+i)*11400714819323198485>>20, 36), 0)
				sn := ordersn.SN{Time: at.Add(time.Duration(i/16) * time.Millisecond), Sequence: i % 16, Gene: ordersn.Gene(o.UserID)}
				o.OrderSN, o.CreatedAt, o.ExpiresAt = sn.String(), at, at
				orders[i], sns[i] = o, o.OrderSN
			}
			s.landing = append(s.landing, measured(s, func(tx core.Tx) error { return tx.InsertOrders(orders) }))
			s.closed = append(s.closed, measured(s, func(tx core.Tx) error {
				if _, err := tx.OpenPayments(sns); err != nil {
					return err
				}
				closed, err := tx.Close(sns, core.ReasonExpired, at.Add(time.Minute))
				if err == nil && closed != benchBatch {
					err = fmt.Errorf("%d closed", closed)
				}
				return err
			}))
		}
	}
	perOrder := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Nanoseconds()) / 1000 / benchBatch
	}
	baseLanding, baseClosed := perOrder(sides[0].landing), perOrder(sides[0].closed)
	for _, s := range sides {
		landing, closed := perOrder(s.landing), perOrder(s.closed)
		b.Logf("%-12s landing %5.1f us (%.2f)  closing %5.1f us (%.2f)", s.name, landing, landing/baseLanding, closed,
			closed/baseClosed)
	}
}

// serverTime returns the processor time of the process MYSQL_PID, or else the time.
func serverTime(b *testing.B) time.Duration {
	b.Helper()
	pid, err := strconv.Atoi(os.Getenv("MYSQL_PID"))
	if err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	var ts syscall.Timespec
	clock := uintptr(int32(^pid)<<3 | 2) // the clock of a process, as clock_getcpuclockid computes it
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	require.Zero(b, errno)
	return time.Duration(ts.Nano())
}
