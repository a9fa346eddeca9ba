package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

const issuer = "https://idp.example/"

// api is a service with one route for each kind of caller.
type api struct {
	*httptest.Server
	verifier *Verifier
}

// newAPI starts a service with these settings of its environment. The client fetches keys.
func newAPI(t *testing.T, client *http.Client, environ map[string]string) api {
	t.Helper()
	var cfg struct {
		settings.App
		settings.Auth
	}
	require.NoError(t, settings.Load(&cfg, environ))
	v, err := NewVerifier(cfg.Auth, client)
	require.NoError(t, err)
	mux := http.NewServeMux()
	for path, roles := range map[string][]Role{"/buyer": nil, "/merchant": {Merchant}, "/operator": {Operator}} {
		mux.Handle(path, v.Require(roles...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := From(r.Context())
			_ = json.NewEncoder(w).Encode(map[string]string{"user": who.UserID, "merchant": who.MerchantID})
		})))
	}
	a := api{httptest.NewServer(mux), v}
	t.Cleanup(a.Close)
	return a
}

// call returns the status, the code of a refusal, and the caller that the service saw.
func (a api) call(t *testing.T, path, token string) (status int, code, user, merchant string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := a.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var doc struct{ Code, User, Merchant string }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&doc))
	return resp.StatusCode, doc.Code, doc.User, doc.Merchant
}

