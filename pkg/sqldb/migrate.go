package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"gorm.io/gorm"
)

// lockPatience is the time that a migration waits for another process that migrates the same database, and the time for
// which it repeats a statement that did not get its table.
const lockPatience = 5 * time.Minute

// tableWait is the time in seconds that one attempt of a statement such as ALTER waits for the transactions that use
// its table. Meanwhile every other statement on the table waits behind it. The server's default is a day or a year.
const tableWait = 3

// Migration is one file and the time at which it was applied (zero: pending).
type Migration struct {
	Version   int64
	Name      string
	AppliedAt time.Time
}

// Migrate applies the pending migrations in the order of their numbers. The files are migrations/mysql/*.sql (also for
// MariaDB) and migrations/sqlite/*.sql, in goose's format. Several processes may call Migrate at once: on MySQL one
// migrates and the others wait. The statements have no read time-out, since an ALTER may take long; ctx ends them.
//
// On MySQL an ALTER waits until no transaction uses its table, and until then all later statements on the table wait
// too. So an attempt ends after 3 s with nothing changed, and is repeated after a pause in which those statements run,
// for at most 5 min.
//
// MySQL commits each change of a table by itself, before the row in goose's table of versions. A process that is killed
// in between leaves a change without its row, and the next process repeats the file. So a file must be repeatable: it
// creates a table with IF NOT EXISTS, and reads information_schema before it alters one. In SQLite a file and its row
// are one transaction. dbtest.RepeatMigrations checks both.
//
// A database with a migration that has a lower number than all files is too old: Migrate returns an error and changes
// nothing.
func Migrate(ctx context.Context, db *gorm.DB, migrations fs.FS, log *slog.Logger) error {
	return withProvider(db, migrations, func(p *goose.Provider) error {
		if err := refuseOlder(ctx, db, p.ListSources()[0].Version); err != nil {
			return err
		}
		up := func() (struct{}, error) {
			applied, err := p.Up(ctx)
			if partial := (*goose.PartialError)(nil); errors.As(err, &partial) {
				applied = partial.Applied
			}
			for _, m := range applied {
				log.InfoContext(ctx, "migration applied", "file", m.Source.Path, "took", m.Duration)
			}
			switch {
			case err == nil || isLockWait(err):
			case lacksFirstRow(err) && !IsSQLite(db):
				err = errors.Join(err, insertFirstRow(ctx, db))
			default:
				err = backoff.Permanent(err)
			}
			return struct{}{}, err
		}
		pause := &backoff.ExponentialBackOff{
			InitialInterval: time.Second, Multiplier: 2, MaxInterval: 15 * time.Second, RandomizationFactor: 0.5,
		}
		_, err := backoff.Retry(ctx, up, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(lockPatience),
			backoff.WithNotify(func(err error, pause time.Duration) {
				log.WarnContext(ctx, "a table is in use or was being created; the migration is repeated", "error", err, "pause", pause)
			}))
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	})
}

// refuseOlder returns an error if the database has a migration from before first.
func refuseOlder(ctx context.Context, db *gorm.DB, first int64) error {
	var version int64 // 0 stands for an empty database
	err := db.WithContext(ctx).Raw("SELECT COALESCE(MIN(version_id), 0) FROM goose_db_version WHERE version_id > 0").
		Scan(&version).Error
	if IsMissingTable(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if version > 0 && version < first {
		return fmt.Errorf("the database has migration %d of a version before 0.1.0, and none can be migrated: "+
			"begin with an empty database", version)
	}
	return nil
}

// lacksFirstRow reports whether goose found its table without the first row. MySQL commits the creation of a table at
// once, so another process may be about to insert the row, or was killed before it.
func lacksFirstRow(err error) bool { return strings.Contains(err.Error(), "missing zero version") }

// insertFirstRow inserts the row of goose's table that stands for an empty database. A second such row changes nothing.
func insertFirstRow(ctx context.Context, db *gorm.DB) error {
	return db.WithContext(ctx).Exec("INSERT INTO goose_db_version (version_id, is_applied) SELECT 0, TRUE FROM DUAL " +
		"WHERE NOT EXISTS (SELECT 1 FROM goose_db_version)").Error
}

// Status lists all migrations, applied or pending.
func Status(ctx context.Context, db *gorm.DB, migrations fs.FS) ([]Migration, error) {
	var list []Migration
	err := withProvider(db, migrations, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("migration status: %w", err)
		}
		for _, s := range states {
			m := Migration{Version: s.Source.Version, Name: s.Source.Path}
			if s.State == goose.StateApplied {
				m.AppliedAt = s.AppliedAt
			}
			list = append(list, m)
		}
		return nil
	})
	return list, err
}

