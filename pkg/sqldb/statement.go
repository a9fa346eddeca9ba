package sqldb

import (
	"database/sql"
	"strings"
	"time"

	"gorm.io/gorm"
)

// Exec runs a statement as it is on the connection of db, and returns the number of changed rows. It saves gorm's
// processing, which for statements of many rows costs more than their transport. Slow statements and errors are logged
// as gorm's are.
func Exec(db *gorm.DB, query string, args ...any) (changed int64, err error) {
	began := time.Now()
	res, err := db.Statement.ConnPool.ExecContext(db.Statement.Context, query, args...)
	if err == nil {
		changed, err = res.RowsAffected()
	}
	logStatement(db, began, query, changed, err)
	return changed, err
}

// Query runs a query as it is on the connection of db and calls scan for each row, until scan fails.
func Query(db *gorm.DB, query string, args []any, scan func(rows *sql.Rows) error) error {
	began := time.Now()
	read, err := queryRows(db, query, args, scan)
	logStatement(db, began, query, read, err)
	return err
}

func queryRows(db *gorm.DB, query string, args []any, scan func(rows *sql.Rows) error) (read int64, err error) {
	rows, err := db.Statement.ConnPool.QueryContext(db.Statement.Context, query, args...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }() // Err returns what matters
	for rows.Next() {
		if err := scan(rows); err != nil {
			return read, err
		}
		read++
	}
	return read, rows.Err()
}

func logStatement(db *gorm.DB, began time.Time, query string, rows int64, err error) {
	db.Logger.Trace(db.Statement.Context, began, func() (string, int64) { return query, rows }, err)
}

// List returns n question marks in brackets, for IN and for one row of VALUES.
func List(n int) string {
	if n == 0 {
		return "(NULL)" // IN () is no SQL; no value equals NULL
	}
	return "(?" + strings.Repeat(", ?", n-1) + ")"
}

// Rows returns the brackets of n rows of VALUES with so many columns.
func Rows(n, columns int) string {
	row := List(columns)
	return row + strings.Repeat(", "+row, n-1)
}
