// Package dbtest gives tests a fresh, migrated database on the real MariaDB and on SQLite.
package dbtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io/fs"
	"os"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

const defaultDSN = "root@tcp(127.0.0.1:13306)/"

// patience bounds a statement. Some create and drop tables, for each of which the server waits for a disk that others
// use too.
const patience = 3 * time.Minute

// patient returns the options of a pool whose time-outs a busy machine does not exceed.
func patient(maxOpen int) sqldb.Options {
	return sqldb.Options{MaxOpen: maxOpen, DialTimeout: patience, IOTimeout: patience}
}

// Each runs fn twice, as subtests "mariadb" and "sqlite", each on a separate migrated database.
func Each(t *testing.T, migrations fs.FS, fn func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	t.Run("mariadb", func(t *testing.T) { fn(t, MariaDB(t, migrations)) })
	t.Run("sqlite", func(t *testing.T) { fn(t, SQLite(t, migrations)) })
}

// SQLite returns a migrated database in a temporary file.
func SQLite(t testing.TB, migrations fs.FS) *gorm.DB {
	t.Helper()
	kind, prepare := migrate(t, migrations)
	return PreparedSQLite(t, kind, prepare)
}

// MariaDB returns a migrated database with a random name on the server of MYSQL_DSN. It is dropped when the test ends.
func MariaDB(t testing.TB, migrations fs.FS) *gorm.DB {
	t.Helper()
	kind, prepare := migrate(t, migrations)
	return PreparedMariaDB(t, kind, prepare)
}

// MariaDBDSN creates an empty database as MariaDB does, and returns its DSN.
func MariaDBDSN(t testing.TB) string {
	t.Helper()
	cfg, err := mysqldriver.ParseDSN(ServerDSN())
	require.NoError(t, err, "MYSQL_DSN")
	cfg.DBName = ""
	admin, err := sqldb.Open(cfg.FormatDSN(), patient(1))
	require.NoError(t, err)
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	name := "fs_test_" + hex.EncodeToString(random)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := admin.WithContext(ctx).Exec("CREATE DATABASE " + name + " CHARACTER SET utf8mb4").Error; err != nil {
		_ = sqldb.Close(admin)
		t.Fatalf("no MySQL or MariaDB at %s (MYSQL_DSN): run `make test`, which starts one: %v", cfg.Addr, err)
	}
	t.Cleanup(func() {
		if err := admin.Exec("DROP DATABASE " + name).Error; err != nil {
			t.Errorf("drop %s: %v", name, err)
		}
		_ = sqldb.Close(admin)
	})
	cfg.DBName = name
	return cfg.FormatDSN()
}

// ServerDSN returns MYSQL_DSN, or the DSN of the server that `make up` and `make test` start.
func ServerDSN() string {
	if dsn := os.Getenv("MYSQL_DSN"); dsn != "" {
		return dsn
	}
	return defaultDSN
}

func connect(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	db, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	return db
}
