package settings

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// Auth configures the check of tokens of buyers and merchants: by shared secrets or by published keys, exactly one.
// An empty field of the claims stands for its default.
type Auth struct {
	// Verifies tokens, and signs those of developers: `new,old` while it is rotated. Not together with `AUTH_JWKS_URL`.
	HS256Secrets []string `env:"AUTH_HS256_SECRET" secret:"true"`
	// URL of the published keys that verify tokens.
	JWKSURL string `env:"AUTH_JWKS_URL"`
	// Audience that a token must have; required in production with `AUTH_JWKS_URL`.
	Audience string `env:"AUTH_AUDIENCE"`
	// Issuer that a token must have; required in production with `AUTH_JWKS_URL`.
	Issuer string `env:"AUTH_ISSUER"`
	// `POST /v1/dev/tokens` and `/auth/dev` of seckill sign in any caller; refused in production.
	DevTokens bool `env:"AUTH_DEV_TOKENS"`
	// Accepted values of a token's header `typ`, as media types. A token without it is of type JWT.
	Types []string `env:"AUTH_TYP" envDefault:"at+jwt,JWT"`
	// Longest accepted lifetime of a token, from `iat` to `exp`.
	MaxLife time.Duration `env:"AUTH_MAX_LIFE" envDefault:"24h"`
	// Claim with the user, or the path to it, such as `realm_access.roles`.
	UserClaim string `env:"AUTH_USER_CLAIM" envDefault:"sub"`
	// Claim with the roles, or the path to it.
	RolesClaim string `env:"AUTH_ROLES_CLAIM" envDefault:"roles"`
	// Claim with the merchant, or the path to it.
	MerchantClaim string `env:"AUTH_MERCHANT_CLAIM" envDefault:"merchant_id"`
	// Merchant of a token that has a role and no merchant claim.
	DefaultMerchant string `env:"AUTH_DEFAULT_MERCHANT"`

	// Session configures the cookie that is accepted in place of a bearer token.
	Session Session

	// Lenient is set by Load unless APP_ENV is production: a token needs no iat, and with shared secrets a merchant's
	// token without a merchant is of the merchant contract.DefaultMerchant.
	Lenient bool
}

// Defaults of Auth.
const (
	DefaultMaxLife       = 24 * time.Hour
	DefaultUserClaim     = "sub"
	DefaultRolesClaim    = "roles"
	DefaultMerchantClaim = "merchant_id"
)

// DefaultTypes returns the types of tokens that are accepted if none is set.
func DefaultTypes() []string { return []string{"at+jwt", "JWT"} }

// Bounds of MaxLife.
const (
	minTokenLife = time.Minute
	maxTokenLife = 366 * 24 * time.Hour
)

// WithDefaults returns a with the defaults of its empty fields.
func (a Auth) WithDefaults() Auth {
	if len(a.Types) == 0 {
		a.Types = DefaultTypes()
	}
	if a.MaxLife == 0 {
		a.MaxLife = DefaultMaxLife
	}
	if a.Session.TTL == 0 {
		a.Session.TTL = DefaultSessionTTL
	}
	for _, d := range []struct {
		claim *string
		def   string
	}{
		{&a.UserClaim, DefaultUserClaim}, {&a.RolesClaim, DefaultRolesClaim}, {&a.MerchantClaim, DefaultMerchantClaim},
	} {
		if *d.claim == "" {
			*d.claim = d.def
		}
	}
	return a
}

func (a *Auth) developmentDefaults() {
	if len(a.HS256Secrets) == 0 && a.JWKSURL == "" {
		a.HS256Secrets = []string{DevelopmentAuthSecret}
	}
}

