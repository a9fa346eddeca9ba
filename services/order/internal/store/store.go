// Package store keeps orders, payments and refunds in MySQL, MariaDB or SQLite.
package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
)

// Store implements core.Store on a database.
type Store struct {
	db  *gorm.DB
	tel *telemetry.Telemetry
	// outboxWritten is called after the commit of each transaction that wrote to the outbox.
	outboxWritten func()
	clock         func() time.Time // nil: the database's
}

var _ core.Store = (*Store)(nil)

// Option changes a default of a Store.
type Option func(*Store)

// WithClock replaces the clock of the database, for tests and for SQLite, which is part of the process. nil stands for
// the clock of the database.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.clock = now } }

// New returns a store. outboxWritten is called after each commit that added rows to the outbox; it may be nil.
func New(db *gorm.DB, tel *telemetry.Telemetry, outboxWritten func(), opts ...Option) *Store {
	if outboxWritten == nil {
		outboxWritten = func() {}
	}
	s := &Store{db: db, tel: tel, outboxWritten: outboxWritten}
	for _, o := range opts {
		o(s)
	}
	return s
}

// InTx implements core.Store.
func (s *Store) InTx(ctx context.Context, name string, fn func(core.Tx) error) error {
	system := "mysql"
	if sqldb.IsSQLite(s.db) {
		system = "sqlite"
	}
	ctx, end := s.tel.Span(ctx, name, trace.SpanKindClient, attribute.String("db.system", system))
	wroteOutbox := false
	err := sqldb.InTx(ctx, s.db, func(db *gorm.DB) error {
		t := &tx{db: db, clock: s.clock}
		err := fn(t)
		wroteOutbox = t.wroteOutbox
		if errors.Is(err, core.ErrRetry) {
			return sqldb.Race(err)
		}
		return err
	}, sqldb.RetryDuplicates())
	if refusal := (*contract.Refusal)(nil); errors.As(err, &refusal) || errors.Is(err, core.ErrOrderExists) ||
		errors.Is(err, core.ErrStale) {
		end(nil) // an expected result: the span is no error
	} else {
		end(err)
	}
	if err == nil && wroteOutbox {
		s.outboxWritten()
	}
	return refuseTransient(err)
}

// refuseTransient turns a transient database error into a refusal with the code unavailable. It returns all other
// errors unchanged.
func refuseTransient(err error) error {
	if err == nil || !sqldb.IsTransient(err) {
		return err
	}
	if refusal := (*contract.Refusal)(nil); errors.As(err, &refusal) {
		return err
	}
	return contract.Refuse(contract.CodeUnavailable,
		"The service is temporarily unavailable. The outcome may be unknown; try again.").Because(err)
}

func id(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("id: %w", err)
	}
	return n, nil
}

