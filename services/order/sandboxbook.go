package order

import (
	"context"
	"log/slog"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/payment/sandbox"
	"flashsale.internal/services/order/internal/store"
)

// PrepareSandbox migrates the sandbox provider's own database, and copies an older book of its charges and refunds from
// the order database into it, once. book is nil if the book is in the order database, whose migrations have been
// applied. It may be repeated, also after it was interrupted.
func PrepareSandbox(ctx context.Context, orders, book *gorm.DB, log *slog.Logger) error {
	if book == nil {
		book = orders
	} else if err := sqldb.Migrate(ctx, book, SandboxMigrations, log); err != nil {
		return err
	}
	return store.CopySandboxBook(ctx, orders, book, sandbox.Name, log)
}
