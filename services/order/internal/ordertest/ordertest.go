// Package ordertest gives tests a fresh order database on the real MariaDB and on SQLite.
package ordertest

import (
	"context"
	"log/slog"
	"testing"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
)

// Each runs fn twice, as subtests "mariadb" and "sqlite", each on a separate database as `order migrate up` creates it.
func Each(t *testing.T, fn func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	t.Run("mariadb", func(t *testing.T) { fn(t, MariaDB(t)) })
	t.Run("sqlite", func(t *testing.T) { fn(t, SQLite(t)) })
}

// SQLite returns a database in a temporary file.
func SQLite(t testing.TB) *gorm.DB {
	t.Helper()
	return dbtest.PreparedSQLite(t, "orders", migrate)
}

// MariaDB returns a database on the server of MYSQL_DSN.
func MariaDB(t testing.TB) *gorm.DB {
	t.Helper()
	return dbtest.PreparedMariaDB(t, "orders", migrate)
}

func migrate(ctx context.Context, db *gorm.DB) error {
	return order.Migrate(ctx, db, slog.New(slog.DiscardHandler))
}
