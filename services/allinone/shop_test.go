package allinone_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shop is one sale, with the HTTP calls of its merchant and buyers.
type shop struct {
	url           string
	http          *http.Client
	activity, sku string
	merchant      string // tokens
	total         int64
}

type reservation struct {
	OrderSN   string    `json:"order_sn"`
	Status    string    `json:"status"`
	ExpiresAt time.Time `json:"expires_at"`
}

type order struct {
	State       string    `json:"state"`
	ExpiresAt   time.Time `json:"expires_at"`
	ClosedAt    time.Time `json:"closed_at"`
	CloseReason string    `json:"close_reason"`
}

type skuStock struct {
	Total int64 `json:"total"`
	MySQL struct {
		Available int64 `json:"available"`
		Reserved  int64 `json:"reserved"`
		Sold      int64 `json:"sold"`
	} `json:"mysql"`
	Gate struct {
		Left int64 `json:"left"`
		Held int64 `json:"held"`
	} `json:"gate"`
	Journal    int64 `json:"journal"`
	InFlight   int64 `json:"in_flight"`
	Difference int64 `json:"difference"`
}

// openShop creates and publishes a sale.
func openShop(t *testing.T, url string, units int64, payWithin time.Duration) *shop {
	t.Helper()
	s := &shop{url: url, total: units, http: &http.Client{
		Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true},
	}}
	s.merchant = s.token(t, fmt.Sprint("merchant-", payWithin), "merchant") // one merchant per sale
	var product struct {
		SKUs []struct {
			SKUID string `json:"sku_id"`
		} `json:"skus"`
	}
	s.must(t, http.StatusCreated, s.merchant, http.MethodPost, "/v1/merchant/products", map[string]any{
		"name": "Phone", "skus": []any{map[string]any{"name": "black", "list_price": 500, "currency": "EUR"}},
	}, &product)
	s.sku = product.SKUs[0].SKUID
	var made struct {
		ActivityID string `json:"activity_id"`
	}
	s.must(t, http.StatusCreated, s.merchant, http.MethodPost, "/v1/merchant/activities", map[string]any{
		"title": "Sale", "starts_at": time.Now().Add(-time.Minute), "ends_at": time.Now().Add(time.Hour), "per_user_limit": 1,
		"pay_within_s": int(payWithin / time.Second),
		"items":        []any{map[string]any{"sku_id": s.sku, "price": 400, "stock": units}},
	}, &made)
	s.activity = made.ActivityID
	s.must(t, http.StatusOK, s.merchant, http.MethodPost, "/v1/merchant/activities/"+s.activity+"/publish", nil, nil)
	return s
}

func (s *shop) token(t *testing.T, user string, roles ...string) string {
	t.Helper()
	var out struct {
		Token string `json:"token"`
	}
	body := map[string]any{"user_id": user}
	if len(roles) > 0 {
		body["roles"] = roles
	}
	s.must(t, http.StatusOK, "", http.MethodPost, "/v1/dev/tokens", body, &out)
	return out.Token
}

// path requests a path.
func (s *shop) path(t *testing.T, token string) string {
	t.Helper()
	var out struct {
		Path string `json:"path"`
	}
	s.must(t, http.StatusCreated, token, http.MethodPost, "/v1/activities/"+s.activity+"/paths", map[string]any{},
		&out)
	return out.Path
}

func (s *shop) use(t *testing.T, token, path string) reservation {
	t.Helper()
	var r reservation
	s.must(t, http.StatusAccepted, token, http.MethodPost,
		"/v1/activities/"+s.activity+"/paths/"+path+"/reservations", s.lines(), &r)
	require.NotEmpty(t, r.OrderSN)
	return r
}

