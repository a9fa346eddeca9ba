package signin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/pages"
	"flashsale.internal/services/seckill/internal/signin/identityprovider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a server with the routes of the sign-in and one route for each role, and a browser.
type site struct {
	*testing.T
	*httptest.Server
	signIn   *SignIn
	browser  *http.Client
	provider *identityProvider // nil unless the test needs it
}

func newSite(t *testing.T, change func(s *Settings, a *settings.Auth, publicURL string) *identityProvider) *site {
	t.Helper()
	return newLimitedSite(t, admission.None(telemetry.Discard(t)), change)
}

// newLimitedSite is newSite with limits.
func newLimitedSite(
	t *testing.T, limits *admission.Limits, change func(s *Settings, a *settings.Auth, publicURL string) *identityProvider,
) *site {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	publicURL := "http://" + server.Listener.Addr().String()
	var cfg struct {
		settings.App
		settings.Auth
	}
	require.NoError(t, settings.Load(&cfg, map[string]string{"AUTH_DEV_TOKENS": "true"}))
	s := Settings{ClientID: identityprovider.ClientID, ClientSecret: identityprovider.ClientSecret}
	idp := change(&s, &cfg.Auth, publicURL)
	tel := telemetry.Discard(t)
	signIn, err := New(s, publicURL, cfg.Auth, limits, tel)
	require.NoError(t, err)
	out := &site{T: t, Server: server, signIn: signIn, provider: idp}
	verifier, err := auth.NewVerifier(cfg.Auth, nil)
	require.NoError(t, err)
	r := httpserver.NewRouter(tel, httpserver.ErrorPages(pages.Error))
	out.signIn.Mount(r)
	ok := func(w http.ResponseWriter, r *http.Request) {
		httpserver.WriteJSON(w, http.StatusOK, auth.From(r.Context()))
	}
	r.With(verifier.Require()).HandleFunc("/v1/buyer", ok)
	r.With(verifier.Require(auth.Merchant)).HandleFunc("/v1/merchant", ok)
	r.With(verifier.Require(auth.Operator)).HandleFunc("/v1/operator", ok)
	server.Config.Handler = r
	server.Start()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	out.browser = &http.Client{Jar: jar, Transport: transport, Timeout: 20 * time.Second}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		out.signIn.Close()
	})
	return out
}

// withProvider returns a site whose provider runs.
func withProvider(t *testing.T) *site {
	t.Helper()
	return newSite(t, ownProvider(t))
}

// ownProvider starts a provider for a site.
func ownProvider(t *testing.T) func(s *Settings, _ *settings.Auth, publicURL string) *identityProvider {
	return func(s *Settings, _ *settings.Auth, publicURL string) *identityProvider {
		p := newIdentityProvider(t, publicURL)
		s.Issuer = p.issuer
		return p
	}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	text string
}

