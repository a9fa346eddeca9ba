// Package auth tells who calls: buyers and merchants by a JWT, our own services by a shared secret.
package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"flashsale.internal/pkg/contract"
)

// Role is what a caller may do beyond buying.
type Role string

// The roles. An operator may do all that a merchant may.
const (
	Merchant Role = "merchant"
	Operator Role = "operator"
)

// Identity is the caller.
type Identity struct {
	UserID string
	Roles  []Role
}

// Has tells whether the caller may act as role.
func (id Identity) Has(role Role) bool {
	return slices.Contains(id.Roles, role) || role == Merchant && slices.Contains(id.Roles, Operator)
}

type identityKey struct{}

// From is the caller that Require let in; the zero Identity where nothing was required.
func From(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

// With puts the caller into ctx, for tests and for callers who prove themselves in another way (an event stream's
// ticket).
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

type claims struct {
	jwt.RegisteredClaims
	Roles []Role `json:"roles,omitempty"`
}

// Mint signs a token with HS256. It is for developers' tokens and tests; real ones come from the identity provider.
func Mint(secret string, id Identity, ttl time.Duration) (string, error) {
	return MintFor(secret, id, ttl, "", "")
}

// MintFor is Mint for a verifier that checks audience and issuer; empty ones are left out.
func MintFor(secret string, id Identity, ttl time.Duration, audience, issuer string) (string, error) {
	switch {
	case secret == "":
		return "", errors.New("mint: no secret")
	case !contract.ValidUserID(id.UserID):
		return "", errors.New("mint: user id is malformed")
	case ttl <= 0:
		return "", errors.New("mint: token would be expired")
	}
	for _, role := range id.Roles {
		if role != Merchant && role != Operator {
			return "", fmt.Errorf("mint: role %q is unknown", role)
		}
	}
	now := time.Now()
	c := claims{Roles: id.Roles, RegisteredClaims: jwt.RegisteredClaims{
		Subject:   id.UserID,
		Issuer:    issuer,
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}}
	if audience != "" {
		c.Audience = jwt.ClaimStrings{audience}
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString([]byte(secret))
}
