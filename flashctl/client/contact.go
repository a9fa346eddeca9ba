package client

import (
	"context"
	"net/http"
	"net/url"
)

// Contact is the buyer's contact of an order. An operator gets it masked.
type Contact struct {
	Name         string   `json:"name"`
	Phone        string   `json:"phone"` // E.164 in responses
	AddressLines []string `json:"address_lines,omitempty"`
}

// PutContact sets the contact of the caller's own order and returns it as it is kept.
func (c *Caller) PutContact(ctx context.Context, orderSN string, contact Contact) (Contact, error) {
	var out Contact
	err := c.do(ctx, call{method: http.MethodPut, url: c.contact(orderSN), body: contact}, &out)
	return out, err
}

// Contact returns the contact of the caller's own order.
func (c *Caller) Contact(ctx context.Context, orderSN string) (Contact, error) {
	var out Contact
	err := c.do(ctx, call{method: http.MethodGet, url: c.contact(orderSN)}, &out)
	return out, err
}

func (c *Caller) contact(orderSN string) string {
	return c.origins.Order + "/v1/orders/" + url.PathEscape(orderSN) + "/contact"
}
