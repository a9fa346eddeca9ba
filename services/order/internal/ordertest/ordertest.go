// Package ordertest gives tests a fresh order database on the real MariaDB and on SQLite, with each layout of the order
// tables.
package ordertest

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
)

// Each runs fn twice, as subtests "mariadb" and "sqlite", each on a separate database as `order migrate up` creates it.
func Each(t *testing.T, fn func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	t.Run("mariadb", func(t *testing.T) { fn(t, MariaDB(t, 1)) })
	t.Run("sqlite", func(t *testing.T) { fn(t, SQLite(t)) })
}

// EachLayout runs fn as Each does, and without -short on the other layouts: several tables, and the 16 tables of
// version 1.
func EachLayout(t *testing.T, fn func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	Each(t, fn)
	if testing.Short() {
		return
	}
	t.Run("mariadb, 4 tables", func(t *testing.T) { fn(t, MariaDB(t, 4)) })
	t.Run("mariadb, version 1", func(t *testing.T) { fn(t, dbtest.MariaDB(t, order.Migrations)) })
	t.Run("sqlite, version 1", func(t *testing.T) { fn(t, dbtest.SQLite(t, order.Migrations)) })
}

// SQLite returns a database in a temporary file.
func SQLite(t testing.TB) *gorm.DB {
	t.Helper()
	return dbtest.PreparedSQLite(t, "orders", migrate(1))
}

// MariaDB returns a database on the server of MYSQL_DSN with this number of order tables.
func MariaDB(t testing.TB, tables int) *gorm.DB {
	t.Helper()
	return dbtest.PreparedMariaDB(t, fmt.Sprintf("orders in %d tables", tables), migrate(tables))
}

func migrate(tables int) dbtest.Prepare {
	return func(ctx context.Context, db *gorm.DB) error {
		return order.Migrate(ctx, db, tables, slog.New(slog.DiscardHandler))
	}
}
