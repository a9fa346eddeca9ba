package signin

import (
	"fmt"
	"net/http"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
)

// Developer reads the caller that the body of a request for a developer's token or session names. Errors are refusals.
func Developer(w http.ResponseWriter, r *http.Request) (auth.Identity, error) {
	var body struct {
		UserID     string      `json:"user_id"`
		Roles      []auth.Role `json:"roles"`
		MerchantID *string     `json:"merchant_id"`
	}
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		return auth.Identity{}, err
	}
	if !contract.ValidUserID(body.UserID) {
		return auth.Identity{}, contract.InvalidField("user_id", "must be 1 to 64 of A-Z a-z 0-9 _ . -")
	}
	for i, role := range body.Roles {
		if !auth.Known(role) {
			return auth.Identity{}, contract.InvalidField(fmt.Sprintf("roles[%d]", i), "must be merchant, operator or accessible")
		}
	}
	id := auth.Identity{UserID: body.UserID, Roles: body.Roles}
	if body.MerchantID != nil {
		id.MerchantID = *body.MerchantID
		if !contract.ValidMerchantID(id.MerchantID) {
			return auth.Identity{}, contract.InvalidField("merchant_id", "must be 1 to 64 of A-Z a-z 0-9 _ . -")
		}
	}
	return id, nil
}

// developer returns the caller as a verifier returns it for a developer's token: with the default merchant, if there is
// one.
func (s *SignIn) developer(id auth.Identity) (auth.Identity, error) {
	roles := make([]any, len(id.Roles))
	for i, role := range id.Roles {
		roles[i] = string(role)
	}
	claims := map[string]any{s.claims.UserClaim: id.UserID, s.claims.RolesClaim: roles}
	if id.MerchantID != "" {
		claims[s.claims.MerchantClaim] = id.MerchantID
	}
	return auth.IdentityOf(s.claims, claims)
}
