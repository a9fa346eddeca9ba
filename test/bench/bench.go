package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/sqldb"
)

// Config holds the system and the size of the measurements.
type Config struct {
	System
	Secret  string  // signs tokens
	Only    string  // names of the sections that run, separated by commas; "" means those that are not long
	Scale   float64 // factor of durations and counts
	Rounds  int     // repetitions of each section
	Orders  int     // of the section due
	Picture string  // SVG file for the section hour; "" means none
	Before  *System // is measured in turns with the system; nil means none
	Log     io.Writer
}

// System holds the addresses of a system, and those of its names that the measurements read.
type System struct {
	Origins      client.Origins
	Redis        string // host:port of the gates
	OrderAdmin   string // http://host:port
	OrderDSN     string
	InventoryDSN string
	RunDir       string // folder with the pid files of dependencies and services
	Journal      string // key of a gate's journal; %s is the activity
	Created      string // metric of the orders that the order service has created
}

// flags adds a flag for each field. Their names begin with prefix.
func (s *System) flags(flags *flag.FlagSet, prefix, of string) {
	for _, f := range []struct {
		to                *string
		name, value, help string
	}{
		{&s.RunDir, "run-dir", "", "folder with the pid files"},
		{&s.Origins.Seckill, "seckill", "", "seckill, http://host:port"},
		{&s.Origins.Order, "order", "", "order"},
		{&s.Origins.Inventory, "inventory", "", "inventory"},
		{&s.OrderAdmin, "order-admin", "", "admin listener of order"},
		{&s.Redis, "redis", "", "Redis, host:port"},
		{&s.OrderDSN, "order-dsn", "", "database of order"},
		{&s.InventoryDSN, "inventory-dsn", "", "database of inventory"},
		{&s.Journal, "journal-key", "fs:{%s}:journal", "key of a gate's journal; %s is the activity"},
		{&s.Created, "created-metric", `flashsale_order_orders_total{flashsale_state="created"`, "begin of the metric of the created orders"},
	} {
		flags.StringVar(f.to, prefix+f.name, f.value, f.help+", "+of)
	}
}

// seckill returns the address of seckill as host:port.
func (s *System) seckill() string { return strings.TrimPrefix(s.Origins.Seckill, "http://") }

// order returns the address of order as host:port.
func (s *System) order() string { return strings.TrimPrefix(s.Origins.Order, "http://") }

// bench measures one system.
type bench struct {
	Config
	label       string // of the system, before each line of the progress
	began       time.Time
	http        *http.Client
	client      *client.Client
	merchant    *client.Caller
	orderDB     *sql.DB
	inventoryDB *sql.DB
	redis       *redis.Client
	procs       processes
	bareAddr    string
	bareBuyers  []buyer

	buyerGroups   int // number of calls of newBuyers, so that user ids are distinct
	sales         []*sale
	createdBefore int // orders that the metric counted before the run, less those of the run that it lacks
	section       string
	figures       figures
	tables        []Table
	books         Books
}

// ErrWrong is returned by measure when purchases, ledger, orders and stock do not agree at the end.
var ErrWrong = errors.New("something was lost or sold twice")

// measure runs the sections and ends its sales. After an error, too, the report is complete if its Took is set: the
// books are wrong (ErrWrong), or a sale could not be ended.
func measure(ctx context.Context, cfg Config) (Report, error) {
	selected, err := selectSections(cfg.Only)
	if err != nil {
		return Report{}, err
	}
	systems := []*bench{newBench(cfg, "")}
	if cfg.Before != nil {
		before := cfg
		before.System, before.Picture = *cfg.Before, ""
		systems = append(systems, newBench(before, "before: "))
	}
	for _, b := range systems {
		stop, err := b.start(ctx)
		if err != nil {
			return Report{}, fmt.Errorf("%sstart: %w", b.label, err)
		}
		defer stop()
	}
	report := newReport(cfg)
	err = measureAll(ctx, systems, selected)
	if err == nil || errors.Is(err, ErrWrong) {
		report.add(systems)
	}
	for _, b := range systems {
		err = errors.Join(err, b.endSales(ctx))
	}
	return report, err
}

func newBench(cfg Config, label string) *bench {
	return &bench{Config: cfg, label: label, began: time.Now(), http: &http.Client{Timeout: 10 * time.Second}}
}

// measureAll runs the sections on each system in turns.
func measureAll(ctx context.Context, systems []*bench, selected []section) error {
	for _, b := range systems {
		if err := b.warmUp(ctx); err != nil {
			return fmt.Errorf("%swarm-up: %w", b.label, err)
		}
	}
	for _, s := range selected {
		for round := range max(systems[0].Rounds, 1) {
			for i := range systems {
				b := systems[(i+round)%len(systems)] // each system is the first one in every other round
				b.logf("section %s", s.name)
				b.section = s.name
				if err := s.run(b, ctx); err != nil {
					return fmt.Errorf("%s%s: %w", b.label, s.name, err)
				}
			}
		}
	}
	var wrong []error
	for _, b := range systems {
		if err := b.finish(ctx); err != nil {
			wrong = append(wrong, fmt.Errorf("%s%w", b.label, err))
		}
	}
	return errors.Join(wrong...)
}

// finish checks the books and records the memory of the processes.
func (b *bench) finish(ctx context.Context) (err error) {
	b.logf("checking the books")
	if b.books, err = b.checkBooks(ctx); err != nil {
		return err
	}
	b.section = "end"
	b.recordMemory("now", func(m memory) int64 { return m.now })
	b.recordMemory("peak", func(m memory) int64 { return m.peak })
	if len(b.books.Wrong) > 0 {
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
		if err := b.merchant.Change(ctx, s.ActivityID, "end"); err != nil {
			errs = append(errs, fmt.Errorf("end sale %s: %w", s.ActivityID, err))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.Log, "%6.1f s  %s%s\n", time.Since(b.began).Seconds(), b.label, fmt.Sprintf(format, args...))
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
	if b.procs, err = findProcesses(b.RunDir); err != nil {
		return nil, err
	}
	for dsn, pool := range map[string]**sql.DB{b.OrderDSN: &b.orderDB, b.InventoryDSN: &b.inventoryDB} {
		db, err := sqldb.Open(dsn, sqldb.Options{IOTimeout: time.Minute})
		if err != nil {
			return nil, err
		}
		ends = append(ends, func() { _ = sqldb.Close(db) })
		if *pool, err = db.DB(); err != nil {
			return nil, err
		}
	}
	b.redis = redis.NewClient(&redis.Options{Addr: b.Redis, PoolSize: 1})
	b.client = client.New(b.Origins, client.Options{Secret: b.Secret})
	ends = append(ends, func() { _ = b.redis.Close() }, b.client.Close, b.http.CloseIdleConnections)
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
	if b.bareBuyers, err = b.newBuyers(ctx, 1024); err != nil {
		return nil, err
	}
	for i := range b.bareBuyers { // as long as a real path
		b.bareBuyers[i].path = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	}
	return stop, nil
}