func withProvider(db *gorm.DB, migrations fs.FS, do func(*goose.Provider) error) (failed error) {
	dir, dialect := "migrations/mysql", database.DialectMySQL
	pool, err := db.DB()
	if err != nil {
		return err
	}
	opts := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if IsSQLite(db) {
		dir, dialect = "migrations/sqlite", database.DialectSQLite3
	} else {
		opts = append(opts, goose.WithSessionLocker(namedLock{}))
		patient, shut, err := patientPool(db)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, shut()) }()
		pool = patient
	}
	sub, err := fs.Sub(migrations, dir)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, pool, sub, opts...)
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	return do(p)
}

// patientPool opens a pool of a MySQL database for statements that change tables: without a read time-out, and with
// tableWait.
func patientPool(db *gorm.DB) (pool *sql.DB, shut func() error, err error) {
	cfg := extensionOf(db).mysql
	if cfg == nil { // a pool that Open did not open
		pool, err = db.DB()
		return pool, func() error { return nil }, err
	}
	patient := cfg.Clone()
	patient.ReadTimeout = 0
	patient.Params["lock_wait_timeout"] = strconv.Itoa(tableWait)
	if pool, err = openMySQL(patient); err != nil {
		return nil, nil, err
	}
	return pool, pool.Close, nil
}

// Alter runs a statement that changes tables, outside of a migration. It has no read time-out. On MySQL an attempt waits
// 3 s for its tables and is repeated as Migrate does.
func Alter(ctx context.Context, db *gorm.DB, log *slog.Logger, statement string) (err error) {
	if IsSQLite(db) {
		return db.WithContext(ctx).Exec(statement).Error
	}
	pool, shut, err := patientPool(db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	return repeatLockWaits(ctx, log, func() error {
		_, err := pool.ExecContext(ctx, statement)
		return err
	})
}

// repeatLockWaits repeats do while a table is in use, for at most lockPatience.
func repeatLockWaits(ctx context.Context, log *slog.Logger, do func() error) error {
	pause := &backoff.ExponentialBackOff{
		InitialInterval: time.Second, Multiplier: 2, MaxInterval: 15 * time.Second, RandomizationFactor: 0.5,
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil && !isLockWait(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(lockPatience),
		backoff.WithNotify(func(err error, pause time.Duration) {
			log.WarnContext(ctx, "a table is in use; the statement is repeated", "error", err, "pause", pause)
		}))
	return err
}

// isLockWait reports a statement that did not get a lock in time. The server has rolled it back.
func isLockWait(err error) bool {
	my := (*mysqldriver.MySQLError)(nil)
	return errors.As(err, &my) && my.Number == myLockWait
}

// namedLock is a server-side lock of one session. It ends with the session, so a killed migration does not block
// others.
type namedLock struct{}

// lockName includes the name of the database, since locks belong to the whole server. It is cut to MySQL's 64
// characters.
const lockName = "CONCAT('fs_migrate_', LEFT(SHA2(COALESCE(DATABASE(), ''), 256), 40))"

func (namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	deadline := time.Now().Add(lockPatience)
	for time.Now().Before(deadline) {
		var got sql.NullInt64
		// Wait one second at a time, so that a cancelled ctx ends the wait with all servers and proxies.
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+lockName+", 1)").Scan(&got); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if got.Int64 == 1 {
			return nil
		}
	}
	return fmt.Errorf("another process has been migrating this database for %v", lockPatience)
}

func (namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var released sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK("+lockName+")").Scan(&released); err != nil {
		return fmt.Errorf("release the migration lock: %w", err)
	}
	return nil
}
