package inventory

import (
	"context"
	"embed"
	"log/slog"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// Migrations holds the schema of the inventory service.
//
//go:embed migrations/mysql/*.sql migrations/sqlite/*.sql
var Migrations embed.FS

// Migrate brings the inventory database up to date. Several processes may call it at once.
func Migrate(ctx context.Context, db *gorm.DB, log *slog.Logger) error {
	return sqldb.Migrate(ctx, db, Migrations, log)
}
