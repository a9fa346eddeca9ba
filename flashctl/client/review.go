package client

import (
	"context"
	"net/http"
	"net/url"
)

// ReviewedOrder is an order of a suspicious user that holds units.
type ReviewedOrder struct {
	OrderSN string   `json:"order_sn"`
	UserID  string   `json:"user_id"`
	Causes  []string `json:"causes"`
}

// CancelResult is what became of one order: cancelled, refunding, already_closed or not_found.
type CancelResult struct {
	OrderSN string `json:"order_sn"`
	Outcome string `json:"outcome"`
}

// Review returns the orders of suspicious users of a sale, newest first.
func (c *Caller) Review(ctx context.Context, activityID string) ([]ReviewedOrder, error) {
	return pages[ReviewedOrder](ctx, c, c.review(activityID), nil)
}

// CancelOrders cancels at most 256 orders of a sale. Paid ones are refunded. The call may be repeated.
func (c *Caller) CancelOrders(
	ctx context.Context, activityID string, orderSNs []string, reason string,
) ([]CancelResult, error) {
	var out struct {
		Results []CancelResult `json:"results"`
	}
	err := c.do(ctx, call{
		method: http.MethodPost, url: c.review(activityID) + "/cancel",
		body: struct {
			OrderSNs []string `json:"order_sns"`
			Reason   string   `json:"reason"`
		}{orderSNs, reason},
	}, &out)
	return out.Results, err
}

func (c *Caller) review(activityID string) string {
	return c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID) + "/review"
}
