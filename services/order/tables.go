package order

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/store"
)

// Tables configures the tables of an empty database. A database keeps its tables until MoveTables changes them.
type Tables struct {
	// Count is the number of tables that hold orders.
	Count int `env:"ORDER_TABLES" envDefault:"1"`
}

// Validate reports a wrong ORDER_TABLES.
func (t Tables) Validate(bool) error {
	if !store.ValidTables(t.Count) {
		return settings.Wrong("ORDER_TABLES", "is %d and must be 1, 2, 4, 8 or 16", t.Count)
	}
	return nil
}

// Migrate brings the order database up to date: the migrations, and the tables that hold orders. An empty database gets
// this number of them; 0 stands for the default, 1. Several processes may call Migrate at once.
func Migrate(ctx context.Context, db *gorm.DB, tables int, log *slog.Logger) error {
	if err := store.ChooseLayout(ctx, db, max(tables, 1)); err != nil {
		return err
	}
	if err := sqldb.Migrate(ctx, db, Migrations, log); err != nil {
		return err
	}
	if err := store.PrepareTables(ctx, db, log); err != nil {
		return fmt.Errorf("prepare the order tables: %w", err)
	}
	return nil
}

// MoveTables moves all orders into another number of tables, beside running services of this release, and writes its
// progress to out. It continues a move that was interrupted. The old tables are kept until DropOldTables.
func MoveTables(ctx context.Context, db *gorm.DB, tables int, log *slog.Logger, out io.Writer) error {
	if err := (Tables{Count: tables}).Validate(false); err != nil {
		return err
	}
	return store.MoveTables(ctx, db, tables, log, out)
}

// DropOldTables drops the tables that MoveTables has left, and writes their names to out.
func DropOldTables(ctx context.Context, db *gorm.DB, log *slog.Logger, out io.Writer) error {
	dropped, err := store.DropOldTables(ctx, db, log)
	for _, name := range dropped {
		fmt.Fprintf(out, "dropped %s\n", name)
	}
	if err == nil && len(dropped) == 0 {
		fmt.Fprintln(out, "there are no old tables")
	}
	return err
}
