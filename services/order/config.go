// Package order is the order service: orders, payments and refunds. This package composes it; cmd/order runs it as a
// process and allinone runs it beside the other services.
package order

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"flashsale.internal/pkg/seal"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order/internal/payment/stripe"
)

// Config holds the settings of the service. A zero number or duration stands for its default.
type Config struct {
	settings.Auth
	settings.Internal
	settings.Brokerless
	settings.Timers
	Payments Payments
	Contacts Contacts

	// Internal listener of inventory, for messages while RocketMQ is unavailable.
	InventoryURL string `env:"INVENTORY_INTERNAL_URL" envDefault:"http://127.0.0.1:7083"`

	// Age up to which a payment in flight holds its order past the deadline, once.
	PaymentGrace time.Duration `env:"ORDER_PAYMENT_GRACE" envDefault:"120s"`
	// Messages of each topic handled at a time.
	Consumers int `env:"CONSUMERS" envDefault:"4"`
}

// Payments configures the payment providers.
type Payments struct {
	settings.Payments
	settings.PaymentRate
	// Signs the sandbox's callbacks: `new,old` while it is rotated.
	SandboxSecrets []string `env:"PAYMENTS_SANDBOX_SECRET" secret:"true"`
	// Page of the shop on which buyers pay, without a query.
	ShopCheckoutURL string `env:"PAYMENTS_SHOP_CHECKOUT_URL"`
	// Base of the routes that [the shop](payments.md) serves for order.
	ShopAPIURL string `env:"PAYMENTS_SHOP_API_URL"`
	// Signs what order sends to the shop, and the shop's callbacks: `new,old` while it is rotated.
	ShopSecrets []string `env:"PAYMENTS_SHOP_SECRET" secret:"true"`
	// Secret or restricted key of the account at [Stripe](payments.md#stripe).
	StripeKey string `env:"PAYMENTS_STRIPE_KEY" secret:"true"`
	// Verifies the events of Stripe, from its webhook endpoint: `new,old` while it is rotated.
	StripeWebhookSecrets []string `env:"PAYMENTS_STRIPE_WEBHOOK_SECRET" secret:"true"`
	// Payment methods that the account has activated: `card`, `alipay`, `wechat_pay`. A buyer is offered those that take
	// the currency of the order.
	StripeMethods []string `env:"PAYMENTS_STRIPE_METHODS" envDefault:"card"`
	// Base of Stripe's API, for tests.
	StripeAPIURL string `env:"PAYMENTS_STRIPE_API_URL" envDefault:"https://api.stripe.com"`
	// Address of the pages in browsers, such as `https://shop.example.com`, without a path. Required for `stripe`, which
	// leads buyers back.
	PublicURL string `env:"PUBLIC_URL"`
	// Target of the sandbox's callbacks; without it the service's own public listener.
	SandboxCallbackURL string `env:"PAYMENTS_SANDBOX_CALLBACK_URL"`
}

// Contacts configures how the contacts of buyers are kept.
type Contacts struct {
	// Encrypt contacts, each 32 bytes in base64: `new,old` while the key is rotated. The first one encrypts.
	Keys []string `env:"CONTACT_KEYS" secret:"true"`
	// Time after the end of an activity after which the contacts of its orders are deleted; 24h to 43800h.
	Keep time.Duration `env:"CONTACT_KEEP" envDefault:"2160h"`
}

// Validate reports the first wrong setting.
func (c Contacts) Validate(production bool) error {
	if c.Keep != 0 && (c.Keep < 24*time.Hour || c.Keep > 5*365*24*time.Hour) {
		return settings.Wrong("CONTACT_KEEP", "is %s and must be 24h to 43800h", c.Keep)
	}
	if len(c.Keys) == 0 && !production {
		return nil // seal.DevelopmentKey applies
	}
	if _, err := seal.NewKeys(c.Keys); err != nil {
		return settings.Wrong("CONTACT_KEYS", "%v", err)
	}
	if !production {
		return nil
	}
	if err := seal.CheckProduction(c.Keys); err != nil {
		return settings.Wrong("CONTACT_KEYS", "%v", err)
	}
	return nil
}