func (s *site) send(method, path, body string, header ...string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(s, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w, err := s.browser.Do(r)
	require.NoError(s, err)
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	require.NoError(s, err)
	return answer{w, string(raw)}
}

func (s *site) session() (out map[string]any) {
	s.Helper()
	got := s.send(http.MethodGet, "/auth/session", "")
	require.Equal(s, http.StatusOK, got.StatusCode)
	require.Equal(s, "no-store", got.Header.Get("Cache-Control"))
	require.NoError(s, json.Unmarshal([]byte(got.text), &out))
	return out
}

// cookies returns the browser's cookies of the site by name.
func (s *site) cookies() map[string]string {
	s.Helper()
	u, err := url.Parse(s.URL)
	require.NoError(s, err)
	all := map[string]string{}
	for _, c := range s.browser.Jar.Cookies(u) {
		all[c.Name] = c.Value
	}
	return all
}

// stay makes the browser stop at redirects.
func (s *site) stay() {
	s.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
}

// begin begins a sign-in and returns where the browser is sent.
func (s *site) begin(next string) *url.URL {
	s.Helper()
	s.stay()
	got := s.send(http.MethodGet, "/auth/login?next="+url.QueryEscape(next), "")
	require.Equal(s, http.StatusFound, got.StatusCode, got.text)
	to, err := url.Parse(got.Header.Get("Location"))
	require.NoError(s, err)
	return to
}

func TestSignInAtAnIdentityProvider(t *testing.T) {
	s := withProvider(t)
	require.Equal(t, map[string]any{"signed_in": false}, s.session())
	form, err := s.browser.Get(s.URL + "/auth/login?next=/v1/merchant%3Fx=1")
	require.NoError(t, err)
	defer form.Body.Close()
	done := s.provider.login(t, s.browser, form)
	require.Equal(t, s.URL+"/v1/merchant?x=1", done.Request.URL.String(), "the browser is where the sign-in began")
	require.Equal(t, http.StatusOK, done.StatusCode, "by the cookie, with the role of the ID token")
	require.NotEmpty(t, s.provider.AccessToken(), "it is opaque and lives 60 s; nothing of it is kept")

	got := s.session()
	expires, err := time.Parse(time.RFC3339, got["expires_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(12*time.Hour), expires, time.Minute)
	delete(got, "expires_at")
	require.Equal(t, map[string]any{
		"signed_in": true, "user_id": "id1", "roles": []any{"merchant"}, "merchant_id": "m1",
	}, got)
	cookies := s.cookies()
	require.Len(t, cookies, 1, "that of the attempt is deleted")
	require.Less(t, len(cookies[auth.PlainSessionCookie]), 1024)
	require.NotContains(t, cookies[auth.PlainSessionCookie], s.provider.AccessToken())

	require.Equal(t, http.StatusForbidden, s.send(http.MethodGet, "/v1/operator", "").StatusCode)
	require.Equal(t, http.StatusOK, s.send(http.MethodPost, "/v1/merchant", "{}", "Sec-Fetch-Site", "same-origin").StatusCode)
	require.Equal(t, http.StatusForbidden, s.send(http.MethodPost, "/v1/merchant", "{}", "Sec-Fetch-Site", "cross-site").StatusCode)
	s.provider.Close()
	require.Equal(t, http.StatusOK, s.send(http.MethodGet, "/v1/merchant", "").StatusCode, "the provider is not needed any more")
}

func TestSignOut(t *testing.T) {
	s := withProvider(t)
	form, err := s.browser.Get(s.URL + "/auth/login")
	require.NoError(t, err)
	defer form.Body.Close()
	s.provider.login(t, s.browser, form)
	require.Equal(t, true, s.session()["signed_in"])
	require.Equal(t, http.StatusForbidden, s.send(http.MethodPost, "/auth/logout", "{}", "Origin", "https://evil.example.com").StatusCode)
	require.Equal(t, true, s.session()["signed_in"])

	out := s.send(http.MethodPost, "/auth/logout", "{}")
	require.Equal(t, http.StatusOK, out.StatusCode)
	var next struct{ Next string }
	require.NoError(t, json.Unmarshal([]byte(out.text), &next))
	require.True(t, strings.HasPrefix(next.Next, s.provider.issuer), next.Next)
	end, err := s.browser.Get(next.Next)
	require.NoError(t, err)
	defer end.Body.Close()
	require.Equal(t, s.URL+"/", end.Request.URL.String(), "the provider sends the browser back to the pages")
	require.Empty(t, s.cookies()[auth.PlainSessionCookie])
	require.Equal(t, map[string]any{"signed_in": false}, s.session())
	require.Equal(t, http.StatusUnauthorized, s.send(http.MethodGet, "/v1/merchant", "").StatusCode)
	require.JSONEq(t, `{"next":"/"}`, s.send(http.MethodPost, "/auth/logout", "").text, "who is signed out stays here")
}

func TestLoginUsesPKCEStateAndNonce(t *testing.T) {
	s := withProvider(t)
	first, second := s.begin("/"), s.begin("/")
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		require.NotEmpty(t, first.Query().Get(name))
		require.NotEqual(t, first.Query().Get(name), second.Query().Get(name), name)
	}
	require.Equal(t, "S256", first.Query().Get("code_challenge_method"))
	require.Equal(t, "code", first.Query().Get("response_type"))
	require.Equal(t, identityprovider.ClientID, first.Query().Get("client_id"))
	require.Equal(t, s.URL+CallbackPath, first.Query().Get("redirect_uri"))
	require.Contains(t, s.cookies(), "flashsale-sign-in")
}

// page requires a page for browsers with a link to sign in again, and no session.
func (s *site) page(got answer, status int, says string) { s.pageTo(got, status, says, "/auth/login") }

// pageTo is page with that link.
func (s *site) pageTo(got answer, status int, says, link string) {
	s.Helper()
	require.Equal(s, status, got.StatusCode, got.text)
	require.Equal(s, "text/html; charset=utf-8", got.Header.Get("Content-Type"))
	require.Equal(s, "no-store", got.Header.Get("Cache-Control"))
	require.Contains(s, got.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(s, got.text, says)
	require.Contains(s, got.text, `href="`+link+`"`)
	require.Empty(s, s.cookies()[auth.PlainSessionCookie])
}

func TestBadCallbacks(t *testing.T) {
	s := withProvider(t)
	s.page(s.send(http.MethodGet, CallbackPath+"?state=x&code=y", ""), http.StatusBadRequest, "began in another browser")
	s.begin("/")
	s.page(s.send(http.MethodGet, CallbackPath+"?state=x&code=y", ""), http.StatusBadRequest, "belongs to another sign-in")
	require.NotContains(t, s.cookies(), "flashsale-sign-in", "an attempt is used once")
	s.begin("/")
	s.page(s.send(http.MethodGet, CallbackPath+"?code=y", ""), http.StatusBadRequest, "belongs to another sign-in")
	state := s.begin("/").Query().Get("state")
	refused := s.send(http.MethodGet, CallbackPath+"?state="+state+"&error=access_denied&error_description="+
		url.QueryEscape("<script>alert(1)</script>"+strings.Repeat("x", 500)), "")
	s.page(refused, http.StatusForbidden, "access_denied: &lt;script&gt;")
	require.NotContains(t, refused.text, "<script")
	require.Less(t, len(refused.text), 4000)
	state = s.begin("/").Query().Get("state")
	s.page(s.send(http.MethodGet, CallbackPath+"?state="+state+"&code=made-up", ""), http.StatusForbidden, "was not accepted")
}

// The next attempt goes where the failed one was to go.
func TestErrorPagesKeepTheDestination(t *testing.T) {
	s := withProvider(t)
	const link = "/auth/login?next=%2Fsales%2F7%3Fx%3D1"
	state := s.begin("/sales/7?x=1").Query().Get("state")
	s.pageTo(s.send(http.MethodGet, CallbackPath+"?state="+state+"&code=made-up", ""), http.StatusForbidden, "was not accepted", link)
	state = s.begin("/sales/7?x=1").Query().Get("state")
	s.pageTo(s.send(http.MethodGet, CallbackPath+"?state="+state+"&error=access_denied", ""), http.StatusForbidden, "access_denied", link)
	s.begin("/sales/7?x=1")
	s.pageTo(s.send(http.MethodGet, CallbackPath+"?state=x&code=y", ""), http.StatusBadRequest, "belongs to another sign-in", link)
	s.fill(s.signIn.logins)
	s.pageTo(s.send(http.MethodGet, "/auth/login?next=%2Fsales%2F7%3Fx%3D1", ""), http.StatusServiceUnavailable, "many buyers", link)
	s.page(s.send(http.MethodGet, "/auth/login?next=//evil.example", ""), http.StatusServiceUnavailable, "many buyers")
}

// change replaces the attempt in the browser's cookie.
func (s *site) change(edit func(*attempt)) {
	s.Helper()
	r := httptest.NewRequest(http.MethodGet, s.URL, nil)
	r.AddCookie(&http.Cookie{Name: "flashsale-sign-in", Value: s.cookies()["flashsale-sign-in"]})
	secrets := s.signIn.claims.Session.Secrets
	a, err := attemptOf(s.signIn.sessions, secrets, r)
	require.NoError(s, err)
	edit(&a)
	token, err := a.seal(secrets[0])
	require.NoError(s, err)
	u, err := url.Parse(s.URL)
	require.NoError(s, err)
	s.browser.Jar.SetCookies(u, []*http.Cookie{{Name: "flashsale-sign-in", Value: token, Path: "/"}})
}

func TestWrongNonceVerifierAndClaims(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*attempt)
		claims map[string]any
		says   string
		status int
	}{
		"fine":             {func(*attempt) {}, nil, "", http.StatusUnauthorized},
		"nonce":            {func(a *attempt) { a.Nonce = "another" }, nil, "was not accepted", http.StatusForbidden},
		"verifier of PKCE": {func(a *attempt) { a.Verifier = strings.Repeat("x", 43) }, nil, "was not accepted", http.StatusForbidden},
		"malformed roles":  {func(*attempt) {}, map[string]any{"roles": "merchant"}, "was not accepted", http.StatusForbidden},
		"merchant":         {func(*attempt) {}, map[string]any{"merchant_id": "a b"}, "was not accepted", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			s := withProvider(t)
			if c.claims != nil {
				s.provider.Claims = c.claims
			}
			form, err := s.browser.Get(s.URL + "/auth/login")
			require.NoError(t, err)
			defer form.Body.Close()
			s.change(c.edit)
			s.stay()
			to := s.provider.login(t, s.browser, form).Header.Get("Location")
			for range 2 { // the provider's own callback, and then ours
				u, err := url.Parse(to)
				require.NoError(t, err)
				if strings.HasPrefix(to, s.URL) {
					break
				}
				next, err := s.browser.Get(u.String())
				require.NoError(t, err)
				_ = next.Body.Close()
				to = next.Header.Get("Location")
			}
			got := s.send(http.MethodGet, strings.TrimPrefix(to, s.URL), "")
			if c.says == "" {
				require.Equal(t, http.StatusFound, got.StatusCode, got.text)
				require.Equal(t, "/", got.Header.Get("Location"))
				got = s.send(http.MethodGet, strings.TrimPrefix(to, s.URL), "")
				require.Equal(t, http.StatusBadRequest, got.StatusCode, "the same answer again")
				return
			}
			s.page(got, c.status, c.says)
		})
	}
}

