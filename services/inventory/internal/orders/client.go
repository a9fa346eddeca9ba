// Package orders calls the internal API of the order service, which alone changes the state of orders.
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
	"flashsale.internal/services/inventory/internal/merchants"
)

const (
	timeout     = 8 * time.Second // of one call
	maxResponse = 2 << 20         // bytes of a response body; a lookup of 256 long contacts has less than 1 MiB

	// After so many consecutive failures the breaker opens. After openFor it lets one call through to test the order
	// service. openFor is shorter than every pause after which callers retry.
	failures = 5
	openFor  = 500 * time.Millisecond
)

// Client implements core.Orders over HTTP. While the order service is unavailable its breakers are open and calls fail
// at once, so that consumers and sweeps do not spend their time on time-outs. The callers retry. Lookups have a breaker
// of their own: their failures, on behalf of merchants who read lists, must not stop closings and refunds. Calls of
// operators about refunds have none.
type Client struct {
	base    string
	secrets []string
	http    *http.Client
	changes *breaker // of closings and refunds
	lookups *breaker
}

type breaker = gobreaker.CircuitBreaker[response]

// New returns a client of the order service's internal listener at the URL base. It sends the first secret, and the
// others only to a process that does not accept it.
func New(base string, secrets []string, transport http.RoundTripper) *Client {
	return &Client{base: strings.TrimSuffix(base, "/"), secrets: secrets, http: &http.Client{
		Transport: transport, Timeout: timeout,
		// A redirect is not followed: the secret must not be sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, changes: newBreaker(), lookups: newBreaker()}
}

func newBreaker() *breaker {
	return gobreaker.NewCircuitBreaker[response](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
	})
}

// Breaker returns the state of the breaker of closings and refunds: closed, half-open or open.
func (c *Client) Breaker() string { return c.changes.State().String() }

// LookupBreaker returns the state of the breaker of lookups: closed, half-open or open.
func (c *Client) LookupBreaker() string { return c.lookups.State().String() }

type request struct {
	OrderSNs []string `json:"order_sns"`
	Reason   string   `json:"reason,omitempty"`
}

type result struct {
	OrderSN string     `json:"order_sn"`
	Outcome string     `json:"outcome"`
	At      *time.Time `json:"at"`
	Reason  string     `json:"reason"`

	// Only lookups have these.
	State    string   `json:"state"`
	Amount   int64    `json:"amount"`
	Currency string   `json:"currency"`
	Contact  *contact `json:"contact"`
	// SKUNames are those at the purchase, by SKU.
	SKUNames map[string]string `json:"sku_names"`
	// Tombstone of an unknown one: no order ever gets this order_sn.
	Tombstone bool `json:"tombstone"`
}

type contact struct {
	Name         string   `json:"name"`
	Phone        string   `json:"phone"`
	AddressLines []string `json:"address_lines"`
}

// Close implements core.Orders.
func (c *Client) Close(ctx context.Context, orderSNs []string, reason string) ([]core.CloseOutcome, error) {
	results, err := c.call(ctx, c.changes, "/internal/v1/orders:close", request{orderSNs, reason})
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
	results, err := c.call(ctx, c.changes, "/internal/v1/orders:refund", request{orderSNs, reason})
	if err != nil {
		return nil, err
	}
	outcomes := make(map[string]string, len(results))
	for _, r := range results {
		outcomes[r.OrderSN] = r.Outcome
	}
	return outcomes, nil
}

// stateUnknown is the state of an order that does not exist, in the response to a lookup.
const stateUnknown = "unknown"

// Lookup implements merchants.Orders.
func (c *Client) Lookup(ctx context.Context, orderSNs []string) (map[string]merchants.OrderDetails, error) {
	results, err := c.call(ctx, c.lookups, "/internal/v1/orders:lookup", request{OrderSNs: orderSNs})
	if err != nil {
		return nil, err
	}
	found := make(map[string]merchants.OrderDetails, len(results))
	for _, r := range results {
		if r.State == stateUnknown {
			continue
		}
		d := merchants.OrderDetails{State: r.State, Amount: r.Amount, Currency: r.Currency, SKUNames: r.SKUNames}
		if r.Contact != nil {
			contact := merchants.Contact(*r.Contact)
			d.Contact = &contact
		}
		found[r.OrderSN] = d
	}
	return found, nil
}

// response is a response of the order service.
type response struct {
	status int
	body   []byte
}

// exchange sends a request and reads its response, whatever its status is.
func (c *Client) exchange(req *http.Request) (response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return response{}, fmt.Errorf("read response: %w", err)
	}
	return response{res.StatusCode, body}, nil
}

// send sends a request. Its errors count as failures of the order service for the breaker; a 4xx status does not.
func (c *Client) send(req *http.Request) (response, error) {
	got, err := c.exchange(req)
	if err == nil && got.status >= http.StatusInternalServerError {
		return response{}, fmt.Errorf("%s: status %d", req.URL.Path, got.status)
	}
	return got, err
}

// signed makes a request for each secret that is needed and passes it to send.
func (c *Client) signed(
	ctx context.Context, method, path string, body []byte, send func(*http.Request) (response, error),
) (got response, err error) {
	err = auth.TrySecrets(c.secrets, func(secret string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		auth.SignInternal(req, secret)
		got, err = send(req)
		return got.status, err
	})
	if err != nil {
		return response{}, err
	}
	return got, nil
}

// call posts a request. It fails unless the response has exactly one result for each requested order.
func (c *Client) call(ctx context.Context, b *breaker, path string, body request) ([]result, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := c.signed(ctx, http.MethodPost, path, raw, func(req *http.Request) (response, error) {
		return b.Execute(func() (response, error) { return c.send(req) })
	})
	if err != nil {
		return nil, fmt.Errorf("order service: %w", err)
	}
	if got.status != http.StatusOK {
		return nil, fmt.Errorf("order service: %s: status %d", path, got.status)
	}
	var doc struct {
		Results []result `json:"results"`
	}
	if err := json.Unmarshal(got.body, &doc); err != nil {
		return nil, fmt.Errorf("order service: %s: parse response: %w", path, err)
	}
	missing := make(map[string]bool, len(body.OrderSNs))
	for _, sn := range body.OrderSNs {
		missing[sn] = true
	}
	for _, r := range doc.Results {
		if !missing[r.OrderSN] {
			return nil, fmt.Errorf("order service: %s: response has an order twice or one that was not requested",
				path)
		}
		delete(missing, r.OrderSN)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("order service: %s: response lacks %d of the orders", path, len(missing))
	}
	return doc.Results, nil
}
