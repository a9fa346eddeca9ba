package order

import (
	"context"
	"fmt"
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
