package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "0123456789abcdef0123456789abcdef"

func verifier(t *testing.T, s settings.Auth) *Verifier {
	t.Helper()
	v, err := NewVerifier(s, nil)
	require.NoError(t, err)
	return v
}

// sign returns a token with the given claims.
func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(key)
	require.NoError(t, err)
	return s
}

func good(changes ...any) jwt.MapClaims {
	c := jwt.MapClaims{"sub": "42", "exp": time.Now().Add(time.Minute).Unix(), "aud": "shop", "iss": "idp"}
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == nil {
			delete(c, changes[i].(string))
			continue
		}
		c[changes[i].(string)] = changes[i+1]
	}
	return c
}

// call sends a request through Require and returns the response and the caller that Require admitted.
func call(v *Verifier, authorization string, roles ...Role) (*http.Response, Identity) {
	var who Identity
	h := v.Require(roles...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = From(r.Context()) }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), who
}

func code(t *testing.T, resp *http.Response) string {
	t.Helper()
	var doc struct{ Code string }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&doc))
	return doc.Code
}

func TestHS256Tokens(t *testing.T) {
	v := verifier(t, settings.Auth{Lenient: true, HS256Secrets: []string{secret}, Audience: "shop", Issuer: "idp"})
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	hs := func(c jwt.MapClaims) string { return sign(t, jwt.SigningMethodHS256, []byte(secret), "", c) }
	whole := hs(good())
	for name, c := range map[string]struct {
		authorization string
		ok            bool
	}{
		"good":               {"Bearer " + whole, true},
		"scheme in any case": {"bearer " + whole, true},
		"audience list":      {"Bearer " + hs(good("aud", []string{"other", "shop"})), true},
		"within the leeway":  {"Bearer " + hs(good("exp", time.Now().Unix())), true},
		"missing":            {"", false},
		"other scheme":       {"Basic " + whole, false},
		"no token":           {"Bearer ", false},
		"malformed":          {"Bearer abc", false},
		"expired":            {"Bearer " + hs(good("exp", time.Now().Add(-time.Minute).Unix())), false},
		"no exp":             {"Bearer " + hs(good("exp", nil)), false},
		"not yet":            {"Bearer " + hs(good("nbf", time.Now().Add(time.Minute).Unix())), false},
		"issued in future":   {"Bearer " + hs(good("iat", time.Now().Add(time.Minute).Unix())), false},
		"alg none":           {"Bearer " + sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", good()), false},
		"other secret":       {"Bearer " + sign(t, jwt.SigningMethodHS256, []byte(secret+"x"), "", good()), false},
		"other alg, same":    {"Bearer " + sign(t, jwt.SigningMethodHS512, []byte(secret), "", good()), false},
		"RS256":              {"Bearer " + sign(t, jwt.SigningMethodRS256, rsaKey, "", good()), false},
		"other audience":     {"Bearer " + hs(good("aud", "bank")), false},
		"no audience":        {"Bearer " + hs(good("aud", nil)), false},
		"other issuer":       {"Bearer " + hs(good("iss", "evil")), false},
		"no issuer":          {"Bearer " + hs(good("iss", nil)), false},
		"no sub":             {"Bearer " + hs(good("sub", nil)), false},
		"empty sub":          {"Bearer " + hs(good("sub", "")), false},
		"sub is a number":    {"Bearer " + hs(good("sub", 42)), false},
		"roles are a string": {"Bearer " + hs(good("roles", "operator")), false},
		"cut":                {"Bearer " + whole[:len(whole)-3], false},
		"changed":            {"Bearer " + strings.Replace(whole, ".", ".e", 1), false},
		"too long":           {"Bearer " + hs(good("pad", strings.Repeat("a", maxToken))), false},
	} {
		t.Run(name, func(t *testing.T) {
			resp, who := call(v, c.authorization)
			if c.ok {
				require.Equal(t, 200, resp.StatusCode)
				require.Equal(t, "42", who.UserID)
				return
			}
			require.Equal(t, 401, resp.StatusCode)
			require.Equal(t, "unauthenticated", code(t, resp))
			require.True(t, strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer"))
			require.Empty(t, who)
		})
	}
}

// A verifier is lenient only with Lenient, which Load sets outside of production.
func TestSettingsThatWereNotLoadedAreStrict(t *testing.T) {
	strict := verifier(t, settings.Auth{HS256Secrets: []string{secret}})
	lenient := verifier(t, settings.Auth{Lenient: true, HS256Secrets: []string{secret}})
	bearer := func(changes ...any) string {
		return "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(secret), "", good(changes...))
	}
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"no iat":      {bearer(), http.StatusUnauthorized},
		"no merchant": {bearer("iat", time.Now().Unix(), "roles", []Role{Merchant}), http.StatusForbidden},
	} {
		resp, _ := call(strict, c.token, Merchant)
		require.Equal(t, c.want, resp.StatusCode, name)
	}
	resp, _ := call(lenient, bearer("roles", []Role{Merchant}), Merchant)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestTwoAuthorizationHeadersAreRefused(t *testing.T) {
	v := verifier(t, settings.Auth{Lenient: true, HS256Secrets: []string{secret}})
	token, err := Mint(secret, Identity{UserID: "42"}, time.Minute)
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Add("Authorization", "Bearer "+token)
	r.Header.Add("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	v.Require()(http.NotFoundHandler()).ServeHTTP(w, r)
	require.Equal(t, 401, w.Code)
}

func TestRoles(t *testing.T) {
	v := verifier(t, settings.Auth{Lenient: true, HS256Secrets: []string{secret}})
	for name, c := range map[string]struct {
		has, needs []Role
		status     int
	}{
		"buyer anywhere":            {nil, nil, 200},
		"merchant buys":             {[]Role{Merchant}, nil, 200},
		"buyer as merchant":         {nil, []Role{Merchant}, 403},
		"merchant":                  {[]Role{Merchant}, []Role{Merchant}, 200},
		"operator is merchant":      {[]Role{Operator}, []Role{Merchant}, 200},
		"merchant is no operator":   {[]Role{Merchant}, []Role{Operator}, 403},
		"operator":                  {[]Role{Operator}, []Role{Operator}, 200},
		"one of two":                {[]Role{Operator}, []Role{Merchant, Operator}, 200},
		"unknown roles are ignored": {[]Role{"admin"}, []Role{Merchant}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			token := sign(t, jwt.SigningMethodHS256, []byte(secret), "", good("roles", c.has))
			resp, _ := call(v, "Bearer "+token, c.needs...)
			require.Equal(t, c.status, resp.StatusCode)
			if c.status == 403 {
				require.Equal(t, "forbidden", code(t, resp))
			}
		})
	}
}

func TestMint(t *testing.T) {
	v := verifier(t, settings.Auth{Lenient: true, HS256Secrets: []string{secret}, Audience: "shop", Issuer: "idp"})
	want := Identity{UserID: "a.b-c_1", Roles: []Role{Merchant}, MerchantID: "m-1"}
	token, err := MintFor(secret, want, time.Minute, "shop", "idp")
	require.NoError(t, err)
	got, err := v.Verify(context.Background(), token)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, bad := range []func() (string, error){
		func() (string, error) { return Mint("", want, time.Minute) },
		func() (string, error) { return Mint(secret, Identity{UserID: "a b"}, time.Minute) },
		func() (string, error) { return Mint(secret, want, 0) },
		func() (string, error) { return Mint(secret, Identity{UserID: "1", Roles: []Role{"god"}}, time.Minute) },
	} {
		_, err := bad()
		require.Error(t, err)
	}
}

func TestExactlyOneSourceOfKeys(t *testing.T) {
	for _, s := range []settings.Auth{{}, {HS256Secrets: []string{secret}, JWKSURL: "http://127.0.0.1/"}} {
		_, err := NewVerifier(s, nil)
		require.ErrorContains(t, err, "AUTH_HS256_SECRET")
	}
}

func TestInternal(t *testing.T) {
	const old = secret + "-old"
	for name, c := range map[string]struct {
		mine   []string
		sent   string
		status int
	}{
		"right": {[]string{secret}, secret, 200}, "wrong": {[]string{secret}, secret + "x", 401}, "none": {[]string{secret}, "", 401},
		"unset": {nil, "", 401}, "empty": {[]string{""}, "", 401}, "prefix": {[]string{secret}, secret[:8], 401},
		"new": {[]string{secret, old}, secret, 200}, "old": {[]string{secret, old}, old, 200},
		"neither": {[]string{secret, old}, "x", 401}, "both": {[]string{secret, old}, secret + "," + old, 401},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			if c.sent != "" {
				SignInternal(r, c.sent)
			}
			w := httptest.NewRecorder()
			Internal(c.mine...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code)
		})
	}
}