// refuses requires that the buyer gets no unit. Either call may refuse: the path route's state may be 200 ms old.
func (s *shop) refuses(t *testing.T, token string) {
	t.Helper()
	var out struct {
		Path string `json:"path"`
	}
	status := s.retry(t, token, http.MethodPost, "/v1/activities/"+s.activity+"/paths", map[string]any{}, &out)
	if status == http.StatusCreated {
		status = s.retry(t, token, http.MethodPost, "/v1/activities/"+s.activity+"/paths/"+out.Path+"/reservations",
			s.lines(), nil)
	}
	require.Equal(t, http.StatusConflict, status)
}

func (s *shop) lines() map[string]any {
	return map[string]any{"lines": []any{map[string]any{"sku_id": s.sku, "qty": 1}}}
}

// becomes waits until the reservation has the status, and returns it.
func (s *shop) becomes(t *testing.T, token, orderSN, status string, within time.Duration) reservation {
	t.Helper()
	var r reservation
	require.True(t, poll(within, func() bool {
		r = reservation{}
		return s.call(t, token, http.MethodGet, "/v1/activities/"+s.activity+"/reservations/"+orderSN, nil,
			&r) == http.StatusOK &&
			r.Status == status
	}), "order %s is %q and not %s", orderSN, r.Status, status)
	return r
}

func (s *shop) order(t *testing.T, token, orderSN string) order {
	t.Helper()
	var o order
	s.must(t, http.StatusOK, token, http.MethodGet, "/v1/orders/"+orderSN, nil, &o)
	return o
}

func (s *shop) pay(t *testing.T, token, orderSN string) {
	t.Helper()
	var payment struct {
		PaymentID string `json:"payment_id"`
	}
	s.must(t, http.StatusCreated, token, http.MethodPost, "/v1/orders/"+orderSN+"/payments",
		map[string]any{"provider": "sandbox"}, &payment)
	s.must(t, http.StatusAccepted, token, http.MethodPost, "/v1/payments/"+payment.PaymentID+"/sandbox",
		map[string]any{"outcome": "succeeded"}, nil)
}

func (s *shop) stock(t *testing.T) skuStock {
	t.Helper()
	var view struct {
		SKUs []skuStock `json:"skus"`
	}
	s.must(t, http.StatusOK, s.merchant, http.MethodGet, "/v1/merchant/activities/"+s.activity+"/stock", nil, &view)
	require.Len(t, view.SKUs, 1)
	return view.SKUs[0]
}

// stockBecomes waits until the tables and the gate both hold these quantities.
func (s *shop) stockBecomes(t *testing.T, available, reserved, sold int64, within time.Duration) {
	t.Helper()
	want := skuStock{Total: s.total}
	want.MySQL.Available, want.MySQL.Reserved, want.MySQL.Sold = available, reserved, sold
	want.Gate.Left, want.Gate.Held = available, reserved
	var have skuStock
	if !poll(within, func() bool { have = s.stock(t); return have == want }) {
		require.Equal(t, want, have)
	}
}

// poll calls done until it returns true, at least once, and reports whether it did in time.
func poll(within time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(within); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func (s *shop) must(t *testing.T, status int, token, method, path string, body, out any) {
	t.Helper()
	require.Equal(t, status, s.retry(t, token, method, path, body, out), "%s %s", method, path)
}

// retry repeats a call that fails or gets 503, as on an overloaded machine. Every call may be repeated.
func (s *shop) retry(t *testing.T, token, method, path string, body, out any) (status int) {
	t.Helper()
	poll(patience, func() bool {
		status = s.call(t, token, method, path, body, out)
		return status != 0 && status != http.StatusServiceUnavailable
	})
	return status
}

// call returns the status of the response, or 0 without a response.
func (s *shop) call(t *testing.T, token, method, path string, body, out any) int {
	t.Helper()
	raw := []byte{}
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(t, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(raw))
	require.NoError(t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if method == http.MethodPost {
		req.Header.Set("Idempotency-Key", "once")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	if out != nil && resp.StatusCode < http.StatusMultipleChoices && json.NewDecoder(resp.Body).Decode(out) != nil {
		return 0
	}
	return resp.StatusCode
}
