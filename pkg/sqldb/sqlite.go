package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net/url"
	"time"

	gosqlite "github.com/glebarez/go-sqlite"
)

// sqliteDSN: WAL lets readers go on beside the writer; immediate takes the writer's lock at BEGIN, where waiting for it
// is possible, and not in the middle of a transaction, where SQLite can only give up.
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

// sqliteConn stores every time as text of one width in UTC, so that comparing the texts compares the times.
type sqliteConn struct{ sqliteDriverConn }

const sqliteTime = "2006-01-02 15:04:05.000-07:00"

func (c *sqliteConn) CheckNamedValue(v *driver.NamedValue) error {
	plain, err := driver.DefaultParameterConverter.ConvertValue(v.Value)
	if err != nil {
		return err
	}
	if t, ok := plain.(time.Time); ok {
		plain = t.UTC().Format(sqliteTime) // cuts, as the MySQL side does
	}
	v.Value = plain
	return nil
}

// BeginTx drops the isolation level: SQLite's only one, serializable, is above all that callers ask for.
func (c *sqliteConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.sqliteDriverConn.BeginTx(ctx, driver.TxOptions{ReadOnly: opts.ReadOnly})
}
