package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// States implements restore.Orders.
func (c *Client) States(ctx context.Context, orderSNs []string) (map[string]string, error) {
	results, err := c.call(ctx, c.changes, "/internal/v1/orders:lookup", request{OrderSNs: orderSNs})
	if err != nil {
		return nil, err
	}
	states := make(map[string]string, len(results))
	for _, r := range results {
		states[r.OrderSN] = r.State
		if r.State == stateUnknown && r.Tombstone {
			states[r.OrderSN] = core.OrderTombstone
		}
	}
	return states, nil
}

type sinceRequest struct {
	Since  time.Time `json:"since"`
	Cursor string    `json:"cursor,omitempty"`
	Limit  int       `json:"limit"`
}

type changedOrder struct {
	OrderSN     string                `json:"order_sn"`
	UserID      string                `json:"user_id"`
	ActivityID  string                `json:"activity_id"`
	State       string                `json:"state"`
	Reason      string                `json:"reason"`
	Lines       []contract.PricedLine `json:"lines"`
	CreatedAt   time.Time             `json:"created_at"`
	ExpiresAt   time.Time             `json:"expires_at"`
	Traceparent string                `json:"traceparent"`
}

// Changed implements restore.Orders.
func (c *Client) Changed(
	ctx context.Context, since time.Time, cursor string,
) (page []core.ChangedOrder, next string, err error) {
	const path = "/internal/v1/orders:since"
	raw, err := json.Marshal(sinceRequest{Since: since.UTC(), Cursor: cursor, Limit: contract.MaxItems})
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := c.signed(ctx, http.MethodPost, path, raw, func(req *http.Request) (response, error) {
		return c.changes.Execute(func() (response, error) { return c.send(req) })
	})
	if err != nil {
		return nil, "", fmt.Errorf("order service: %w", err)
	}
	if got.status != http.StatusOK {
		return nil, "", fmt.Errorf("order service: %s: status %d", path, got.status)
	}
	var doc struct {
		Items []changedOrder `json:"items"`
		Next  string         `json:"next_cursor"`
	}
	if err := json.Unmarshal(got.body, &doc); err != nil {
		return nil, "", fmt.Errorf("order service: %s: parse response: %w", path, err)
	}
	page = make([]core.ChangedOrder, len(doc.Items))
	for i, o := range doc.Items {
		page[i] = core.ChangedOrder{
			OrderSN: o.OrderSN, UserID: o.UserID, ActivityID: o.ActivityID,
			Lines: contract.PlainLines(o.Lines), State: o.State, Reason: o.Reason, CreatedAt: o.CreatedAt.UTC(),
			ExpiresAt: o.ExpiresAt.UTC(), Traceparent: o.Traceparent,
		}
	}
	return page, doc.Next, nil
}
