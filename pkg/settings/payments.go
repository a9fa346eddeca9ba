package settings

import (
	"slices"
	"strings"
)

// The payment providers.
const (
	Stripe  = "stripe"  // hosted Checkout of Stripe
	Shop    = "shop"    // the shop takes the payments itself
	Sandbox = "sandbox" // takes no money
)

// providers are the names of all payment providers.
var providers = []string{Stripe, Shop, Sandbox}

// Payments names the payment providers of an installation, which order calls and the pages offer.
type Payments struct {
	// Payment providers; the pages offer the first. With `stripe` buyers pay on the pages of [Stripe](payments.md#stripe),
	// with `shop` [the shop](payments.md) takes the payments itself; `sandbox` takes no money, and is refused in
	// production.
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

// PaymentRate bounds the calls to payment providers.
type PaymentRate struct {
	// Calls of each kind that a payment provider takes in a second, from all processes; further ones wait for their turn,
	// buyers with 503 `provider_busy`. 0: no limit.
	Rate int `env:"PAYMENT_RATE" envDefault:"0"`
}

const maxPaymentRate = 10_000

// Validate reports a wrong rate.
func (r PaymentRate) Validate(bool) error {
	if r.Rate < 0 || r.Rate > maxPaymentRate {
		return Wrong("PAYMENT_RATE", "is %d and must be 0 to %d", r.Rate, maxPaymentRate)
	}
	return nil
}