// provider is an identity provider that publishes keys.
type provider struct {
	*httptest.Server
	set  atomic.Pointer[[]byte] // nil = 503
	hits atomic.Int32
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(p.handler())
	t.Cleanup(p.Close)
	return p
}

func newTLSProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewTLSServer(p.handler())
	t.Cleanup(p.Close)
	return p
}

func (p *provider) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.hits.Add(1)
		body := p.set.Load()
		if body == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(*body)
	})
}

func (p *provider) publish(t *testing.T, keys ...jose.JSONWebKey) {
	t.Helper()
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	p.set.Store(&body)
}

func (p *provider) verifier(t *testing.T) *Verifier {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	v, err := NewVerifier(settings.Auth{Lenient: true, JWKSURL: p.URL}, client)
	require.NoError(t, err)
	return v
}

func jwk(key crypto.PublicKey, kid, alg string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key, KeyID: kid, Algorithm: alg, Use: "sig"}
}

func TestPublishedKeys(t *testing.T) {
	one, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := newProvider(t)
	p.publish(t, jwk(&one.PublicKey, "one", "RS256"), jwk(&curve.PublicKey, "curve", ""),
		jose.JSONWebKey{Key: &other.PublicKey, KeyID: "enc", Use: "enc"}, jose.JSONWebKey{Key: []byte(secret), KeyID: "oct"})
	v := p.verifier(t)
	der, err := x509.MarshalPKIXPublicKey(&one.PublicKey)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"RS256":                  {sign(t, jwt.SigningMethodRS256, one, "one", good()), 200},
		"ES256":                  {sign(t, jwt.SigningMethodES256, curve, "curve", good()), 200},
		"no kid, one fits":       {sign(t, jwt.SigningMethodRS256, one, "", good()), 401}, // the curve key has no alg, so two fit
		"other key":              {sign(t, jwt.SigningMethodRS256, other, "one", good()), 401},
		"unknown kid":            {sign(t, jwt.SigningMethodRS256, one, "two", good()), 401},
		"alg not the key's":      {sign(t, jwt.SigningMethodPS256, one, "one", good()), 401},
		"encryption key":         {sign(t, jwt.SigningMethodRS256, other, "enc", good()), 401},
		"public key as a secret": {sign(t, jwt.SigningMethodHS256, der, "one", good()), 401},
		"published secret":       {sign(t, jwt.SigningMethodHS256, []byte(secret), "oct", good()), 401},
		"alg none":               {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "one", good()), 401},
		"expired":                {sign(t, jwt.SigningMethodRS256, one, "one", good("exp", 1)), 401},
	} {
		t.Run(name, func(t *testing.T) {
			resp, _ := call(v, "Bearer "+c.token)
			require.Equal(t, c.status, resp.StatusCode)
		})
	}
	require.EqualValues(t, 1, p.hits.Load(), "tokens with unknown keys cause no further fetch")
}

