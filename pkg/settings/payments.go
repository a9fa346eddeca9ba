package settings

import (
	"slices"
	"strings"
)

// Sandbox is the payment provider that takes no money.
const Sandbox = "sandbox"

// providers are the names of all payment providers.
var providers = []string{Sandbox}

// Payments names the payment providers of an installation, which order calls and the pages offer.
type Payments struct {
	// Payment providers; the pages offer the first. `sandbox` takes no money, and is refused in production.
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
