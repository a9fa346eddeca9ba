package signin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Client and user of the test provider.
const (
	clientID     = "flashsale-pages"
	clientSecret = "secret-of-the-client"
	password     = "verysecure" // of the example's users
)

// users is the example's storage of users. Its ID tokens name roles and a merchant, and its access tokens are opaque and
// live for 60 s.
type users struct {
	*storage.Storage
	claims map[string]any // of every ID token
	opaque []string       // access tokens that were issued
}

func (u *users) SetUserinfoFromRequest(
	ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, scopes []string,
) error {
	for name, value := range u.claims {
		info.AppendClaims(name, value)
	}
	return u.Storage.SetUserinfoFromRequest(ctx, info, r, scopes)
}

func (u *users) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := u.Storage.CreateAccessToken(ctx, r)
	u.opaque = append(u.opaque, id)
	return id, time.Now().Add(time.Minute), err
}

// identityProvider is a real provider on a port of its own.
type identityProvider struct {
	*httptest.Server
	issuer string
	users  *users
}

// newIdentityProvider starts a provider whose client may use the redirect URL.
func newIdentityProvider(t *testing.T, redirectURL string) *identityProvider {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	issuer := "http://" + server.Listener.Addr().String() + "/"
	store := storage.NewStorageWithClients(storage.NewUserStore(issuer), map[string]*storage.Client{
		clientID: storage.WebClient(clientID, clientSecret, redirectURL),
	})
	u := &users{Storage: store, claims: map[string]any{"roles": []string{"merchant", "other"}, "merchant_id": "m1"}}
	server.Config.Handler = exampleop.SetupServer(issuer, u, slog.New(slog.DiscardHandler), false)
	server.Start()
	t.Cleanup(server.Close)
	return &identityProvider{server, issuer, u}
}

// login submits the provider's form, to which the browser was sent, and follows to the page after the sign-in.
func (p *identityProvider) login(t *testing.T, browser *http.Client, form *http.Response) *http.Response {
	t.Helper()
	require.Equal(t, http.StatusOK, form.StatusCode)
	require.True(t, strings.HasPrefix(form.Request.URL.String(), p.issuer), form.Request.URL)
	id := form.Request.URL.Query().Get("authRequestID")
	require.NotEmpty(t, id)
	done, err := browser.PostForm(p.issuer+"login/username", map[string][]string{
		"username": {"test-user@127.0.0.1"}, "password": {password}, "id": {id},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = done.Body.Close() })
	return done
}
