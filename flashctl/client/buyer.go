package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"flashsale.internal/pkg/contract"
)

// Activity is a sale as buyers see it.
type Activity struct {
	ActivityID   string    `json:"activity_id"`
	Title        string    `json:"title"`
	State        string    `json:"state"`
	StartsAt     time.Time `json:"starts_at"`
	EndsAt       time.Time `json:"ends_at"`
	ServerTime   time.Time `json:"server_time"`
	PerUserLimit int64     `json:"per_user_limit"`
	Items        []struct {
		SKUID    string `json:"sku_id"`
		Name     string `json:"name"`
		Price    int64  `json:"price"`
		Currency string `json:"currency"`
		Total    int64  `json:"total"`
		Left     int64  `json:"left"`
	} `json:"items"`
}

// Activity returns a sale.
func (c *Caller) Activity(ctx context.Context, id string) (Activity, error) {
	var out Activity
	err := c.do(ctx, call{method: http.MethodGet, url: c.origins.Seckill + "/v1/activities/" + url.PathEscape(id)},
		&out)
	return out, err
}

// Path is the secret for one purchase.
type Path struct {
	Path      string    `json:"path"`
	OrderSN   string    `json:"order_sn"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewPath requests a path.
func (c *Caller) NewPath(ctx context.Context, activityID string) (Path, error) {
	return c.NewPathWith(ctx, activityID, "", "")
}

// NewPathWith requests a path with a ticket of the waiting room and the pass of a solved challenge, "" for none.
func (c *Caller) NewPathWith(ctx context.Context, activityID, ticket, pass string) (Path, error) {
	var out Path
	err := c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Seckill + "/v1/activities/" + url.PathEscape(activityID) + "/paths",
		body: struct {
			RoomTicket    string `json:"room_ticket,omitempty"`
			ChallengePass string `json:"captcha_pass,omitempty"`
		}{ticket, pass},
	}, &out)
	return out, err
}

// JoinRoom returns the buyer's ticket of the waiting room of a sale.
func (c *Caller) JoinRoom(ctx context.Context, activityID string) (ticket string, err error) {
	var out struct {
		Ticket string `json:"ticket"`
	}
	err = c.do(ctx, call{
		method: http.MethodPost, url: c.origins.Seckill + "/v1/activities/" + url.PathEscape(activityID) + "/room",
	}, &out)
	return out.Ticket, err
}

// RoomState is the state of a ticket of a waiting room.
type RoomState struct {
	State string `json:"state"` // early, waiting, admitted or lapsed
	Place int64  `json:"place"` // 0 while unknown
	Ahead int64  `json:"ahead"`
	Proof *struct {
		Sequence   int64  `json:"sequence"`
		Commitment string `json:"commitment"`
	} `json:"proof"`
}

// RoomTicket returns the state of a ticket of the waiting room.
func (c *Caller) RoomTicket(ctx context.Context, activityID, ticket string) (RoomState, error) {
	var out RoomState
	err := c.do(ctx, call{
		method: http.MethodGet, url: c.origins.Seckill + "/v1/activities/" + url.PathEscape(activityID) + "/room?ticket=" +
			url.QueryEscape(ticket),
	}, &out)
	return out, err
}

// Status is the status of a purchase.
type Status string

// The statuses of a purchase. They only rise; some may be skipped.
const (
	Queued  Status = "queued"
	Created Status = "created"
	Paid    Status = "paid"
	Closed  Status = "closed"
	Failed  Status = "failed"
)

// Reservation is a purchase as its buyer sees it.
type Reservation struct {
	OrderSN   string    `json:"order_sn"`
	Status    Status    `json:"status"`
	Reason    string    `json:"reason"`
	ExpiresAt time.Time `json:"expires_at"`
	ResultURL string    `json:"result_url"`
	EventsURL string    `json:"events_url"`
	OrderURL  string    `json:"order_url"`
}

// Reserve makes the purchase of a path. After a 503 or a time-out the outcome is unknown, and it posts the same path
// again, which never buys twice.
func (c *Caller) Reserve(ctx context.Context, activityID, path string, lines []contract.Line) (Reservation, error) {
	var out Reservation
	err := c.do(ctx, call{
		method: http.MethodPost,
		url: c.origins.Seckill + "/v1/activities/" + url.PathEscape(activityID) + "/paths/" + url.PathEscape(path) +
			"/reservations",
		body: struct {
			Lines []contract.Line `json:"lines"`
		}{lines},
	}, &out)
	return out, err
}

// Reservation returns the status of a purchase.
func (c *Caller) Reservation(ctx context.Context, activityID, orderSN string) (Reservation, error) {
	var out Reservation
	err := c.do(ctx, call{
		method: http.MethodGet,
		url: c.origins.Seckill + "/v1/activities/" + url.PathEscape(activityID) + "/reservations/" +
			url.PathEscape(orderSN),
	}, &out)
	return out, err
}

// Order is an order as its buyer sees it.
type Order struct {
	OrderSN     string     `json:"order_sn"`
	ActivityID  string     `json:"activity_id"`
	UserID      string     `json:"user_id"`
	State       string     `json:"state"` // pending, paid, closed, refunded
	Amount      int64      `json:"amount"`
	Currency    string     `json:"currency"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   time.Time  `json:"expires_at"`
	PaidAt      time.Time  `json:"paid_at"`
	ClosedAt    time.Time  `json:"closed_at"`
	CloseReason string     `json:"close_reason"`
	Refunds     []Refunded `json:"refunds"`
}

// Refunded is a refund of an order as its buyer sees it.
type Refunded struct {
	PaymentID string `json:"payment_id"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	State     string `json:"state"` // refund_pending, refunded, refund_failed
	Reason    string `json:"reason"`
}

// Order returns an order.
func (c *Caller) Order(ctx context.Context, orderSN string) (Order, error) {
	var out Order
	err := c.do(ctx, call{method: http.MethodGet, url: c.origins.Order + "/v1/orders/" + url.PathEscape(orderSN)}, &out)
	return out, err
}

// Cancel closes an unpaid order.
func (c *Caller) Cancel(ctx context.Context, orderSN string) (Order, error) {
	var out Order
	err := c.do(ctx, call{
		method: http.MethodPost, url: c.origins.Order + "/v1/orders/" + url.PathEscape(orderSN) + "/cancel",
	}, &out)
	return out, err
}

// Payment is a started payment.
type Payment struct {
	PaymentID string `json:"payment_id"`
	State     string `json:"state"`
	PayURL    string `json:"pay_url"`
}

// StartPayment starts a payment with a provider. The same key returns the same payment.
func (c *Caller) StartPayment(ctx context.Context, orderSN, provider, key string) (Payment, error) {
	var out Payment
	err := c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Order + "/v1/orders/" + url.PathEscape(orderSN) + "/payments",
		body: struct {
			Provider string `json:"provider"`
		}{provider},
		key: key,
	}, &out)
	return out, err
}

// SucceedPayment makes the sandbox provider report that the payment succeeded.
func (c *Caller) SucceedPayment(ctx context.Context, paymentID string) error {
	err := c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Order + "/v1/payments/" + url.PathEscape(paymentID) + "/sandbox",
		body: struct {
			Outcome string `json:"outcome"`
		}{"succeeded"},
	}, nil)
	return err
}