func TestFetchIsRetriedWhenKeysAreMissingAtTheStart(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := newProvider(t)
	v := p.verifier(t)
	token := sign(t, jwt.SigningMethodRS256, key, "k", good())

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- v.Component(slog.New(slog.DiscardHandler)).Run(ctx) }()
	require.Eventually(t, func() bool { return p.hits.Load() > 0 }, 30*time.Second, time.Millisecond)
	resp, _ := call(v, "Bearer "+token)
	require.Equal(t, 503, resp.StatusCode, "without keys the token is not refused as invalid")
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	require.Empty(t, resp.Header.Get("WWW-Authenticate"))

	p.publish(t, jwk(&key.PublicKey, "k", ""))
	require.Eventually(t, func() bool { _, err := v.Verify(context.Background(), token); return err == nil }, 30*time.Second, 10*time.Millisecond)
	p.set.Store(nil)
	_, err = v.Verify(context.Background(), token)
	require.NoError(t, err, "keys stay in use after a failed fetch")
	cancel()
	require.NoError(t, <-ended)
}

func TestATokenWithANewKeyCausesAFetch(t *testing.T) {
	before, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	after, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := newProvider(t)
	p.publish(t, jwk(&before.PublicKey, "before", ""))
	v := p.verifier(t)
	_, err = v.Verify(context.Background(), sign(t, jwt.SigningMethodRS256, before, "before", good()))
	require.NoError(t, err)

	p.publish(t, jwk(&before.PublicKey, "before", ""), jwk(&after.PublicKey, "after", ""))
	rotated := sign(t, jwt.SigningMethodRS256, after, "after", good())
	_, err = v.Verify(context.Background(), rotated)
	require.Equal(t, contract.CodeUnauthenticated, contract.CodeOf(err), "the last fetch was less than minInterval ago")
	v.keys.mu.Lock()
	v.keys.fetched = time.Now().Add(-minInterval)
	v.keys.mu.Unlock()
	_, err = v.Verify(context.Background(), rotated)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.hits.Load())
}

func TestBadKeySetsChangeNothing(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := newProvider(t)
	p.publish(t, jwk(&key.PublicKey, "k", ""))
	v := p.verifier(t)
	token := sign(t, jwt.SigningMethodRS256, key, "k", good())
	require.NoError(t, v.keys.fetch(context.Background()))
	for _, body := range []string{"", "{}", `{"keys":[]}`, "<html>", strings.Repeat(" ", maxKeySet+1)} {
		b := []byte(body)
		p.set.Store(&b)
		require.Error(t, v.keys.fetch(context.Background()))
	}
	_, err = v.Verify(context.Background(), token)
	require.NoError(t, err)

	// A key of an unknown type does not invalidate the others.
	raw, err := json.Marshal(jwk(&key.PublicKey, "k", ""))
	require.NoError(t, err)
	mixed := []byte(`{"keys":[{"kty":"NEW","kid":"n"},` + string(raw) + `]}`)
	p.set.Store(&mixed)
	require.NoError(t, v.keys.fetch(context.Background()))
	_, err = v.Verify(context.Background(), token)
	require.NoError(t, err)
}
