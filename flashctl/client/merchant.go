package client

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"flashsale.internal/pkg/contract"
)

// Product is a new product with one SKU.
type Product struct {
	Name      string
	ListPrice int64 // minor units
	Currency  string
}

// NewProduct creates a product with one SKU and returns the SKU's id.
func (c *Caller) NewProduct(ctx context.Context, p Product) (skuID string, err error) {
	type sku struct {
		SKUID     string `json:"sku_id,omitempty"`
		Name      string `json:"name"`
		ListPrice int64  `json:"list_price"`
		Currency  string `json:"currency"`
	}
	type product struct {
		Name string `json:"name"`
		SKUs []sku  `json:"skus"`
	}
	var out product
	if err = c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Inventory + "/v1/merchant/products",
		body:   product{Name: p.Name, SKUs: []sku{{Name: p.Name, ListPrice: p.ListPrice, Currency: p.Currency}}},
		once:   true,
	}, &out); err != nil {
		return "", err
	}
	if len(out.SKUs) != 1 || out.SKUs[0].SKUID == "" {
		return "", fmt.Errorf("create product: response has %d SKUs instead of one", len(out.SKUs))
	}
	return out.SKUs[0].SKUID, nil
}

// RefProduct is a product that the shop names by a reference of its own, and so are its SKUs.
type RefProduct struct {
	Ref         string   `json:"-"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	ImageURL    string   `json:"image_url"`
	SKUs        []RefSKU `json:"skus"`
}

// RefSKU is one SKU of a RefProduct.
type RefSKU struct {
	Ref       string `json:"ref"`
	Name      string `json:"name"`
	ListPrice int64  `json:"list_price"` // minor units
	Currency  string `json:"currency"`
}

// PutProduct creates the product with this ref, or makes it like p. It reports whether the product was created.
func (c *Caller) PutProduct(ctx context.Context, p RefProduct) (created bool, err error) {
	var status int
	err = c.do(ctx, call{
		method: http.MethodPut,
		url:    c.origins.Inventory + "/v1/merchant/products/by-ref/" + url.PathEscape(p.Ref),
		body:   p, status: &status,
	}, nil)
	return status == http.StatusCreated, err
}

// Item is one SKU of a sale.
type Item struct {
	SKUID string `json:"sku_id"`
	Price int64  `json:"price"`
	Stock int64  `json:"stock"`
}

// Draft is a new sale.
type Draft struct {
	Title        string    `json:"title"`
	StartsAt     time.Time `json:"starts_at"`
	EndsAt       time.Time `json:"ends_at"`
	PerUserLimit int64     `json:"per_user_limit"`
	PayWithinS   int64     `json:"pay_within_s"`
	Items        []Item    `json:"items"`
	// ReorderLimit is nil for the default.
	ReorderLimit *int64 `json:"reorder_limit,omitempty"`
	// WaitingRoom is nil for a sale without one.
	WaitingRoom *WaitingRoom `json:"waiting_room,omitempty"`
	// Challenge is the kind of challenge, "" for none: pow, click or provider. ChallengeDifficulty 0 means the default.
	Challenge           contract.ChallengeKind `json:"captcha,omitempty"`
	ChallengeDifficulty int64                  `json:"captcha_difficulty,omitempty"`
	// DegradedSale bounds the sale while Redis is unavailable; nil: it stops then.
	DegradedSale *DegradedSale `json:"degraded_sale,omitempty"`
}

// DegradedSale bounds a sale while Redis is unavailable. Nil fields take their defaults.
type DegradedSale struct {
	PerSecond int64  `json:"per_second"`        // purchases
	Drop      *int64 `json:"drop,omitempty"`    // per cent of the purchase requests
	Reserve   *int64 `json:"reserve,omitempty"` // per cent of the stock
}

// WaitingRoom is the waiting room of a sale.
type WaitingRoom struct {
	AdmitPerSecond int64 `json:"admit_per_second"`
}

// NewActivity creates a draft of a sale and returns its id.
func (c *Caller) NewActivity(ctx context.Context, d Draft) (string, error) {
	var out struct {
		ActivityID string `json:"activity_id"`
	}
	err := c.do(ctx, call{
		method: http.MethodPost, url: c.origins.Inventory + "/v1/merchant/activities", body: d, once: true,
	}, &out)
	return out.ActivityID, err
}

// OwnActivity is a sale as its merchant sees it.
type OwnActivity struct {
	ActivityID string `json:"activity_id"`
	Title      string `json:"title"`
	State      string `json:"state"`
}

// OwnActivity returns a sale of the caller's merchant, in any state. A sale of another merchant is not_found.
func (c *Caller) OwnActivity(ctx context.Context, activityID string) (OwnActivity, error) {
	var out OwnActivity
	err := c.do(ctx, call{
		method: http.MethodGet, url: c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID),
	}, &out)
	return out, err
}

// OwnActivities returns all sales of the caller's merchant, in any state.
func (c *Caller) OwnActivities(ctx context.Context) ([]OwnActivity, error) {
	return pages[OwnActivity](ctx, c, c.origins.Inventory+"/v1/merchant/activities", nil)
}

// Change changes the state of a sale; change is publish, pause, resume or end. Each may be repeated.
func (c *Caller) Change(ctx context.Context, activityID, change string) error {
	err := c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID) + "/" + change,
	}, nil)
	return err
}

// Duplicate creates a draft like a sale and returns its id.
func (c *Caller) Duplicate(ctx context.Context, activityID string) (string, error) {
	var out struct {
		ActivityID string `json:"activity_id"`
	}
	err := c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID) + "/duplicate",
		once:   true,
	}, &out)
	return out.ActivityID, err
}

// DeleteDraft deletes a sale that was never published.
func (c *Caller) DeleteDraft(ctx context.Context, activityID string) error {
	return c.do(ctx, call{
		method: http.MethodDelete,
		url:    c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID),
		once:   true, // a repeated call would be not_found
	}, nil)
}

// SetChallenge changes the challenge of a sale, also while it is open. Difficulty 0 leaves that unchanged.
func (c *Caller) SetChallenge(
	ctx context.Context, activityID string, kind contract.ChallengeKind, difficulty int64,
) error {
	return c.do(ctx, call{
		method: http.MethodPatch,
		url:    c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID),
		body: struct {
			Challenge  contract.ChallengeKind `json:"captcha"`
			Difficulty int64                  `json:"captcha_difficulty,omitempty"`
		}{kind, difficulty},
	}, nil)
}

// Stock is the stock of a sale in MySQL, gate and journal.
type Stock struct {
	AsOf time.Time  `json:"as_of"`
	SKUs []SKUStock `json:"skus"`
}

// SKUStock is the stock of one SKU in MySQL, gate and journal, in units.
type SKUStock struct {
	SKUID string `json:"sku_id"`
	Total int64  `json:"total"`
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

func (s SKUStock) String() string {
	return fmt.Sprintf("database: %d available, %d reserved, %d sold of %d; gate: %d left, %d held; "+
		"journal %d, in flight %d, difference %d",
		s.MySQL.Available, s.MySQL.Reserved, s.MySQL.Sold, s.Total, s.Gate.Left, s.Gate.Held,
		s.Journal, s.InFlight, s.Difference)
}

// Stock returns the stock of a sale.
func (c *Caller) Stock(ctx context.Context, activityID string) (Stock, error) {
	var out Stock
	err := c.do(ctx, call{
		method: http.MethodGet,
		url:    c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID) + "/stock",
	}, &out)
	return out, err
}

// LedgerRow is one reservation of the ledger.
type LedgerRow struct {
	OrderSN string   `json:"order_sn"`
	UserID  string   `json:"user_id"`
	State   string   `json:"state"`   // reserved, sold, released, rejected
	Contact *Contact `json:"contact"` // nil if the buyer gave none
}

// Ledger returns all rows of the ledger of a sale.
func (c *Caller) Ledger(ctx context.Context, activityID string) ([]LedgerRow, error) {
	list := c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID) + "/orders"
	return pages[LedgerRow](ctx, c, list, nil)
}

// DeadLetter is a message item that could not be processed.
type DeadLetter map[string]any

// DeadLetters returns all open dead letters of one merchant; "" means of all merchants.
func (c *Caller) DeadLetters(ctx context.Context, merchantID string) ([]DeadLetter, error) {
	query := url.Values{}
	if merchantID != "" {
		query.Set("merchant_id", merchantID)
	}
	return pages[DeadLetter](ctx, c, c.origins.Inventory+"/v1/merchant/dead-letters", query)
}

// ResolveDeadLetter replays or rejects a dead letter; action is "replay" or "reject".
func (c *Caller) ResolveDeadLetter(ctx context.Context, id, action string) error {
	err := c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Inventory + "/v1/merchant/dead-letters/" + url.PathEscape(id) + "/" + action,
	}, nil)
	return err
}

// Reconciliation is the result of one comparison of gate, ledger and allowances of a sale.
type Reconciliation struct {
	ComparedAt  time.Time `json:"looked_at"`
	Repairs     []Repair  `json:"repairs"`
	Differences []Repair  `json:"differences"` // remaining
}

// Repair is a correction, or a remaining difference.
type Repair struct {
	OrderSN string `json:"order_sn,omitempty"`
	SKUID   string `json:"sku_id"`
	Delta   int64  `json:"delta"` // of the units left in the gate
	Why     string `json:"why"`
}

// Reconcile compares and repairs a sale. It takes some seconds; Options.Timeout must allow for them.
func (c *Caller) Reconcile(ctx context.Context, activityID string) (Reconciliation, error) {
	var out Reconciliation
	err := c.do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Inventory + "/v1/merchant/activities/" + url.PathEscape(activityID) + "/reconciliations",
	}, &out)
	return out, err
}

// pages returns the items of all pages of a list. filter may be nil.
func pages[T any](ctx context.Context, c *Caller, list string, filter url.Values) ([]T, error) {
	var all []T
	for cursor := ""; ; {
		query := url.Values{"limit": {"100"}}
		maps.Copy(query, filter)
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		if err := c.do(ctx, call{method: http.MethodGet, url: list + "?" + query.Encode()}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" || page.NextCursor == cursor {
			return all, nil
		}
		cursor = page.NextCursor
	}
}
