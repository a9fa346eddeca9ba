package signin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/seckill/internal/signin/identityprovider"
)

// identityProvider is a real provider on a port of its own.
type identityProvider struct {
	*httptest.Server
	*identityprovider.Provider
	issuer string
}

// newIdentityProvider starts a provider whose client may use the redirect URL.
func newIdentityProvider(t *testing.T, redirectURL string) *identityProvider {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	issuer := "http://" + server.Listener.Addr().String() + "/"
	claims := map[string]any{"roles": []string{"merchant", "other"}, "merchant_id": "m1"}
	provider := identityprovider.New(issuer, redirectURL, claims)
	server.Config.Handler = provider
	server.Start()
	t.Cleanup(server.Close)
	return &identityProvider{server, provider, issuer}
}

// login submits the provider's form, to which the browser was sent, and follows to the page after the sign-in.
func (p *identityProvider) login(t *testing.T, browser *http.Client, form *http.Response) *http.Response {
	t.Helper()
	require.Equal(t, http.StatusOK, form.StatusCode)
	require.True(t, strings.HasPrefix(form.Request.URL.String(), p.issuer), form.Request.URL)
	id := form.Request.URL.Query().Get("authRequestID")
	require.NotEmpty(t, id)
	done, err := browser.PostForm(p.issuer+"login/username", map[string][]string{
		"username": {identityprovider.Username}, "password": {identityprovider.Password}, "id": {id},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = done.Body.Close() })
	return done
}
