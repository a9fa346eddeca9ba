package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
)

// Migration is what the migrate command does. Its zero value prints the status.
type Migration struct {
	Up   bool          // apply the pending migrations
	Wait time.Duration // bound of the wait for a database that does not respond yet
}

// longestWait bounds Migration.Wait.
const longestWait = time.Hour

// parseUp returns what the arguments after migrate up request, or ErrUsage.
func parseUp(args []string) (Migration, error) {
	flags := flag.NewFlagSet("migrate up", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	wait := flags.Duration("wait", 0, "")
	if flags.Parse(args) != nil || flags.NArg() > 0 || *wait < 0 || *wait > longestWait {
		return Migration{}, fmt.Errorf("%w: -wait must be 0s to %s", ErrUsage, longestWait)
	}
	return Migration{Up: true, Wait: *wait}, nil
}

// openDatabase opens the database of the environment.
func openDatabase(log *slog.Logger) (*gorm.DB, error) {
	var c struct{ Database }
	if err := settings.Load(&c, nil); err != nil {
		return nil, err
	}
	return c.Open(log)
}

// Migrate returns the migrate command of a service with these migrations, for the database of MYSQL_DSN. up applies
// them.
func Migrate(
	migrations fs.FS, up func(ctx context.Context, db *gorm.DB, log *slog.Logger) error,
) func(ctx context.Context, log *slog.Logger, m Migration) error {
	return func(ctx context.Context, log *slog.Logger, m Migration) error {
		db, err := openDatabase(log)
		if err != nil {
			return err
		}
		defer func() { _ = sqldb.Close(db) }()
		if !m.Up {
			return printMigrations(ctx, db, migrations)
		}
		if m.Wait > 0 {
			if err := reach(ctx, db, m.Wait, log); err != nil {
				return err
			}
		}
		return up(ctx, db, log)
	}
}

func printMigrations(ctx context.Context, db *gorm.DB, migrations fs.FS) error {
	list, err := sqldb.Status(ctx, db, migrations)
	if err != nil {
		return err
	}
	for _, m := range list {
		state := "pending"
		if !m.AppliedAt.IsZero() {
			state = "applied " + m.AppliedAt.UTC().Format(time.RFC3339)
		}
		fmt.Printf("%05d  %-32s  %s\n", m.Version, m.Name, state)
	}
	return nil
}

// AwaitMigrations returns the command that succeeds as soon as the database of MYSQL_DSN is reachable and has all of
// these migrations. It waits without a limit until its context ends: the caller sets the time-out.
func AwaitMigrations(migrations fs.FS) func(ctx context.Context, log *slog.Logger) error {
	return func(ctx context.Context, log *slog.Logger) error {
		db, err := openDatabase(log)
		if err != nil {
			return err
		}
		defer func() { _ = sqldb.Close(db) }()
		return retry(ctx, log, "waiting for the migrations", func(ctx context.Context) error {
			list, err := sqldb.Status(ctx, db, migrations)
			if err != nil {
				return err
			}
			for _, m := range list {
				if m.AppliedAt.IsZero() {
					return fmt.Errorf("%s is not applied yet", m.Name)
				}
			}
			return nil
		})
	}
}

// reach returns as soon as the database is reachable.
func reach(ctx context.Context, db *gorm.DB, wait time.Duration, log *slog.Logger) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = retry(ctx, log, "waiting for the database", pool.PingContext)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("database not reachable within %s: %w", wait, err)
	}
	return err
}

// retry repeats do until it succeeds or ctx ends. It logs the reason of each wait.
func retry(ctx context.Context, log *slog.Logger, what string, do func(context.Context) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 200*time.Millisecond, 3*time.Second
	for {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := do(attempt)
		cancel()
		if err == nil {
			return nil
		}
		log.InfoContext(ctx, what, "because", err.Error())
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// CheckDSN reports a MYSQL_DSN that the driver of the database does not accept, and in production one that does not verify
// the server, unless MYSQL_TLS permits that. It is for a service's check of its settings.
func CheckDSN(m settings.MySQL, production bool) error {
	if err := sqldb.CheckDSN(m.DSN.AtStart()); err != nil {
		return settings.Wrong("MYSQL_DSN", "%v", err)
	}
	if production && m.TLSMode == "" && !sqldb.VerifiesServer(m.DSN.AtStart()) {
		return settings.Wrong("MYSQL_DSN", "must have tls=true with APP_ENV=production, as otherwise nothing verifies the "+
			"server; MYSQL_TLS=disabled permits a connection without it, as through a proxy in the pod")
	}
	return nil
}

// Database holds the settings of a command that needs only the database of MYSQL_DSN.
type Database struct {
	settings.App
	settings.MySQL
	settings.ClientCertificate
}

// Validate reports a wrong MYSQL_DSN.
func (d Database) Validate(production bool) error { return CheckDSN(d.MySQL, production) }

// Open opens the database, which the caller closes.
func (d Database) Open(log *slog.Logger) (*gorm.DB, error) {
	return OpenDatabase(d.MySQL, d.ClientCertificate, log)
}

// OpenDatabase opens a database, which the caller closes.
func OpenDatabase(m settings.MySQL, c settings.ClientCertificate, log *slog.Logger) (*gorm.DB, error) {
	return sqldb.Open(m.DSN.AtStart(), sqldb.Options{Log: log, CurrentDSN: m.DSN.Read, ClientCertificate: c.ForHandshake()})
}
