package shop

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver that Query opens
	"github.com/stretchr/testify/require"
)

// Query runs a statement on the database of that DSN and calls each for every row.
func Query(t *testing.T, dsn, text string, each func(*sql.Rows), args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, text, args...)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		each(rows)
	}
	require.NoError(t, rows.Err())
}

// EachOrder selects columns of the orders from the tables that order_layout names, and calls each for every row.
func EachOrder(t *testing.T, dsn, columns, where string, each func(*sql.Rows), args ...any) {
	t.Helper()
	for _, table := range OrderTables(t, dsn) {
		Query(t, dsn, "SELECT "+columns+" FROM "+table+" WHERE "+where, each, args...)
	}
}

// OrderTables returns the names of the tables that hold orders.
func OrderTables(t *testing.T, dsn string) (names []string) {
	t.Helper()
	Query(t, dsn, "SELECT table_names FROM order_layout", func(rows *sql.Rows) {
		var list string
		require.NoError(t, rows.Scan(&list))
		names = strings.Split(list, ",")
	})
	return names
}

// Count returns the number that the statement selects.
func Count(t *testing.T, dsn, text string) (n int64) {
	t.Helper()
	Query(t, dsn, text, func(rows *sql.Rows) { require.NoError(t, rows.Scan(&n)) })
	return n
}
