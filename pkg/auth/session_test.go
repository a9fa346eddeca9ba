package auth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

const sessionSecret = "fedcba9876543210fedcba9876543210"

// strict are the settings of a production with two secrets of sessions.
var strict = settings.Auth{
	HS256Secrets: []string{secret}, Session: settings.Session{Secrets: []string{sessionSecret, "the-old-one"}, TTL: time.Hour},
}

// claimed returns the claims of a session of user 42, with changes.
func claimed(changes ...any) jwt.MapClaims {
	all := append([]any{"aud", SessionAudience, "iss", nil, "iat", time.Now().Unix()}, changes...)
	return good(all...)
}

// visit sends a request through Require(roles...) and returns the response.
func visit(t *testing.T, v *Verifier, change func(r *http.Request), roles ...Role) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "https://shop.example.com/x", nil)
	change(r)
	w := httptest.NewRecorder()
	v.Require(roles...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(From(r.Context()).UserID + "," + From(r.Context()).MerchantID))
	})).ServeHTTP(w, r)
	return w
}

func withCookie(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: name, Value: value}) }
}

func TestASessionIsAcceptedFromItsCookie(t *testing.T) {
	v := verifier(t, strict)
	began := time.Now()
	token, expires, err := NewSessions(strict).Mint(Identity{UserID: "42", Roles: []Role{Merchant}, MerchantID: "m1"})
	require.NoError(t, err)
	require.WithinRange(t, expires, began.Add(time.Hour-2*time.Second), time.Now().Add(time.Hour+2*time.Second))
	require.Less(t, len(token), 1024)
	for range 2 { // the second time from the cache
		w := visit(t, v, withCookie(SessionCookie, token), Merchant)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "42,m1", w.Body.String())
		require.Equal(t, http.StatusForbidden, visit(t, v, withCookie(SessionCookie, token), Operator).Code)
		w = visit(t, v, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		require.Equal(t, http.StatusUnauthorized, w.Code, "a session token is no bearer token, also if it is cached")
	}

	old := strict
	old.Session.Secrets = []string{"the-old-one"}
	token, _, err = NewSessions(old).Mint(Identity{UserID: "43"})
	require.NoError(t, err)
	require.Equal(t, "43,", visit(t, v, withCookie(SessionCookie, token)).Body.String(), "the old secret verifies")
	_, _, err = NewSessions(strict).Mint(Identity{UserID: "a|b"})
	require.Error(t, err)
	require.Nil(t, NewSessions(settings.Auth{HS256Secrets: []string{secret}}))
}

func TestBadSessions(t *testing.T) {
	v := verifier(t, strict)
	hs := func(key string, changes ...any) string {
		return sign(t, jwt.SigningMethodHS256, []byte(key), "", claimed(changes...))
	}
	fine := hs(sessionSecret)
	require.Equal(t, http.StatusOK, visit(t, v, withCookie(SessionCookie, fine)).Code)
	for name, c := range map[string]struct {
		change func(*http.Request)
		says   string
	}{
		"no cookie":            {func(*http.Request) {}, "Authorization header"},
		"without its prefix":   {withCookie(PlainSessionCookie, fine), "Authorization header"},
		"two cookies":          {func(r *http.Request) { withCookie(SessionCookie, fine)(r); withCookie(SessionCookie, fine)(r) }, "Authorization header"},
		"expired":              {withCookie(SessionCookie, hs(sessionSecret, "exp", time.Now().Add(-time.Minute).Unix())), "has expired"},
		"without expiry":       {withCookie(SessionCookie, hs(sessionSecret, "exp", nil)), "not valid"},
		"without time":         {withCookie(SessionCookie, hs(sessionSecret, "iat", nil)), "malformed"},
		"from the future":      {withCookie(SessionCookie, hs(sessionSecret, "iat", time.Now().Add(time.Hour).Unix())), "not valid"},
		"other audience":       {withCookie(SessionCookie, hs(sessionSecret, "aud", "shop")), "not valid"},
		"no audience":          {withCookie(SessionCookie, hs(sessionSecret, "aud", nil)), "not valid"},
		"wrong secret":         {withCookie(SessionCookie, hs("x")), "not valid"},
		"secret of tokens":     {withCookie(SessionCookie, hs(secret)), "not valid"},
		"removed secret":       {withCookie(SessionCookie, hs("the-oldest-one")), "not valid"},
		"other algorithm":      {withCookie(SessionCookie, sign(t, jwt.SigningMethodHS512, []byte(sessionSecret), "", claimed())), "not valid"},
		"no algorithm":         {withCookie(SessionCookie, sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", claimed())), "not valid"},
		"an access token":      {withCookie(SessionCookie, sign(t, jwt.SigningMethodHS256, []byte(secret), "", good("iat", time.Now().Unix()))), "not valid"},
		"no token":             {withCookie(SessionCookie, "x.y.z"), "not valid"},
		"too long":             {withCookie(SessionCookie, strings.Repeat("x", maxToken+1)), "too long"},
		"malformed user":       {withCookie(SessionCookie, hs(sessionSecret, "sub", "a b")), "malformed"},
		"malformed merchant":   {withCookie(SessionCookie, hs(sessionSecret, "merchant_id", "a b")), "malformed"},
		"a session as bearer":  {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+fine) }, "not valid"},
		"bearer before cookie": {func(r *http.Request) { withCookie(SessionCookie, fine)(r); r.Header.Set("Authorization", "Bearer x") }, "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				w := visit(t, v, c.change)
				require.Equal(t, http.StatusUnauthorized, w.Code, w.Body)
				require.Contains(t, w.Body.String(), c.says)
			}
		})
	}
	same := verifier(t, settings.Auth{HS256Secrets: []string{sessionSecret}, Session: settings.Session{Secrets: []string{sessionSecret}}})
	w := visit(t, same, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+fine) })
	require.Equal(t, http.StatusUnauthorized, w.Code, "also where both secrets are equal, in development")
	require.Contains(t, w.Body.String(), "no bearer token")
	none := verifier(t, settings.Auth{HS256Secrets: []string{sessionSecret}})
	require.Equal(t, http.StatusUnauthorized, visit(t, none, withCookie(SessionCookie, fine)).Code, "sessions are off")
}