func ids(list []string) ([]int64, error) {
	all := make([]int64, len(list))
	for i, s := range list {
		n, err := id(s)
		if err != nil {
			return nil, err
		}
		all[i] = n
	}
	return all, nil
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// Order implements core.Store.
func (s *Store) Order(ctx context.Context, orderSN string) (core.Order, bool, error) {
	sn, err := id(orderSN)
	if err != nil {
		return core.Order{}, false, err
	}
	db := s.db.WithContext(ctx)
	orders, err := readOrders(db, []int64{sn})
	if err == nil {
		err = fillDetails(db, orders)
	}
	if err != nil || len(orders) == 0 {
		return core.Order{}, false, refuseTransient(err)
	}
	return orders[0], true, nil
}

// List implements core.Store.
func (s *Store) List(ctx context.Context, q core.ListQuery) ([]core.Order, error) {
	db := s.db.WithContext(ctx)
	find := db.Where("user_id = ? AND tombstone = ?", q.UserID, false)
	if q.State != "" {
		find = find.Where("state = ?", string(q.State))
	}
	if !q.Before.CreatedAt.IsZero() {
		before, err := id(q.Before.OrderSN)
		if err != nil {
			return nil, err
		}
		find = find.Where("created_at < ? OR (created_at = ? AND order_sn < ?)", q.Before.CreatedAt,
			q.Before.CreatedAt, before)
	}
	var rows []orderRow
	if err := find.Order("created_at DESC, order_sn DESC").Limit(q.Limit).Find(&rows).Error; err != nil {
		return nil, refuseTransient(err)
	}
	orders, err := ordersOf(rows)
	if err == nil {
		err = fillDetails(db, orders)
	}
	if err != nil {
		return nil, refuseTransient(err)
	}
	return orders, nil
}

// Payment implements core.Store.
func (s *Store) Payment(ctx context.Context, paymentID string) (core.Payment, bool, error) {
	p, found, err := findPayment(s.db.WithContext(ctx), paymentID)
	return p, found, refuseTransient(err)
}

// DueRefunds implements core.Store.
func (s *Store) DueRefunds(ctx context.Context, now time.Time, limit int) ([]core.Refund, error) {
	due := s.db.WithContext(ctx).Model(&refundRow{}).
		Where("state = ? AND next_attempt_at <= ?", string(core.RefundPending), now).Session(&gorm.Session{})
	var providers []string
	if err := due.Distinct().Order("provider").Pluck("provider", &providers).Error; err != nil {
		return nil, refuseTransient(err)
	}
	turns := make([][]refundRow, len(providers))
	for i, p := range providers {
		share := max(1, limit/len(providers))
		err := due.Where("provider = ?", p).Order("next_attempt_at").Limit(share).Find(&turns[i]).Error
		if err != nil {
			return nil, refuseTransient(err)
		}
	}
	var list []core.Refund
	for turn := 0; ; turn++ {
		before := len(list)
		for _, rows := range turns {
			if turn < len(rows) && len(list) < limit {
				list = append(list, rows[turn].refund())
			}
		}
		if len(list) == before {
			return list, nil
		}
	}
}

// ClaimRefund implements core.Store.
func (s *Store) ClaimRefund(ctx context.Context, r core.Refund, next time.Time) (bool, error) {
	pid, err := id(r.PaymentID)
	if err != nil {
		return false, err
	}
	res := s.db.WithContext(ctx).Model(&refundRow{}).
		Where("payment_id = ? AND state = ? AND attempts = ?", pid, string(core.RefundPending), r.Attempts).
		Updates(map[string]any{"attempts": r.Attempts + 1, "next_attempt_at": next})
	return res.RowsAffected == 1, refuseTransient(res.Error)
}

// FinishRefund implements core.Store.
func (s *Store) FinishRefund(
	ctx context.Context, paymentID string, to core.RefundState, lastError string, at time.Time,
) (bool, error) {
	from := []string{string(core.RefundPending)}
	if to == core.RefundDone {
		from = append(from, string(core.RefundFailed))
	}
	return s.moveRefund(ctx, paymentID, from, to, lastError, at)
}

// ReopenRefund implements core.Store.
func (s *Store) ReopenRefund(ctx context.Context, paymentID, lastError string, at time.Time) (bool, error) {
	return s.moveRefund(ctx, paymentID, []string{string(core.RefundDone)}, core.RefundFailed, lastError, at)
}

func (s *Store) moveRefund(
	ctx context.Context, paymentID string, from []string, to core.RefundState, lastError string, at time.Time,
) (bool, error) {
	pid, err := id(paymentID)
	if err != nil {
		return false, err
	}
	res := s.db.WithContext(ctx).Model(&refundRow{}).Where("payment_id = ? AND state IN ?", pid, from).
		Updates(map[string]any{"state": string(to), "last_error": truncate(lastError), "finished_at": at})
	return res.RowsAffected == 1, refuseTransient(res.Error)
}

// StoreRefundError implements core.Store.
func (s *Store) StoreRefundError(ctx context.Context, paymentID, lastError string) error {
	pid, err := id(paymentID)
	if err != nil {
		return err
	}
	return refuseTransient(s.db.WithContext(ctx).Model(&refundRow{}).
		Where("payment_id = ? AND state = ?", pid, string(core.RefundPending)).
		Update("last_error", truncate(lastError)).Error)
}

// truncate shortens an error text to the length of its column.
func truncate(s string) string {
	r := []rune(s)
	return string(r[:min(len(r), 255)])
}
