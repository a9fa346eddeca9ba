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

// demoSale is a sale that the pages show to a first visitor.
type demoSale struct {
	title, product, about string
	items                 []demoItem
	opensIn, lasts        time.Duration // from the start of the process; 0: it is open at once
	perUser, payWithin    int           // units; seconds
}

// demoItem is an SKU of a demo sale. Prices are in cents.
type demoItem struct {
	name                    string
	listPrice, price, stock int64
}

// demoSales are a sale whose countdown and start can be watched, and whose pay window is short enough to watch its end,
// and a longer one beside it.
var demoSales = []demoSale{
	{
		title: "Aurora phone at half price, 100 units", product: "Aurora phone",
		about:   "6.1-inch display, 256 GB, two days on one charge. One for each buyer; pay within a minute.",
		items:   []demoItem{{"Aurora phone, graphite, 256 GB", 99900, 49900, 100}},
		opensIn: 20 * time.Second, lasts: 24 * time.Hour, perUser: 1, payWithin: 60,
	},
	{
		title: "Coffee week: pour-over sets", product: "Pour-over coffee set",
		about: "Dripper, jug and 40 paper filters, for four cups. Two for each buyer.",
		items: []demoItem{
			{"Pour-over coffee set, white", 5900, 3900, 500},
			{"Pour-over coffee set, sage green", 6400, 4200, 300},
		},
		lasts: 7 * 24 * time.Hour, perUser: 2, payWithin: 900,
	},
}

// openSale is a demo sale that was published.
type openSale struct {
	id, title string
	units     int64
	opens     time.Time
}

// demoMerchant opens the demo sales over the API, as a merchant does. It reuses the sales of an earlier process in
// DATA_DIR that have not ended.
type demoMerchant struct {
	url   string
	token string
	http  *http.Client
}

func newDemoMerchant(url string, a settings.Auth) (*demoMerchant, error) {
	merchant := auth.Identity{UserID: "demo-merchant", Roles: []auth.Role{auth.Merchant}}
	token, err := auth.MintFor(a.HS256Secrets[0], merchant, min(time.Hour, a.MaxLife), a.Audience, a.Issuer)
	if err != nil {
		return nil, fmt.Errorf("token of the demo sales: %w", err)
	}
	return &demoMerchant{url: url, token: token, http: &http.Client{Timeout: 5 * time.Second}}, nil
}

// open opens the demo sales and returns them in the order of demoSales.
func (d *demoMerchant) open(ctx context.Context) ([]openSale, error) {
	var list struct {
		Items []struct {
			ActivityID string    `json:"activity_id"`
			Title      string    `json:"title"`
			State      string    `json:"state"`
			StartsAt   time.Time `json:"starts_at"`
		} `json:"items"`
	}
	if err := d.call(ctx, http.MethodGet, "/v1/merchant/activities?limit=100", nil, &list); err != nil {
		return nil, err
	}
	now := time.Now()
	var all []openSale
	for _, s := range demoSales {
		sale := openSale{title: s.title, opens: now.Add(s.opensIn).UTC().Truncate(time.Second)}
		for _, i := range s.items {
			sale.units += i.stock
		}
		for _, a := range list.Items {
			if a.Title == s.title && a.State != "draft" && a.State != "ended" {
				sale.id, sale.opens = a.ActivityID, a.StartsAt
			}
		}
		if sale.id == "" {
			var err error
			if sale.id, err = d.publish(ctx, s, sale.opens); err != nil {
				return nil, fmt.Errorf("%s: %w", s.title, err)
			}
		}
		all = append(all, sale)
	}
	return all, nil
}

// publish creates and publishes a sale and returns its id.
func (d *demoMerchant) publish(ctx context.Context, s demoSale, opens time.Time) (string, error) {
	type object = map[string]any
	var skus, items []object
	for _, i := range s.items {
		skus = append(skus, object{"name": i.name, "list_price": i.listPrice, "currency": "EUR"})
	}
	var product struct {
		SKUs []struct {
			SKUID string `json:"sku_id"`
		} `json:"skus"`
	}
	err := d.call(ctx, http.MethodPost, "/v1/merchant/products",
		object{"name": s.product, "description": s.about, "skus": skus}, &product)
	if err != nil {
		return "", err
	}
	if len(product.SKUs) != len(s.items) {
		return "", fmt.Errorf("product has %d SKUs, want %d", len(product.SKUs), len(s.items))
	}
	for n, i := range s.items {
		items = append(items, object{"sku_id": product.SKUs[n].SKUID, "price": i.price, "stock": i.stock})
	}
	var made struct {
		ActivityID string `json:"activity_id"`
	}
	err = d.call(ctx, http.MethodPost, "/v1/merchant/activities", object{
		"title": s.title, "description": s.about, "starts_at": opens, "ends_at": opens.Add(s.lasts),
		"per_user_limit": s.perUser, "pay_within_s": s.payWithin, "items": items,
	}, &made)
	if err != nil {
		return "", err
	}
	return made.ActivityID, d.call(ctx, http.MethodPost, "/v1/merchant/activities/"+made.ActivityID+"/publish", nil, nil)
}

// call retries a call that got 5xx: at first the gate is not filled yet.
func (d *demoMerchant) call(ctx context.Context, method, path string, body, out any) error {
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
			if err := json.NewDecoder(resp.Body).Decode(out); err != nil { // a repetition would make a second sale
				return struct{}{}, backoff.Permanent(fmt.Errorf("%s %s: %w", method, path, err))
			}
		}
		return struct{}{}, nil
	}
	every := backoff.NewExponentialBackOff()
	every.InitialInterval, every.MaxInterval = 50*time.Millisecond, 500*time.Millisecond
	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(every), backoff.WithMaxElapsedTime(30*time.Second))
	return err
}
