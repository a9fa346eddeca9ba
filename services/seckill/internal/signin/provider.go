package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

// Times of the calls to the provider.
const (
	callTimeout  = 5 * time.Second
	refreshAfter = 10 * time.Minute // of the provider's configuration, and of its keys with that
	retryAfter   = 2 * time.Second  // after a failed call for the configuration
)

// errUnreachable means that the provider did not respond, or not as a provider does. The caller may try again.
var errUnreachable = errors.New("the identity provider does not respond")

// errRefused means that the provider refused the code or sent tokens that are not for this sign-in.
var errRefused = errors.New("the identity provider refused")

// provider makes the calls to the identity provider. It keeps no token.
type provider struct {
	Settings
	publicURL string // of the pages, without a slash at the end
	claims    settings.Auth
	client    *http.Client
	flight    singleflight.Group
	ctx       context.Context // of the calls for the configuration; it ends with close
	stop      context.CancelFunc

	mu     sync.Mutex
	config *configuration // the last one that was read, nil at first
	failed time.Time      // when the last call for it failed
	err    error          // of that call
}

// configuration is what the provider publishes about itself.
type configuration struct {
	*oidc.Provider
	endSession string // "" if it has none
	readAt     time.Time
	style      atomic.Int64 // the oauth2.AuthStyle of the last code that was exchanged; 0 = none yet
}

func newProvider(s Settings, publicURL string, claims settings.Auth) *provider {
	// A missing merchant claim may be a mistake at the provider. It must not give the rights of a default merchant that
	// no setting names.
	claims.Lenient = false
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, MaxConnsPerHost: 64, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: callTimeout, ForceAttemptHTTP2: true,
	}
	ctx, stop := context.WithCancel(context.Background())
	client := &http.Client{Transport: transport, Timeout: callTimeout}
	return &provider{Settings: s, publicURL: publicURL, claims: claims, client: client, ctx: ctx, stop: stop}
}

// close ends the call for the configuration in flight and waits for it. No caller of get may remain.
func (p *provider) close() {
	p.stop()
	_, _, _ = p.flight.Do("read", func() (any, error) { return nil, nil })
	p.client.CloseIdleConnections()
}

// get returns the provider's configuration. Concurrent callers share one call. An old one stays in use until a new one
// has been read, so no caller waits for that.
func (p *provider) get(ctx context.Context) (*configuration, error) {
	p.mu.Lock()
	c, failed, err := p.config, p.failed, p.err
	p.mu.Unlock()
	switch {
	case c != nil && time.Since(c.readAt) < refreshAfter:
		return c, nil
	case time.Since(failed) < retryAfter && c != nil:
		return c, nil
	case time.Since(failed) < retryAfter:
		return nil, err
	}
	read := p.flight.DoChan("read", func() (any, error) { return p.read() })
	if c != nil {
		return c, nil
	}
	select {
	case r := <-read:
		if r.Err != nil {
			return nil, r.Err
		}
		fresh, _ := r.Val.(*configuration)
		return fresh, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errUnreachable, ctx.Err())
	}
}

func (p *provider) read() (*configuration, error) {
	// The client bounds each call. oidc.Provider keeps it for its calls for the keys.
	found, err := oidc.NewProvider(oidc.ClientContext(p.ctx, p.client), p.Issuer)
	var published struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err == nil {
		err = found.Claims(&published)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed, p.err = time.Now(), fmt.Errorf("%w: %w", errUnreachable, err)
		return nil, p.err
	}
	if u, err := url.Parse(published.EndSession); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		published.EndSession = ""
	}
	p.config = &configuration{Provider: found, endSession: published.EndSession, readAt: time.Now()}
	return p.config, nil
}

func (p *provider) oauth(c *configuration) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: c.Endpoint(),
		RedirectURL: p.publicURL + CallbackPath, Scopes: []string{oidc.ScopeOpenID, "profile"},
	}
}

// loginURL returns where the browser goes to sign in.
func (p *provider) loginURL(ctx context.Context, a attempt) (string, error) {
	c, err := p.get(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(c).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// exchange sends the code. Providers differ in where they accept the credentials of a client. Until one code was
// exchanged, it sends a code again with the credentials in the other place, unless the code itself was refused: a caller
// who makes up codes causes one request for each.
func (p *provider) exchange(ctx context.Context, c *configuration, code, verifier string) (*oauth2.Token, error) {
	config := p.oauth(c)
	send := func(style oauth2.AuthStyle) (*oauth2.Token, error) {
		config.Endpoint.AuthStyle = style
		tokens, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
		if err == nil {
			c.style.Store(int64(style))
		}
		return tokens, err
	}
	if known := oauth2.AuthStyle(c.style.Load()); known != oauth2.AuthStyleAutoDetect {
		return send(known)
	}
	styles := [2]oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams}
	if p.ClientSecret == "" {
		styles[0], styles[1] = styles[1], styles[0]
	}
	tokens, err := send(styles[0])
	if refused := new(oauth2.RetrieveError); refusedBy(err) && errors.As(err, &refused) &&
		refused.ErrorCode != "invalid_grant" {
		return send(styles[1])
	}
	return tokens, err
}

// refusedBy reports whether the provider refused a code. A 429 or 5xx refuses nothing.
func refusedBy(err error) bool {
	var refused *oauth2.RetrieveError
	return errors.As(err, &refused) && refused.Response != nil &&
		refused.Response.StatusCode < http.StatusInternalServerError &&
		refused.Response.StatusCode != http.StatusTooManyRequests
}

// identity exchanges the code and returns the caller that the ID token names. Its tokens are not kept.
func (p *provider) identity(ctx context.Context, code string, a attempt) (auth.Identity, error) {
	c, err := p.get(ctx)
	if err != nil {
		return auth.Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.exchange(ctx, c, code, a.Verifier)
	if err != nil {
		if refusedBy(err) {
			return auth.Identity{}, fmt.Errorf("%w: %w", errRefused, err)
		}
		return auth.Identity{}, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return auth.Identity{}, fmt.Errorf("%w: no ID token", errRefused)
	}
	// All verifiers of a configuration share its keys. They are read again for an unknown key, and with the
	// configuration.
	idToken, err := c.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err != nil {
		return auth.Identity{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	// The verifier compares neither the nonce nor the hash of the access token.
	if idToken.Nonce == "" || idToken.Nonce != a.Nonce {
		return auth.Identity{}, fmt.Errorf("%w: the ID token has another nonce", errRefused)
	}
	if idToken.AccessTokenHash != "" {
		if err := idToken.VerifyAccessToken(tokens.AccessToken); err != nil {
			return auth.Identity{}, fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	var claims map[string]any
	if err := idToken.Claims(&claims); err != nil {
		return auth.Identity{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	id, err := auth.IdentityOf(p.claims, claims)
	if err != nil {
		return auth.Identity{}, fmt.Errorf("%w: %s", errRefused, contract.RefusalOf(err).Detail)
	}
	return id, nil
}

// logoutURL returns where the browser goes to sign out at the provider, "" if it has no such page or does not respond.
func (p *provider) logoutURL(ctx context.Context) string {
	c, err := p.get(ctx)
	if err != nil || c.endSession == "" {
		return ""
	}
	u, err := url.Parse(c.endSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.ClientID)
	q.Set("post_logout_redirect_uri", p.publicURL+"/")
	u.RawQuery = q.Encode()
	return u.String()
}
