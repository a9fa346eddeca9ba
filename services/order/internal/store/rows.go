package store

import (
	"fmt"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/services/order/internal/core"
)

type orderRow struct {
	OrderSN      int64 `gorm:"column:order_sn;primaryKey;autoIncrement:false"`
	UserID       string
	ActivityID   int64
	State        string
	Tombstone    bool
	Amount       int64
	Currency     string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	PaidAt       *time.Time
	ClosedAt     *time.Time
	RefundedAt   *time.Time
	CloseReason  string
	PaidBy       *int64
	PayingUntil  *time.Time
	CloseCheckAt time.Time
	CloseResends int
	Traceparent  string
	LineItems    string
	DescribedAt  *time.Time
}

func (orderRow) TableName() string { return "orders" }

type paymentRow struct {
	PaymentID    int64 `gorm:"primaryKey;autoIncrement:false"`
	OrderSN      int64 `gorm:"column:order_sn"`
	UserID       string
	Provider     string
	State        string
	Amount       int64
	Currency     string
	PaidAmount   int64
	PaidCurrency string
	CreatedAt    time.Time
	FinishedAt   *time.Time

	Reference      string
	TurnAt         *time.Time
	CancelAt       *time.Time
	CancelAttempts int
}

func (paymentRow) TableName() string { return "payments" }

type refundRow struct {
	PaymentID     int64 `gorm:"primaryKey;autoIncrement:false"`
	OrderSN       int64 `gorm:"column:order_sn"`
	Provider      string
	Amount        int64
	Currency      string
	State         string
	Reason        string
	Attempts      int
	NextAttemptAt time.Time
	LastError     string
	CreatedAt     time.Time
	FinishedAt    *time.Time
}

func (refundRow) TableName() string { return "refunds" }

type eventRow struct {
	Provider   string `gorm:"primaryKey"`
	EventID    string `gorm:"primaryKey"`
	PaymentID  int64
	Outcome    string
	Amount     int64
	Currency   string
	Handled    string
	ReceivedAt time.Time
}

func (eventRow) TableName() string { return "payment_events" }

// timeOrZero returns the zero time for NULL.
func timeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// nullableTime returns NULL for the zero time.
func nullableTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (r orderRow) order() (core.Order, error) {
	o := core.Order{
		OrderSN: text(r.OrderSN), UserID: r.UserID, ActivityID: text(r.ActivityID),
		State: core.State(r.State), Tombstone: r.Tombstone, Amount: r.Amount, Currency: r.Currency,
		CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), PaidAt: timeOrZero(r.PaidAt),
		ClosedAt: timeOrZero(r.ClosedAt), RefundedAt: timeOrZero(r.RefundedAt), CloseReason: r.CloseReason,
		PayingUntil: timeOrZero(r.PayingUntil), CloseResends: r.CloseResends, Traceparent: r.Traceparent,
		DescribedAt: timeOrZero(r.DescribedAt),
	}
	if r.PaidBy != nil {
		o.PaidBy = text(*r.PaidBy)
	}
	var err error
	if o.Lines, err = parseLines(r.LineItems); err != nil {
		return o, fmt.Errorf("order %d: %w", r.OrderSN, err)
	}
	return o, nil
}

func (r paymentRow) payment() core.Payment {
	return core.Payment{
		PaymentID: text(r.PaymentID), OrderSN: text(r.OrderSN), UserID: r.UserID, Provider: r.Provider,
		State: core.PaymentState(r.State), Amount: r.Amount, Currency: r.Currency, PaidAmount: r.PaidAmount,
		PaidCurrency: r.PaidCurrency, CreatedAt: r.CreatedAt.UTC(), FinishedAt: timeOrZero(r.FinishedAt),
		Reference: r.Reference, TurnAt: timeOrZero(r.TurnAt), CancelAt: timeOrZero(r.CancelAt),
		CancelAttempts: r.CancelAttempts,
	}
}

func (r refundRow) refund() core.Refund {
	return core.Refund{
		PaymentID: text(r.PaymentID), OrderSN: text(r.OrderSN), Provider: r.Provider, Amount: r.Amount,
		Currency: r.Currency, State: core.RefundState(r.State), Reason: r.Reason, Attempts: r.Attempts,
		NextAttemptAt: r.NextAttemptAt.UTC(), LastError: r.LastError, CreatedAt: r.CreatedAt.UTC(),
		FinishedAt: timeOrZero(r.FinishedAt),
	}
}

func (r eventRow) event() core.PaymentEvent {
	return core.PaymentEvent{
		Provider: r.Provider, EventID: r.EventID, PaymentID: text(r.PaymentID), Outcome: core.Outcome(r.Outcome),
		Amount: r.Amount, Currency: r.Currency, Handled: core.Handled(r.Handled), ReceivedAt: r.ReceivedAt.UTC(),
	}
}

// readOrders reads orders by order_sn, the order in which all transactions lock them.
func readOrders(db *gorm.DB, sns []int64) ([]core.Order, error) {
	if len(sns) == 0 {
		return nil, nil
	}
	var rows []orderRow
	if err := db.Where("order_sn IN ?", sns).Order("order_sn").Find(&rows).Error; err != nil {
		return nil, err
	}
	return ordersOf(rows)
}

// ordersOf returns the orders of the rows.
func ordersOf(rows []orderRow) ([]core.Order, error) {
	orders := make([]core.Order, len(rows))
	for i, r := range rows {
		var err error
		if orders[i], err = r.order(); err != nil {
			return nil, err
		}
	}
	return orders, nil
}

// fillDetails reads the payments and refunds of the orders, oldest first, and whether they have a contact.
func fillDetails(db *gorm.DB, orders []core.Order) error {
	if len(orders) == 0 {
		return nil
	}
	at := make(map[int64]*core.Order, len(orders))
	sns := make([]int64, len(orders))
	for i := range orders {
		n, err := id(orders[i].OrderSN)
		if err != nil {
			return err
		}
		at[n], sns[i] = &orders[i], n
	}
	var payments []paymentRow
	if err := db.Where("order_sn IN ?", sns).Order("created_at, payment_id").Find(&payments).Error; err != nil {
		return err
	}
	for _, r := range payments {
		at[r.OrderSN].Payments = append(at[r.OrderSN].Payments, r.payment())
	}
	var refunds []refundRow
	if err := db.Where("order_sn IN ?", sns).Order("created_at, payment_id").Find(&refunds).Error; err != nil {
		return err
	}
	for _, r := range refunds {
		at[r.OrderSN].Refunds = append(at[r.OrderSN].Refunds, r.refund())
	}
	var given []int64
	if err := db.Model(&contactRow{}).Where("order_sn IN ?", sns).Pluck("order_sn", &given).Error; err != nil {
		return err
	}
	for _, sn := range given {
		at[sn].ContactGiven = true
	}
	return nil
}

func findPayment(db *gorm.DB, paymentID string) (core.Payment, bool, error) {
	pid, err := id(paymentID)
	if err != nil {
		return core.Payment{}, false, err
	}
	var rows []paymentRow
	if err := db.Where("payment_id = ?", pid).Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return core.Payment{}, false, err
	}
	return rows[0].payment(), true, nil
}
