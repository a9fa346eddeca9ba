package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
)

// migrateConfig holds the settings of the migrate commands.
type migrateConfig struct {
	settings.App
	settings.MySQL
	// Patience is the time that `migrate up` waits for a database that is not reachable yet.
	Patience time.Duration `env:"MIGRATE_PATIENCE"`
}

// Validate reports a wrong MIGRATE_PATIENCE.
func (c migrateConfig) Validate() error {
	if c.Patience < 0 || c.Patience > time.Hour {
		return settings.Wrong("MIGRATE_PATIENCE", "is %s and must be 0s to 1h", c.Patience)
	}
	return nil
}

func migrateSettings() (migrateConfig, error) {
	var c migrateConfig
	if err := settings.Load(&c, nil); err != nil {
		return c, err
	}
	return c, CheckDSN(c.MySQL)
}

// Migrate returns the migrate command of a service with these migrations, for the database of MYSQL_DSN.
func Migrate(migrations fs.FS) func(ctx context.Context, log *slog.Logger, up bool) error {
	return func(ctx context.Context, log *slog.Logger, up bool) error {
		c, err := migrateSettings()
		if err != nil {
			return err
		}
		return MigrateAt(ctx, log, c.DSN, migrations, c.Patience, up)
	}
}

// MigrateAt runs the migrate command for the database of a checked DSN, which the service has beside that of MYSQL_DSN.
// patience is the time to wait for the database.
func MigrateAt(
	ctx context.Context, log *slog.Logger, dsn string, migrations fs.FS, patience time.Duration, up bool,
) error {
	if !up {
		patience = 0
	}
	db, err := OpenToMigrate(ctx, log, dsn, patience)
	if err != nil {
		return err
	}
	defer func() { _ = sqldb.Close(db) }()
	if up {
		return sqldb.Migrate(ctx, db, migrations, log)
	}
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

// OpenToMigrate opens the database of a checked DSN and waits until it is reachable, for at most patience. Without
// patience it does not dial.
func OpenToMigrate(ctx context.Context, log *slog.Logger, dsn string, patience time.Duration) (*gorm.DB, error) {
	db, err := sqldb.Open(dsn, sqldb.Options{Log: log})
	if err != nil || patience <= 0 {
		return db, err
	}
	if err := reach(ctx, db, patience, log); err != nil {
		return nil, errors.Join(err, sqldb.Close(db))
	}
	return db, nil
}

// AwaitMigrations returns the command that succeeds as soon as the database of MYSQL_DSN is reachable and has all of
// these migrations. It waits without a limit until its context ends: the caller sets the time-out.
func AwaitMigrations(migrations fs.FS) func(ctx context.Context, log *slog.Logger) error {
	return func(ctx context.Context, log *slog.Logger) error {
		c, err := migrateSettings()
		if err != nil {
			return err
		}
		return AwaitMigrationsAt(ctx, log, c.DSN, migrations)
	}
}

// AwaitMigrationsAt waits as AwaitMigrations does, for the database of a checked DSN.
func AwaitMigrationsAt(ctx context.Context, log *slog.Logger, dsn string, migrations fs.FS) error {
	db, err := sqldb.Open(dsn, sqldb.Options{Log: log})
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

// reach returns as soon as the database is reachable.
func reach(ctx context.Context, db *gorm.DB, patience time.Duration, log *slog.Logger) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = retry(ctx, log, "waiting for the database", pool.PingContext)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("database not reachable within %s: %w", patience, err)
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

// CheckDSN reports a MYSQL_DSN that the driver of the database does not accept, for a service's check of its settings.
func CheckDSN(m settings.MySQL) error {
	if err := sqldb.CheckDSN(m.DSN); err != nil {
		return settings.Wrong("MYSQL_DSN", "%v", err)
	}
	return nil
}
