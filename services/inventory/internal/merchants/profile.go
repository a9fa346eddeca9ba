package merchants

import (
	"context"
	"net/url"
	"strings"
	"time"
	"unicode"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// Profile is what a merchant states about itself to the buyers of all its sales.
type Profile struct {
	MerchantID string
	core.Seller
	Version   int64      // rises with every change; 0: the merchant has stored none
	UpdatedAt *time.Time // nil: never
}

// Profiles keeps the profiles of merchants. Every method is one transaction.
type Profiles interface {
	// Profile returns the profile of a merchant, with version 0 and no text if none is stored.
	Profile(ctx context.Context, merchantID string) (Profile, error)
	// ChangeProfile locks the profile, calls fn to change it, and writes it and the change.
	ChangeProfile(ctx context.Context, merchantID string, c core.Change, fn func(p *Profile) error) (Profile, error)
}

// The texts of a profile.
var (
	sellerName = contract.Text{Most: 100}
	address    = contract.Text{Most: 500, Optional: true}
	delivery   = contract.Text{Most: 500, Optional: true, Lines: true}
)

// Profile returns the profile of a merchant, with version 0 and no text if none is stored.
func (s *Service) Profile(ctx context.Context, merchantID string) (Profile, error) {
	return s.Deps.Profiles.Profile(ctx, merchantID)
}

// PutProfile replaces the profile of a merchant, if it has the version that ifVersion names. The gate controller writes
// it into the sale documents of all its sales.
func (s *Service) PutProfile(
	ctx context.Context, by core.Caller, merchantID string, seller core.Seller, ifVersion *int64,
) (Profile, error) {
	if err := validateSeller(seller); err != nil {
		return Profile{}, err
	}
	c := core.Change{
		At: s.clock(), Who: by.UserID, Role: by.Role(), Action: "profile.put", Object: "profile",
		Detail: map[string]any{"name": seller.Name, "terms_url": seller.TermsURL, "delivery": seller.Delivery},
	}
	return s.Deps.Profiles.ChangeProfile(ctx, merchantID, c, func(p *Profile) error {
		if err := requireVersion(ifVersion, p.Version); err != nil {
			return err
		}
		p.Seller = seller
		p.Version++
		return nil
	})
}

func validateSeller(s core.Seller) error {
	if err := contract.CheckText("name", s.Name, sellerName); err != nil {
		return err
	}
	if address.Check(s.TermsURL) != "" || s.TermsURL != "" && !secureAddress(s.TermsURL) {
		return contract.InvalidField("terms_url", "must be an https address of at most 500 characters, without a user")
	}
	return contract.CheckText("delivery", s.Delivery, delivery)
}

// secureAddress reports whether s is an absolute address over https. A user name in it could be mistaken for the host.
func secureAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && strings.HasPrefix(s, "https://") && u.Hostname() != "" && u.User == nil &&
		!strings.ContainsFunc(s, unicode.IsSpace)
}
