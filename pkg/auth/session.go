package auth

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

// SessionAudience is the audience of session tokens. A bearer token must not have it.
const SessionAudience = "flashsale-session"

// Names of the session's cookie. A browser takes a cookie with the prefix __Host- only over https and only from this
// host. The plain name is for http on loopback, in development.
const (
	SessionCookie      = "__Host-flashsale"
	PlainSessionCookie = "flashsale"
)

// Sessions issues and checks session tokens, which browsers keep in a cookie that scripts cannot read. A session is
// stateless: it ends with its token, and roles are those of the sign-in.
type Sessions struct {
	secrets jwt.VerificationKeySet
	signing []byte
	parser  *jwt.Parser
	ttl     time.Duration
	// plain allows the cookie of http on loopback.
	plain  bool
	origin *http.CrossOriginProtection
}

// NewSessions returns the sessions by these settings, nil if there is no secret.
func NewSessions(s settings.Auth) *Sessions {
	if len(s.Session.Secrets) == 0 {
		return nil
	}
	out := &Sessions{
		signing: []byte(s.Session.Secrets[0]), ttl: s.Session.TTL, plain: s.Lenient, origin: http.NewCrossOriginProtection(),
		parser: jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithAudience(SessionAudience)),
	}
	if out.ttl == 0 {
		out.ttl = settings.DefaultSessionTTL
	}
	for _, secret := range s.Session.Secrets {
		out.secrets.Keys = append(out.secrets.Keys, []byte(secret))
	}
	return out
}

// Mint signs a session token. The caller's ids must be valid.
func (s *Sessions) Mint(id Identity) (token string, expires time.Time, err error) {
	if !contract.ValidUserID(id.UserID) || id.MerchantID != "" && !contract.ValidMerchantID(id.MerchantID) {
		return "", time.Time{}, errors.New("mint session: malformed id")
	}
	now := time.Now()
	expires = now.Add(s.ttl).Truncate(time.Second)
	c := claims{Roles: id.Roles, MerchantID: id.MerchantID, RegisteredClaims: jwt.RegisteredClaims{
		Subject: id.UserID, Audience: jwt.ClaimStrings{SessionAudience},
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
	}}
	token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(s.signing)
	return token, expires, err
}

// Start signs a caller in: it sets the session's cookie.
func (s *Sessions) Start(w http.ResponseWriter, r *http.Request, id Identity) error {
	token, expires, err := s.Mint(id)
	if err != nil {
		return err
	}
	s.SetCookie(w, r, SessionCookie, token, time.Until(expires))
	return nil
}

// End signs the caller out: it deletes the session's cookie.
func (s *Sessions) End(w http.ResponseWriter, r *http.Request) {
	s.SetCookie(w, r, SessionCookie, "", -1)
}

// SetCookie sets a cookie of the pages for d, or deletes it if d is not positive. name begins with __Host-; over http on
// loopback, in development, the cookie is named without the prefix.
func (s *Sessions) SetCookie(w http.ResponseWriter, r *http.Request, name, value string, d time.Duration) {
	c := &http.Cookie{ //nolint:gosec // without Secure only over http on loopback, in development
		Name: name, Value: value, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(d / time.Second),
	}
	if c.MaxAge <= 0 {
		c.MaxAge = -1 // delete it
	}
	if s.allowsPlain(r) {
		c.Name, c.Secure = plainName(name), false
	}
	http.SetCookie(w, c)
}

// Cookie returns the value of a cookie that SetCookie has set, and whether there is one. Two cookies of one name count
// as none: another site under the same domain may have set one of them.
func (s *Sessions) Cookie(r *http.Request, name string) (value string, found bool) {
	if s.allowsPlain(r) {
		name = plainName(name)
	}
	all := r.CookiesNamed(name)
	if len(all) != 1 || all[0].Value == "" {
		return "", false
	}
	return all[0].Value, true
}

func plainName(name string) string { return strings.TrimPrefix(name, "__Host-") }

