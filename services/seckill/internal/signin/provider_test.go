package signin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/seckill/internal/signin/identityprovider"
)

// identityProvider is a real provider on a port of its own.
type identityProvider struct {
	*httptest.Server
	*identityprovider.Provider
	issuer string

	mu        sync.Mutex
	requests  map[string]int                                           // by path
	intercept func(w http.ResponseWriter, r *http.Request) (done bool) // before the provider; nil: nothing
}

const (
	discoveryPath = "/.well-known/openid-configuration"
	tokenPath     = "/oauth/token"
)

// ServeHTTP counts the requests.
func (p *identityProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests[r.URL.Path]++
	intercept := p.intercept
	p.mu.Unlock()
	if intercept == nil || !intercept(w, r) {
		p.Provider.ServeHTTP(w, r)
	}
}

func (p *identityProvider) interceptBy(f func(w http.ResponseWriter, r *http.Request) (done bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intercept = f
}

func (p *identityProvider) requestsFor(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[path]
}

// newIdentityProvider starts a provider whose client has its pages at the URL.
func newIdentityProvider(t *testing.T, publicURL string) *identityProvider {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	issuer := "http://" + server.Listener.Addr().String() + "/"
	claims := map[string]any{"roles": []string{"merchant", "other"}, "merchant_id": "m1"}
	provider := identityprovider.New(issuer, publicURL, claims)
	p := &identityProvider{Server: server, Provider: provider, issuer: issuer, requests: map[string]int{}}
	server.Config.Handler = p
	server.Start()
	t.Cleanup(server.Close)
	return p
}

// All sign-ins share the keys of one configuration.
func TestKeysAreReadOnce(t *testing.T) {
	s := withProvider(t)
	for range 3 {
		form, err := s.browser.Get(s.URL + "/auth/login")
		require.NoError(t, err)
		s.provider.login(t, s.browser, form)
		require.NoError(t, form.Body.Close())
		require.Equal(t, true, s.session()["signed_in"])
	}
	require.Equal(t, 1, s.provider.requestsFor(discoveryPath))
	require.Equal(t, 1, s.provider.requestsFor("/keys"))
}

// A provider whose configuration cannot be read again does not delay sign-ins: the old one stays in use meanwhile.
func TestAnOldConfigurationIsUsedWhileItIsRead(t *testing.T) {
	s := withProvider(t)
	s.begin("/")
	p, hang := s.signIn.provider, make(chan struct{})
	s.provider.interceptBy(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == discoveryPath {
			<-hang
		}
		return false
	})
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	p.mu.Lock()
	old := p.config
	old.readAt = time.Now().Add(-refreshAfter)
	p.mu.Unlock()
	began := time.Now()
	for range 5 {
		c, err := p.get(t.Context())
		require.NoError(t, err)
		require.Same(t, old, c)
	}
	require.Less(t, time.Since(began), callTimeout)
	require.Eventually(t, func() bool { return s.provider.requestsFor(discoveryPath) == 2 }, callTimeout, time.Millisecond)
	release()
	require.Eventually(t, func() bool {
		c, err := p.get(t.Context())
		return err == nil && c != old
	}, callTimeout, time.Millisecond)
	require.Equal(t, 2, s.provider.requestsFor(discoveryPath))
}

// A provider's 429 refuses no sign-in and delays no other one: the buyer may try again, and the next one is served.
func TestTheProviderLimitsItsCallers(t *testing.T) {
	s := withProvider(t)
	s.provider.interceptBy(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != tokenPath {
			return false
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	for range 10 {
		state := s.begin("/").Query().Get("state")
		s.page(s.send(http.MethodGet, CallbackPath+"?state="+state+"&code=x", ""), http.StatusServiceUnavailable,
			"does not respond")
	}
	s.provider.interceptBy(nil)
	s.browser.CheckRedirect = nil
	form, err := s.browser.Get(s.URL + "/auth/login")
	require.NoError(t, err)
	defer form.Body.Close()
	s.provider.login(t, s.browser, form)
	require.Equal(t, true, s.session()["signed_in"])
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
