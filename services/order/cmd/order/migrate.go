package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order"
)

// databases holds the settings of the commands that work on both databases, without the service.
type databases struct {
	settings.App
	settings.MySQL
	order.Payments
	Patience time.Duration `env:"MIGRATE_PATIENCE"`
}

// Validate reports the first wrong setting of those that no group checks.
func (d *databases) Validate() error {
	if err := command.CheckDSN(d.MySQL); err != nil {
		return err
	}
	return d.CheckDatabases(d.DSN)
}

func loadDatabases() (databases, error) {
	var d databases
	err := settings.Load(&d, nil)
	return d, err
}

// open opens both databases. book is nil if the sandbox's book is in the order database.
func (d *databases) open(log *slog.Logger) (orders, book *gorm.DB, shut func() error, err error) {
	if orders, err = sqldb.Open(d.DSN, sqldb.Options{Log: log}); err != nil {
		return nil, nil, nil, err
	}
	shut = func() error { return sqldb.Close(orders) }
	if d.SandboxDSN == "" {
		return orders, nil, shut, nil
	}
	if book, err = sqldb.Open(d.SandboxDSN, sqldb.Options{Log: log}); err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("SANDBOX_DSN: %w", err), shut())
	}
	return orders, book, func() error { return errors.Join(sqldb.Close(orders), sqldb.Close(book)) }, nil
}

// migrate migrates the order database and, with SANDBOX_DSN, that of the sandbox provider, and copies its older book.
func migrate(ctx context.Context, log *slog.Logger, up bool) error {
	d, err := loadDatabases()
	if err != nil {
		return err
	}
	if err := migrateOrders(ctx, log, d, up); err != nil {
		return err
	}
	if d.SandboxDSN != "" {
		if err := command.MigrateAt(ctx, log, d.SandboxDSN, order.SandboxMigrations, d.Patience, up); err != nil {
			return fmt.Errorf("SANDBOX_DSN: %w", err)
		}
	}
	if !up {
		return nil
	}
	orders, book, shut, err := d.open(log)
	if err != nil {
		return err
	}
	if err := order.PrepareSandbox(ctx, orders, book, log); err != nil {
		return errors.Join(fmt.Errorf("copy the sandbox's book: %w", err), shut())
	}
	return shut()
}

// migrateOrders migrates the order database, or prints its migrations.
func migrateOrders(ctx context.Context, log *slog.Logger, d databases, up bool) (err error) {
	if !up {
		return command.Migrate(order.Migrations)(ctx, log, false)
	}
	db, err := command.OpenToMigrate(ctx, log, d.DSN, d.Patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqldb.Close(db)) }()
	return order.Migrate(ctx, db, log)
}

// awaitMigrations waits until both databases have all migrations.
func awaitMigrations(ctx context.Context, log *slog.Logger) error {
	d, err := loadDatabases()
	if err != nil {
		return err
	}
	if err := command.AwaitMigrations(order.Migrations)(ctx, log); err != nil || d.SandboxDSN == "" {
		return err
	}
	return command.AwaitMigrationsAt(ctx, log, d.SandboxDSN, order.SandboxMigrations)
}
