package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

type refund struct {
	ID            string      `json:"refund_id"`
	OrderSN       string      `json:"order_sn"`
	Provider      string      `json:"provider"`
	Amount        int64       `json:"amount"`
	Currency      string      `json:"currency"`
	State         string      `json:"state"`
	Reason        string      `json:"reason"`
	Attempts      int64       `json:"attempts"`
	NextAttemptAt *time.Time  `json:"next_attempt_at"`
	LastError     string      `json:"last_error"`
	CreatedAt     time.Time   `json:"created_at"`
	RefundedAt    *time.Time  `json:"refunded_at"`
	Settled       *settlement `json:"settled"`
}

type settlement struct {
	By        string `json:"by"`
	Reference string `json:"reference"`
	Reason    string `json:"reason"`
}

func (r refund) toCore() merchants.Refund {
	out := merchants.Refund{
		ID: r.ID, OrderSN: r.OrderSN, Provider: r.Provider, Amount: r.Amount, Currency: r.Currency, State: r.State,
		Reason: r.Reason, Attempts: r.Attempts, NextAttemptAt: r.NextAttemptAt, LastError: r.LastError,
		CreatedAt: r.CreatedAt, RefundedAt: r.RefundedAt,
	}
	if r.Settled != nil {
		settled := merchants.RefundSettlement(*r.Settled)
		out.Settled = &settled
	}
	return out
}

const refundsPath = "/internal/v1/refunds"

// WaitingRefunds implements merchants.Refunds.
func (c *Client) WaitingRefunds(ctx context.Context, p merchants.RefundPage) ([]merchants.Refund, string, error) {
	items, next, err := pageOf[refund](ctx, c, refundsPath, p)
	if err != nil {
		return nil, "", err
	}
	list := make([]merchants.Refund, len(items))
	for i, r := range items {
		if !contract.ValidID(r.ID) {
			return nil, "", noResponse(fmt.Errorf("%s: response has a refund without an id", refundsPath))
		}
		list[i] = r.toCore()
	}
	return list, next, nil
}

// pageOf reads a page of a list.
func pageOf[T any](ctx context.Context, c *Client, path string, p merchants.RefundPage) ([]T, string, error) {
	query := url.Values{"limit": {strconv.Itoa(p.Limit)}}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	var doc struct {
		Items []T    `json:"items"`
		Next  string `json:"next_cursor"`
	}
	err := c.decide(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &doc)
	return doc.Items, doc.Next, err
}

const differencesPath = "/internal/v1/payment-differences"

// PaymentDifferences implements merchants.Refunds.
func (c *Client) PaymentDifferences(
	ctx context.Context, p merchants.RefundPage,
) ([]merchants.PaymentDifference, string, error) {
	return pageOf[merchants.PaymentDifference](ctx, c, differencesPath, p)
}

// RetryRefund implements merchants.Refunds.
func (c *Client) RetryRefund(ctx context.Context, id, by string) (merchants.Refund, error) {
	return c.decideRefund(ctx, id, "retry", map[string]string{"by": by})
}

// SettleRefund implements merchants.Refunds.
func (c *Client) SettleRefund(ctx context.Context, id string, how merchants.RefundSettlement) (merchants.Refund, error) {
	return c.decideRefund(ctx, id, "settle", settlement(how))
}

func (c *Client) decideRefund(ctx context.Context, id, action string, body any) (merchants.Refund, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return merchants.Refund{}, err
	}
	path := refundsPath + "/" + id + ":" + action
	var r refund
	if err := c.decide(ctx, http.MethodPost, path, raw, &r); err != nil {
		return merchants.Refund{}, err
	}
	if r.ID != id {
		return merchants.Refund{}, noResponse(fmt.Errorf("%s: response has refund %q", path, r.ID))
	}
	return r.toCore(), nil
}

// decide makes a call for an operator and decodes its response. It passes by the breakers: 503 is also the response
// while a payment provider does not respond, and an operator's calls are few.
func (c *Client) decide(ctx context.Context, method, path string, body []byte, dst any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := c.signed(ctx, method, path, body, c.exchange)
	if err != nil {
		return noResponse(err)
	}
	if got.status != http.StatusOK {
		return refusalOf(path, got)
	}
	if err := json.Unmarshal(got.body, dst); err != nil {
		return noResponse(fmt.Errorf("%s: parse response: %w", path, err))
	}
	return nil
}

// refusalOf returns the refusal of a response, for the operator. A status that is not about the call, such as 401, is a
// failure of the order service.
func refusalOf(path string, got response) error {
	cause := fmt.Errorf("%s: status %d", path, got.status)
	var doc struct {
		Code   contract.Code         `json:"code"`
		Detail string                `json:"detail"`
		Errors []contract.FieldError `json:"errors"`
	}
	if err := json.Unmarshal(got.body, &doc); err != nil {
		return noResponse(errors.Join(cause, err))
	}
	switch doc.Code {
	case contract.CodeInvalidRequest, contract.CodeNotFound, contract.CodeStateConflict:
		refusal := contract.Refuse(doc.Code, doc.Detail)
		refusal.Fields = doc.Errors
		return refusal
	case contract.CodeUnavailable:
		return core.Unavailable(doc.Detail, fmt.Errorf("order service: %w", cause))
	}
	return noResponse(cause)
}

// noResponse refuses a call to which the order service gave no response that can be used.
func noResponse(cause error) error {
	return core.Unavailable(
		"The order service cannot be reached, or it failed. The outcome may be unknown; repeat the call.",
		fmt.Errorf("order service: %w", cause))
}
