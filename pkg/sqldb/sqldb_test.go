package sqldb_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
)

var migrations = os.DirFS("testdata")

type item struct {
	ID        int64 `gorm:"primaryKey"`
	Name      string
	UnitsLeft int64
	At        *time.Time
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestTimesAreUTCMilliseconds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		east := time.FixedZone("east", 9*3600)
		base := time.Date(2026, 5, 1, 12, 0, 0, 0, east)
		// Times of different widths and zones: as text they must still compare like times.
		for i, at := range []time.Time{base, base.Add(5 * time.Millisecond).UTC(), base.Add(50*time.Millisecond + 999*time.Microsecond), base.Add(500 * time.Millisecond)} {
			require.NoError(t, db.Create(&item{Name: fmt.Sprint("t", i), At: &at}).Error)
		}
		var got []item
		require.NoError(t, db.Where("at > ? AND at <= ?", base.UTC(), base.Add(50*time.Millisecond)).Order("at").Find(&got).Error)
		require.Len(t, got, 2)
		require.Equal(t, base.Add(5*time.Millisecond).UTC(), *got[0].At)
		require.Equal(t, base.Add(50*time.Millisecond).UTC(), got[1].At.UTC(), "truncated, not rounded")
	})
}

func TestKeysAreCaseSensitiveAndSessionIsReadCommitted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Create(&item{Name: "a"}).Error)
		require.NoError(t, db.Create(&item{Name: "A"}).Error)
		update := db.Model(&item{}).Where("name = ?", "a").Update("units_left", 0)
		require.NoError(t, update.Error)
		if sqldb.IsSQLite(db) {
			return
		}
		require.EqualValues(t, 0, update.RowsAffected, "counts changed rows, not found ones")
		var level, mode, zone string
		require.NoError(t, db.Raw("SELECT @@tx_isolation, @@sql_mode, @@time_zone").Row().Scan(&level, &mode, &zone))
		require.Equal(t, "READ-COMMITTED", level)
		require.Contains(t, mode, "STRICT_ALL_TABLES")
		require.Equal(t, "+00:00", zone)
	})
}

func TestInTxCommitsAndRollsBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		ctx := t.Context()
		boom := errors.New("boom")
		require.ErrorIs(t, sqldb.InTx(ctx, db, func(tx *gorm.DB) error {
			require.True(t, sqldb.InsideTx(tx))
			require.NoError(t, tx.Create(&item{Name: "x"}).Error)
			return boom
		}), boom)
		require.Panics(t, func() {
			_ = sqldb.InTx(ctx, db, func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(&item{Name: "x"}).Error)
				panic("in the middle")
			})
		})
		require.NoError(t, sqldb.InTx(ctx, db, func(tx *gorm.DB) error {
			// Within a transaction InTx joins it.
			return sqldb.InTx(ctx, tx, func(tx *gorm.DB) error { return tx.Create(&item{Name: "y"}).Error })
		}))
		var names []string
		require.NoError(t, db.Model(&item{}).Pluck("name", &names).Error)
		require.Equal(t, []string{"y"}, names)
	})
}

func TestInTxSerializesByForUpdate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		const workers, each = 8, 10
		require.NoError(t, db.Create(&item{Name: "n"}).Error)
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					if err := sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
						var it item
						if err := sqldb.ForUpdate(tx).Where("name = ?", "n").Take(&it).Error; err != nil {
							return err
						}
						return tx.Model(&it).Update("units_left", it.UnitsLeft+1).Error
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var it item
		require.NoError(t, db.Where("name = ?", "n").Take(&it).Error)
		require.EqualValues(t, workers*each, it.UnitsLeft)
	})
}

