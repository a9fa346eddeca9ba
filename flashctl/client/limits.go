package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Limit is a limit of the services' routes, with its counters over all processes.
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

// LimitDecision is the decision that a limit would make.
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

// Limits returns all limits.
func (c *Caller) Limits(ctx context.Context) ([]Limit, error) {
	return pages[Limit](ctx, c, c.limits(""), nil)
}

// Limit returns one limit, with the keys that it refuses now.
func (c *Caller) Limit(ctx context.Context, name string) (Limit, error) {
	var out Limit
	err := c.do(ctx, call{method: http.MethodGet, url: c.limits(name)}, &out)
	return out, err
}

// PutLimit puts a whole rule in force and returns the new version of the rules.
func (c *Caller) PutLimit(ctx context.Context, name string, rule map[string]any) (version int64, err error) {
	return c.changeLimit(ctx, call{method: http.MethodPut, url: c.limits(name), body: rule})
}

// PatchLimit changes fields of the rule in force, or removes those that are nil, and returns the new version of the
// rules.
func (c *Caller) PatchLimit(ctx context.Context, name string, fields map[string]any) (version int64, err error) {
	return c.changeLimit(ctx, call{method: http.MethodPatch, url: c.limits(name), body: fields})
}

// LimitChange is a change of a limit. Before and After are the rules in force then, null without one. Of a change by
// 0.1.0 there is only Rule, the one after it.
type LimitChange struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	What    string    `json:"what"`
	Details struct {
		Before json.RawMessage `json:"before"`
		After  json.RawMessage `json:"after"`
		Rule   json.RawMessage `json:"rule"`
	} `json:"details"`
}

// LimitChanges returns what was done to a limit, newest first.
func (c *Caller) LimitChanges(ctx context.Context, name string) ([]LimitChange, error) {
	return pages[LimitChange](ctx, c, c.limits(name)+"/changes", nil)
}

// DeleteLimit takes a limit out of force and returns the new version of the rules.
func (c *Caller) DeleteLimit(ctx context.Context, name string) (version int64, err error) {
	return c.changeLimit(ctx, call{method: http.MethodDelete, url: c.limits(name)})
}

// RevertLimit puts the rule of the services' files in force again and returns the new version of the rules.
func (c *Caller) RevertLimit(ctx context.Context, name string) (version int64, err error) {
	return c.changeLimit(ctx, call{method: http.MethodPost, url: c.limits(name) + "/revert"})
}

func (c *Caller) changeLimit(ctx context.Context, in call) (int64, error) {
	var out struct{ Version int64 }
	err := c.do(ctx, in, &out)
	return out.Version, err
}

// TryLimit returns the decision that a limit would make about a key. It charges nothing.
func (c *Caller) TryLimit(ctx context.Context, name, key string) (LimitDecision, error) {
	var out LimitDecision
	err := c.do(ctx, call{method: http.MethodPost, url: c.limits(name) + "/try", body: map[string]string{"key": key}},
		&out)
	return out, err
}
