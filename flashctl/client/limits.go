package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Limit is a limit of the services' routes and what it did in all processes.
type Limit struct {
	Name     string          `json:"name"`
	Source   string          `json:"source"` // file, redis or none
	Rule     json.RawMessage `json:"rule,omitempty"`
	Allowed  int64           `json:"allowed"`
	Waited   int64           `json:"waited"`
	Refused  int64           `json:"refused"`
	Shadowed int64           `json:"shadowed"`
	Failed   int64           `json:"failed"`
	Limited  []struct {
		Key     string    `json:"key"`
		Refused int64     `json:"refused"`
		Until   time.Time `json:"until"`
	} `json:"limited"`
}

// LimitDecision is how a limit would decide.
type LimitDecision struct {
	Allowed     bool  `json:"allowed"`
	Remaining   int64 `json:"remaining"`
	RetryAfterS int64 `json:"retry_after_s,omitempty"`
}

func (c *Caller) limits(name string) string {
	u := c.origins.Inventory + "/v1/merchant/limits"
	if name != "" {
		u += "/" + url.PathEscape(name)
	}
	return u
}

// Limits asks for all of them.
func (c *Caller) Limits(ctx context.Context) ([]Limit, error) {
	return pages[Limit](ctx, c, c.limits(""))
}

// Limit asks for one, with those who are refused now.
func (c *Caller) Limit(ctx context.Context, name string) (Limit, error) {
	var out Limit
	err := c.do(ctx, call{method: http.MethodGet, url: c.limits(name)}, &out)
	return out, err
}

// PutLimit puts a rule in force, as JSON, and tells the version that the rules have then.
func (c *Caller) PutLimit(ctx context.Context, name string, rule any) (version int64, err error) {
	return c.changeLimit(ctx, call{method: http.MethodPut, url: c.limits(name), body: rule})
}

// DeleteLimit takes a limit out of force.
func (c *Caller) DeleteLimit(ctx context.Context, name string) (version int64, err error) {
	return c.changeLimit(ctx, call{method: http.MethodDelete, url: c.limits(name)})
}

// RevertLimit lets the services' files say again what holds.
func (c *Caller) RevertLimit(ctx context.Context, name string) (version int64, err error) {
	return c.changeLimit(ctx, call{method: http.MethodPost, url: c.limits(name) + "/revert"})
}

func (c *Caller) changeLimit(ctx context.Context, in call) (int64, error) {
	var out struct{ Version int64 }
	err := c.do(ctx, in, &out)
	return out.Version, err
}

// TryLimit asks how a limit would decide about a key, and charges nothing.
func (c *Caller) TryLimit(ctx context.Context, name, key string) (LimitDecision, error) {
	var out LimitDecision
	err := c.do(ctx, call{method: http.MethodPost, url: c.limits(name) + "/try", body: map[string]string{"key": key}}, &out)
	return out, err
}
