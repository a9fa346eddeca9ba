package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net/url"
	"time"

	gosqlite "github.com/glebarez/go-sqlite"
)

// sqliteDSN returns the DSN of a file. With WAL, readers run concurrently with the writer. With immediate, a
// transaction takes the writer's lock at BEGIN, where it can wait for it; in the middle of a transaction SQLite can
// only fail.
func sqliteDSN(path string, wait time.Duration) string {
	q := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()),
			"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		},
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

type sqliteConnector struct{ dsn string }

func (c *sqliteConnector) Driver() driver.Driver { return &gosqlite.Driver{} }

func (c *sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(sqliteDriverConn)
	if !ok {
		return nil, fmt.Errorf("the SQLite driver's connection %T lacks methods", conn)
	}
	return &sqliteConn{full}, nil
}

type sqliteDriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
}

// sqliteConn stores every time as text of fixed width in UTC, so that texts sort like times.
type sqliteConn struct{ sqliteDriverConn }

const sqliteTime = "2006-01-02 15:04:05.000-07:00"

func (c *sqliteConn) CheckNamedValue(v *driver.NamedValue) error {
	plain, err := driver.DefaultParameterConverter.ConvertValue(v.Value)
	if err != nil {
		return err
	}
	if t, ok := plain.(time.Time); ok {
		plain = t.UTC().Format(sqliteTime) // truncates, as the MySQL connection does
	}
	v.Value = plain
	return nil
}

// BeginTx ignores the requested isolation level: SQLite is always serializable, the strictest level.
func (c *sqliteConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.sqliteDriverConn.BeginTx(ctx, driver.TxOptions{ReadOnly: opts.ReadOnly})
}