func TestCrossSiteRequestsWithASessionAreRefused(t *testing.T) {
	v := verifier(t, strict)
	token, _, err := NewSessions(strict).Mint(Identity{UserID: "42"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		method, header, value string
		status                int
	}{
		"same origin":           {http.MethodPost, "Sec-Fetch-Site", "same-origin", 200},
		"typed by the user":     {http.MethodPost, "Sec-Fetch-Site", "none", 200},
		"same origin, older":    {http.MethodPost, "Origin", "https://shop.example.com", 200},
		"no browser":            {http.MethodPost, "X", "", 200},
		"link from a site":      {http.MethodGet, "Sec-Fetch-Site", "cross-site", 200},
		"cross-site":            {http.MethodPost, "Sec-Fetch-Site", "cross-site", 403},
		"another subdomain":     {http.MethodPut, "Sec-Fetch-Site", "same-site", 403},
		"cross-site, older":     {http.MethodDelete, "Origin", "https://evil.example.com", 403},
		"another port, older":   {http.MethodPost, "Origin", "https://shop.example.com:81", 403},
		"an opaque origin":      {http.MethodPatch, "Origin", "null", 403},
		"cross-site, by bearer": {http.MethodPost, "Authorization", "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(secret), "", good("iat", time.Now().Unix())), 200},
	} {
		w := visit(t, v, func(r *http.Request) {
			r.Method = c.method
			r.Header.Set(c.header, c.value)
			withCookie(SessionCookie, token)(r)
		})
		require.Equal(t, c.status, w.Code, name)
		if c.status == http.StatusForbidden {
			require.Contains(t, w.Body.String(), `"code":"forbidden"`)
		}
	}
}

// The cookie has no prefix, and is not limited to https, over http on loopback and outside of production only.
func TestNameOfTheCookie(t *testing.T) {
	development := strict
	development.Lenient = true
	for name, c := range map[string]struct {
		s      settings.Auth
		url    string
		proto  string
		cookie string
	}{
		"production":                 {strict, "https://shop.example.com", "", SessionCookie},
		"production on loopback":     {strict, "http://127.0.0.1:8080", "", SessionCookie},
		"development":                {development, "http://127.0.0.1:8080", "", PlainSessionCookie},
		"development, localhost":     {development, "http://localhost", "", PlainSessionCookie},
		"development, IPv6":          {development, "http://[::1]:8080", "", PlainSessionCookie},
		"development, https":         {development, "https://localhost", "", SessionCookie},
		"development, https before":  {development, "http://localhost", "https", SessionCookie},
		"development, other machine": {development, "http://shop.example.com", "", SessionCookie},
		"a name like localhost":      {development, "http://localhost.example.com", "", SessionCookie},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := NewSessions(c.s), verifier(t, c.s)
			r := httptest.NewRequest(http.MethodPost, c.url, nil)
			if c.proto != "" {
				r.Header.Set("X-Forwarded-Proto", c.proto)
			}
			w, began := httptest.NewRecorder(), time.Now()
			require.NoError(t, s.Start(w, r, Identity{UserID: "42"}))
			took := time.Since(began)
			set := w.Result().Cookies()
			require.Len(t, set, 1)
			require.Equal(t, c.cookie, set[0].Name)
			require.Equal(t, c.cookie == SessionCookie, set[0].Secure)
			require.True(t, set[0].HttpOnly)
			require.Equal(t, http.SameSiteLaxMode, set[0].SameSite)
			require.Equal(t, "/", set[0].Path)
			require.Empty(t, set[0].Domain)
			require.InDelta(t, 3600, set[0].MaxAge, 2+took.Seconds())

			for _, cookie := range []string{SessionCookie, PlainSessionCookie} {
				again := httptest.NewRequest(http.MethodGet, c.url, nil)
				again.Header = r.Header.Clone()
				withCookie(cookie, set[0].Value)(again)
				id, _, ok := s.Current(again)
				require.Equal(t, cookie == c.cookie, ok, cookie)
				w := httptest.NewRecorder()
				v.Require()(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, again)
				if ok {
					require.Equal(t, "42", id.UserID)
					require.Equal(t, http.StatusOK, w.Code)
				} else {
					require.Equal(t, http.StatusUnauthorized, w.Code)
				}
			}
			w = httptest.NewRecorder()
			s.End(w, r)
			require.Negative(t, w.Result().Cookies()[0].MaxAge)
			require.Equal(t, c.cookie, w.Result().Cookies()[0].Name)
		})
	}
}

func TestIdentityOfAProvidersClaims(t *testing.T) {
	s := settings.Auth{RolesClaim: "realm.roles", UserClaim: "email"}
	id, err := IdentityOf(s, map[string]any{
		"nonce": "x", "email": "ann@example.com", "realm": map[string]any{"roles": []any{"merchant", "other"}}, "merchant_id": "m1",
	})
	require.NoError(t, err)
	require.Equal(t, Identity{UserID: UserID("ann@example.com"), Roles: []Role{Merchant}, MerchantID: "m1"}, id)
	_, err = IdentityOf(s, map[string]any{"sub": "42"})
	require.Error(t, err, "no user")
}
