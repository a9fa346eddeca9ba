// Command orderinserts measures how many orders per second the order service's store inserts without any other load:
// four writers, 64 orders per transaction. docs/benchmarks.md compares the rate of landed orders with this figure.
//
// MYSQL_DSN names a database that is used for nothing else. The command fills it and does not clean it up. It prints a
// line when it starts inserting, and at the end a JSON object:
//
//	{"orders": n, "took_ns": wall time, "cpu_ns": CPU time of this process, "transactions_ns": [time of each]}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/store"
)

const (
	batch   = 64
	writers = 4 // the default of ORDER_CONSUMERS
)

func main() {
	within := flag.Duration("for", 3*time.Second, "duration of the measurement")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("MYSQL_DSN"), *within, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "orderinserts:", err)
		os.Exit(1)
	}
}

type result struct {
	Orders int64         `json:"orders"`
	Took   time.Duration `json:"took_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	// Transactions are the durations of the transactions, in no particular order.
	Transactions []time.Duration `json:"transactions_ns"`
}

func run(ctx context.Context, dsn string, within time.Duration, out io.Writer) error {
	db, err := sqldb.Open(dsn, sqldb.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = sqldb.Close(db) }()
	if err := order.Migrate(ctx, db, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	s := store.New(db, telemetry.Discard(nil), nil)
	fmt.Fprintln(out, "inserting")

	var next, inserted atomic.Int64
	took := make([][]time.Duration, writers)
	errs := make(chan error, writers)
	var wg sync.WaitGroup
	began, before := time.Now(), cpu()
	for i := range writers {
		wg.Go(func() {
			for time.Since(began) < within {
				from := time.Now()
				orders := newOrders(next.Add(batch)-batch, time.Now().UTC().Truncate(time.Millisecond))
				err := s.InTx(ctx, "insert", func(tx core.Tx) error { return tx.InsertOrders(orders) })
				if err != nil {
					errs <- err
					return
				}
				took[i] = append(took[i], time.Since(from))
				inserted.Add(batch)
			}
		})
	}
	wg.Wait()
	r := result{
		Orders: inserted.Load(), Took: time.Since(began), CPU: cpu() - before, Transactions: slices.Concat(took...),
	}
	close(errs)
	if err := errors.Join(<-errs, ctx.Err()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// newOrders returns a batch of orders, each of a different user, so that they are spread over the tables as in a sale.
// first is the number of the first order.
func newOrders(first int64, at time.Time) []core.Order {
	orders := make([]core.Order, batch)
	for i := range orders {
		n := first + int64(i)
		user := "u" + strconv.FormatInt(n, 10)
		// The order's number fills worker and sequence, so that 16,384 order_sns are unique within a millisecond.
		sn := ordersn.SN{Time: at, Worker: int(n >> 6 & 0xff), Sequence: int(n & 0x3f), Gene: ordersn.Gene(user)}
		orders[i] = core.Order{
			OrderSN: sn.String(), UserID: user, ActivityID: "1", State: core.Pending,
			Lines: []contract.PricedLine{{SKUID: "1", Qty: 1, Price: 49900}}, Amount: 49900, Currency: "EUR",
			CreatedAt: at, ExpiresAt: at.Add(24 * time.Hour),
		}
	}
	return orders
}

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
