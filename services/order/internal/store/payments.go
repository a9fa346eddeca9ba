package store

import (
	"context"
	"database/sql"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

func (t *tx) LockPayment(paymentID string) (core.Payment, bool, error) {
	return findPayment(sqldb.ForUpdate(t.db), paymentID)
}

// PaymentWithOrder implements core.Tx.
func (t *tx) PaymentWithOrder(paymentID string) (core.Payment, core.Order, time.Time, error) {
	return paymentWithOrder(t.db, t.clock, paymentID)
}

// PaymentWithOrder implements core.Store.
func (s *Store) PaymentWithOrder(ctx context.Context, paymentID string) (core.Payment, core.Order, time.Time, error) {
	p, o, now, err := paymentWithOrder(s.db.WithContext(ctx), s.clock, paymentID)
	return p, o, now, refuseTransient(err)
}

func paymentWithOrder(
	db *gorm.DB, clock func() time.Time, paymentID string,
) (p core.Payment, o core.Order, now time.Time, err error) {
	pid, err := id(paymentID)
	if err != nil {
		return p, o, now, err
	}
	readAt := sqldb.NowColumn
	now, known := sqldb.KnownNow(db, clock)
	if known {
		readAt = "NULL"
	}
	var (
		at      *time.Time
		payment paymentRow
		order   orderRow
	)
	err = sqldb.Query(db, "SELECT "+readAt+", p.payment_id, p.order_sn, p.user_id, p.provider, p.state, p.amount, "+
		"p.currency, p.paid_amount, p.paid_currency, p.created_at, p.finished_at, p.reference, p.turn_at, o.order_sn, "+
		"o.user_id, o.activity_id, o.state, o.tombstone, o.close_reason, o.expires_at, o.traceparent, o.line_items "+
		"FROM payments p JOIN orders o ON o.order_sn = p.order_sn WHERE p.payment_id = ?", []any{pid},
		func(rows *sql.Rows) error {
			return rows.Scan(&at, &payment.PaymentID, &payment.OrderSN, &payment.UserID, &payment.Provider, &payment.State,
				&payment.Amount, &payment.Currency, &payment.PaidAmount, &payment.PaidCurrency, &payment.CreatedAt,
				&payment.FinishedAt, &payment.Reference, &payment.TurnAt, &order.OrderSN, &order.UserID, &order.ActivityID,
				&order.State, &order.Tombstone, &order.CloseReason, &order.ExpiresAt, &order.Traceparent, &order.LineItems)
		})
	if err != nil {
		return p, o, now, err
	}
	if order.OrderSN == 0 {
		p, _, err = findPayment(db, paymentID)
		return p, o, time.Time{}, err
	}
	if at != nil {
		now = at.UTC()
	}
	o, err = order.order()
	return payment.payment(), o, now, err
}

func (t *tx) InsertPayment(p core.Payment) error {
	pid, err := id(p.PaymentID)
	if err != nil {
		return err
	}
	sn, err := id(p.OrderSN)
	if err != nil {
		return err
	}
	return t.db.Create(&paymentRow{
		PaymentID: pid, OrderSN: sn, UserID: p.UserID, Provider: p.Provider, State: string(p.State), Amount: p.Amount,
		Currency: p.Currency, PaidAmount: p.PaidAmount, PaidCurrency: p.PaidCurrency, CreatedAt: p.CreatedAt,
		FinishedAt: nullableTime(p.FinishedAt), Reference: p.Reference,
	}).Error
}

// BeginPayment implements core.Tx. The order is locked before its payments are counted: the subquery depends on its
// row, and at READ COMMITTED it reads what was committed when it begins. So concurrent calls never exceed most.
func (t *tx) BeginPayment(p core.Payment, most int) (int, error) {
	pid, err := id(p.PaymentID)
	if err != nil {
		return 0, err
	}
	sn, err := id(p.OrderSN)
	if err != nil {
		return 0, err
	}
	now, at := sqldb.NowIn(t.db, t.clock)
	query := "INSERT INTO payments (payment_id, order_sn, user_id, provider, state, amount, currency, created_at) " +
		"SELECT ?, o.order_sn, o.user_id, ?, ?, o.amount, o.currency, " + now + " FROM orders o " +
		"WHERE o.order_sn = ? AND o.user_id = ? AND o.state = ? AND o.tombstone = 0 AND o.expires_at > " + now +
		" AND (SELECT COUNT(*) FROM payments p WHERE p.order_sn = o.order_sn) < ?"
	if !sqldb.IsSQLite(t.db) {
		query += " FOR UPDATE"
	}
	args := append([]any{pid, p.Provider, string(p.State)}, at...)
	args = append(append(args, sn, p.UserID, string(core.Pending)), at...)
	begun, err := sqldb.Exec(t.db, query, append(args, most)...)
	return int(begun), err
}

func (t *tx) UpdatePayment(p core.Payment, from ...core.PaymentState) (int, error) {
	pid, err := id(p.PaymentID)
	if err != nil {
		return 0, err
	}
	args := []any{string(p.State), p.PaidAmount, p.PaidCurrency, p.Reference, p.Reference, p.FinishedAt, pid}
	for _, f := range from {
		args = append(args, string(f))
	}
	changed, err := sqldb.Exec(t.db, "UPDATE payments SET state = ?, paid_amount = ?, paid_currency = ?, "+
		"reference = CASE WHEN ? = '' THEN reference ELSE ? END, finished_at = ? "+
		"WHERE payment_id = ? AND state IN "+sqldb.List(len(from)), args...)
	return int(changed), err
}

func (t *tx) CancelPayments(orderSNs []string, at time.Time) error {
	sns, err := ids(orderSNs)
	if err != nil {
		return err
	}
	args := []any{at}
	for _, sn := range sns {
		args = append(args, sn)
	}
	_, err = sqldb.Exec(t.db, "UPDATE payments SET cancel_at = ?, cancel_attempts = 0 WHERE order_sn IN "+
		sqldb.List(len(sns))+" AND state <> ?", append(args, string(core.PaymentSucceeded))...)
	return err
}

// updatePayment changes columns of a payment if the condition holds, which begins with AND or is empty.
func (s *Store) updatePayment(ctx context.Context, paymentID, set, and string, args ...any) (bool, error) {
	pid, err := id(paymentID)
	if err != nil {
		return false, err
	}
	n, err := sqldb.Exec(s.db.WithContext(ctx), "UPDATE payments SET "+set+" WHERE payment_id = "+text(pid)+" "+and, args...)
	return n == 1, refuseTransient(err)
}

// StoreTurn implements core.Store.
func (s *Store) StoreTurn(ctx context.Context, p core.Payment, at time.Time) error {
	and, args := "AND turn_at IS NULL", []any{nullableTime(at)}
	if !p.TurnAt.IsZero() {
		and, args = "AND turn_at = ?", append(args, p.TurnAt)
	}
	_, err := s.updatePayment(ctx, p.PaymentID, "turn_at = ?", and, args...)
	return err
}

// StoreReference implements core.Store.
func (s *Store) StoreReference(ctx context.Context, paymentID, reference string) error {
	_, err := s.updatePayment(ctx, paymentID, "reference = ?", "AND reference = ''", reference)
	return err
}

// DueCancels implements core.Store.
func (s *Store) DueCancels(ctx context.Context, now time.Time, limit int) ([]core.Payment, error) {
	var rows []paymentRow
	err := s.db.WithContext(ctx).Where("cancel_at <= ?", now).Order("cancel_at").Limit(limit).Find(&rows).Error
	due := make([]core.Payment, len(rows))
	for i, r := range rows {
		due[i] = r.payment()
	}
	return due, refuseTransient(err)
}

// ClaimCancel implements core.Store.
func (s *Store) ClaimCancel(ctx context.Context, p core.Payment, next time.Time) (bool, error) {
	return s.updatePayment(ctx, p.PaymentID, "cancel_at = ?, cancel_attempts = cancel_attempts + 1",
		"AND cancel_at = ? AND cancel_attempts = ?", next, p.CancelAt, p.CancelAttempts)
}

// EndCancel implements core.Store.
func (s *Store) EndCancel(ctx context.Context, p core.Payment) error {
	_, err := s.updatePayment(ctx, p.PaymentID, "cancel_at = NULL", "AND cancel_at = ? AND cancel_attempts = ?",
		p.CancelAt, p.CancelAttempts)
	return err
}
