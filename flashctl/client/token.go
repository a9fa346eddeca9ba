package client

import (
	"context"
	"net/http"
	"time"

	"flashsale.internal/pkg/auth"
)

// Token makes a token for that user: signed here where the client has the secret, else asked for, which works where the
// services give out developer's tokens.
func (c *Client) Token(ctx context.Context, userID string, roles ...auth.Role) (string, error) {
	if c.opts.Secret != "" {
		return auth.MintFor(c.opts.Secret, auth.Identity{UserID: userID, Roles: roles}, 12*time.Hour, c.opts.Audience, c.opts.Issuer)
	}
	var out struct {
		Token string `json:"token"`
	}
	err := c.As("").do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Seckill + "/v1/dev/tokens",
		body: struct {
			UserID string      `json:"user_id"`
			Roles  []auth.Role `json:"roles,omitempty"`
		}{userID, roles},
	}, &out)
	return out.Token, err
}
