package client

import (
	"context"
	"net/http"
	"time"

	"flashsale.internal/pkg/auth"
)

// Token returns a token for a user. It signs the token itself if the client has the secret. Otherwise it requests a
// development token, which the services issue only if AUTH_DEV_TOKENS is set.
func (c *Client) Token(ctx context.Context, userID string, roles ...auth.Role) (string, error) {
	if c.opts.Secret != "" {
		id := auth.Identity{UserID: userID, Roles: roles}
		return auth.MintFor(c.opts.Secret, id, 12*time.Hour, c.opts.Audience, c.opts.Issuer)
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
