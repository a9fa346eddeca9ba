package store

import (
	"context"
	"log/slog"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

const copyBatch = 500 // rows in one statement of a copy

type copyRow struct {
	Step       string `gorm:"primaryKey"`
	AfterID    int64
	FinishedAt *time.Time
}

func (copyRow) TableName() string { return "sandbox_copies" }

// CopySandboxBook copies the sandbox's charges and refunds that the order database holds into the book, once: the
// payments that succeeded before the book had charges and, if the book is another database, the book that was in the
// order database. A copy that was interrupted continues where it ended. Rows that the book has already are not changed.
func CopySandboxBook(ctx context.Context, orders, book *gorm.DB, provider string, log *slog.Logger) error {
	c := bookCopy{ctx: ctx, orders: orders.WithContext(ctx), book: book, provider: provider, log: log}
	if err := c.run("payments", c.payments); err != nil || orders == book {
		return err
	}
	if err := c.run("charges", c.charges); err != nil {
		return err
	}
	return c.run("refunds", c.refunds)
}

type bookCopy struct {
	ctx          context.Context //nolint:containedctx // of one call
	orders, book *gorm.DB
	provider     string
	log          *slog.Logger
}

// run copies batch after batch. batch copies the rows after a key, and returns the last key and the number of rows.
func (c bookCopy) run(step string, batch func(tx *gorm.DB, after int64) (last int64, n int, err error)) error {
	var known []copyRow
	if err := c.book.WithContext(c.ctx).Where("step = ?", step).Limit(1).Find(&known).Error; err != nil {
		return err
	}
	at := copyRow{Step: step}
	if len(known) == 1 {
		at = known[0]
	}
	copied := 0
	for at.FinishedAt == nil {
		next, n := at, 0
		err := sqldb.InTx(c.ctx, c.book, func(tx *gorm.DB) (err error) {
			next = at
			var last int64
			if last, n, err = batch(tx, at.AfterID); err != nil {
				return err
			}
			if n > 0 {
				next.AfterID = last
			}
			if n < copyBatch {
				done, err := sqldb.Now(tx, nil)
				if err != nil {
					return err
				}
				next.FinishedAt = &done
			}
			return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&next).Error
		}, sqldb.RetryUnknownCommit())
		if err != nil {
			return err
		}
		at, copied = next, copied+n
	}
	if copied > 0 {
		c.log.InfoContext(c.ctx, "sandbox book copied", "step", step, "rows", copied)
	}
	return nil
}

func (c bookCopy) payments(tx *gorm.DB, after int64) (int64, int, error) {
	var rows []paymentRow
	err := c.orders.Where("payment_id > ? AND provider = ? AND state = ?", after, c.provider,
		string(core.PaymentSucceeded)).Order("payment_id").Limit(copyBatch).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, 0, err
	}
	charges := make([]chargeRow, len(rows))
	for i, r := range rows {
		at := r.CreatedAt
		if r.FinishedAt != nil {
			at = *r.FinishedAt
		}
		charges[i] = chargeRow{
			PaymentID: r.PaymentID, OrderSN: r.OrderSN, UserID: r.UserID, Amount: r.PaidAmount, Currency: r.PaidCurrency,
			CreatedAt: at.UTC(),
		}
	}
	return rows[len(rows)-1].PaymentID, len(rows), absent(tx).Create(&charges).Error
}

func (c bookCopy) charges(tx *gorm.DB, after int64) (int64, int, error) {
	var rows []chargeRow
	err := c.orders.Where("payment_id > ?", after).Order("payment_id").Limit(copyBatch).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, 0, err
	}
	return rows[len(rows)-1].PaymentID, len(rows), absent(tx).Create(&rows).Error
}

func (c bookCopy) refunds(tx *gorm.DB, after int64) (int64, int, error) {
	var rows []sandboxRow
	err := c.orders.Where("refund_id > ?", after).Order("refund_id").Limit(copyBatch).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, 0, err
	}
	return rows[len(rows)-1].RefundID, len(rows), absent(tx).Create(&rows).Error
}

// absent makes an insertion skip rows whose key exists.
func absent(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.OnConflict{DoNothing: true}) }
