package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	stripego "github.com/stripe/stripe-go/v86"
	"github.com/stripe/stripe-go/v86/webhook"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
)

// Events are the types of events that the account sends to the callback; others change nothing here.
var Events = []string{
	string(stripego.EventTypeCheckoutSessionCompleted), string(stripego.EventTypeCheckoutSessionExpired),
	string(stripego.EventTypeChargeRefunded), string(stripego.EventTypeRefundFailed),
	string(stripego.EventTypeChargeRefundUpdated), string(stripego.EventTypeChargeDisputeCreated),
}

// Parse implements core.Provider. A declined card is no event: the buyer may try another one until the session ends.
//
// An event has the API version of the account's endpoint, which may be older or newer than that of the SDK, so few
// fields are read.
func (p *Provider) Parse(ctx context.Context, h http.Header, body []byte) ([]core.PaymentEvent, error) {
	e, err := p.verify(h.Get("Stripe-Signature"), body)
	if err != nil {
		return nil, err
	}
	found := core.PaymentEvent{Provider: Name, EventID: e.ID}
	of := func(metadata map[string]string) {
		found.PaymentID, found.OtherInstallation = metadata["payment_id"], p.other(metadata)
	}
	switch e.Type {
	case stripego.EventTypeCheckoutSessionCompleted:
		var s stripego.CheckoutSession
		if err := decode(e, &s); err != nil || s.PaymentStatus != stripego.CheckoutSessionPaymentStatusPaid {
			return nil, err
		}
		found.Outcome = core.OutcomeSucceeded
		of(s.Metadata)
		if s.PaymentIntent != nil {
			found.Reference = s.PaymentIntent.ID
		}
		found.Amount, found.Currency = money(s.AmountTotal, s.Currency)
	case stripego.EventTypeCheckoutSessionExpired:
		var s stripego.CheckoutSession
		if err := decode(e, &s); err != nil {
			return nil, err
		}
		found.Outcome = core.OutcomeFailed
		of(s.Metadata)
		found.Amount, found.Currency = money(s.AmountTotal, s.Currency)
	case stripego.EventTypeChargeRefunded:
		var c stripego.Charge
		if err := decode(e, &c); err != nil {
			return nil, err
		}
		found.Outcome = core.OutcomeReturned
		of(c.Metadata)
		if e.Request != nil && strings.HasPrefix(e.Request.IdempotencyKey, refundKey(found.PaymentID)) {
			return nil, nil // made by order
		}
		found.Amount, found.Currency = money(c.AmountRefunded, c.Currency)
	case stripego.EventTypeChargeDisputeCreated:
		var d stripego.Dispute
		if err := decode(e, &d); err != nil || d.PaymentIntent == nil {
			return nil, err
		}
		found.Outcome, found.Reference = core.OutcomeDisputed, d.PaymentIntent.ID
		found.Amount, found.Currency = money(d.Amount, d.Currency)
		intent, err := p.client.V1PaymentIntents.Retrieve(ctx, d.PaymentIntent.ID, nil) // a dispute has no metadata
		switch {
		case unreadable(err):
			return []core.PaymentEvent{found}, nil
		case err != nil:
			return nil, unread(err)
		}
		of(intent.Metadata)
	case stripego.EventTypeRefundFailed, stripego.EventTypeChargeRefundUpdated:
		var r stripego.Refund
		if err := decode(e, &r); err != nil || counts(&r) || r.PaymentIntent == nil {
			return nil, err
		}
		found.Outcome = core.OutcomeRefundFailed
		found.Amount, found.Currency = money(r.Amount, r.Currency)
		if of(r.Metadata); found.PaymentID == "" { // of the dashboard
			intent, err := p.client.V1PaymentIntents.Retrieve(ctx, r.PaymentIntent.ID, nil)
			if err != nil {
				return nil, unread(err)
			}
			of(intent.Metadata)
		}
	}
	if !contract.ValidID(found.PaymentID) { // also of another use of the account
		return nil, nil
	}
	return []core.PaymentEvent{found}, nil
}

// unread refuses a callback, so that Stripe repeats it.
func unread(err error) error {
	return contract.Refuse(contract.CodeUnavailable, "The payment of the event could not be read.").
		Because(failure(err, nil))
}

// unreadable reports whether the key may not read an object, or has none of its id.
func unreadable(err error) bool {
	var e *stripego.Error
	return errors.As(err, &e) && (e.HTTPStatusCode == http.StatusUnauthorized ||
		e.HTTPStatusCode == http.StatusForbidden || e.HTTPStatusCode == http.StatusNotFound)
}

// verify returns the event of a body that was signed by one of the secrets.
func (p *Provider) verify(header string, body []byte) (stripego.Event, error) {
	err := webhook.ErrNoValidSignature
	for _, secret := range p.cfg.WebhookSecrets {
		var e stripego.Event
		e, err = webhook.ConstructEventWithOptions(body, header, secret, webhook.ConstructEventOptions{
			Tolerance: payment.Tolerance, IgnoreAPIVersionMismatch: true,
		})
		switch {
		case err == nil:
			return e, nil
		case !errors.Is(err, webhook.ErrNoValidSignature) && !errors.Is(err, webhook.ErrTooOld) &&
			!errors.Is(err, webhook.ErrNotSigned) && !errors.Is(err, webhook.ErrInvalidHeader):
			return e, contract.InvalidField("body", "is not an event of Stripe").Because(err)
		}
	}
	return stripego.Event{}, payment.Unauthenticated(err)
}

func decode(e stripego.Event, object any) error {
	if e.Data == nil || json.Unmarshal(e.Data.Raw, object) != nil {
		return contract.InvalidField("body", "has no object of its type")
	}
	return nil
}

func money(amount int64, currency stripego.Currency) (int64, string) {
	code := strings.ToUpper(string(currency))
	return contract.FromStripe(amount, code), code
}
