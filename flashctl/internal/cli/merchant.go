package cli

import (
	"fmt"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

// actor is the user id of flashctl's tokens with a role. The log of changes records it.
const actor = "flashctl"

// merchantID is the value of a flag that names a merchant.
type merchantID string

// UnmarshalText refuses ids that the services would refuse.
func (m *merchantID) UnmarshalText(text []byte) error {
	if !contract.ValidMerchantID(string(text)) {
		return fmt.Errorf("%q is not 1 to 64 of A-Z a-z 0-9 _ . -", text)
	}
	*m = merchantID(text)
	return nil
}

// merchantFlag selects the merchant that a command acts for.
type merchantFlag struct {
	Merchant merchantID `help:"Id of the merchant to act for; without it the services decide."`
}

// caller returns the identity of the command with this role.
func (f merchantFlag) caller(role auth.Role) auth.Identity {
	return auth.Identity{UserID: actor, Roles: []auth.Role{role}, MerchantID: string(f.Merchant)}
}

// operator returns the identity of commands of operators that act for no merchant.
func operator() auth.Identity { return auth.Identity{UserID: actor, Roles: []auth.Role{auth.Operator}} }