// allowsPlain reports whether the cookie of this request has no prefix: over http, on loopback, and not in production.
func (s *Sessions) allowsPlain(r *http.Request) bool {
	if !s.plain || r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// SameOrigin is middleware that refuses requests of other sites, by their headers Sec-Fetch-Site and Origin, unless the
// method is safe.
func (s *Sessions) SameOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.checkOrigin(r); err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Sessions) checkOrigin(r *http.Request) error {
	if err := s.origin.Check(r); err != nil {
		return contract.Refuse(contract.CodeForbidden, "This request comes from another site.").Because(err)
	}
	return nil
}

// Current returns the caller of the session's cookie and when the session ends, false without a valid session.
func (s *Sessions) Current(r *http.Request) (id Identity, expires time.Time, ok bool) {
	token, found := s.Cookie(r, SessionCookie)
	if !found {
		return Identity{}, time.Time{}, false
	}
	id, expires, err := s.parse(token)
	return id, expires, err == nil
}

// parse checks a session token. Errors are refusals.
func (s *Sessions) parse(token string) (Identity, time.Time, error) {
	if len(token) > maxToken {
		return Identity{}, time.Time{}, unauthenticated("The session is too long.")
	}
	var c claims
	_, err := s.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		if _, critical := t.Header["crit"]; critical {
			return nil, errors.New("the header has critical extensions")
		}
		return s.secrets, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Identity{}, time.Time{}, unauthenticated("The session has expired. Sign in again.")
	case err != nil:
		return Identity{}, time.Time{}, unauthenticated("The session is not valid. Sign in again.").Because(err)
	case c.IssuedAt == nil || !contract.ValidUserID(c.Subject) ||
		c.MerchantID != "" && !contract.ValidMerchantID(c.MerchantID):
		return Identity{}, time.Time{}, unauthenticated("The session is malformed. Sign in again.")
	}
	id := Identity{UserID: c.Subject, MerchantID: c.MerchantID}
	for _, role := range knownRoles {
		if slices.Contains(c.Roles, role) {
			id.Roles = append(id.Roles, role)
		}
	}
	return id, c.ExpiresAt.Time, nil
}

// session returns the caller of a request without Authorization, by the session's cookie. found is false if there is no
// such cookie. A request with an unsafe method must come from this origin.
func (v *Verifier) session(r *http.Request) (id Identity, found bool, err error) {
	if v.sessions == nil {
		return Identity{}, false, nil
	}
	token, found := v.sessions.Cookie(r, SessionCookie)
	if !found {
		return Identity{}, false, nil
	}
	if err := v.sessions.checkOrigin(r); err != nil {
		return Identity{}, true, err
	}
	if len(token) > maxToken {
		return Identity{}, true, unauthenticated("The session is too long.")
	}
	// No Authorization header holds the byte 0, so a cached session is never found as a bearer token, nor the reverse.
	hash, now := hashOf("\x00"+token), time.Now()
	known, ok, keys := v.cache.find(hash, now)
	if ok {
		return known, true, nil
	}
	id, expires, err := v.sessions.parse(token)
	if err != nil {
		return Identity{}, true, err
	}
	v.cache.add(hash, id, expires.Add(leeway), now, keys)
	return id, true, nil
}

// IdentityOf returns the caller that the verified claims of an identity provider name, by the settings of the claims.
// Errors are refusals.
func IdentityOf(s settings.Auth, verified map[string]any) (Identity, error) {
	return newClaimRules(s).caller(jwt.MapClaims(verified))
}

// checkNoSession refuses the claims of a session token, which is accepted in its cookie only.
func checkNoSession(c jwt.MapClaims) error {
	audience, err := c.GetAudience()
	if err != nil {
		return unauthenticated("The token's audience is malformed.")
	}
	if slices.Contains(audience, SessionAudience) {
		return unauthenticated(fmt.Sprintf("A token for %s is no bearer token.", SessionAudience))
	}
	return nil
}
