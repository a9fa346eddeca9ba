package store

import (
	"database/sql"
	"time"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

func (t *tx) LockPayment(paymentID string) (core.Payment, bool, error) {
	return findPayment(sqldb.ForUpdate(t.db), paymentID)
}

// PaymentWithOrder implements core.Tx.
func (t *tx) PaymentWithOrder(paymentID string) (p core.Payment, o core.Order, now time.Time, err error) {
	pid, err := id(paymentID)
	if err != nil {
		return p, o, now, err
	}
	readAt := sqldb.NowColumn
	now, known := sqldb.KnownNow(t.db, t.clock)
	if known {
		readAt = "NULL"
	}
	var (
		at      *time.Time
		payment paymentRow
		order   orderRow
	)
	err = sqldb.Query(t.db, "SELECT "+readAt+", p.payment_id, p.order_sn, p.user_id, p.provider, p.state, p.amount, "+
		"p.currency, p.paid_amount, p.paid_currency, p.created_at, p.finished_at, o.order_sn, o.user_id, o.activity_id, "+
		"o.state, o.tombstone, o.close_reason, o.traceparent, o.line_items "+
		"FROM payments p JOIN orders o ON o.order_sn = p.order_sn WHERE p.payment_id = ?", []any{pid},
		func(rows *sql.Rows) error {
			return rows.Scan(&at, &payment.PaymentID, &payment.OrderSN, &payment.UserID, &payment.Provider, &payment.State,
				&payment.Amount, &payment.Currency, &payment.PaidAmount, &payment.PaidCurrency, &payment.CreatedAt,
				&payment.FinishedAt, &order.OrderSN, &order.UserID, &order.ActivityID, &order.State,
				&order.Tombstone, &order.CloseReason, &order.Traceparent, &order.LineItems)
		})
	if err != nil {
		return p, o, now, err
	}
	if order.OrderSN == 0 {
		p, _, err = findPayment(t.db, paymentID)
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
		FinishedAt: nullableTime(p.FinishedAt),
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
	args := []any{string(p.State), p.PaidAmount, p.PaidCurrency, p.FinishedAt, pid}
	for _, f := range from {
		args = append(args, string(f))
	}
	changed, err := sqldb.Exec(t.db, "UPDATE payments SET state = ?, paid_amount = ?, paid_currency = ?, finished_at = ? "+
		"WHERE payment_id = ? AND state IN "+sqldb.List(len(from)), args...)
	return int(changed), err
}