// sealer returns the keys, that of development if none is set.
func (c Contacts) sealer() (*seal.Keys, error) {
	keys := c.Keys
	if len(keys) == 0 {
		keys = []string{seal.DevelopmentKey}
	}
	sealer, err := seal.NewKeys(keys)
	if err != nil {
		return nil, settings.Wrong("CONTACT_KEYS", "%v", err)
	}
	return sealer, nil
}

// DevelopmentSandboxSecret signs callbacks if no secret is set. Production has no sandbox.
const DevelopmentSandboxSecret = "development-only-secret-of-the-sandbox-provider"

// Validate reports the first wrong setting.
func (p Payments) Validate(production bool) error {
	if err := p.Payments.Validate(production); err != nil {
		return err
	}
	if err := p.PaymentRate.Validate(production); err != nil {
		return err
	}
	if err := p.checkStripe(production); err != nil {
		return err
	}
	if err := p.checkShop(production); err != nil {
		return err
	}
	if !p.Has(settings.Sandbox) {
		return nil
	}
	if len(p.SandboxSecrets) > 0 {
		if err := settings.CheckSecrets("PAYMENTS_SANDBOX_SECRET", p.SandboxSecrets, production); err != nil {
			return err
		}
	}
	if p.SandboxCallbackURL != "" {
		return settings.CheckURL("PAYMENTS_SANDBOX_CALLBACK_URL", p.SandboxCallbackURL)
	}
	return nil
}

// checkStripe reports the first wrong setting of the provider stripe.
func (p Payments) checkStripe(production bool) error {
	if !p.Has(settings.Stripe) {
		return nil
	}
	key := strings.TrimPrefix(strings.TrimPrefix(p.StripeKey, "sk_"), "rk_")
	switch {
	case p.StripeKey == "":
		return settings.Wrong("PAYMENTS_STRIPE_KEY", "is required with the provider stripe, and not set")
	case key == p.StripeKey || strings.TrimSpace(key) != key:
		return settings.Wrong("PAYMENTS_STRIPE_KEY", "is no secret key of Stripe, which begins with sk_ or rk_")
	case production && strings.HasPrefix(key, "test_"):
		return settings.Wrong("PAYMENTS_STRIPE_KEY", "must not be a test key with APP_ENV=production: it takes no money")
	case !production && strings.HasPrefix(key, "live_"):
		return settings.Wrong("PAYMENTS_STRIPE_KEY", "must not be a live key without APP_ENV=production: it takes real money")
	}
	if err := settings.CheckSecrets("PAYMENTS_STRIPE_WEBHOOK_SECRET", p.StripeWebhookSecrets, production); err != nil {
		return err
	}
	if len(p.StripeMethods) == 0 {
		return settings.Wrong("PAYMENTS_STRIPE_METHODS", "is empty and must name at least card")
	}
	for i, m := range p.StripeMethods {
		if slices.Contains(p.StripeMethods[:i], m) {
			return settings.Wrong("PAYMENTS_STRIPE_METHODS", "holds %q twice", m)
		}
		if !stripe.IsMethod(m) {
			return settings.Wrong("PAYMENTS_STRIPE_METHODS", "holds %q, which is none of card, alipay, wechat_pay", m)
		}
	}
	if !slices.Contains(p.StripeMethods, "card") {
		return settings.Wrong("PAYMENTS_STRIPE_METHODS", "must hold card: other methods do not take every currency")
	}
	if err := settings.CheckURL("PAYMENTS_STRIPE_API_URL", p.StripeAPIURL); err != nil {
		return err
	}
	if production && !strings.HasPrefix(p.StripeAPIURL, "https://") {
		return settings.Wrong("PAYMENTS_STRIPE_API_URL", "must be an https URL with APP_ENV=production")
	}
	if p.Rate == 0 {
		return settings.Wrong("PAYMENT_RATE", "is 0 and must be set with the provider stripe, which takes 25 calls of each kind "+
			"a second unless it grants more")
	}
	if p.PublicURL == "" {
		return settings.Wrong("PUBLIC_URL", "is required with the provider stripe, and not set")
	}
	_, err := settings.CheckPublicURL(p.PublicURL, production)
	return err
}

