package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/merchants"
)

type shownOrder struct {
	OrderSN       string           `json:"order_sn"`
	State         string           `json:"state"`
	UserID        string           `json:"user_id"`
	ActivityID    string           `json:"activity_id"`
	ActivityTitle string           `json:"activity_title"`
	Lines         []shownLine      `json:"lines"`
	Amount        int64            `json:"amount"`
	Currency      string           `json:"currency"`
	CreatedAt     time.Time        `json:"created_at"`
	ExpiresAt     time.Time        `json:"expires_at"`
	PaidAt        *time.Time       `json:"paid_at"`
	ClosedAt      *time.Time       `json:"closed_at"`
	RefundedAt    *time.Time       `json:"refunded_at"`
	CloseReason   string           `json:"close_reason"`
	PaidBy        string           `json:"paid_by"`
	PayingUntil   *time.Time       `json:"paying_until"`
	Contact       *contact         `json:"contact"`
	Payments      []shownPayment   `json:"payments"`
	Refunds       []refund         `json:"refunds"`
	Decisions     []refundDecision `json:"decisions"`
}

type shownLine struct {
	contract.PricedLine
	Name string `json:"name"`
}

type shownPayment struct {
	ID           string     `json:"payment_id"`
	Provider     string     `json:"provider"`
	State        string     `json:"state"`
	Amount       int64      `json:"amount"`
	Currency     string     `json:"currency"`
	PaidAmount   int64      `json:"paid_amount"`
	PaidCurrency string     `json:"paid_currency"`
	CreatedAt    time.Time  `json:"created_at"`
	FinishedAt   *time.Time `json:"finished_at"`
}

type refundDecision struct {
	RefundID  string    `json:"refund_id"`
	Action    string    `json:"action"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
	Reference string    `json:"reference"`
	Reason    string    `json:"reason"`
}

func (o shownOrder) toCore() *merchants.StoredOrder {
	out := &merchants.StoredOrder{
		OrderDetails: merchants.OrderDetails{
			State: o.State, Amount: o.Amount, Currency: o.Currency, SKUNames: map[string]string{},
		},
		UserID: o.UserID, ActivityID: o.ActivityID, Title: o.ActivityTitle, CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt,
		PaidAt: o.PaidAt, ClosedAt: o.ClosedAt, RefundedAt: o.RefundedAt, CloseReason: o.CloseReason, PaidBy: o.PaidBy,
		PayingUntil: o.PayingUntil,
	}
	if o.Contact != nil {
		contact := merchants.Contact(*o.Contact)
		out.Contact = &contact
	}
	for _, l := range o.Lines {
		out.Lines = append(out.Lines, l.PricedLine)
		if l.Name != "" {
			out.SKUNames[l.SKUID] = l.Name
		}
	}
	for _, p := range o.Payments {
		out.Payments = append(out.Payments, merchants.Payment(p))
	}
	for _, r := range o.Refunds {
		out.Refunds = append(out.Refunds, r.toCore())
	}
	for _, d := range o.Decisions {
		out.Decisions = append(out.Decisions, merchants.RefundDecision(d))
	}
	return out
}

// Show implements merchants.Orders. A process of 0.1.0 lacks the call and responds 404, which is an error: another
// process, or this one after its upgrade, responds.
func (c *Client) Show(ctx context.Context, orderSN string) (*merchants.StoredOrder, error) {
	path := "/internal/v1/orders/" + orderSN
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := c.signed(ctx, http.MethodGet, path, nil, func(req *http.Request) (response, error) {
		return c.lookups.Execute(func() (response, error) { return c.send(req) })
	})
	if err != nil {
		return nil, fmt.Errorf("order service: %w", err)
	}
	if got.status != http.StatusOK {
		return nil, fmt.Errorf("order service: %s: status %d", path, got.status)
	}
	var o shownOrder
	if err := json.Unmarshal(got.body, &o); err != nil {
		return nil, fmt.Errorf("order service: %s: parse response: %w", path, err)
	}
	if o.OrderSN != orderSN || o.State == "" {
		return nil, fmt.Errorf("order service: %s: response has order %q in state %q", path, o.OrderSN, o.State)
	}
	if o.State == stateUnknown {
		return nil, nil
	}
	return o.toCore(), nil
}
