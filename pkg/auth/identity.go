// Package auth authenticates callers: buyers and merchants by a JWT, other services of the system by a shared secret.
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

// Role permits a caller more than others.
type Role string

// The roles. An operator may do all that a merchant may.
const (
	Merchant Role = "merchant"
	Operator Role = "operator"
	// Accessible is the role of buyers who need challenges without pictures.
	Accessible Role = "accessible"
)

// Identity is the caller.
type Identity struct {
	UserID string
	Roles  []Role
	// MerchantID names the merchant that the caller acts for. It is "" for a buyer, and for an operator who acts for no
	// merchant.
	MerchantID string
}

// Has reports whether the caller has the rights of role.
func (id Identity) Has(role Role) bool {
	return slices.Contains(id.Roles, role) || role == Merchant && slices.Contains(id.Roles, Operator)
}

type identityKey struct{}

// From returns the caller that Require authenticated, the zero Identity on routes without Require.
func From(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

// With returns ctx with the caller, for tests and for callers that authenticate in another way, such as the ticket of
// an event stream.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

type claims struct {
	jwt.RegisteredClaims
	Roles      []Role `json:"roles,omitempty"`
	MerchantID string `json:"merchant_id,omitempty"`
}

// Mint signs a token with HS256. It is for developers' tokens and tests; real ones come from the identity provider.
func Mint(secret string, id Identity, ttl time.Duration) (string, error) {
	return MintFor(secret, id, ttl, "", "")
}

// MintFor signs a token for a verifier that checks audience and issuer. It leaves out empty ones.
func MintFor(secret string, id Identity, ttl time.Duration, audience, issuer string) (string, error) {
	switch {
	case secret == "":
		return "", errors.New("mint: no secret")
	case !contract.ValidUserID(id.UserID):
		return "", errors.New("mint: user id is malformed")
	case id.MerchantID != "" && !contract.ValidMerchantID(id.MerchantID):
		return "", errors.New("mint: merchant id is malformed")
	case ttl <= 0:
		return "", errors.New("mint: token would be expired")
	}
	for _, role := range id.Roles {
		if !Known(role) {
			return "", fmt.Errorf("mint: role %q is unknown", role)
		}
	}
	now := time.Now()
	c := claims{Roles: id.Roles, MerchantID: id.MerchantID, RegisteredClaims: jwt.RegisteredClaims{
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