// checkShop reports the first wrong setting of the provider shop.
func (p Payments) checkShop(production bool) error {
	if !p.Has(settings.Shop) {
		return nil
	}
	for _, c := range []struct{ variable, value string }{
		{"PAYMENTS_SHOP_CHECKOUT_URL", p.ShopCheckoutURL}, {"PAYMENTS_SHOP_API_URL", p.ShopAPIURL},
	} {
		if c.value == "" {
			return settings.Wrong(c.variable, "is required with the provider shop, and not set")
		}
		if err := settings.CheckURL(c.variable, c.value); err != nil {
			return err
		}
		u, err := url.Parse(c.value)
		switch {
		case err != nil:
			return settings.Wrong(c.variable, "is not a URL")
		case u.RawQuery != "" || u.Fragment != "":
			return settings.Wrong(c.variable, "must have neither a query nor a fragment")
		case production && u.Scheme != "https":
			return settings.Wrong(c.variable, "must be an https URL with APP_ENV=production")
		}
	}
	return settings.CheckSecrets("PAYMENTS_SHOP_SECRET", p.ShopSecrets, production)
}

// Check reports the first setting that is out of range.
func (c Config) Check() error {
	if _, err := c.timers(); err != nil {
		return err
	}
	if c.PaymentGrace < time.Second || c.PaymentGrace > time.Hour {
		return settings.Wrong("ORDER_PAYMENT_GRACE", "is %s and must be 1s to 1h", c.PaymentGrace)
	}
	if err := settings.CheckURL("INVENTORY_INTERNAL_URL", c.InventoryURL); err != nil {
		return err
	}
	if c.Consumers < 1 || c.Consumers > 64 {
		return settings.Wrong("CONSUMERS", "is %d and must be 1 to 64", c.Consumers)
	}
	return nil
}

// timers are intervals and waits that only tests change.
type timers struct {
	sweepEvery  time.Duration // interval of the sweep for lost closings
	sweepAfter  time.Duration // time past the deadline from which a closing counts as lost
	refundEvery time.Duration // interval of the loop that attempts due refunds

	compareEvery time.Duration // pause between comparisons with a provider
	compareAfter time.Duration // age from which charges and refunds are compared
}

func (c Config) timers() (timers, error) {
	t := timers{sweepEvery: 5 * time.Second, sweepAfter: 30 * time.Second, refundEvery: time.Second}
	t.compareEvery, t.compareAfter = time.Hour, 15*time.Minute
	err := c.SetTimers("order", map[string]*time.Duration{
		"sweep_every": &t.sweepEvery, "sweep_after": &t.sweepAfter, "refund_every": &t.refundEvery,
		"compare_every": &t.compareEvery, "compare_after": &t.compareAfter,
	})
	return t, err
}

func (c Config) withDefaults() Config {
	if len(c.Payments.SandboxSecrets) == 0 {
		c.Payments.SandboxSecrets = []string{DevelopmentSandboxSecret}
	}
	settings.FillDefaults(&c)
	settings.FillDefaults(&c.Contacts)
	return c
}

// CallbackURL returns the URL of the sandbox's callback on a local listener. An unspecified host becomes 127.0.0.1.
func CallbackURL(listenAddr string) (string, error) {
	host, port, err := net.SplitHostPort(listenAddr)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/v1/payments/callbacks/sandbox", nil
}