func TestUnreachableProvider(t *testing.T) {
	down := "http://" + porttest.Free(t) + "/"
	s := newSite(t, func(s *Settings, _ *settings.Auth, _ string) *identityProvider {
		s.Issuer = down
		return nil
	})
	for range 2 { // the second time without a call
		s.page(s.send(http.MethodGet, "/auth/login", ""), http.StatusServiceUnavailable, "does not respond")
	}
	require.NoError(t, s.signIn.sessions.Start(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, s.URL, nil), auth.Identity{UserID: "1"}))

	other := newSite(t, func(s *Settings, _ *settings.Auth, publicURL string) *identityProvider {
		p := newIdentityProvider(t, publicURL)
		s.Issuer = strings.TrimSuffix(p.issuer, "/") // it calls itself otherwise
		return p
	})
	other.page(other.send(http.MethodGet, "/auth/login", ""), http.StatusServiceUnavailable, "does not respond")

	gone := withProvider(t)
	state := gone.begin("/").Query().Get("state")
	gone.provider.Close()
	gone.page(gone.send(http.MethodGet, CallbackPath+"?state="+state+"&code=x", ""), http.StatusServiceUnavailable, "does not respond")
}

// fill takes all slots, so that the next caller is refused at once, and returns what frees one.
func (s *site) fill(slots *ratelimit.Bulkhead) (free func()) {
	s.Helper()
	spec := slots.Spec()
	spec.MaxWait = 0
	require.NoError(s, slots.SetSpec(spec))
	for range spec.Limit {
		permit, err := slots.Acquire(s.Context(), "")
		require.NoError(s, err)
		free = permit.Release
	}
	return free
}

