package store

import (
	"cmp"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/pkg/outbox"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

// tx implements core.Tx.
type tx struct {
	db          *gorm.DB
	clock       func() time.Time
	wroteOutbox bool
}

func (t *tx) Now() (time.Time, error) { return sqldb.Now(t.db, t.clock) }

func (t *tx) LockOrders(orderSNs []string) (map[string]core.Order, error) {
	sns, err := ids(orderSNs)
	if err != nil {
		return nil, err
	}
	found, err := readOrders(sqldb.ForUpdate(t.db), sns)
	if err != nil {
		return nil, err
	}
	orders := make(map[string]core.Order, len(found))
	for _, o := range found {
		orders[o.OrderSN] = o
	}
	return orders, nil
}

func (t *tx) InsertOrders(orders []core.Order) error {
	rows := make([]orderRow, len(orders))
	for i, o := range orders {
		sn, err := id(o.OrderSN)
		if err != nil {
			return err
		}
		activity, err := id(o.ActivityID)
		if err != nil {
			return err
		}
		rows[i] = orderRow{
			OrderSN: sn, UserID: o.UserID, ActivityID: activity, State: string(o.State),
			Amount: o.Amount, Currency: o.Currency, CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt,
			CloseCheckAt: o.ExpiresAt, Traceparent: o.Traceparent, LineItems: formatLines(o.Lines),
			DescribedAt: nullableTime(o.DescribedAt),
		}
	}
	if err := t.insert(rows); err != nil {
		if sqldb.IsDuplicate(err) {
			return core.ErrOrderExists
		}
		return err
	}
	return t.db.Create(checksOf(rows)).Error
}

func (t *tx) InsertTombstones(orderSNs []string, at time.Time) error {
	rows := make([]orderRow, len(orderSNs))
	for i, orderSN := range orderSNs {
		sn, err := id(orderSN)
		if err != nil {
			return err
		}
		rows[i] = orderRow{
			OrderSN: sn, State: string(core.Closed), Tombstone: true, CreatedAt: at, ExpiresAt: at, ClosedAt: &at,
			CloseCheckAt: at,
		}
	}
	return t.insert(rows)
}

// insert inserts rows in the order in which all transactions lock them.
func (t *tx) insert(rows []orderRow) error {
	slices.SortFunc(rows, func(a, b orderRow) int { return cmp.Compare(a.OrderSN, b.OrderSN) })
	return t.db.Create(&rows).Error
}

func (t *tx) Deadline(orderSN string) (time.Time, error) {
	sn, err := id(orderSN)
	if err != nil {
		return time.Time{}, err
	}
	var row orderRow
	err = t.db.Select("expires_at").Where("order_sn = ?", sn).Take(&row).Error
	return row.ExpiresAt.UTC(), err
}

// assign is the SET clause of an UPDATE with its arguments.
type assign struct {
	set  string
	args []any
}

// transition updates the orders that are in the state from, and returns their number. guard is a further condition
// with its arguments, which begins with AND; "" for none.
func (t *tx) transition(orderSNs []string, from core.State, to assign, guard string, args ...any) (int, error) {
	sns, err := ids(orderSNs)
	if err != nil || len(sns) == 0 {
		return 0, err
	}
	slices.Sort(sns)
	values := make([]any, 0, len(to.args)+len(sns)+1+len(args))
	values = append(values, to.args...)
	for _, sn := range sns {
		values = append(values, sn)
	}
	values = append(append(values, string(from)), args...)
	changed, err := sqldb.Exec(t.db, "UPDATE orders SET "+to.set+" WHERE order_sn IN "+sqldb.List(len(sns))+
		" AND state = ? AND tombstone = 0 "+guard, values...)
	return int(changed), err
}

func (t *tx) Close(orderSNs []string, reason string, at time.Time) (int, error) {
	to := assign{"state = ?, closed_at = ?, close_reason = ?", []any{string(core.Closed), at, reason}}
	if reason == core.ReasonExpired {
		return t.transition(orderSNs, core.Pending, to, "AND expires_at <= ?", at)
	}
	return t.transition(orderSNs, core.Pending, to, "")
}

func (t *tx) Pay(orderSN, paymentID string, at time.Time) (int, error) {
	pid, err := id(paymentID)
	if err != nil {
		return 0, err
	}
	return t.transition([]string{orderSN}, core.Pending,
		assign{"state = ?, paid_at = ?, paid_by = ?", []any{string(core.Paid), at, pid}}, "")
}

func (t *tx) Refund(orderSN string, at time.Time) (int, error) {
	return t.transition([]string{orderSN}, core.Paid,
		assign{"state = ?, refunded_at = ?", []any{string(core.Refunded), at}}, "")
}

func (t *tx) HoldForPayment(orderSN string, until time.Time) (int, error) {
	// The sweep does not need to check the order before the grace ends either.
	return t.transition([]string{orderSN}, core.Pending,
		assign{"paying_until = ?, close_check_at = ?", []any{until, until}}, "AND paying_until IS NULL")
}

func (t *tx) PostponeClosingCheck(orderSNs []string, resends int, at time.Time) (int, error) {
	return t.transition(orderSNs, core.Pending,
		assign{"close_check_at = ?, close_resends = close_resends + 1", []any{at}}, "AND close_resends = ?", resends)
}

func (t *tx) AddEvents(events []contract.OrderEvent) error {
	t.wroteOutbox = true
	return outbox.Append(t.db, contract.TopicOrderEvents, events...)
}

func (t *tx) AddClosing(c contract.OrderClose) error {
	t.wroteOutbox = true
	return outbox.Append(t.db, contract.TopicOrderClose, c)
}

func (t *tx) StoreResponse(call core.Call, status int, body []byte) ([]byte, bool, error) {
	stored, err := idempotency.BeginWith(t.db, key(call), idempotency.Stored{Status: status, Body: body})
	if err != nil || stored == nil {
		return nil, false, err
	}
	return stored.Body, true, nil
}

func (t *tx) OpenPayments(orderSNs []string) (map[string]bool, error) {
	sns, err := ids(orderSNs)
	if err != nil {
		return nil, err
	}
	var found []int64
	err = t.db.Model(&paymentRow{}).Where("order_sn IN ? AND state = ?", sns, string(core.PaymentStarted)).
		Pluck("order_sn", &found).Error
	open := make(map[string]bool, len(found))
	for _, sn := range found {
		open[text(sn)] = true
	}
	return open, err
}

func (t *tx) PaymentsOf(orderSNs []string) ([]core.Payment, error) {
	sns, err := ids(orderSNs)
	if err != nil {
		return nil, err
	}
	var rows []paymentRow
	if err := t.db.Where("order_sn IN ?", sns).Find(&rows).Error; err != nil {
		return nil, err
	}
	payments := make([]core.Payment, len(rows))
	for i, r := range rows {
		payments[i] = r.payment()
	}
	return payments, nil
}

func (t *tx) PaymentEvent(provider, eventID string) (core.PaymentEvent, bool, error) {
	var rows []eventRow
	err := t.db.Where("provider = ? AND event_id = ?", provider, eventID).Limit(1).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return core.PaymentEvent{}, false, err
	}
	return rows[0].event(), true, nil
}

