package trouble

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
)

const callbackPath = "/auth/callback"

// visit requests a page, and returns the response without its body.
func visit(ctx context.Context, browser *http.Client, page string, cookies ...*http.Cookie) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	for _, cookie := range cookies {
		req.AddCookie(cookie)
	}
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	return resp, resp.Body.Close()
}

// signIn begins a sign-in and logs in at the provider. It returns the last response, and the cookies of the edge.
func (a *attacked) signIn(ctx context.Context, browser *http.Client) (*http.Response, []*http.Cookie, error) {
	var err error
	if browser.Jar, err = cookiejar.New(nil); err != nil {
		return nil, nil, err
	}
	form, err := visit(ctx, browser, a.edge.URL+"/auth/login")
	if err != nil {
		return nil, nil, err
	}
	last, err := browser.PostForm(a.provider.Issuer+"login/username", url.Values{
		"username": {a.provider.Username}, "password": {a.provider.Password},
		"id": {form.Request.URL.Query().Get("authRequestID")},
	})
	if err != nil {
		return nil, nil, err
	}
	at, err := url.Parse(a.edge.URL)
	if err != nil {
		return nil, nil, err
	}
	return last, browser.Jar.Cookies(at), last.Body.Close()
}

// repeatedCookie repeats one callback with the attacker's own cookie and code in 300 connections, each from an address
// of its own, until 40 buyers have signed in. It gets the one session that its sign-in is good for.
func (a *attacked) repeatedCookie(t *testing.T) {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own := a.browser(t)
	own.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), a.edge.URL+callbackPath) {
			return stay(r, via)
		}
		return nil
	}
	stopped, cookies, err := a.signIn(t.Context(), own)
	require.NoError(t, err)
	callback := stopped.Header.Get("Location")
	require.Contains(t, callback, a.edge.URL+callbackPath+"?code=")
	require.NotEmpty(t, cookies)

	got := responses{n: map[int]int{}}
	served := a.meanwhile(t, a.buys, func() {
		signedIn, attack := make(chan struct{}), make(chan error, 1)
		go func() {
			attack <- purchase.Each(t.Context(), 300, 300, func(ctx context.Context, _ int) error {
				browser := a.browser(t)
				browser.CheckRedirect = stay
				for {
					resp, err := visit(ctx, browser, callback, cookies...)
					if err != nil {
						return err
					}
					got.add(resp.StatusCode)
					select {
					case <-signedIn:
						return nil
					case <-time.After(500 * time.Millisecond):
					}
				}
			})
		}()
		err := purchase.Each(t.Context(), 8, 40, func(ctx context.Context, _ int) error {
			page, cookies, err := a.signIn(ctx, a.browser(t))
			session := func(c *http.Cookie) bool { return c.Name == auth.PlainSessionCookie }
			if err == nil && !slices.ContainsFunc(cookies, session) {
				err = fmt.Errorf("not signed in: %d of %s", page.StatusCode, page.Request.URL.Path)
			}
			return err
		})
		close(signedIn)
		assert.NoError(t, <-attack)
		require.NoError(t, err, "buyers who sign in")
	})
	assert.Equal(t, 1, got.n[http.StatusFound], "sessions: %v", got.n)
	for status := range got.n {
		assert.Contains(t, []int{http.StatusFound, http.StatusBadRequest, http.StatusTooManyRequests}, status)
	}
	a.row(t, fmt.Sprintf("its callback in 300 connections: %v", got.n), "1 session", served+40)
}
