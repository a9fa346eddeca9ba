package signin

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"

	"flashsale.internal/pkg/auth"
)

// attempt is a sign-in in progress. It lives in a signed cookie of the browser that began it.
type attempt struct {
	State    string `json:"state"`    // comes back from the provider
	Nonce    string `json:"nonce"`    // comes back in the ID token
	Verifier string `json:"verifier"` // of PKCE; proves to the provider that this browser began the sign-in
	Next     string `json:"next"`     // the path to go to after it
}

const (
	attemptCookie   = "__Host-flashsale-sign-in"
	attemptAudience = "flashsale-sign-in"
	attemptTTL      = 10 * time.Minute
)

func newAttempt(next string) attempt {
	return attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: safePath(next)}
}

type attemptClaims struct {
	jwt.RegisteredClaims
	attempt
}

// seal returns the attempt as a token that no one else can make.
func (a attempt) seal(secret string) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, attemptClaims{jwt.RegisteredClaims{
		Audience: jwt.ClaimStrings{attemptAudience}, ExpiresAt: jwt.NewNumericDate(time.Now().Add(attemptTTL)),
	}, a}).SignedString([]byte(secret))
}

var errNoAttempt = errors.New("no sign-in in progress in this browser")

// attemptOf returns the attempt in the request's cookie.
func attemptOf(sessions *auth.Sessions, secrets []string, r *http.Request) (attempt, error) {
	token, found := sessions.Cookie(r, attemptCookie)
	if !found {
		return attempt{}, errNoAttempt
	}
	var keys jwt.VerificationKeySet
	for _, secret := range secrets {
		keys.Keys = append(keys.Keys, []byte(secret))
	}
	var c attemptClaims
	_, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return keys, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithAudience(attemptAudience))
	if err != nil || c.State == "" || c.Nonce == "" || c.Verifier == "" {
		return attempt{}, errNoAttempt
	}
	return c.attempt, nil
}

// maxPath bounds the path to go to after the sign-in, in bytes.
const maxPath = 500

// safePath returns the path if it leads to a page of this origin, and otherwise /. A browser reads // and /\ as the
// beginning of another host, and ignores tabs and line breaks.
func safePath(next string) string {
	if len(next) > maxPath || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsFunc(next, func(c rune) bool { return c <= ' ' || c == '\\' || c >= 0x7f }) {
		return "/"
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.HasPrefix(u.Path, "//") ||
		strings.ContainsAny(u.Path, "\\") || strings.HasPrefix(u.Path, "/auth/") {
		return "/"
	}
	return next
}
