// Package stripe is the payment provider Stripe, https://docs.stripe.com/api. The buyer pays on the hosted page of a
// checkout session, so that neither a foreign script nor card data reach this installation. Captures are automatic: a
// payment that succeeded pays its order or is refunded.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v86"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

// Name is the provider's name in the API.
const Name = "stripe"

const (
	callTimeout = 10 * time.Second
	// A session ends by itself this long after its payment was started. Stripe requires at least 30 minutes from the call on,
	// and a repeated call must have the same time. A payment that has no session after beginWithin never gets one.
	sessionTime = time.Hour
	beginWithin = 25 * time.Minute
	defaultBusy = time.Second // Stripe states no time after which a call over the limit may be repeated
)

// The ids of sessions and intents begin with these.
const (
	sessionPrefix = "cs_"
	intentPrefix  = "pi_"
)

// methods are the payment methods that confirm at once, with the currencies that they take; card takes all.
var methods = map[string][]string{
	"card":       nil,
	"alipay":     {"AUD", "CAD", "CNY", "EUR", "GBP", "HKD", "JPY", "MYR", "NZD", "SGD", "USD"},
	"wechat_pay": {"AUD", "CAD", "CHF", "CNY", "DKK", "EUR", "GBP", "HKD", "JPY", "NOK", "SEK", "SGD", "USD"},
}

// IsMethod reports whether a payment method may be configured.
func IsMethod(name string) bool { _, known := methods[name]; return known }

// Config configures the provider.
type Config struct {
	Key string // secret key of the account
	// WebhookSecrets verify callbacks. There is more than one while the secret is rotated.
	WebhookSecrets []string
	APIURL         string            // base of Stripe's API
	PublicURL      string            // address of the pages, to which the buyer returns
	Methods        []string          // payment methods that the account has activated
	Now            func() time.Time  // required
	Transport      http.RoundTripper // nil for http.DefaultTransport
}

// Provider is Stripe as a payment provider. The reference of a payment is the id of its session, and of its intent from
// its success on.
type Provider struct {
	cfg    Config
	client *stripego.Client
	mark   string // of this installation: host of PublicURL
}

// markName names the mark of an installation in metadata. Several may have one account.
const markName = "installation"

// other reports whether metadata are of a payment of another installation.
func (p *Provider) other(metadata map[string]string) bool { return metadata[markName] != p.mark }

var _ core.Provider = (*Provider)(nil)

// New returns a provider. It makes no call.
func New(cfg Config) *Provider {
	backends := stripego.NewBackendsWithConfig(&stripego.BackendConfig{
		URL: stripego.String(cfg.APIURL), HTTPClient: &http.Client{Transport: cfg.Transport, Timeout: callTimeout},
		MaxNetworkRetries: stripego.Int64(0), // core repeats calls
		LeveledLogger:     &stripego.LeveledLogger{Level: stripego.LevelNull},
	})
	p := &Provider{cfg: cfg, client: stripego.NewClient(cfg.Key, stripego.WithBackends(backends))}
	if pages, err := url.Parse(cfg.PublicURL); err == nil {
		p.mark = pages.Hostname()
	}
	return p
}

// Name implements core.Provider.
func (*Provider) Name() string { return Name }

// Begin implements core.Provider: a repeated call gets the session of the first one by its id or, while that is not
// stored, by the key of idempotency. Other parameters under this key, as after a changed setting, are an error that is
// repeated: another process may have given the session to the buyer, so no second one may be made in its place.
func (p *Provider) Begin(ctx context.Context, pay core.Payment, _ time.Time) (core.Begun, error) {
	if strings.HasPrefix(pay.Reference, sessionPrefix) {
		return p.resume(ctx, pay)
	}
	if p.cfg.Now().Sub(pay.CreatedAt) > beginWithin {
		return core.Begun{}, core.ErrPaymentEnded
	}
	amount, err := contract.ToStripe(pay.Amount, pay.Currency)
	if err != nil {
		return core.Begun{}, fmt.Errorf("%w: %w", core.ErrPaymentDeclined, err)
	}
	back := p.cfg.PublicURL + "/orders/" + pay.OrderSN
	metadata := map[string]string{"payment_id": pay.PaymentID, "order_sn": pay.OrderSN, markName: p.mark}
	params := &stripego.CheckoutSessionCreateParams{
		Mode:       stripego.String("payment"),
		SuccessURL: &back, CancelURL: &back,
		ExpiresAt: stripego.Int64(pay.CreatedAt.Add(sessionTime).Unix()),
		LineItems: []*stripego.CheckoutSessionCreateLineItemParams{{
			Quantity: stripego.Int64(1),
			PriceData: &stripego.CheckoutSessionCreateLineItemPriceDataParams{
				Currency: stripego.String(strings.ToLower(pay.Currency)), UnitAmount: &amount,
				ProductData: &stripego.CheckoutSessionCreateLineItemPriceDataProductDataParams{
					Name: stripego.String("Order " + pay.OrderSN),
				},
			},
		}},
		// The amount that is taken is that of the order, in its currency.
		AdaptivePricing:   &stripego.CheckoutSessionCreateAdaptivePricingParams{Enabled: stripego.Bool(false)},
		Metadata:          metadata,
		PaymentIntentData: &stripego.CheckoutSessionCreatePaymentIntentDataParams{Metadata: metadata},
	}
	for _, m := range p.cfg.Methods {
		if m != "card" && !slices.Contains(methods[m], pay.Currency) {
			continue
		}
		params.PaymentMethodTypes = append(params.PaymentMethodTypes, &m)
		if m == "wechat_pay" {
			params.PaymentMethodOptions = &stripego.CheckoutSessionCreatePaymentMethodOptionsParams{
				WeChatPay: &stripego.CheckoutSessionCreatePaymentMethodOptionsWeChatPayParams{Client: stripego.String("web")},
			}
		}
	}
	params.SetIdempotencyKey("pay-" + pay.PaymentID)
	s, err := p.client.V1CheckoutSessions.Create(ctx, params)
	switch {
	case replayed(err): // Stripe repeats this error; no buyer has the URL of the session, so it cannot be paid
		return core.Begun{}, fmt.Errorf("%w: %w", core.ErrPaymentDeclined, failure(err, nil))
	case err != nil:
		return core.Begun{}, failure(err, core.ErrPaymentDeclined)
	}
	return core.Begun{PayURL: s.URL, Reference: s.ID}, nil
}

