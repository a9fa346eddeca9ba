// Package bench measures the whole system on one machine, in one run and with one load generator. At the end it
// verifies that nothing was lost. Each rate is compared with one that is measured in the same minutes on the same
// machine: that of a bare HTTP handler, or of bare inserts.
package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/sqldb"
)

// Config holds the system and the size of the measurements.
type Config struct {
	System
	OrderInserts string // program that inserts orders with the order service's store, and does nothing else
	Secret       string // signs buyers' tokens

	Connections int           // of the load generator
	Burst       int           // purchases of one burst
	Steady      time.Duration // duration of the steady sale
	Slice       time.Duration // duration of each other measurement
	Rounds      int           // repetitions of each of them; measurements in short samples take Rounds*Slice in all
	Closing     int           // orders that are due at once
	Phase       Phase         // sections of one phase run
	Only        string        // name of the only section that runs; "" means those of the phase that are not long
	Scale       float64       // factor of durations and counts of the sections as installed; 0 means 1
	Turns       int           // repetitions of each section; 0 means 1
	Before      *System       // is measured in turns with the system; nil means none
	Log         io.Writer     // gets the progress
}

// System holds the addresses of a system.
type System struct {
	Origins     client.Origins
	Edge        string // host:port; "" means none
	Redis       string // host:port of the gates
	OrderAdmin  string // http://host:port
	OrderDSN    string
	InventoryDB string // DSN
	RunDir      string // folder with the pid files of dependencies and services
}

// before returns the same measurements of the system of Before.
func (c Config) before() Config {
	c.System, c.Before = *c.Before, nil
	return c
}

// seckill returns the address of seckill as host:port.
func (s *System) seckill() string { return strings.TrimPrefix(s.Origins.Seckill, "http://") }

type bench struct {
	cfg         Config
	label       string // of the system, before each line of the progress
	began       time.Time
	http        *http.Client
	client      *client.Client
	merchant    *client.Caller
	orderDB     *sql.DB
	inventoryDB *sql.DB
	procs       processes
	bareAddr    string
	bareBuyers  []buyer

	filled        int // rows that orders and ledger were filled with, each
	buyerGroups   int // number of calls of newBuyers, so that user ids are distinct
	sales         []*sale
	createdBefore int // orders that the order service had created before the run
	report        Report
}

// ErrWrong is returned by Run when purchases, ledger, orders and stock do not agree at the end.
var ErrWrong = errors.New("something was lost or sold twice")

// Run measures everything and ends its sales. After an error, too, the report is complete if its Took is set: the books
// are wrong (ErrWrong), or a sale could not be ended.
func Run(ctx context.Context, cfg Config) (Report, error) {
	turns := []*bench{newBench(cfg, "")}
	if cfg.Before != nil {
		turns = append(turns, newBench(cfg.before(), "before: "))
	}
	for _, b := range turns {
		stop, err := b.start(ctx)
		if err != nil {
			return Report{}, fmt.Errorf("%sstart: %w", b.label, err)
		}
		defer stop()
	}
	errs := []error{measureAll(ctx, turns)}
	for _, b := range turns {
		errs = append(errs, b.endSales(ctx))
	}
	report := &turns[0].report
	if cfg.Before != nil {
		report.Before = &turns[1].report
	}
	return *report, errors.Join(errs...)
}

func newBench(cfg Config, label string) *bench {
	return &bench{cfg: cfg, label: label, began: time.Now(), http: &http.Client{Timeout: 10 * time.Second}}
}

// measureAll runs the selected sections on each system in turns and fills the reports.
func measureAll(ctx context.Context, turns []*bench) error {
	cfg := turns[0].cfg
	selected, err := selectSections(cfg.Phase, cfg.Only)
	if err != nil {
		return err
	}
	for _, b := range turns {
		if err := b.warmUp(ctx); err != nil {
			return fmt.Errorf("%swarm-up: %w", b.label, err)
		}
	}
	for _, s := range selected {
		for round := range max(cfg.Turns, 1) {
			for i := range turns {
				b := turns[(i+round)%len(turns)] // each system is the first one in every other round
				b.logf("section %s", s.name)
				if err := s.run(b, ctx); err != nil {
					return fmt.Errorf("%s%s: %w", b.label, s.name, err)
				}
			}
		}
	}
	var wrong []error
	for _, b := range turns {
		if err := b.finish(ctx); err != nil {
			wrong = append(wrong, fmt.Errorf("%s%w", b.label, err))
		}
	}
	return errors.Join(wrong...)
}