// access returns the claims of a good access token of the provider, with changes; nil removes a claim.
func access(changes ...any) jwt.MapClaims {
	now := time.Now()
	c := jwt.MapClaims{"sub": "42", "aud": "shop", "iss": issuer, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	return changed(c, changes)
}

func changed[M ~map[string]any](m M, changes []any) M {
	for i := 0; i < len(changes); i += 2 {
		if name := changes[i].(string); changes[i+1] == nil {
			delete(m, name)
		} else {
			m[name] = changes[i+1]
		}
	}
	return m
}

// issue signs a token. The changes are those of its header.
func issue(t *testing.T, method jwt.SigningMethod, key any, c jwt.MapClaims, changes ...any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	changed(token.Header, changes)
	s, err := token.SignedString(key)
	require.NoError(t, err)
	return s
}

// TestTokensOverHTTP is the table of tokens and of the status and code that each gets. Run it with -v to print it.
func TestTokensOverHTTP(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	withdrawn, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})

	idp := newTLSProvider(t)
	idp.publish(t, jwk(&key.PublicKey, "one", "RS256"), jwk(&withdrawn.PublicKey, "old", "RS256"))
	keys := map[string]string{
		"APP_ENV": "production", "AUTH_JWKS_URL": idp.URL, "AUTH_AUDIENCE": "shop", "AUTH_ISSUER": issuer,
	}
	shared := map[string]string{"APP_ENV": "production", "AUTH_HS256_SECRET": secret + "," + secret + "-old"}
	with := func(base map[string]string, pairs ...string) map[string]string {
		m := maps.Clone(base)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	client := idp.Client()
	apis := map[string]api{
		"JWKS prod":         newAPI(t, client, keys),
		"JWKS prod default": newAPI(t, client, with(keys, "AUTH_DEFAULT_MERCHANT", "acme")),
		"JWKS prod at+jwt":  newAPI(t, client, with(keys, "AUTH_TYP", "at+jwt")),
		"JWKS prod 1h": newAPI(t, client, with(keys, "AUTH_MAX_LIFE", "1h", "AUTH_USER_CLAIM", "email",
			"AUTH_ROLES_CLAIM", "realm_access.roles", "AUTH_MERCHANT_CLAIM", "https://shop.example/merchant")),
		"JWKS dev":           newAPI(t, client, with(keys, "APP_ENV", "development")),
		"HS256 prod":         newAPI(t, nil, shared),
		"HS256 prod default": newAPI(t, nil, with(shared, "AUTH_DEFAULT_MERCHANT", "acme")),
		"HS256 dev":          newAPI(t, nil, with(shared, "APP_ENV", "development")),
		"HS256 dev default":  newAPI(t, nil, with(shared, "APP_ENV", "development", "AUTH_DEFAULT_MERCHANT", "acme")),
	}

	rs := func(c jwt.MapClaims, header ...any) string {
		return issue(t, jwt.SigningMethodRS256, key, c, append([]any{"kid", "one"}, header...)...)
	}
	hs := func(c jwt.MapClaims) string { return issue(t, jwt.SigningMethodHS256, []byte(secret), c) }
	now := time.Now()
	// lives returns the claims of a token that is valid for d. Both of its times come from one reading of the clock.
	lives := func(d time.Duration, changes ...any) jwt.MapClaims {
		return access(append([]any{"iat", now.Unix(), "exp", now.Unix() + int64(d/time.Second)}, changes...)...)
	}
	merchant, operator, both := []string{"merchant"}, []string{"operator"}, []string{"merchant", "operator"}
	mapped := UserID("ann@example.com")
	keycloak := access("email", "ann", "realm_access", map[string]any{"roles": merchant}, "https://shop.example/merchant", "m-7")

	const refused, forbidden = "401 unauthenticated", "403 forbidden"
	rows := []struct {
		name, api, path, token string
		want                   string // status and code, or status, user and merchant
	}{
		{"good", "JWKS prod", "/buyer", rs(access()), "200 42 -"},
		{"good, audience in a list", "JWKS prod", "/buyer", rs(access("aud", []string{"account", "shop"})), "200 42 -"},

		{"forged: other key, known kid", "JWKS prod", "/buyer", issue(t, jwt.SigningMethodRS256, foreign, access(), "kid", "one"), refused},
		{"forged: payload changed", "JWKS prod", "/buyer", swapPayload(rs(access()), rs(access("sub", "43"))), refused},
		{"forged: signature cut", "JWKS prod", "/buyer", strings.TrimRight(rs(access()), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), refused},
		{"foreign issuer", "JWKS prod", "/buyer", rs(access("iss", "https://evil.example/")), refused},
		{"foreign issuer: without the slash", "JWKS prod", "/buyer", rs(access("iss", strings.TrimSuffix(issuer, "/"))), refused},
		{"no issuer", "JWKS prod", "/buyer", rs(access("iss", nil)), refused},
		{"wrong aud", "JWKS prod", "/buyer", rs(access("aud", "bank")), refused},
		{"no aud", "JWKS prod", "/buyer", rs(access("aud", nil)), refused},
		{"none", "JWKS prod", "/buyer", issue(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, access(), "kid", "one"), refused},
		{"none", "HS256 prod", "/buyer", issue(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, access()), refused},
		{"HS256 signed with the public key, PEM", "JWKS prod", "/buyer", issue(t, jwt.SigningMethodHS256, public, access(), "kid", "one"), refused},
		{"HS256 signed with the public key, DER", "JWKS prod", "/buyer", issue(t, jwt.SigningMethodHS256, der, access(), "kid", "one"), refused},
		{"algorithm not that of the key", "JWKS prod", "/buyer", issue(t, jwt.SigningMethodPS256, key, access(), "kid", "one"), refused},
		{"unknown kid", "JWKS prod", "/buyer", issue(t, jwt.SigningMethodRS256, key, access(), "kid", "two"), refused},
		{"critical extension", "JWKS prod", "/buyer", rs(access(), "crit", []string{"x"}, "x", 1), refused},

		{"expired", "JWKS prod", "/buyer", rs(access("iat", now.Add(-2*time.Hour).Unix(), "exp", now.Add(-time.Minute).Unix())), refused},
		{"no exp", "JWKS prod", "/buyer", rs(access("exp", nil)), refused},
		{"not yet valid", "JWKS prod", "/buyer", rs(access("nbf", now.Add(30*time.Minute).Unix())), refused},
		{"overlong: 8 KiB", "JWKS prod", "/buyer", rs(access("pad", strings.Repeat("a", maxToken))), refused},
		{"overlong: lives 24 h and 1 s", "JWKS prod", "/buyer", rs(lives(24*time.Hour + time.Second)), refused},
		{"lives 24 h", "JWKS prod", "/buyer", rs(lives(24 * time.Hour)), "200 42 -"},
		{"overlong: lives 1 h and 1 s of 1 h", "JWKS prod 1h", "/buyer", rs(lives(time.Hour+time.Second, "email", "ann")), refused},
		{"overlong: issued long ago", "JWKS prod", "/buyer", rs(access("iat", now.Add(-24*time.Hour).Unix())), refused},
		{"missing iat", "JWKS prod", "/buyer", rs(access("iat", nil)), refused},
		{"missing iat", "HS256 prod", "/buyer", hs(access("iat", nil)), refused},
		{"missing iat", "JWKS dev", "/buyer", rs(access("iat", nil)), "200 42 -"},
		{"missing iat", "HS256 dev", "/buyer", hs(access("iat", nil)), "200 42 -"},
		{"missing iat, overlong", "HS256 dev", "/buyer", hs(access("iat", nil, "exp", now.Add(25*time.Hour).Unix())), refused},
		{"iat in the future", "JWKS prod", "/buyer", rs(access("iat", now.Add(30*time.Minute).Unix())), refused},
		{"iat is a string", "JWKS prod", "/buyer", rs(access("iat", "now")), refused},

		{"typ at+jwt", "JWKS prod", "/buyer", rs(access(), "typ", "at+jwt"), "200 42 -"},
		{"typ application/AT+JWT", "JWKS prod", "/buyer", rs(access(), "typ", "application/AT+JWT"), "200 42 -"},
		{"typ jwt", "JWKS prod", "/buyer", rs(access(), "typ", "jwt"), "200 42 -"},
		{"typ missing", "JWKS prod", "/buyer", rs(access(), "typ", nil), "200 42 -"},
		{"wrong typ: logout+jwt", "JWKS prod", "/buyer", rs(access(), "typ", "logout+jwt"), refused},
		{"wrong typ: text/jwt", "JWKS prod", "/buyer", rs(access(), "typ", "text/jwt"), refused},
		{"wrong typ: empty", "JWKS prod", "/buyer", rs(access(), "typ", ""), refused},
		{"wrong typ: a number", "JWKS prod", "/buyer", rs(access(), "typ", 1), refused},
		{"AUTH_TYP=at+jwt, typ at+jwt", "JWKS prod at+jwt", "/buyer", rs(access(), "typ", "at+jwt"), "200 42 -"},
		{"AUTH_TYP=at+jwt, typ JWT", "JWKS prod at+jwt", "/buyer", rs(access()), refused},
		{"AUTH_TYP=at+jwt, typ missing", "JWKS prod at+jwt", "/buyer", rs(access(), "typ", nil), refused},
		{"ID token: typ ID", "JWKS prod", "/buyer", rs(access("typ", "ID")), refused},
		{"ID token: nonce", "JWKS prod", "/buyer", rs(access("nonce", "n")), refused},
		{"logout token: events", "JWKS prod", "/buyer", rs(access("events", map[string]any{"x": map[string]any{}})), refused},
		{"logout token: typ", "JWKS prod", "/buyer", rs(access("typ", "Logout")), refused},
		{"refresh token", "JWKS prod", "/buyer", rs(access("typ", "Refresh")), refused},
		{"offline token", "JWKS prod", "/buyer", rs(access("typ", "Offline")), refused},
		{"merchant claim: null", "JWKS prod default", "/merchant", rs(access("roles", merchant, "merchant_id", json.RawMessage("null"))), refused},
		{"merchant claim: null in development", "HS256 dev", "/merchant", hs(access("roles", merchant, "merchant_id", json.RawMessage("null"))), refused},
		{"ID token: at_hash", "JWKS prod", "/buyer", rs(access("at_hash", "h")), refused},
		{"access token of Keycloak: typ Bearer", "JWKS prod", "/buyer", rs(access("typ", "Bearer")), "200 42 -"},

		{"user: mapped", "JWKS prod", "/buyer", rs(access("sub", "ann@example.com")), "200 " + mapped + " -"},
		{"user: mapped-id collision", "JWKS prod", "/buyer", rs(access("sub", mapped)), "200 " + UserID(mapped) + " -"},
		{"user: begins with u_", "HS256 dev", "/buyer", hs(access("sub", "u_1")), "200 " + UserID("u_1") + " -"},
		{"user: begins with u", "HS256 dev", "/buyer", hs(access("sub", "u1")), "200 u1 -"},
		{"user: missing", "JWKS prod", "/buyer", rs(access("sub", nil)), refused},
		{"user: empty", "JWKS prod", "/buyer", rs(access("sub", "")), refused},
		{"user: a number", "JWKS prod", "/buyer", rs(access("sub", 42)), refused},
		{"user: not Unicode", "JWKS prod", "/buyer", rs(access("sub", "a\uFFFDb")), refused},
		{"user, roles, merchant by settings", "JWKS prod 1h", "/merchant", rs(keycloak), "200 ann m-7"},
		{"user by settings, missing", "JWKS prod 1h", "/buyer", rs(access()), refused},
		{"roles by settings, missing", "JWKS prod 1h", "/merchant", rs(access("email", "ann", "roles", merchant)), forbidden},
		{"roles are a string", "JWKS prod", "/buyer", rs(access("roles", "merchant")), refused},

		{"merchant claim", "JWKS prod", "/merchant", rs(access("roles", merchant, "merchant_id", "m-1")), "200 42 m-1"},
		{"merchant claim: 64 characters", "JWKS prod", "/merchant", rs(access("roles", merchant, "merchant_id", strings.Repeat("m", 64))), "200 42 " + strings.Repeat("m", 64)},
		{"merchant claim: 65 characters", "JWKS prod", "/merchant", rs(access("roles", merchant, "merchant_id", strings.Repeat("m", 65))), refused},
		{"merchant claim: blank", "JWKS prod", "/merchant", rs(access("roles", merchant, "merchant_id", "m 1")), refused},
		{"merchant claim: empty", "JWKS prod default", "/merchant", rs(access("roles", merchant, "merchant_id", "")), refused},
		{"merchant claim: a number", "HS256 dev", "/merchant", hs(access("roles", merchant, "merchant_id", 7)), refused},
		{"merchant claim: a list", "HS256 dev", "/merchant", hs(access("roles", merchant, "merchant_id", []string{"m"})), refused},
		{"merchant claim of a buyer", "JWKS prod", "/buyer", rs(access("merchant_id", "m-1")), "200 42 -"},
		{"merchant claim of an accessible buyer", "JWKS prod", "/buyer", rs(access("roles", []string{"accessible"}, "merchant_id", "m-1")), "200 42 -"},

		{"merchant without claim", "JWKS prod", "/merchant", rs(access("roles", merchant)), forbidden},
		{"merchant without claim, buys", "JWKS prod", "/buyer", rs(access("roles", merchant)), "200 42 -"},
		{"merchant without claim", "JWKS prod default", "/merchant", rs(access("roles", merchant)), "200 42 acme"},
		{"merchant without claim", "JWKS dev", "/merchant", rs(access("roles", merchant)), forbidden},
		{"merchant without claim", "HS256 prod", "/merchant", hs(access("roles", merchant)), forbidden},
		{"merchant without claim", "HS256 prod default", "/merchant", hs(access("roles", merchant)), "200 42 acme"},
		{"merchant without claim", "HS256 dev", "/merchant", hs(access("roles", merchant)), "200 42 default"},
		{"merchant without claim", "HS256 dev default", "/merchant", hs(access("roles", merchant)), "200 42 acme"},
		{"operator without claim", "JWKS prod", "/merchant", rs(access("roles", operator)), "200 42 -"},
		{"operator without claim", "JWKS prod", "/operator", rs(access("roles", both)), "200 42 -"},
		{"operator without claim", "JWKS prod default", "/merchant", rs(access("roles", operator)), "200 42 acme"},
		{"operator without claim", "HS256 dev", "/merchant", hs(access("roles", operator)), "200 42 default"},
		{"operator with claim", "JWKS prod", "/operator", rs(access("roles", operator, "merchant_id", "m-1")), "200 42 m-1"},
		{"merchant on an operator's route", "JWKS prod", "/operator", rs(access("roles", merchant, "merchant_id", "m-1")), forbidden},
		{"buyer on a merchant's route", "JWKS prod", "/merchant", rs(access()), forbidden},

		{"signed with the new secret", "HS256 prod", "/buyer", hs(access()), "200 42 -"},
		{"signed with the old secret", "HS256 prod", "/buyer", issue(t, jwt.SigningMethodHS256, []byte(secret+"-old"), access()), "200 42 -"},
		{"signed with both secrets as one", "HS256 prod", "/buyer", issue(t, jwt.SigningMethodHS256, []byte(secret+","+secret+"-old"), access()), refused},
		{"key before it is withdrawn", "JWKS prod", "/buyer", issue(t, jwt.SigningMethodRS256, withdrawn, access(), "kid", "old"), "200 42 -"},
	}
	t.Logf("| %-38s | %-18s | %-9s | %s", "token", "settings", "route", "response")
	for _, row := range rows {
		check(t, apis[row.api], row.name, row.api, row.path, row.token, row.want)
	}

	// A withdrawn key is out of use after the next fetch, for cached tokens too.
	idp.publish(t, jwk(&key.PublicKey, "one", "RS256"))
	a := apis["JWKS prod"]
	require.NoError(t, a.verifier.keys.fetch(t.Context()))
	last := rows[len(rows)-1]
	check(t, a, "key after it is withdrawn", last.api, last.path, last.token, refused)

	// Tokens with ever new key ids cause one fetch in minInterval.
	a.verifier.keys.mu.Lock()
	a.verifier.keys.fetched = time.Now().Add(-minInterval)
	a.verifier.keys.mu.Unlock()
	before := idp.hits.Load()
	const flood, callers = 400, 16
	tokens := make([]string, flood)
	for i := range tokens {
		tokens[i] = issue(t, jwt.SigningMethodRS256, foreign, access(), "kid", fmt.Sprint("flood-", i))
	}
	var calls sync.WaitGroup
	got := make([]string, flood)
	began := time.Now()
	for caller := range callers {
		calls.Go(func() {
			for i := caller; i < flood; i += callers {
				status, code, _, _ := a.call(t, "/buyer", tokens[i])
				got[i] = fmt.Sprint(status, " ", code)
			}
		})
	}
	calls.Wait()
	slices.Sort(got)
	require.Equal(t, []string{refused}, slices.Compact(got))
	fetches, most := idp.hits.Load()-before, 1+int(time.Since(began)/minInterval)
	t.Logf("| %-38s | %-18s | %-9s | %s, fetches of keys: %d", fmt.Sprintf("kid flood: %d unknown kids", flood), "JWKS prod", "/buyer",
		refused, fetches)
	require.Positive(t, fetches)
	require.LessOrEqual(t, int(fetches), most)
	check(t, a, "good, after the flood", "JWKS prod", "/buyer", rs(access()), "200 42 -")
}

func check(t *testing.T, a api, name, of, path, token, want string) {
	t.Helper()
	status, code, user, merchant := a.call(t, path, token)
	got := fmt.Sprint(status, " ", code)
	if status == http.StatusOK {
		if merchant == "" {
			merchant = "-"
		}
		got = fmt.Sprint(status, " ", user, " ", merchant)
	}
	t.Logf("| %-38s | %-18s | %-9s | %s", name, of, path, got)
	require.Equal(t, want, got, "%s, %s", name, of)
}

// swapPayload returns token with the payload of other.
func swapPayload(token, other string) string {
	parts := strings.Split(token, ".")
	parts[1] = strings.Split(other, ".")[1]
	return strings.Join(parts, ".")
}
