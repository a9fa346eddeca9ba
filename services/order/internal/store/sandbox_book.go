package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

// SandboxBook is the book of the sandbox provider: the charges and refunds that it has made, with their times. The
// times are those of its database.
type SandboxBook struct {
	db    *gorm.DB
	clock func() time.Time // nil: the database's
}

// NewSandboxBook returns the book in db. clock replaces the clock of the database; nil for the database's own.
func NewSandboxBook(db *gorm.DB, clock func() time.Time) *SandboxBook { return &SandboxBook{db, clock} }

type chargeRow struct {
	PaymentID int64 `gorm:"primaryKey;autoIncrement:false"`
	OrderSN   int64 `gorm:"column:order_sn"`
	UserID    string
	Amount    int64
	Currency  string
	CreatedAt time.Time
}

func (chargeRow) TableName() string { return "sandbox_charges" }

func (r chargeRow) charge() core.Charge {
	return core.Charge{
		PaymentID: text(r.PaymentID), OrderSN: text(r.OrderSN), UserID: r.UserID, Amount: r.Amount, Currency: r.Currency,
		At: r.CreatedAt.UTC(),
	}
}

type sandboxRow struct {
	RefundID  int64 `gorm:"primaryKey;autoIncrement:false"`
	Amount    int64
	Currency  string
	CreatedAt time.Time
}

func (sandboxRow) TableName() string { return "sandbox_refunds" }

func (r sandboxRow) refund() core.ProviderRefund {
	return core.ProviderRefund{
		RefundID: text(r.RefundID), Amount: r.Amount, Currency: r.Currency, At: r.CreatedAt.UTC(),
	}
}

// RecordCharge stores a charge at the time of the database. A payment is charged once: repeating it changes nothing.
func (b *SandboxBook) RecordCharge(ctx context.Context, c core.Charge) error {
	pid, err := id(c.PaymentID)
	if err != nil {
		return err
	}
	sn, err := id(c.OrderSN)
	if err != nil {
		return err
	}
	return refuseTransient(sqldb.InTx(ctx, b.db, func(db *gorm.DB) error {
		now, at := sqldb.NowIn(db, b.clock)
		args := append([]any{pid, sn, c.UserID, c.Amount, c.Currency}, at...)
		_, err := sqldb.Exec(db, "INSERT INTO sandbox_charges (payment_id, order_sn, user_id, amount, currency, created_at) "+
			"VALUES (?, ?, ?, ?, ?, "+now+") "+keepKnown(db, "payment_id"), args...)
		return err
	}, sqldb.Single(), sqldb.RetryUnknownCommit()))
}

// keepKnown returns the end of an INSERT that changes nothing when a row with its key exists.
func keepKnown(db *gorm.DB, key string) string {
	if sqldb.IsSQLite(db) {
		return "ON CONFLICT (" + key + ") DO NOTHING"
	}
	return "ON DUPLICATE KEY UPDATE " + key + " = " + key
}

// FindCharge returns a charge that RecordCharge has stored.
func (b *SandboxBook) FindCharge(ctx context.Context, paymentID string) (core.Charge, bool, error) {
	pid, err := id(paymentID)
	if err != nil {
		return core.Charge{}, false, err
	}
	var known []chargeRow
	err = b.db.WithContext(ctx).Where("payment_id = ?", pid).Limit(1).Find(&known).Error
	if err != nil || len(known) == 0 {
		return core.Charge{}, false, refuseTransient(err)
	}
	return known[0].charge(), true, nil
}

// Charges returns the charges since a time, oldest first. cursor is next of the previous page, empty for the first
// page; next is empty after the last one.
func (b *SandboxBook) Charges(
	ctx context.Context, since time.Time, cursor string, limit int,
) (page []core.Charge, next string, err error) {
	find, err := b.since(ctx, "payment_id", since, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	var rows []chargeRow
	if err := find.Find(&rows).Error; err != nil {
		return nil, "", refuseTransient(err)
	}
	for _, r := range rows {
		page = append(page, r.charge())
	}
	if len(rows) == limit {
		last := rows[len(rows)-1]
		next = bookCursor(last.CreatedAt, last.PaymentID)
	}
	return page, next, nil
}

// RecordRefund stores a refund once, at the time of the database; repeating it is no error. It returns false when the
// id is stored with another amount or currency.
func (b *SandboxBook) RecordRefund(
	ctx context.Context, refundID string, amount int64, currency string,
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
		at, err := sqldb.Now(tx, b.clock)
		if err != nil {
			return err
		}
		return tx.Create(&sandboxRow{RefundID: rid, Amount: amount, Currency: currency, CreatedAt: at}).Error
	}, sqldb.RetryDuplicates(), sqldb.RetryUnknownCommit())
	return same, refuseTransient(err)
}

// FindRefund returns a refund that RecordRefund has stored.
func (b *SandboxBook) FindRefund(ctx context.Context, refundID string) (core.ProviderRefund, bool, error) {
	rid, err := id(refundID)
	if err != nil {
		return core.ProviderRefund{}, false, err
	}
	var known []sandboxRow
	err = b.db.WithContext(ctx).Where("refund_id = ?", rid).Limit(1).Find(&known).Error
	if err != nil || len(known) == 0 {
		return core.ProviderRefund{}, false, refuseTransient(err)
	}
	return known[0].refund(), true, nil
}

// Refunds returns the refunds since a time, as Charges.
func (b *SandboxBook) Refunds(
	ctx context.Context, since time.Time, cursor string, limit int,
) (page []core.ProviderRefund, next string, err error) {
	find, err := b.since(ctx, "refund_id", since, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	var rows []sandboxRow
	if err := find.Find(&rows).Error; err != nil {
		return nil, "", refuseTransient(err)
	}
	for _, r := range rows {
		page = append(page, r.refund())
	}
	if len(rows) == limit {
		last := rows[len(rows)-1]
		next = bookCursor(last.CreatedAt, last.RefundID)
	}
	return page, next, nil
}

// since returns the query of one page of a table, by time and key.
func (b *SandboxBook) since(
	ctx context.Context, key string, since time.Time, cursor string, limit int,
) (*gorm.DB, error) {
	find := b.db.WithContext(ctx).Where("created_at >= ?", since).Order("created_at, " + key).Limit(limit)
	if cursor == "" {
		return find, nil
	}
	ms, last, _ := strings.Cut(cursor, ".")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("cursor: %w", err)
	}
	after, err := id(last)
	if err != nil {
		return nil, fmt.Errorf("cursor: %w", err)
	}
	t := time.UnixMilli(at).UTC()
	return find.Where("created_at >= ? AND (created_at > ? OR "+key+" > ?)", t, t, after), nil
}

// bookCursor encodes the last row of a page: its time in milliseconds and its key.
func bookCursor(at time.Time, key int64) string {
	return strconv.FormatInt(at.UnixMilli(), 10) + "." + text(key)
}
