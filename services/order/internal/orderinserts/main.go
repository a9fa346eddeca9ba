// Command orderinserts measures how many orders a second the order service's store takes when nothing else happens: 64 to a
// transaction, by four writers. It is what the benchmarks compare landed orders with, see docs/benchmarks.md.
//
// MYSQL_DSN names a database of its own, which it fills and leaves as it is. It prints a line when it begins, and at the end
// {"orders": n, "took_ns": wall time, "cpu_ns": processor time of this process meanwhile}.
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
	writers = 4 // as many as a service has consumers
)

func main() {
	within := flag.Duration("for", 3*time.Second, "how long")
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
	// How long each transaction took, in no order.
	Transactions []time.Duration `json:"transactions_ns"`
}

func run(ctx context.Context, dsn string, within time.Duration, out io.Writer) error {
	db, err := sqldb.Open(dsn, sqldb.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = sqldb.Close(db) }()
	if err := sqldb.Migrate(ctx, db, order.Migrations, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	s := store.New(db, telemetry.Discard(nil), nil)
	fmt.Fprintln(out, "inserting")

	var taken, made atomic.Int64
	took := make([][]time.Duration, writers)
	errs := make(chan error, writers)
	var all sync.WaitGroup
	began, before := time.Now(), cpu()
	for i := range writers {
		all.Go(func() {
			for time.Since(began) < within {
				from := time.Now()
				orders := ordersFrom(taken.Add(batch)-batch, time.Now().UTC().Truncate(time.Millisecond))
				if err := s.InTx(ctx, "insert", func(tx core.Tx) error { return tx.InsertOrders(orders) }); err != nil {
					errs <- err
					return
				}
				took[i] = append(took[i], time.Since(from))
				made.Add(batch)
			}
		})
	}
	all.Wait()
	r := result{Orders: made.Load(), Took: time.Since(began), CPU: cpu() - before, Transactions: slices.Concat(took...)}
	close(errs)
	if err := errors.Join(<-errs, ctx.Err()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// ordersFrom makes orders of users nobody else has, so that they spread over the tables as those of a sale do.
func ordersFrom(first int64, at time.Time) []core.Order {
	orders := make([]core.Order, batch)
	for i := range orders {
		n := first + int64(i)
		user := "u" + strconv.FormatInt(n, 10)
		// The number takes the places of worker and sequence: 16,384 orders in a millisecond before one comes twice.
		sn := ordersn.SN{Time: at, Worker: int(n >> 6 & 0xff), Sequence: int(n & 0x3f), Gene: ordersn.Gene(user)}
		orders[i] = core.Order{
			OrderSN: sn.String(), UserID: user, ActivityID: "1", State: core.Pending,
			Lines: []contract.PricedLine{{SKUID: "1", Qty: 1, Price: 49900}}, Amount: 49900, Currency: "EUR",
			CreatedAt: at, ExpiresAt: at.Add(24 * time.Hour),
		}
	}
	return orders
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
