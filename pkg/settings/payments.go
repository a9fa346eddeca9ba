package settings

import (
	"slices"
	"strings"
)

// The payment providers.
const (
	Shop    = "shop"    // the shop takes the payments itself
	Sandbox = "sandbox" // takes no money
)

// providers are the names of all payment providers.
var providers = []string{Shop, Sandbox}

// Payments names the payment providers of an installation, which order calls and the pages offer.
type Payments struct {
	// Payment providers; the pages offer the first. With `shop` [the shop](payments.md) takes the payments itself;
	// `sandbox` takes no money, and is refused in production.
	Providers []string `env:"PAYMENT_PROVIDERS"`
}

// Validate reports the first wrong setting.
func (p Payments) Validate(production bool) error {
	for i, name := range p.Providers {
		switch {
		case !slices.Contains(providers, name):
			return Wrong("PAYMENT_PROVIDERS", "holds %q, which is none of %s", name, strings.Join(providers, ", "))
		case slices.Contains(p.Providers[:i], name):
			return Wrong("PAYMENT_PROVIDERS", "holds %q twice", name)
		case production && name == Sandbox:
			return Wrong("PAYMENT_PROVIDERS", "must not hold sandbox with APP_ENV=production: it takes no money")
		}
	}
	return nil
}

// Has reports whether a provider is among them.
func (p Payments) Has(name string) bool { return slices.Contains(p.Providers, name) }
