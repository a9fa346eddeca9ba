// Package identityprovider is an OpenID provider for tests of the sign-in: the server of zitadel/oidc with the users of
// its example. Its access tokens are opaque and live for 60 s, as those of some providers do. No service imports it.
package identityprovider

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// The client, and the user on a provider at 127.0.0.1.
const (
	ClientID       = "flashsale-pages"
	ClientSecret   = "secret-of-the-client"
	Username       = "test-user@127.0.0.1"
	Password       = "verysecure"
	accessTokenTTL = time.Minute
)

// Provider responds to browsers and to the client. ID tokens have the Claims, which may be replaced between sign-ins.
type Provider struct {
	http.Handler
	Claims map[string]any
	newest atomic.Value // string, id of an access token
}

// New returns a provider. The issuer is its address with a slash at the end; publicURL is the address of the client's
// pages, without one.
func New(issuer, publicURL string, claims map[string]any) *Provider {
	p := &Provider{Claims: claims}
	pages := storage.WebClient(ClientID, ClientSecret, publicURL+"/auth/callback")
	clients := map[string]*storage.Client{ClientID: pages}
	store := &users{storage.NewStorageWithClients(storage.NewUserStore(issuer), clients), p, publicURL + "/"}
	p.Handler = exampleop.SetupServer(issuer, store, slog.New(slog.DiscardHandler), false)
	return p
}

// AccessToken returns the id of the newest access token, which the opaque token contains encrypted; "" if there is none.
func (p *Provider) AccessToken() string {
	id, _ := p.newest.Load().(string)
	return id
}

// users is the example's storage with claims and a lifetime of access tokens of its own.
type users struct {
	*storage.Storage
	provider  *Provider
	signedOut string // where browsers go after sign-out
}

// client is one of the example with a page after sign-out.
type client struct {
	op.Client
	signedOut string
}

func (c client) PostLogoutRedirectURIs() []string { return []string{c.signedOut} }

func (u *users) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := u.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c, u.signedOut}, nil
}

func (u *users) SetUserinfoFromRequest(
	ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, scopes []string,
) error {
	for name, value := range u.provider.Claims {
		info.AppendClaims(name, value)
	}
	return u.Storage.SetUserinfoFromRequest(ctx, info, r, scopes)
}

func (u *users) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := u.Storage.CreateAccessToken(ctx, r)
	u.provider.newest.Store(id)
	return id, time.Now().Add(accessTokenTTL), err
}
