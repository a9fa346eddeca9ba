package sim

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"
)

// dbPool injects faults between one process and its database.
type dbPool struct {
	p      *process
	pool   *sql.DB
	writer chan struct{} // the write lock of the database
}

// lockWait is how long a writer waits for another.
const lockWait = 5 * time.Second

// lock takes the write lock of the database on the bubble's clock. SQLite would wait on the real clock, for which the
// bubble would wait in turn.
func (d *dbPool) lock(ctx context.Context) error {
	select {
	case d.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lockWait):
		return errors.New("sim: database is locked")
	}
}

func (d *dbPool) unlock() { <-d.writer }

var (
	_ gorm.ConnPool         = (*dbPool)(nil)
	_ gorm.ConnPoolBeginner = (*dbPool)(nil)
	_ gorm.GetDBConnector   = (*dbPool)(nil)
	_ gorm.TxCommitter      = (*dbTx)(nil)
)

// under puts the faults below gorm.
func (p *process) under(db *gorm.DB) (*gorm.DB, error) {
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	db.ConnPool = &dbPool{p, pool, p.w.writers[p.service]}
	db.Statement.ConnPool = db.ConnPool
	return db, nil
}

func dbError(err error) error {
	if errors.Is(err, errFault) {
		return errLost
	}
	return err
}

var statement = regexp.MustCompile("(?i)^\\s*(INSERT INTO|REPLACE INTO|UPDATE|DELETE FROM|SELECT.*? FROM)\\s+[`\"]?([a-z_]+)")

// names caches names of statements: there are few texts and many calls.
var names sync.Map

// nameOf returns the verb and the table of a statement.
func nameOf(query string) string {
	if n, ok := names.Load(query); ok {
		return n.(string)
	}
	n := readName(query)
	names.Store(query, n)
	return n
}

func readName(query string) string {
	m := statement.FindStringSubmatch(query)
	if m == nil {
		word, _, _ := strings.Cut(query, " ")
		return strings.ToLower(word)
	}
	verb, _, _ := strings.Cut(strings.ToLower(m[1]), " ")
	return verb + " " + m[2]
}

func (d *dbPool) GetDBConn() (*sql.DB, error) { return d.pool, nil }

func (d *dbPool) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return d.pool.PrepareContext(ctx, query)
}

func (d *dbPool) ExecContext(ctx context.Context, query string, args ...any) (res sql.Result, err error) {
	err = d.p.at(ctx, "db", nameOf(query), []kind{failBefore, failAfter, late, dieBefore, dieAfter}, nil, func() error {
		if err = d.lock(ctx); err != nil {
			return err
		}
		defer d.unlock()
		res, err = d.pool.ExecContext(ctx, query, args...)
		return err
	}, nil)
	return res, dbError(err)
}

func (d *dbPool) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	return queryFaulty(ctx, d.p, d.pool, query, args)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func queryFaulty(ctx context.Context, p *process, from querier, query string, args []any) (rows *sql.Rows, err error) {
	err = p.at(ctx, "db", nameOf(query), []kind{failBefore, late, dieBefore}, nil, func() error {
		rows, err = from.QueryContext(ctx, query, args...) //nolint:rowserrcheck,sqlclosecheck // the caller closes them
		return err
	}, nil)
	return rows, dbError(err)
}

func queryRowFaulty(ctx context.Context, p *process, from querier, query string, args []any) *sql.Row {
	if p.dead.Load() {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return from.QueryRowContext(ended, query, args...)
	}
	return from.QueryRowContext(ctx, query, args...)
}

func (d *dbPool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return queryRowFaulty(ctx, d.p, d.pool, query, args)
}

func (d *dbPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	var tx *sql.Tx
	err := d.p.at(ctx, "db", "begin", []kind{failBefore, late, dieBefore}, nil, func() (err error) {
		if err = d.lock(ctx); err != nil {
			return err
		}
		if tx, err = d.pool.BeginTx(ctx, opts); err != nil {
			d.unlock()
		}
		return err
	}, nil)
	if err != nil {
		if tx != nil {
			_ = tx.Rollback()
			d.unlock()
		}
		return nil, dbError(err)
	}
	return &dbTx{p: d.p, tx: tx, unlock: sync.OnceFunc(d.unlock)}, nil
}

func inTransaction(ctx context.Context) context.Context {
	return context.WithValue(ctx, transaction{}, true)
}

// dbTx is a transaction of one process.
type dbTx struct {
	p  *process
	tx *sql.Tx

	unlock func()
	mu     sync.Mutex
	writes string // the first table with a write; it names the commit
}

func (d *dbTx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return d.tx.PrepareContext(ctx, query)
}

func (d *dbTx) ExecContext(ctx context.Context, query string, args ...any) (res sql.Result, err error) {
	name := nameOf(query)
	d.mu.Lock()
	if d.writes == "" && !strings.HasPrefix(name, "select") {
		_, d.writes, _ = strings.Cut(name, " ")
	}
	d.mu.Unlock()
	err = d.p.at(inTransaction(ctx), "db", "tx: "+name, []kind{failBefore, failAfter, dieBefore}, nil, func() error {
		res, err = d.tx.ExecContext(ctx, query, args...)
		return err
	}, nil)
	return res, dbError(err)
}

func (d *dbTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return queryFaulty(inTransaction(ctx), d.p, d.tx, query, args)
}

func (d *dbTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return queryRowFaulty(ctx, d.p, d.tx, query, args)
}

func (d *dbTx) Commit() error {
	defer d.unlock()
	d.mu.Lock()
	name := "commit " + d.writes
	d.mu.Unlock()
	err := d.p.at(inTransaction(context.Background()), "db", strings.TrimSpace(name), []kind{failBefore, failAfter, failAfter, late, dieBefore, dieAfter}, nil, d.tx.Commit, nil)
	if errors.Is(err, errFault) {
		_ = d.tx.Rollback() // as the server does for a lost connection; no effect after a commit
		return errLost
	}
	return err
}

func (d *dbTx) Rollback() error {
	defer d.unlock()
	return d.tx.Rollback()
}