// finish checks the books and completes the report.
func (b *bench) finish(ctx context.Context) (err error) {
	b.logf("checking the books")
	if b.report.Books, err = b.checkBooks(ctx); err != nil {
		return err
	}
	b.report.Memory = b.procs.memory()
	b.report.Took = time.Since(b.began)
	if len(b.report.Books.Wrong) > 0 {
		return ErrWrong
	}
	return nil
}

// endSales ends the sales of the run, also after an error or interrupt: sales that have not ended count for the quota
// of their merchant.
func (b *bench) endSales(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for _, s := range b.sales {
		if err := b.merchant.Change(ctx, s.id, "end"); err != nil {
			errs = append(errs, fmt.Errorf("end sale %s: %w", s.id, err))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.cfg.Log, "%6.1f s  %s%s\n", time.Since(b.began).Seconds(), b.label, fmt.Sprintf(format, args...))
}

// start opens the connections and starts the bare handler. stop releases them.
func (b *bench) start(ctx context.Context) (stop func(), err error) {
	var ends []func()
	stop = func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if b.procs, err = findProcesses(b.cfg.RunDir); err != nil {
		return nil, err
	}
	for dsn, pool := range map[string]**sql.DB{b.cfg.OrderDSN: &b.orderDB, b.cfg.InventoryDB: &b.inventoryDB} {
		db, err := sqldb.Open(dsn, sqldb.Options{IOTimeout: time.Minute})
		if err != nil {
			return nil, err
		}
		ends = append(ends, func() { _ = sqldb.Close(db) })
		if *pool, err = db.DB(); err != nil {
			return nil, err
		}
	}
	b.client = client.New(b.cfg.Origins, client.Options{Secret: b.cfg.Secret})
	ends = append(ends, b.client.Close, b.http.CloseIdleConnections)
	token, err := b.client.Token(ctx, "bench-merchant", auth.Operator)
	if err != nil {
		return nil, err
	}
	b.merchant = b.client.As(token)
	if b.createdBefore, err = b.created(ctx); err != nil {
		return nil, err
	}
	addr, pid, end, err := startBare(ctx)
	if err != nil {
		return nil, err
	}
	ends = append(ends, end)
	b.bareAddr, b.procs[bareName] = addr, pid
	if b.bareBuyers, err = b.newBuyers(1024); err != nil {
		return nil, err
	}
	for i := range b.bareBuyers { // as long as a real path
		b.bareBuyers[i].path = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	}
	b.report.fill(b.cfg)
	return stop, nil
}

// newSale creates and publishes a sale of stock units with a limit of one for each buyer.
func (b *bench) newSale(ctx context.Context, stock int64, payWithin time.Duration) (*sale, error) {
	return b.newSaleOf(ctx, client.Draft{}, stock, payWithin)
}

// newSaleOf creates and publishes a sale with the settings of the draft that have no fixed value in a run.
func (b *bench) newSaleOf(
	ctx context.Context, draft client.Draft, stock int64, payWithin time.Duration,
) (*sale, error) {
	sku, err := b.merchant.NewProduct(ctx, client.Product{Name: "Bench phone", ListPrice: 49900, Currency: "EUR"})
	if err != nil {
		return nil, err
	}
	draft.Title, draft.PerUserLimit, draft.PayWithinS = "Bench", 1, int64(payWithin/time.Second)
	draft.StartsAt, draft.EndsAt = b.began.Add(-time.Hour), b.began.Add(24*time.Hour)
	draft.Items = []client.Item{{SKUID: sku, Price: 49900, Stock: stock}}
	id, err := b.merchant.NewActivity(ctx, draft)
	if err != nil {
		return nil, err
	}
	if err := b.merchant.Change(ctx, id, "publish"); err != nil {
		return nil, err
	}
	s := &sale{id: id, sku: sku, stock: stock, body: `{"lines":[{"sku_id":"` + sku + `","qty":1}]}`}
	b.sales = append(b.sales, s)
	return s, nil
}

// prepare creates a sale, and n buyers with a path each.
func (b *bench) prepare(ctx context.Context, stock int64, n int) (*sale, []buyer, error) {
	s, err := b.newSale(ctx, stock, 24*time.Hour)
	if err != nil {
		return nil, nil, err
	}
	buyers, err := b.newBuyers(n)
	if err != nil {
		return nil, nil, err
	}
	paths, err := b.fetchPaths(ctx, s, buyers)
	if err == nil {
		b.logf("%d paths fetched, %.0f/s", n, paths.PerSec)
	}
	return s, buyers, err
}
