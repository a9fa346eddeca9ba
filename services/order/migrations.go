package order

import (
	"context"
	"embed"
	"fmt"
	"log/slog"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/store"
)

// Migrations holds the schema of the order service.
//
//go:embed migrations/mysql/*.sql migrations/sqlite/*.sql
var Migrations embed.FS

// Migrate brings the order database up to date: the migrations, and the partitions of the next months. Several
// processes may call it at once.
func Migrate(ctx context.Context, db *gorm.DB, log *slog.Logger) error {
	if err := sqldb.Migrate(ctx, db, Migrations, log); err != nil {
		return err
	}
	if err := store.AddPartitions(ctx, db, log); err != nil {
		return fmt.Errorf("the table orders: %w", err)
	}
	return nil
}
