package client

import (
	"context"
	"net/http"
	"time"

	"flashsale.internal/pkg/auth"
)

// Token returns a token for a user who acts for no named merchant.
func (c *Client) Token(ctx context.Context, userID string, roles ...auth.Role) (string, error) {
	return c.TokenFor(ctx, auth.Identity{UserID: userID, Roles: roles})
}

// TokenFor returns a token for a caller. It signs the token itself if the client has the secret. Otherwise it requests
// a development token, which the services issue only if AUTH_DEV_TOKENS is set.
func (c *Client) TokenFor(ctx context.Context, id auth.Identity) (string, error) {
	if c.opts.Secret != "" {
		return auth.MintFor(c.opts.Secret, id, 12*time.Hour, c.opts.Audience, c.opts.Issuer)
	}
	var out struct {
		Token string `json:"token"`
	}
	err := c.As("").do(ctx, call{
		method: http.MethodPost,
		url:    c.origins.Seckill + "/v1/dev/tokens",
		body: struct {
			UserID     string      `json:"user_id"`
			Roles      []auth.Role `json:"roles,omitempty"`
			MerchantID string      `json:"merchant_id,omitempty"`
		}{id.UserID, id.Roles, id.MerchantID},
	}, &out)
	return out.Token, err
}
