package client

import (
	"context"
	"net/http"
	"net/url"
)

// Refund is a refund that waits for an operator, or the result of an operator's decision.
type Refund map[string]any

// Refunds returns all refunds that wait for an operator.
func (c *Caller) Refunds(ctx context.Context) ([]Refund, error) {
	return pages[Refund](ctx, c, c.origins.Inventory+"/v1/merchant/refunds", nil)
}

// RetryRefund attempts a refused refund again, unless its provider has made it.
func (c *Caller) RetryRefund(ctx context.Context, id string) (Refund, error) {
	return c.decideRefund(ctx, id, "retry", nil)
}

// SettleRefund records that the money of a refused refund was returned in another way, under reference.
func (c *Caller) SettleRefund(ctx context.Context, id, reference, reason string) (Refund, error) {
	return c.decideRefund(ctx, id, "settle", map[string]string{"reference": reference, "reason": reason})
}

func (c *Caller) decideRefund(ctx context.Context, id, action string, body any) (Refund, error) {
	var out Refund
	err := c.do(ctx, call{
		method: http.MethodPost, body: body,
		url: c.origins.Inventory + "/v1/merchant/refunds/" + url.PathEscape(id) + "/" + action,
	}, &out)
	return out, err
}
