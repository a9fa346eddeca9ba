package order

import (
	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/httpapi"
	"flashsale.internal/services/order/internal/payment"
	"flashsale.internal/services/order/internal/payment/sandbox"
	"flashsale.internal/services/order/internal/payment/shop"
	"flashsale.internal/services/order/internal/payment/stripe"
	"flashsale.internal/services/order/internal/record"
	"flashsale.internal/services/order/internal/store"
)

// providers returns the payment providers of the settings, each at its rate over all processes. box is nil without the
// sandbox.
func (p Payments) providers(deps Deps, limits *admission.Limits) (all []core.Provider, box httpapi.Sandbox, err error) {
	if p.Has(settings.Stripe) {
		pages, err := settings.CheckPublicURL(p.PublicURL, false)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, stripe.New(stripe.Config{
			Key: p.StripeKey, WebhookSecrets: p.StripeWebhookSecrets, APIURL: p.StripeAPIURL, PublicURL: pages,
			Methods: p.StripeMethods, Now: deps.Now, Transport: deps.Telemetry.Transport(deps.Transport),
		}))
	}
	if p.Has(settings.Shop) {
		all = append(all, shop.New(shop.Config{
			CheckoutURL: p.ShopCheckoutURL, APIURL: p.ShopAPIURL, Secrets: p.ShopSecrets, Now: deps.Now,
			Transport: deps.Telemetry.Transport(deps.Transport),
		}))
	}
	if p.Has(settings.Sandbox) {
		s := sandbox.New(sandbox.Config{
			Secrets: p.SandboxSecrets, CallbackURL: p.SandboxCallbackURL, Now: deps.Now,
			Transport: deps.Telemetry.Transport(deps.Transport),
		}, store.NewSandboxBook(deps.DB, deps.DatabaseNow))
		all, box = append(all, s), s
	}
	calls, err := record.ProviderCalls(deps.Telemetry.Meter, p.Providers)
	if err != nil {
		return nil, nil, err
	}
	for i, provider := range all {
		all[i] = record.CountCalls(provider, calls)
	}
	if p.Rate == 0 {
		return all, box, nil
	}
	turns, err := limits.Limiter("payment-providers", payment.Rate(p.Rate))
	if err != nil {
		return nil, nil, err
	}
	for i, provider := range all {
		all[i] = payment.Pace(provider, turns)
	}
	return all, box, nil
}