func TestInTxRetriesDeadlock(t *testing.T) {
	t.Parallel()
	db := dbtest.MariaDB(t, migrations)
	require.NoError(t, db.Create([]item{{Name: "a"}, {Name: "b"}}).Error)
	var runs atomic.Int32
	var wg sync.WaitGroup
	var meet sync.WaitGroup
	meet.Add(2)
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			first := true
			err := sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
				runs.Add(1)
				for i, name := range order {
					if err := tx.Model(&item{}).Where("name = ?", name).Update("units_left", gorm.Expr("units_left + 1")).Error; err != nil {
						return err
					}
					if i == 0 && first { // both hold their first row before they request the other's
						first = false
						meet.Done()
						meet.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3, runs.Load(), "one of them is the victim of the deadlock and runs again")
	var sum int64
	require.NoError(t, db.Model(&item{}).Select("SUM(units_left)").Scan(&sum).Error)
	require.EqualValues(t, 4, sum)
}

func TestInTxRetriesDeclaredRaces(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Create(&item{Name: "taken"}).Error)
		attempt := func(succeedAt int, wrap func(error) error, opts ...sqldb.TxOption) (int, error) {
			runs := 0
			err := sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
				if runs++; runs == succeedAt {
					return nil
				}
				return wrap(tx.Create(&item{Name: "taken"}).Error)
			}, opts...)
			return runs, err
		}
		plain := func(err error) error { return err }

		runs, err := attempt(9, plain)
		require.Equal(t, 1, runs, "an undeclared duplicate is returned to the caller")
		require.True(t, sqldb.IsDuplicate(err))
		require.False(t, sqldb.IsTransient(err))

		runs, err = attempt(3, sqldb.Race)
		require.NoError(t, err)
		require.Equal(t, 3, runs)

		runs, err = attempt(3, plain, sqldb.RetryDuplicates())
		require.NoError(t, err)
		require.Equal(t, 3, runs)

		runs, err = attempt(9, plain, sqldb.RetryDuplicates())
		require.Equal(t, 5, runs, "bounded")
		require.True(t, sqldb.IsDuplicate(err))
		require.True(t, sqldb.IsTransient(err), "a race lost in every attempt is load, not a bad message")
	})
}

func TestInTxEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		err := sqldb.InTx(ctx, db, func(tx *gorm.DB) error {
			if err := tx.Create(&item{Name: "x"}).Error; err != nil {
				return err
			}
			cancel()
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, sqldb.ErrCommitUnknown, "the commit was never sent")
		var n int64
		require.NoError(t, db.Model(&item{}).Count(&n).Error)
		require.Zero(t, n)
	})
}

// TestCommitOutcomeUnknown breaks the connection between the commit and its response.
func TestCommitOutcomeUnknown(t *testing.T) {
	t.Parallel()
	direct := dbtest.MariaDB(t, migrations)
	var name string
	require.NoError(t, direct.Raw("SELECT DATABASE()").Row().Scan(&name))
	cut := &cutter{t: t, target: serverAddr(t)}
	addr := cut.listen()
	db, err := sqldb.Open("root@tcp("+addr+")/"+name, sqldb.Options{MaxOpen: 1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })

	inserted := func(insert string) (n int64) {
		require.NoError(t, direct.Model(&item{}).Where("name = ?", insert).Count(&n).Error)
		return n
	}

	runs := 0
	err = sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
		runs++
		if err := tx.Create(&item{Name: "once"}).Error; err != nil {
			return err
		}
		cut.afterRequest.Store(true)
		return nil
	})
	require.ErrorIs(t, err, sqldb.ErrCommitUnknown)
	require.True(t, sqldb.IsTransient(err))
	require.Equal(t, 1, runs, "never repeated silently")
	require.Eventually(t, func() bool { return inserted("once") == 1 }, 30*time.Second, 10*time.Millisecond)

	runs = 0
	err = sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
		runs++
		var n int64
		if err := tx.Model(&item{}).Where("name = ?", "again").Count(&n).Error; err != nil || n > 0 {
			return err
		}
		if err := tx.Create(&item{Name: "again"}).Error; err != nil {
			return err
		}
		cut.afterRequest.Store(runs == 1)
		return nil
	}, sqldb.RetryUnknownCommit(), sqldb.RetryDuplicates())
	require.NoError(t, err)
	require.GreaterOrEqual(t, runs, 2)
	require.EqualValues(t, 1, inserted("again"))

	runs = 0
	single := func(tx *gorm.DB) error {
		runs++
		require.False(t, sqldb.InsideTx(tx))
		cut.afterRequest.Store(runs == 1)
		_, err := sqldb.Exec(tx, "INSERT INTO items (name) SELECT 'single' WHERE NOT EXISTS "+
			"(SELECT 1 FROM items WHERE name = 'single')")
		return err
	}
	err = sqldb.InTx(t.Context(), db, single, sqldb.Single())
	require.ErrorIs(t, err, sqldb.ErrCommitUnknown)
	require.Equal(t, 1, runs, "never repeated silently")
	require.Eventually(t, func() bool { return inserted("single") == 1 }, 30*time.Second, 10*time.Millisecond)

	runs = 0
	require.NoError(t, sqldb.InTx(t.Context(), db, single, sqldb.Single(), sqldb.RetryUnknownCommit()))
	require.GreaterOrEqual(t, runs, 2)
	require.EqualValues(t, 1, inserted("single"))

	// The statement waits for a row, so that it has been sent and not returned when its context ends.
	holder := direct.Begin()
	require.NoError(t, holder.Error)
	defer holder.Rollback()
	require.NoError(t, holder.Exec("UPDATE items SET units_left = 7 WHERE name = 'once'").Error)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = sqldb.InTx(ctx, db, func(tx *gorm.DB) error {
		_, err := sqldb.Exec(tx, "UPDATE items SET units_left = 8 WHERE name = 'once'")
		return err
	}, sqldb.Single())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, sqldb.ErrCommitUnknown, "the statement was sent")
}

