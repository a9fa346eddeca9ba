package allinone

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/settings"
)

const (
	demoOpensIn = 5 * time.Second
	demoLasts   = 24 * time.Hour
	demoTitle   = "Demo: 100 phones"
)

// demoSale opens a sale over the API, as a merchant does. It reuses the sale of an earlier process in DATA_DIR that
// has not ended.
type demoSale struct {
	url   string
	token string
	http  *http.Client
}

func newDemoSale(url string, a settings.Auth) (*demoSale, error) {
	merchant := auth.Identity{UserID: "demo-merchant", Roles: []auth.Role{auth.Merchant}}
	token, err := auth.MintFor(a.HS256Secrets[0], merchant, min(time.Hour, a.MaxLife), a.Audience, a.Issuer)
	if err != nil {
		return nil, fmt.Errorf("token of the demo sale: %w", err)
	}
	return &demoSale{url: url, token: token, http: &http.Client{Timeout: 5 * time.Second}}, nil
}

// open returns the activity's id and the time when it opens.
func (d *demoSale) open(ctx context.Context) (activityID string, opens time.Time, err error) {
	type activity struct {
		ActivityID string    `json:"activity_id"`
		Title      string    `json:"title"`
		State      string    `json:"state"`
		StartsAt   time.Time `json:"starts_at"`
		EndsAt     time.Time `json:"ends_at"`
	}
	var list struct {
		Items []activity `json:"items"`
	}
	if err := d.call(ctx, http.MethodGet, "/v1/activities?limit=100", nil, &list); err != nil {
		return "", time.Time{}, err
	}
	for _, a := range list.Items {
		if a.Title == demoTitle {
			return a.ActivityID, a.StartsAt, nil
		}
	}
	var product struct {
		SKUs []struct {
			SKUID string `json:"sku_id"`
		} `json:"skus"`
	}
	err = d.call(ctx, http.MethodPost, "/v1/merchant/products", map[string]any{
		"name": "Phone", "description": "A phone in high demand",
		"skus": []any{map[string]any{"name": "black", "list_price": 99900, "currency": "EUR"}},
	}, &product)
	if err != nil {
		return "", time.Time{}, err
	}
	if len(product.SKUs) != 1 {
		return "", time.Time{}, fmt.Errorf("product has %d SKUs, want 1", len(product.SKUs))
	}
	opens = time.Now().Add(demoOpensIn).UTC().Truncate(time.Second)
	var made activity
	err = d.call(ctx, http.MethodPost, "/v1/merchant/activities", map[string]any{
		"title": demoTitle, "starts_at": opens, "ends_at": opens.Add(demoLasts), "per_user_limit": 1,
		"pay_within_s": 60,
		"items":        []any{map[string]any{"sku_id": product.SKUs[0].SKUID, "price": 49900, "stock": 100}},
	}, &made)
	if err != nil {
		return "", time.Time{}, err
	}
	return made.ActivityID, opens, d.call(ctx, http.MethodPost, "/v1/merchant/activities/"+made.ActivityID+"/publish",
		nil, nil)
}

// call retries a call that got 5xx: at first the gate is not filled yet.
func (d *demoSale) call(ctx context.Context, method, path string, body, out any) error {
	raw := []byte{}
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	attempt := func() (struct{}, error) {
		req, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(raw))
		if err != nil {
			return struct{}{}, backoff.Permanent(err)
		}
		req.Header.Set("Authorization", "Bearer "+d.token)
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := d.http.Do(req)
		if err != nil {
			return struct{}{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		switch {
		case resp.StatusCode >= http.StatusInternalServerError:
			return struct{}{}, fmt.Errorf("%s %s: %s", method, path, resp.Status)
		case resp.StatusCode >= http.StatusMultipleChoices:
			return struct{}{}, backoff.Permanent(fmt.Errorf("%s %s: %s", method, path, resp.Status))
		case out != nil:
			return struct{}{}, json.NewDecoder(resp.Body).Decode(out)
		}
		return struct{}{}, nil
	}
	every := backoff.NewExponentialBackOff()
	every.InitialInterval, every.MaxInterval = 50*time.Millisecond, 500*time.Millisecond
	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(every), backoff.WithMaxElapsedTime(30*time.Second))
	return err
}