// resume returns the session that a payment has.
func (p *Provider) resume(ctx context.Context, pay core.Payment) (core.Begun, error) {
	s, err := p.client.V1CheckoutSessions.Retrieve(ctx, pay.Reference, nil)
	switch {
	case err != nil:
		return core.Begun{}, failure(err, nil)
	case s.Status == stripego.CheckoutSessionStatusExpired:
		return core.Begun{}, core.ErrPaymentEnded
	case s.Status != stripego.CheckoutSessionStatusOpen:
		return core.Begun{}, errors.New("the session is complete, and its event has not arrived")
	}
	return core.Begun{PayURL: s.URL, Reference: s.ID}, nil
}

// Cancel implements core.Provider. A payment without a reference has nothing to end: no buyer has had the URL of its
// session. A session that is no longer open was paid or has ended, as its event reports.
func (p *Provider) Cancel(ctx context.Context, pay core.Payment) error {
	if !strings.HasPrefix(pay.Reference, sessionPrefix) {
		return nil
	}
	_, err := p.client.V1CheckoutSessions.Expire(ctx, pay.Reference, nil)
	if !refused(err) {
		return failure(err, nil)
	}
	s, getErr := p.client.V1CheckoutSessions.Retrieve(ctx, pay.Reference, nil)
	switch {
	case getErr != nil:
		return failure(getErr, nil)
	case s.Status == stripego.CheckoutSessionStatusOpen:
		return failure(err, nil)
	}
	return nil
}

// curable are the codes of refusals that end by themselves, or when an operator has corrected the account or its key.
var curable = []stripego.ErrorCode{
	stripego.ErrorCodeIdempotencyKeyInUse, stripego.ErrorCodeResourceMissing, stripego.ErrorCodeBalanceInsufficient,
	stripego.ErrorCodeInsufficientFunds,
}

// missing reports whether err is that of an object that the account does not have.
func missing(err error) bool {
	var e *stripego.Error
	return errors.As(err, &e) && e.Code == stripego.ErrorCodeResourceMissing
}

// refused reports whether Stripe has refused a call for good. A wrong key and what a proxy responds are no such refusals,
// nor are other parameters under a key of idempotency.
func refused(err error) bool {
	var e *stripego.Error
	if !errors.As(err, &e) || slices.Contains(curable, e.Code) || e.Type == stripego.ErrorTypeIdempotency {
		return false
	}
	switch e.HTTPStatusCode {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound:
		return true
	}
	return false
}

// replayed reports whether err is a response that Stripe has stored under the key of idempotency: a failure of its own,
// or a refusal whose cause may have ended since. Stripe repeats it for a day.
func replayed(err error) bool {
	var e *stripego.Error
	return errors.As(err, &e) && stored(e.LastResponse)
}

// stored reports whether a response is that of an earlier call with its key of idempotency.
func stored(r *stripego.APIResponse) bool {
	return r != nil && r.Header.Get("Idempotent-Replayed") == "true"
}

// failure returns the error of a call for core. declined is that of a call that Stripe has refused for good; nil if the
// caller does not distinguish it.
func failure(err, declined error) error {
	var e *stripego.Error
	if !errors.As(err, &e) {
		return err
	}
	wait := ""
	if e.LastResponse != nil {
		wait = e.LastResponse.Header.Get("Retry-After")
	}
	if e.HTTPStatusCode == http.StatusTooManyRequests || e.Code == stripego.ErrorCodeIdempotencyKeyInUse ||
		e.HTTPStatusCode == http.StatusServiceUnavailable && wait != "" {
		busy := &core.ProviderBusy{After: defaultBusy}
		if s, err := strconv.Atoi(wait); err == nil {
			busy.After = time.Duration(max(1, min(s, 3600))) * time.Second
		}
		return busy
	}
	short := fmt.Errorf("stripe responds %d %s: %s (request %s)", e.HTTPStatusCode, strings.TrimSpace(string(e.Type)+" "+string(e.Code)), e.Msg, e.RequestID)
	if declined != nil && refused(err) {
		return fmt.Errorf("%w: %w", declined, short)
	}
	return short
}