// Validate reports the first wrong setting. It sets Lenient.
func (a *Auth) Validate(production bool) error {
	a.Lenient = !production
	if err := a.checkClaims(); err != nil {
		return err
	}
	switch {
	case len(a.HS256Secrets) == 0 && a.JWKSURL == "":
		return Wrong("AUTH_HS256_SECRET", "or AUTH_JWKS_URL is required and neither is set")
	case len(a.HS256Secrets) > 0 && a.JWKSURL != "":
		return Wrong("AUTH_HS256_SECRET", "and AUTH_JWKS_URL are both set; set exactly one")
	case production && a.DevTokens:
		return Wrong("AUTH_DEV_TOKENS", "must not be true with APP_ENV=production")
	case a.DevTokens && len(a.HS256Secrets) == 0:
		return Wrong("AUTH_DEV_TOKENS", "needs AUTH_HS256_SECRET to sign with")
	case a.DevTokens && !a.acceptsOwnTokens():
		return Wrong("AUTH_DEV_TOKENS", "needs the default AUTH_USER_CLAIM, AUTH_ROLES_CLAIM and AUTH_MERCHANT_CLAIM, "+
			"and JWT in AUTH_TYP: developer's tokens have these")
	case len(a.HS256Secrets) > 0:
		return CheckSecrets("AUTH_HS256_SECRET", a.HS256Secrets, production)
	}
	return a.checkKeys(production)
}

// checkKeys reports the first wrong setting of the published keys.
func (a *Auth) checkKeys(production bool) error {
	u, err := url.Parse(a.JWKSURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return Wrong("AUTH_JWKS_URL", "is not an http or https URL")
	case production && u.Scheme != "https":
		return Wrong("AUTH_JWKS_URL", "must be an https URL with APP_ENV=production")
	// A provider signs the tokens of other systems with the same keys.
	case production && a.Audience == "":
		return Wrong("AUTH_AUDIENCE", "is required with AUTH_JWKS_URL and APP_ENV=production, and not set")
	case production && a.Issuer == "":
		return Wrong("AUTH_ISSUER", "is required with AUTH_JWKS_URL and APP_ENV=production, and not set")
	}
	return nil
}

// checkClaims reports the first wrong setting of what a token holds.
func (a *Auth) checkClaims() error {
	for _, typ := range a.Types {
		if typ == "" || strings.TrimSpace(typ) != typ {
			return Wrong("AUTH_TYP", "is %q, which is not a list such as at+jwt,JWT", strings.Join(a.Types, ","))
		}
	}
	if a.MaxLife != 0 && (a.MaxLife < minTokenLife || a.MaxLife > maxTokenLife) {
		return Wrong("AUTH_MAX_LIFE", "is %s and must be %s to %s", a.MaxLife, minTokenLife, maxTokenLife)
	}
	for _, c := range []struct{ variable, claim string }{
		{"AUTH_USER_CLAIM", a.UserClaim}, {"AUTH_ROLES_CLAIM", a.RolesClaim}, {"AUTH_MERCHANT_CLAIM", a.MerchantClaim},
	} {
		if strings.TrimSpace(c.claim) != c.claim {
			return Wrong(c.variable, "has a blank before or after the name of the claim")
		}
	}
	if a.DefaultMerchant != "" && !contract.ValidMerchantID(a.DefaultMerchant) {
		return Wrong("AUTH_DEFAULT_MERCHANT", "is %q and must be 1 to 64 of A-Z a-z 0-9 _ . -", a.DefaultMerchant)
	}
	return nil
}

// acceptsOwnTokens reports whether tokens of the system itself pass: their claims have the default names.
func (a *Auth) acceptsOwnTokens() bool {
	s := a.WithDefaults()
	return s.UserClaim == DefaultUserClaim && s.RolesClaim == DefaultRolesClaim &&
		s.MerchantClaim == DefaultMerchantClaim &&
		slices.ContainsFunc(s.Types, func(typ string) bool { return MediaType(typ) == MediaType("JWT") })
}

// MediaType returns the full name of the media type that a header typ or AUTH_TYP means, in lower case. A name
// without a slash has the prefix application/ (RFC 7515, section 4.1.9).
func MediaType(typ string) string {
	if !strings.Contains(typ, "/") {
		typ = "application/" + typ
	}
	return strings.ToLower(typ)
}

// Internal holds the secrets with which services authenticate to each other.
type Internal struct {
	// For calls between the services: `new,old` while it is rotated. The first is sent, all are accepted.
	Secrets []string `env:"INTERNAL_SECRET" secret:"true"`
}

func (i *Internal) developmentDefaults() {
	if len(i.Secrets) == 0 {
		i.Secrets = []string{DevelopmentInternalSecret}
	}
}

// Validate reports the first wrong setting.
func (i Internal) Validate(production bool) error {
	return CheckSecrets("INTERNAL_SECRET", i.Secrets, production)
}
