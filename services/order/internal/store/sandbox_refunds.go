package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

// SandboxRefunds is the table of the refunds that the sandbox provider has made.
type SandboxRefunds struct{ db *gorm.DB }

// NewSandboxRefunds returns the table in db.
func NewSandboxRefunds(db *gorm.DB) *SandboxRefunds { return &SandboxRefunds{db} }

type sandboxRow struct {
	RefundID  int64 `gorm:"primaryKey;autoIncrement:false"`
	Amount    int64
	Currency  string
	CreatedAt time.Time
}

func (sandboxRow) TableName() string { return "sandbox_refunds" }

// RecordRefund stores a refund once; repeating it is no error. It returns false when the id is stored with another
// amount or currency.
func (b *SandboxRefunds) RecordRefund(
	ctx context.Context, refundID string, amount int64, currency string, at time.Time,
) (bool, error) {
	rid, err := id(refundID)
	if err != nil {
		return false, err
	}
	same := true
	err = sqldb.InTx(ctx, b.db, func(tx *gorm.DB) error {
		same = true
		var known []sandboxRow
		if err := tx.Where("refund_id = ?", rid).Limit(1).Find(&known).Error; err != nil {
			return err
		}
		if len(known) == 1 {
			same = known[0].Amount == amount && known[0].Currency == currency
			return nil
		}
		return tx.Create(&sandboxRow{RefundID: rid, Amount: amount, Currency: currency, CreatedAt: at}).Error
	}, sqldb.RetryDuplicates(), sqldb.RetryUnknownCommit())
	return same, refuseTransient(err)
}

// FindRefund returns a refund that RecordRefund has stored.
func (b *SandboxRefunds) FindRefund(ctx context.Context, refundID string) (core.ProviderRefund, bool, error) {
	rid, err := id(refundID)
	if err != nil {
		return core.ProviderRefund{}, false, err
	}
	var known []sandboxRow
	err = b.db.WithContext(ctx).Where("refund_id = ?", rid).Limit(1).Find(&known).Error
	if err != nil || len(known) == 0 {
		return core.ProviderRefund{}, false, refuseTransient(err)
	}
	return core.ProviderRefund{Amount: known[0].Amount, Currency: known[0].Currency}, true, nil
}
