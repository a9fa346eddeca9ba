// Package orders calls the order service, the only one to decide an order's fate.
package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/services/inventory/internal/core"
)

const (
	timeout   = 8 * time.Second // of one call
	maxAnswer = 1 << 20

	failures = 5                      // in a row, after which the order service counts as away
	awayFor  = 500 * time.Millisecond // until one call looks again; below every pause after which somebody repeats a call
)

// Client implements core.Orders over HTTP. While the order service is away calls fail at once, so that nobody who has
// other things to do spends his time on waiting for it; they are repeated by those who make them.
type Client struct {
	base    string
	secret  string
	http    *http.Client
	breaker *gobreaker.CircuitBreaker[answer]
}

var _ core.Orders = (*Client)(nil)

// New makes a client of the order service's internal listener at base.
func New(base, secret string, transport http.RoundTripper) *Client {
	return &Client{base: strings.TrimSuffix(base, "/"), secret: secret, http: &http.Client{
		Transport: transport, Timeout: timeout,
		// The secret must not travel to wherever somebody redirects to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, breaker: gobreaker.NewCircuitBreaker[answer](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     awayFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
	})}
}

// Breaker is the state of the breaker: closed, half-open or open.
func (c *Client) Breaker() string { return c.breaker.State().String() }

type request struct {
	OrderSNs []string `json:"order_sns"`
	Reason   string   `json:"reason"`
}

type result struct {
	OrderSN string     `json:"order_sn"`
	Outcome string     `json:"outcome"`
	At      *time.Time `json:"at"`
	Reason  string     `json:"reason"`
}

// Close implements core.Orders.
func (c *Client) Close(ctx context.Context, orderSNs []string, reason string) ([]core.CloseOutcome, error) {
	results, err := c.call(ctx, "/internal/v1/orders:close", request{orderSNs, reason})
	if err != nil {
		return nil, err
	}
	outcomes := make([]core.CloseOutcome, len(results))
	for i, r := range results {
		outcomes[i] = core.CloseOutcome{OrderSN: r.OrderSN, Outcome: r.Outcome, Reason: r.Reason}
		if r.At != nil {
			outcomes[i].At = r.At.UTC()
		}
	}
	return outcomes, nil
}

// Refund implements core.Orders.
func (c *Client) Refund(ctx context.Context, orderSNs []string, reason string) (map[string]string, error) {
	results, err := c.call(ctx, "/internal/v1/orders:refund", request{orderSNs, reason})
	if err != nil {
		return nil, err
	}
	outcomes := make(map[string]string, len(results))
	for _, r := range results {
		outcomes[r.OrderSN] = r.Outcome
	}
	return outcomes, nil
}

// answer is what the order service said, if it said anything that shows it to be there.
type answer struct {
	status int
	body   []byte
}

func (c *Client) exchange(req *http.Request) (answer, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read answer: %w", err)
	case res.StatusCode >= http.StatusInternalServerError:
		return answer{}, fmt.Errorf("%s answered %d", req.URL.Path, res.StatusCode)
	}
	return answer{res.StatusCode, body}, nil
}

// call posts and checks that the answer speaks of exactly the orders asked about: anything else is no answer.
func (c *Client) call(ctx context.Context, path string, body request) ([]result, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	auth.SignInternal(req, c.secret)
	got, err := c.breaker.Execute(func() (answer, error) { return c.exchange(req) })
	if err != nil {
		return nil, fmt.Errorf("order service: %w", err)
	}
	if got.status != http.StatusOK {
		return nil, fmt.Errorf("order service: %s answered %d", path, got.status)
	}
	var doc struct {
		Results []result `json:"results"`
	}
	if err := json.Unmarshal(got.body, &doc); err != nil {
		return nil, fmt.Errorf("order service: answer: %w", err)
	}
	asked := make(map[string]bool, len(body.OrderSNs))
	for _, sn := range body.OrderSNs {
		asked[sn] = true
	}
	for _, r := range doc.Results {
		if !asked[r.OrderSN] {
			return nil, fmt.Errorf("order service: %s answered about an order twice or unasked", path)
		}
		delete(asked, r.OrderSN)
	}
	if len(asked) > 0 {
		return nil, fmt.Errorf("order service: %s left out %d orders", path, len(asked))
	}
	return doc.Results, nil
}