// Neither logins nor callbacks take the slots of the other. A bad callback needs none.
func TestBusySignIn(t *testing.T) {
	s := withProvider(t)
	state := s.begin("/").Query().Get("state")
	free := s.fill(s.signIn.logins)
	s.page(s.send(http.MethodGet, CallbackPath+"?state="+state+"&code=made-up", ""), http.StatusForbidden, "was not accepted")
	s.page(s.send(http.MethodGet, "/auth/login", ""), http.StatusServiceUnavailable, "many buyers")
	free()
	s.begin("/")

	free = s.fill(s.signIn.callbacks)
	s.page(s.send(http.MethodGet, CallbackPath+"?state=x&code=y", ""), http.StatusBadRequest, "belongs to another sign-in")
	s.page(s.send(http.MethodGet, CallbackPath+"?state=x&code=y", ""), http.StatusBadRequest, "began in another browser")
	state = s.begin("/sales/7").Query().Get("state")
	s.pageTo(s.send(http.MethodGet, CallbackPath+"?state="+state+"&code=made-up", ""), http.StatusServiceUnavailable,
		"many buyers", "/auth/login?next=%2Fsales%2F7")
	free()
	state = s.begin("/").Query().Get("state")
	s.page(s.send(http.MethodGet, CallbackPath+"?state="+state+"&code=made-up", ""), http.StatusForbidden, "was not accepted")
	running, _ := s.signIn.callbacks.Running("")
	require.Equal(t, callbackSlots.Limit-1, running, "the slot is free again")
}