func serverAddr(t *testing.T) string {
	_, rest, ok := strings.Cut(dbtest.ServerDSN(), "tcp(")
	require.True(t, ok)
	addr, _, ok := strings.Cut(rest, ")")
	require.True(t, ok)
	return addr
}

// cutter is a TCP proxy. Once armed, it forwards the next request and closes the connection instead of the response.
type cutter struct {
	t            *testing.T
	target       string
	afterRequest atomic.Bool
}

func (c *cutter) listen() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	var wg sync.WaitGroup
	c.t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", c.target)
			if err != nil {
				_ = client.Close()
				continue
			}
			end := sync.OnceFunc(func() { _ = client.Close(); _ = server.Close() })
			wg.Go(func() { defer end(); _, _ = io.Copy(server, client) })
			wg.Go(func() {
				defer end()
				response := make([]byte, 64<<10)
				for {
					n, err := server.Read(response)
					if err != nil || c.afterRequest.CompareAndSwap(true, false) {
						return
					}
					if _, err := client.Write(response[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

func TestOpenNeverDials(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open("root:secret@tcp("+porttest.Refusing(t)+")/x", sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	err = sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error { return nil })
	require.Error(t, err)
	require.True(t, sqldb.IsTransient(err))
	require.True(t, sqldb.IsTransient(sqldb.Migrate(t.Context(), db, migrations, discard())))

	for _, dsn := range []string{"", "sqlite:", "mysql://root:secret@host/db", "root:secret@tcp(host"} {
		_, err := sqldb.Open(dsn, sqldb.Options{})
		require.Error(t, err, dsn)
		require.NotContains(t, err.Error(), "secret")
	}
}

// goose creates its table and inserts the first row in two steps. A process that was killed in between leaves the table
// without it, and one that is still there may insert it a second time.
func TestMigrateWithoutTheFirstRowOfItsTable(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open(dbtest.MariaDBDSN(t), sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	require.NoError(t, db.Exec("CREATE TABLE goose_db_version (id SERIAL, version_id BIGINT NOT NULL, "+
		"is_applied BOOLEAN NOT NULL, tstamp TIMESTAMP NULL DEFAULT NOW(), PRIMARY KEY (id))").Error)
	require.NoError(t, sqldb.Migrate(t.Context(), db, migrations, discard()))
	before, err := sqldb.Status(t.Context(), db, migrations)
	require.NoError(t, err)
	require.NotEmpty(t, before)
	for _, m := range before {
		require.False(t, m.AppliedAt.IsZero(), m.Name)
	}
	require.NoError(t, db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, TRUE)").Error)
	require.NoError(t, sqldb.Migrate(t.Context(), db, migrations, discard()))
	after, err := sqldb.Status(t.Context(), db, migrations)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestMigrateRefusesAnOlderSchema(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		later := fstest.MapFS{}
		for _, dialect := range []string{"mysql", "sqlite"} {
			later["migrations/"+dialect+"/00100_all.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE later (id INT);\n")}
		}
		err := sqldb.Migrate(t.Context(), db, later, discard())
		require.ErrorContains(t, err, "the database has migration 1 of a version before 0.1.0, and none can be migrated: "+
			"begin with an empty database")
		require.False(t, db.Migrator().HasTable("later"))
		require.NoError(t, sqldb.Migrate(t.Context(), db, migrations, discard()), "with the same files")
	})
}

func TestMigrateFromConcurrentProcesses(t *testing.T) {
	t.Parallel()
	dsns := map[string]string{"mariadb": "", "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "m.db")}
	for name, dsn := range dsns {
		t.Run(name, func(t *testing.T) {
			if dsn == "" {
				dsn = dbtest.MariaDBDSN(t)
			}
			var wg sync.WaitGroup
			processes := 4
			if name == "sqlite" {
				processes = 1 // one process owns the file
			}
			for range processes {
				wg.Go(func() {
					db, err := sqldb.Open(dsn, sqldb.Options{})
					if err == nil {
						err = errors.Join(sqldb.Migrate(t.Context(), db, migrations, discard()), sqldb.Close(db))
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			db, err := sqldb.Open(dsn, sqldb.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = sqldb.Close(db) })
			require.NoError(t, sqldb.Migrate(t.Context(), db, migrations, discard()), "again")
			list, err := sqldb.Status(t.Context(), db, migrations)
			require.NoError(t, err)
			require.Len(t, list, 2)
			for i, m := range list {
				require.EqualValues(t, i+1, m.Version)
				require.False(t, m.AppliedAt.IsZero())
			}
			require.NoError(t, db.Create(&item{Name: "x"}).Error)
		})
	}
}

// A long transaction on a table delays its ALTER, but not the statements of others that come after the ALTER.
func TestAMigrationDoesNotBlockATableInUse(t *testing.T) {
	t.Parallel()
	open := func(dsn string) *gorm.DB {
		db, err := sqldb.Open(dsn, sqldb.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sqldb.Close(db) })
		return db
	}
	dsn := dbtest.MariaDBDSN(t)
	db := open(dsn)
	require.NoError(t, sqldb.Migrate(t.Context(), db, migrations, discard()))
	// In the form in which migrations alter tables, so that they can be repeated.
	const alter = "-- +goose Up\nSET @step = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE items ADD COLUMN extra BIGINT " +
		"NOT NULL DEFAULT 0') FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'items' " +
		"AND column_name = 'extra');\nPREPARE step FROM @step;\nEXECUTE step;\nDEALLOCATE PREPARE step;\n"
	more := fstest.MapFS{"migrations/mysql/00003_extra.sql": {Data: []byte(alter)}}
	for _, name := range []string{"migrations/mysql/00001_items.sql", "migrations/mysql/00002_notes.sql"} {
		text, err := fs.ReadFile(migrations, name)
		require.NoError(t, err)
		more[name] = &fstest.MapFile{Data: text}
	}

	reader := open(dsn).Begin()
	require.NoError(t, reader.Error)
	defer reader.Rollback()
	var n int64
	require.NoError(t, reader.Table("items").Count(&n).Error)
	var repeated atomic.Int64
	log := slog.New(&countWarnings{Handler: slog.DiscardHandler, n: &repeated})
	done := make(chan error, 1)
	go func() { done <- sqldb.Migrate(t.Context(), db, more, log) }()
	require.Eventually(t, func() bool {
		var waiting int64
		err := db.Raw("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE items%' AND " +
			"state LIKE 'Waiting for table metadata lock' AND db = DATABASE()").Scan(&waiting).Error
		return err == nil && waiting == 1
	}, 30*time.Second, 10*time.Millisecond, "the ALTER waits for the reader")

	// The insert waits behind the ALTER, but gets its turn while the reader still reads.
	began := time.Now()
	require.NoError(t, db.Create(&item{Name: "x"}).Error)
	require.Less(t, time.Since(began), 8*time.Second)
	require.Eventually(t, func() bool { return repeated.Load() > 0 }, 30*time.Second, 10*time.Millisecond)
	require.Empty(t, done, "the migration goes on")
	require.NoError(t, reader.Rollback().Error)
	require.NoError(t, <-done)
	require.NoError(t, db.Table("items").Where("extra = 0").Count(&n).Error)
	require.EqualValues(t, 1, n)
}

// countWarnings counts the records of level warn.
type countWarnings struct {
	slog.Handler
	n *atomic.Int64
}

func (c *countWarnings) Enabled(context.Context, slog.Level) bool { return true }

func (c *countWarnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		c.n.Add(1)
	}
	return nil
}

func TestStatusBeforeMigrateAndMissingDirectory(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open("sqlite:"+filepath.Join(t.TempDir(), "a b?#.db"), sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	list, err := sqldb.Status(t.Context(), db, migrations)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.True(t, list[0].AppliedAt.IsZero())
	empty, err := fs.Sub(migrations, "nowhere")
	require.NoError(t, err)
	require.Error(t, sqldb.Migrate(t.Context(), db, empty, discard()))
}

func TestLogsHoldNoValues(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var mu sync.Mutex
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dsn := dbtest.MariaDBDSN(t)
	for _, dsn := range []string{dsn, "sqlite:" + filepath.Join(t.TempDir(), "l.db")} {
		db, err := sqldb.Open(dsn, sqldb.Options{Log: log, SlowAfter: time.Nanosecond})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sqldb.Close(db) })
		require.NoError(t, sqldb.Migrate(t.Context(), db, migrations, discard()))
		require.NoError(t, db.Create(&item{Name: "secret"}).Error)
		require.Error(t, db.Create(&item{Name: "secret"}).Error)
		require.ErrorIs(t, db.Where("name = ?", "secret2").Take(&item{}).Error, gorm.ErrRecordNotFound)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, out.String(), "slow statement")
	require.Contains(t, out.String(), "mysql 1062")
	require.Contains(t, out.String(), "sqlite 2067")
	require.NotContains(t, out.String(), "secret")
	require.NotContains(t, out.String(), "not found")
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestConstraintAndDataErrorsArePermanent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Create(&item{Name: "a"}).Error)
		bad := map[string]error{
			"duplicate": db.Create(&item{Name: "a"}).Error,
			"check":     db.Create(&item{Name: "b", UnitsLeft: -1}).Error,
			"null":      db.Exec("INSERT INTO items (name) VALUES (NULL)").Error,
			"not found": db.Where("name = ?", "z").Take(&item{}).Error,
		}
		if !sqldb.IsSQLite(db) {
			bad["too long"] = db.Create(&item{Name: "01234567890"}).Error
			bad["out of range"] = db.Exec("INSERT INTO items (name, units_left) VALUES ('c', 9999999999999999999999)").Error
		}
		for name, err := range bad {
			require.Error(t, err, name)
			require.False(t, sqldb.IsTransient(err), "%s: %v", name, err)
			require.Equal(t, name == "duplicate", sqldb.IsDuplicate(err), name)
			require.False(t, sqldb.IsTransient(fmt.Errorf("wrapped: %w", err)), name)
		}
		missing := db.Exec("INSERT INTO nowhere VALUES (1)").Error
		require.True(t, sqldb.IsTransient(missing), "the migration may still be applied")
		require.False(t, sqldb.IsTransient(contract.Refuse(contract.CodeNotFound, "x").Because(missing)))
	})
}

func TestStatementsBeneathGorm(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		err := sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
			n, err := sqldb.Exec(tx, "INSERT INTO items (name, units_left) VALUES "+sqldb.Rows(3, 2), "a", 1, "b", 2, "c", 3)
			require.EqualValues(t, 3, n)
			return err
		})
		require.NoError(t, err)
		names := func(wanted ...any) (list []string) {
			err := sqldb.Query(db.WithContext(t.Context()), "SELECT name FROM items WHERE name IN "+sqldb.List(len(wanted))+" ORDER BY name", wanted,
				func(rows *sql.Rows) error {
					var name string
					err := rows.Scan(&name)
					list = append(list, name)
					return err
				})
			require.NoError(t, err)
			return list
		}
		require.Equal(t, []string{"a", "c"}, names("c", "a", "x"))
		require.Empty(t, names())
		_, err = sqldb.Exec(db.WithContext(t.Context()), "INSERT INTO items (name, units_left) VALUES "+sqldb.Rows(1, 2), "a", 1)
		require.True(t, sqldb.IsDuplicate(err), "%v", err)
		stop := errors.New("stop")
		err = sqldb.Query(db.WithContext(t.Context()), "SELECT name FROM items", nil, func(*sql.Rows) error { return stop })
		require.ErrorIs(t, err, stop)
	})
}
