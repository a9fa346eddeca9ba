package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

// claimRules decide which tokens are accepted, apart from their signature and the checks of the parser. They name the
// claims of the caller.
type claimRules struct {
	types                 []string // media types
	maxLife               time.Duration
	issuedAtRequired      bool
	user, roles, merchant string // names of claims, or paths to them
	defaultMerchant       string // of a caller with a role and without the merchant claim; "" for none
}

func newClaimRules(s settings.Auth) claimRules {
	s = s.WithDefaults()
	r := claimRules{
		maxLife: s.MaxLife, issuedAtRequired: !s.Lenient,
		user: s.UserClaim, roles: s.RolesClaim, merchant: s.MerchantClaim, defaultMerchant: s.DefaultMerchant,
	}
	for _, typ := range s.Types {
		r.types = append(r.types, settings.MediaType(typ))
	}
	// A development token means the one merchant of a small installation. A provider's token without the claim may be
	// a mistake in the provider's settings, which must not give the rights of an existing merchant.
	if r.defaultMerchant == "" && s.Lenient && s.JWKSURL == "" {
		r.defaultMerchant = contract.DefaultMerchant
	}
	return r
}

// checkHeader refuses a token of another type, and one with extensions that must be understood (RFC 7515, section
// 4.1.11). Some providers write no typ; RFC 7519 makes it optional, so such a token counts as a JWT.
func (r claimRules) checkHeader(header map[string]any) error {
	if _, critical := header["crit"]; critical {
		return errors.New("the header has critical extensions")
	}
	typ := "JWT"
	if value, there := header["typ"]; there {
		var ok bool
		if typ, ok = value.(string); !ok {
			return errors.New("the header typ is not a string")
		}
	}
	if !slices.Contains(r.types, settings.MediaType(typ)) {
		return fmt.Errorf("tokens of type %q are not accepted", typ)
	}
	return nil
}

// identity returns the caller that verified claims name, and the time when they expire. Errors are refusals.
func (r claimRules) identity(c jwt.MapClaims, now time.Time) (Identity, time.Time, error) {
	expires, err := r.lifetime(c, now)
	if err != nil {
		return Identity{}, time.Time{}, err
	}
	if !isAccessToken(c) {
		return Identity{}, time.Time{}, unauthenticated("This is no access token.")
	}
	if err := checkNoSession(c); err != nil {
		return Identity{}, time.Time{}, err
	}
	id, err := r.caller(c)
	return id, expires, err
}

// caller returns the caller that the claims name. Errors are refusals.
func (r claimRules) caller(c jwt.MapClaims) (id Identity, err error) {
	claimed, _ := find(c, r.user)
	user, _ := claimed.(string)
	// JSON that is not UTF-8 decodes to U+FFFD. Different claims would then be one user.
	if user == "" || strings.ContainsRune(user, utf8.RuneError) {
		return Identity{}, unauthenticated("The token names no user.")
	}
	id = Identity{UserID: UserID(user)}
	if id.Roles, err = r.rolesOf(c); err != nil {
		return Identity{}, err
	}
	merchant, err := r.merchantOf(c)
	if err != nil {
		return Identity{}, err
	}
	if id.Has(Merchant) {
		id.MerchantID = merchant
	}
	return id, nil
}

// lifetime returns when the token expires. It refuses a token that is valid for too long. Without an iat, if that is
// allowed, the time from now counts.
func (r claimRules) lifetime(c jwt.MapClaims, now time.Time) (time.Time, error) {
	expires, err := c.GetExpirationTime()
	if err != nil || expires == nil {
		return time.Time{}, unauthenticated("The token has no expiry.")
	}
	issued, err := c.GetIssuedAt()
	switch {
	case err != nil || issued == nil && r.issuedAtRequired:
		return time.Time{}, unauthenticated("The token has no time of issue (iat).")
	case issued == nil:
		issued = jwt.NewNumericDate(now)
	}
	if expires.Sub(issued.Time) > r.maxLife {
		return time.Time{}, unauthenticated(fmt.Sprintf("The token is valid for more than %s.", r.maxLife))
	}
	return expires.Time, nil
}

// isAccessToken returns false for the claims of an ID token, a logout token and other tokens that a provider signs with
// the same keys as access tokens, for a client or for itself and not for an API.
func isAccessToken(c jwt.MapClaims) bool {
	typ, _ := c["typ"].(string) // Keycloak writes it into the payload
	if slices.Contains([]string{"id", "logout", "refresh", "offline"}, strings.ToLower(typ)) {
		return false
	}
	for _, claim := range []string{"nonce", "at_hash", "events"} {
		if _, ok := c[claim]; ok {
			return false
		}
	}
	return true
}

// rolesOf returns the roles that this system defines. Identities are cached, and a provider's list may be long.
func (r claimRules) rolesOf(c jwt.MapClaims) ([]Role, error) {
	value, _ := find(c, r.roles)
	claimed, ok := value.([]any)
	if value != nil && !ok {
		return nil, unauthenticated("The token's roles are malformed.")
	}
	var has [len(knownRoles)]bool
	for _, v := range claimed {
		name, ok := v.(string)
		if !ok {
			return nil, unauthenticated("The token's roles are malformed.")
		}
		if i := slices.Index(knownRoles[:], Role(name)); i >= 0 {
			has[i] = true
		}
	}
	var roles []Role
	for i, role := range knownRoles {
		if has[i] {
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// merchantOf returns the merchant that the claims name. Without the claim it returns the default merchant, "" for none.
// It refuses a malformed claim, also that of a caller without a role, who acts for no merchant.
func (r claimRules) merchantOf(c jwt.MapClaims) (string, error) {
	value, found := find(c, r.merchant)
	if !found {
		return r.defaultMerchant, nil
	}
	if id, ok := value.(string); ok && contract.ValidMerchantID(id) {
		return id, nil
	}
	return "", unauthenticated(fmt.Sprintf("The token's claim %s is malformed.", r.merchant))
}

// find returns the claim of that name, or else the one at the path that dots separate. found is true for a claim with
// the value null. Names of claims may hold dots themselves, such as https://shop.example.com/roles.
func find(c jwt.MapClaims, name string) (value any, found bool) {
	if v, ok := c[name]; ok {
		return v, true
	}
	var v any = map[string]any(c)
	for part := range strings.SplitSeq(name, ".") {
		inner, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = inner[part]; !ok {
			return nil, false
		}
	}
	return v, true
}