func TestDevelopersSignIn(t *testing.T) {
	s := newSite(t, func(s *Settings, _ *settings.Auth, _ string) *identityProvider {
		*s = Settings{}
		return nil
	})
	for _, bad := range []string{`{"user_id":"a b"}`, `{"user_id":"1","roles":["root"]}`, `{"user_id":"1","merchant_id":""}`, `{}`, `x`, `{"user_id":"1","x":1}`} {
		require.Equal(t, http.StatusBadRequest, s.send(http.MethodPost, "/auth/dev", bad).StatusCode, bad)
	}
	require.Equal(t, http.StatusForbidden, s.send(http.MethodPost, "/auth/dev", `{"user_id":"42"}`, "Sec-Fetch-Site", "cross-site").StatusCode)
	require.Equal(t, map[string]any{"signed_in": false}, s.session())
	got := s.send(http.MethodPost, "/auth/dev", `{"user_id":"42","roles":["merchant"]}`)
	require.Equal(t, http.StatusNoContent, got.StatusCode, got.text)
	set := got.Header.Get("Set-Cookie")
	require.Contains(t, set, "HttpOnly")
	require.Contains(t, set, "SameSite=Lax")
	require.Equal(t, "default", s.session()["merchant_id"], "as with a developer's token")
	require.Equal(t, http.StatusOK, s.send(http.MethodGet, "/v1/merchant", "").StatusCode)
	require.Equal(t, http.StatusForbidden, s.send(http.MethodGet, "/v1/operator", "").StatusCode)
	require.JSONEq(t, `{"next":"/"}`, s.send(http.MethodPost, "/auth/logout", "{}").text)
	require.Equal(t, http.StatusUnauthorized, s.send(http.MethodGet, "/v1/buyer", "").StatusCode)
	for _, path := range []string{"/auth/login", CallbackPath} {
		require.Equal(t, http.StatusNotFound, s.send(http.MethodGet, path, "").StatusCode, path)
	}
	require.EqualValues(t, "dev", s.signIn.Method())

	off := newSite(t, func(s *Settings, a *settings.Auth, _ string) *identityProvider {
		*s, a.DevTokens = Settings{}, false
		return nil
	})
	require.Equal(t, http.StatusNotFound, off.send(http.MethodPost, "/auth/dev", `{"user_id":"42"}`).StatusCode)
	require.EqualValues(t, "none", off.signIn.Method())
	none := newSite(t, func(s *Settings, a *settings.Auth, _ string) *identityProvider {
		*s, a.Session.Secrets = Settings{}, nil
		return nil
	})
	require.Equal(t, map[string]any{"signed_in": false}, none.session())
	require.Equal(t, http.StatusNotFound, none.send(http.MethodPost, "/auth/dev", `{"user_id":"42"}`).StatusCode)
	require.EqualValues(t, "none", none.signIn.Method())
}

func TestOpenRedirectsAreRefused(t *testing.T) {
	for next, want := range map[string]string{
		"": "/", "/": "/", "/sales/1": "/sales/1", "/orders?x=1#y": "/orders?x=1#y", "/console/a%20b": "/console/a%20b",
		"//evil.example.com": "/", "https://evil.example.com": "/", "/\\evil.example.com": "/", "\\/evil": "/", "evil": "/",
		"/\t/evil.example.com": "/", "/\n/evil": "/", " /x": "/", "javascript:alert(1)": "/", "/x\x00": "/", "/%5c%5cevil": "/",
		"/%2fevil.example.com": "/", "/auth/login": "/", "/é": "/", "/" + strings.Repeat("x", maxPath): "/", "/%zz": "/",
	} {
		require.Equal(t, want, safePath(next), "%q", next)
	}
}

func TestSettings(t *testing.T) {
	fine := Settings{Issuer: "https://idp.example.com/", ClientID: "x"}
	require.NoError(t, fine.Validate(true))
	require.NoError(t, Settings{}.Validate(true))
	for variable, spoil := range map[string]func(*Settings){
		"OIDC_ISSUER":        func(s *Settings) { s.Issuer = "http://idp.example.com" },
		"OIDC_ISSUER ":       func(s *Settings) { s.Issuer = "idp" },
		"OIDC_CLIENT_ID":     func(s *Settings) { s.ClientID = "" },
		"OIDC_CLIENT_ID ":    func(s *Settings) { s.Issuer = "" },
		"OIDC_CLIENT_SECRET": func(s *Settings) { s.ClientSecret = "x " },
	} {
		s := fine
		spoil(&s)
		require.ErrorContains(t, s.Validate(true), strings.TrimSpace(variable))
	}
	plain := fine
	plain.Issuer = "http://127.0.0.1:1"
	require.NoError(t, plain.Validate(false))
}
