package command

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
)

// Migrate makes the migrate command of a service with these migrations, on the database of MYSQL_DSN.
func Migrate(migrations fs.FS) func(ctx context.Context, log *slog.Logger, up bool) error {
	return func(ctx context.Context, log *slog.Logger, up bool) error {
		var c struct {
			settings.App
			settings.MySQL
		}
		if err := settings.Load(&c, nil); err != nil {
			return err
		}
		if err := CheckDSN(c.MySQL); err != nil {
			return err
		}
		db, err := sqldb.Open(c.MySQL.DSN, sqldb.Options{Log: log})
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
}

// CheckDSN reports a MYSQL_DSN that the database's driver does not understand, for a service's check of its settings.
func CheckDSN(m settings.MySQL) error {
	if err := sqldb.CheckDSN(m.DSN); err != nil {
		return settings.Wrong("MYSQL_DSN", "%v", err)
	}
	return nil
}
