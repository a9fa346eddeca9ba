package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/pkg/sqldb"
)

const (
	rawRows    = 64 // of one INSERT, and so of one commit
	rawWriters = 4  // at a time, as many as a service has consumers
	rawTable   = "bench_rows"
)

// rawRow is a row like an order's, in a table with an order table's columns and indexes.
type rawRow struct {
	OrderSN      int64 `gorm:"column:order_sn;primaryKey;autoIncrement:false"`
	UserID       string
	ActivityID   int64
	Bucket       int
	State        string
	Tombstone    bool
	Amount       int64
	Currency     string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	CloseCheckAt time.Time
	Traceparent  string
}

// insertRaw inserts rows for that long, 64 to a statement, each statement a transaction, by way of the same package as the
// services and into the same server with the same durability. It tells the rows per second.
func (b *bench) insertRaw(ctx context.Context, within time.Duration) (perSec float64, use Usage, err error) {
	db, err := sqldb.Open(b.cfg.OrderDSN, sqldb.Options{})
	if err != nil {
		return 0, use, err
	}
	defer func() { _ = sqldb.Close(db) }()
	pool, err := db.DB()
	if err != nil {
		return 0, use, err
	}
	for _, statement := range []string{"DROP TABLE IF EXISTS " + rawTable, "CREATE TABLE " + rawTable + " LIKE orders_00"} {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return 0, use, err
		}
	}
	defer func() { _, _ = pool.ExecContext(context.WithoutCancel(ctx), "DROP TABLE IF EXISTS "+rawTable) }()

	var next, rows atomic.Int64
	var first atomic.Pointer[error]
	var writers sync.WaitGroup
	m := b.procs.meter()
	began := time.Now()
	for range rawWriters {
		writers.Go(func() {
			for time.Since(began) < within && ctx.Err() == nil {
				at := time.Now().UTC().Truncate(time.Millisecond)
				from := next.Add(rawRows) - rawRows
				batch := make([]rawRow, rawRows)
				for i := range batch {
					n := from + int64(i)
					batch[i] = rawRow{
						OrderSN: 1<<50 + n<<8, UserID: fmt.Sprintf("b%d", n), ActivityID: 1, State: "pending", Amount: 49900, Currency: "EUR",
						CreatedAt: at, ExpiresAt: at.Add(15 * time.Minute), CloseCheckAt: at.Add(15 * time.Minute),
					}
				}
				if err := db.WithContext(ctx).Table(rawTable).Create(&batch).Error; err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				rows.Add(rawRows)
			}
		})
	}
	writers.Wait()
	took := time.Since(began)
	use = m.used()
	if e := first.Load(); e != nil {
		return 0, use, *e
	}
	return float64(rows.Load()) / took.Seconds(), use, ctx.Err()
}