func (t *tx) InsertPaymentEvent(e core.PaymentEvent) error {
	pid, err := id(e.PaymentID)
	if err != nil {
		return err
	}
	_, err = sqldb.Exec(t.db, "INSERT INTO payment_events "+
		"(provider, event_id, payment_id, outcome, amount, currency, handled, received_at) VALUES "+sqldb.List(8),
		e.Provider, e.EventID, pid, string(e.Outcome), e.Amount, e.Currency, string(e.Handled), e.ReceivedAt)
	if sqldb.IsDuplicate(err) {
		return core.ErrEventExists
	}
	return err
}

func (t *tx) UpdatePaymentEvent(provider, eventID string, from, to core.Handled) (int, error) {
	res := t.db.Model(&eventRow{}).
		Where("provider = ? AND event_id = ? AND handled = ?", provider, eventID, string(from)).
		Update("handled", string(to))
	return int(res.RowsAffected), res.Error
}

func (t *tx) InsertRefund(r core.Refund) error {
	pid, err := id(r.PaymentID)
	if err != nil {
		return err
	}
	sn, err := id(r.OrderSN)
	if err != nil {
		return err
	}
	return t.db.Create(&refundRow{
		PaymentID: pid, OrderSN: sn, Provider: r.Provider, Amount: r.Amount, Currency: r.Currency,
		State: string(r.State), Reason: r.Reason, NextAttemptAt: r.NextAttemptAt, CreatedAt: r.CreatedAt,
		FinishedAt: nullableTime(r.FinishedAt),
	}).Error
}

func (t *tx) FillDetails(o *core.Order) error {
	orders := []core.Order{*o}
	err := fillDetails(t.db, orders)
	*o = orders[0]
	return err
}

func key(c core.Call) idempotency.Key {
	return idempotency.Key{
		Caller: c.Caller, Method: c.Method, Path: c.Path, Value: c.Key, BodyHash: idempotency.HashBody(c.Body),
	}
}
