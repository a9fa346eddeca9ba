package shop

import (
	"context"
	"database/sql"
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

// Count returns the number that the statement selects.
func Count(t *testing.T, dsn, text string, args ...any) (n int64) {
	t.Helper()
	Query(t, dsn, text, func(rows *sql.Rows) { require.NoError(t, rows.Scan(&n)) }, args...)
	return n
}
