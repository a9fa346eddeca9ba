package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/settings"
)

// leeway is the accepted difference between the clocks of issuer and verifier.
const leeway = 5 * time.Second

// maxToken is the length in bytes above which a token is refused unread.
const maxToken = 8 << 10

// asymmetric lists the algorithms of published keys. None is symmetric: a public key must never serve as a secret.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Verifier checks tokens and caches the result.
type Verifier struct {
	sessions *Sessions // nil if there are none
	parser   *jwt.Parser
	key      func(ctx context.Context, t *jwt.Token) (any, error)
	keys     *keySet // nil with shared secrets
	rules    claimRules
	cache    *cache
}

// NewVerifier returns a verifier that uses the shared secrets, or the keys published at the URL. client fetches the
// keys; nil is a client with a time-out. NewVerifier does not fetch: until the first success, Verify returns a
// refusal with a retry time.
func NewVerifier(s settings.Auth, client *http.Client) (*Verifier, error) {
	opts := []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithLeeway(leeway), jwt.WithIssuedAt()}
	if s.Audience != "" {
		opts = append(opts, jwt.WithAudience(s.Audience))
	}
	if s.Issuer != "" {
		opts = append(opts, jwt.WithIssuer(s.Issuer))
	}
	v := &Verifier{rules: newClaimRules(s), cache: newCache(cacheSize()), sessions: NewSessions(s)}
	switch {
	case len(s.HS256Secrets) > 0 && s.JWKSURL == "":
		var secrets jwt.VerificationKeySet
		for _, secret := range s.HS256Secrets {
			secrets.Keys = append(secrets.Keys, []byte(secret))
		}
		opts = append(opts, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}))
		v.key = func(context.Context, *jwt.Token) (any, error) { return secrets, nil }
	case s.JWKSURL != "" && len(s.HS256Secrets) == 0:
		opts = append(opts, jwt.WithValidMethods(asymmetric))
		v.keys = newKeySet(s.JWKSURL, client)
		v.keys.changed = v.cache.clear
		v.key = v.keys.find
	default:
		return nil, settings.Wrong("AUTH_HS256_SECRET", "or AUTH_JWKS_URL must be set, exactly one of them")
	}
	v.parser = jwt.NewParser(opts...)
	return v, nil
}

// Component refreshes the published keys. With shared secrets it only waits for the end. A Verifier works without it,
// but then fetches keys only while a caller waits.
func (v *Verifier) Component(log *slog.Logger) lifecycle.Component {
	return lifecycle.Component{Name: "token keys", Run: func(ctx context.Context) error {
		if v.keys == nil {
			<-ctx.Done()
			return nil
		}
		return v.keys.keepFresh(ctx, log)
	}}
}

// Verify returns the caller that the token names. Errors are refusals: unauthenticated, or unavailable while there are
// no keys. A token that was verified recently is found in the cache.
func (v *Verifier) Verify(ctx context.Context, token string) (Identity, error) {
	if len(token) > maxToken {
		return Identity{}, unauthenticated("The token is too long.")
	}
	hash := hashOf(token)
	known, ok, keys := v.cache.find(hash, time.Now())
	if ok {
		return known, nil
	}
	c := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(token, c, func(t *jwt.Token) (any, error) {
		if err := v.rules.checkHeader(t.Header); err != nil {
			return nil, err
		}
		return v.key(ctx, t)
	})
	switch {
	case err == nil:
	case errors.Is(err, errNoKeys):
		refusal := contract.Refuse(contract.CodeUnavailable, "Tokens cannot be checked right now.")
		return Identity{}, refusal.After(2 * time.Second).Because(err)
	case errors.Is(err, jwt.ErrTokenExpired):
		return Identity{}, unauthenticated("The token has expired.")
	default:
		return Identity{}, unauthenticated("The token is not valid.").Because(err)
	}
	now := time.Now()
	id, expires, err := v.rules.identity(c, now)
	if err != nil {
		return Identity{}, err
	}
	v.cache.add(hash, id, expires.Add(leeway), now, keys)
	return id, nil
}

func unauthenticated(detail string) *contract.Refusal {
	return contract.Refuse(contract.CodeUnauthenticated, detail)
}

var discard = slog.New(slog.DiscardHandler) // refusals are not logged

func refuse(w http.ResponseWriter, r *http.Request, err error) { problem.Write(w, r, discard, err) }

// Require admits callers with a valid token and, if roles are given, with one of the roles. The token is that of the
// Authorization header, or without that header the one of the session's cookie. From returns the caller.
func (v *Verifier) Require(roles ...Role) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, err := v.authenticate(w, r)
			if err == nil {
				err = v.admit(id, roles)
			}
			if err != nil {
				refuse(w, r, err)
				return
			}
			next.ServeHTTP(w, r.WithContext(With(r.Context(), id)))
		})
	}
}

// authenticate returns the caller. With a refusal it sets WWW-Authenticate.
func (v *Verifier) authenticate(w http.ResponseWriter, r *http.Request) (Identity, error) {
	if r.Header["Authorization"] == nil {
		if id, found, err := v.session(r); found {
			return id, err
		}
	}
	token, err := bearer(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return Identity{}, err
	}
	id, err := v.Verify(r.Context(), token)
	if err != nil && contract.CodeOf(err) == contract.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	return id, err
}

// admit returns a refusal unless the caller has one of the roles, if any are given. The role merchant alone is of use
// only to a caller who acts for a merchant.
func (v *Verifier) admit(id Identity, roles []Role) error {
	if len(roles) == 0 {
		return nil
	}
	if !slices.ContainsFunc(roles, id.Has) {
		return contract.Refuse(contract.CodeForbidden, fmt.Sprintf("This call needs the role %s.", names(roles)))
	}
	if id.MerchantID == "" && !id.Has(Operator) {
		return contract.Refuse(contract.CodeForbidden,
			fmt.Sprintf("The token names no merchant: it has no claim %s.", v.rules.merchant))
	}
	return nil
}

func names(roles []Role) string {
	s := make([]string, len(roles))
	for i, r := range roles {
		s[i] = string(r)
	}
	return strings.Join(s, " or ")
}

// bearer returns the token of the Authorization header.
func bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", unauthenticated("This call needs one Authorization header with a bearer token.")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", unauthenticated("This call needs an Authorization header with a bearer token.")
	}
	return token, nil
}
