package stripe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v86"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

var (
	errRefundFailed = errors.New("stripe has not made the refund")
	errStored       = errors.New("stripe repeats its response to an earlier call, whose refund may have failed since")
)

// Refund implements core.Provider. Besides the key of idempotency, Stripe refuses to refund a charge in full twice. So a
// call whose key holds an earlier response, or a refund that failed, is repeated with another one, of this hour, unless
// the refund was made.
func (p *Provider) Refund(ctx context.Context, pay core.Payment) error {
	intent, err := p.intent(ctx, pay)
	if err != nil {
		return failure(err, nil)
	}
	if intent == "" {
		return fmt.Errorf("%w: stripe has no charge of the payment", core.ErrRefundDeclined)
	}
	err = p.refund(ctx, pay, intent, refundKey(pay.PaymentID))
	another := replayed(err) || errors.Is(err, errStored) || errors.Is(err, errRefundFailed)
	if err == nil || !another && !alreadyRefunded(err) {
		return failure(err, core.ErrRefundDeclined)
	}
	made, found, findErr := p.findRefund(ctx, intent)
	switch {
	case findErr != nil:
		return failure(findErr, nil)
	case found && made.Amount == pay.PaidAmount && made.Currency == pay.PaidCurrency:
		return nil
	case another:
		hour := strconv.FormatInt(p.cfg.Now().Unix()/3600, 10)
		err = p.refund(ctx, pay, intent, refundKey(pay.PaymentID)+"-"+hour)
	}
	switch {
	case errors.Is(err, errRefundFailed):
		return fmt.Errorf("%w: %w", core.ErrRefundDeclined, err)
	case another && alreadyRefunded(err): // since findRefund: the next attempt finds it
		return failure(err, nil)
	}
	return failure(err, core.ErrRefundDeclined)
}

// refundKey is how the keys of idempotency of a payment's refunds begin. Their events have them.
func refundKey(paymentID string) string { return "refund-" + paymentID }

func (p *Provider) refund(ctx context.Context, pay core.Payment, intent, key string) error {
	amount, err := contract.ToStripe(pay.PaidAmount, pay.PaidCurrency)
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrRefundDeclined, err)
	}
	params := &stripego.RefundCreateParams{
		PaymentIntent: &intent, Amount: &amount,
		Metadata: map[string]string{"payment_id": pay.PaymentID, "order_sn": pay.OrderSN},
	}
	params.SetIdempotencyKey(key)
	made, err := p.client.V1Refunds.Create(ctx, params)
	switch {
	case err != nil:
		return err
	case !counts(made):
		return fmt.Errorf("%w: %s %s", errRefundFailed, made.Status, made.FailureReason)
	case stored(made.LastResponse):
		return errStored
	}
	return nil
}

func alreadyRefunded(err error) bool {
	var e *stripego.Error
	return errors.As(err, &e) && e.Code == stripego.ErrorCodeChargeAlreadyRefunded
}

// counts reports whether the money of a refund is returned, or on its way.
func counts(r *stripego.Refund) bool {
	return r.Status != stripego.RefundStatusFailed && r.Status != stripego.RefundStatusCanceled
}

// intent returns the id of the intent of a payment that was paid. It is empty if Stripe has no charge of the payment. Its
// errors are those of the SDK.
func (p *Provider) intent(ctx context.Context, pay core.Payment) (string, error) {
	switch {
	case strings.HasPrefix(pay.Reference, intentPrefix):
		return pay.Reference, nil
	case strings.HasPrefix(pay.Reference, sessionPrefix):
		s, err := p.client.V1CheckoutSessions.Retrieve(ctx, pay.Reference, nil)
		if err != nil {
			return "", err
		}
		if s.PaymentIntent == nil {
			return "", nil
		}
		return s.PaymentIntent.ID, nil
	}
	// Without a reference the charge is searched among all since the start of the payment.
	params := &stripego.ChargeListParams{}
	params.Limit = stripego.Int64(100)
	if !pay.CreatedAt.IsZero() {
		params.CreatedRange = &stripego.RangeQueryParams{GreaterThanOrEqual: pay.CreatedAt.Add(-time.Hour).Unix()}
	}
	for c, err := range p.client.V1Charges.List(ctx, params).All(ctx) {
		if err != nil {
			return "", err
		}
		if found, ok := p.charge(c); ok && found.PaymentID == pay.PaymentID {
			return found.Reference, nil
		}
	}
	return "", nil
}

// FindRefund implements core.Provider. Its amount is that of all refunds of the payment, those of the dashboard included.
func (p *Provider) FindRefund(ctx context.Context, pay core.Payment) (core.ProviderRefund, bool, error) {
	intent, err := p.intent(ctx, pay)
	if err != nil || intent == "" {
		return core.ProviderRefund{}, false, unlessMissing(err)
	}
	made, found, err := p.findRefund(ctx, intent)
	made.RefundID = pay.PaymentID
	return made, found, failure(err, nil)
}

func (p *Provider) findRefund(ctx context.Context, intent string) (made core.ProviderRefund, found bool, err error) {
	params := &stripego.RefundListParams{PaymentIntent: &intent}
	params.Limit = stripego.Int64(100)
	for r, err := range p.client.V1Refunds.List(ctx, params).All(ctx) {
		if err != nil {
			return made, false, unlessMissing(err)
		}
		if counts(r) {
			found = true
			made.Currency = strings.ToUpper(string(r.Currency))
			made.Amount += contract.FromStripe(r.Amount, made.Currency)
			made.At, made.Reference = time.Unix(r.Created, 0).UTC(), intent
		}
	}
	return made, found, nil
}

// FindCharge implements core.Provider.
func (p *Provider) FindCharge(ctx context.Context, pay core.Payment) (core.Charge, bool, error) {
	intent, err := p.intent(ctx, pay)
	if err != nil || intent == "" {
		return core.Charge{}, false, unlessMissing(err)
	}
	params := &stripego.ChargeListParams{PaymentIntent: &intent}
	params.Limit = stripego.Int64(100)
	for c, err := range p.client.V1Charges.List(ctx, params).All(ctx) {
		if err != nil {
			return core.Charge{}, false, unlessMissing(err)
		}
		if found, ok := p.charge(c); ok && found.PaymentID == pay.PaymentID {
			return found, true, nil
		}
	}
	return core.Charge{}, false, nil
}

// unlessMissing returns the error of a query, nil if the object does not exist.
func unlessMissing(err error) error {
	if missing(err) {
		return nil
	}
	return failure(err, nil)
}

// Charges implements core.Provider. It lists charges, not intents, since an intent is older than its success.
func (p *Provider) Charges(
	ctx context.Context, since time.Time, cursor string, limit int,
) (page []core.Charge, next string, err error) {
	params := &stripego.ChargeListParams{CreatedRange: &stripego.RangeQueryParams{GreaterThanOrEqual: since.Unix()}}
	params.Limit, params.StartingAfter = stripego.Int64(int64(min(limit, 100))), after(cursor)
	list := p.client.V1Charges.List(ctx, params)
	if list.Err() != nil {
		return nil, "", failure(list.Err(), nil)
	}
	for _, c := range list.Data() {
		if found, ok := p.charge(c); ok {
			page = append(page, found)
		}
		next = c.ID
	}
	if !list.Meta().HasMore {
		next = ""
	}
	return page, next, nil
}

// Refunds implements core.Provider.
func (p *Provider) Refunds(
	ctx context.Context, since time.Time, cursor string, limit int,
) (page []core.ProviderRefund, next string, err error) {
	params := &stripego.RefundListParams{CreatedRange: &stripego.RangeQueryParams{GreaterThanOrEqual: since.Unix()}}
	params.Limit, params.StartingAfter = stripego.Int64(int64(min(limit, 100))), after(cursor)
	params.AddExpand("data.charge") // which has the payment's id, also of a refund of the dashboard
	list := p.client.V1Refunds.List(ctx, params)
	if list.Err() != nil {
		return nil, "", failure(list.Err(), nil)
	}
	for _, r := range list.Data() {
		next = r.ID
		if r.Charge == nil || !counts(r) {
			continue
		}
		if of, ok := p.charge(r.Charge); ok {
			page = append(page, core.ProviderRefund{
				RefundID: of.PaymentID, Reference: of.Reference, Amount: contract.FromStripe(r.Amount, of.Currency),
				Currency: of.Currency, At: time.Unix(r.Created, 0).UTC(), OtherInstallation: of.OtherInstallation,
			})
		}
	}
	if !list.Meta().HasMore {
		next = ""
	}
	return page, next, nil
}

func after(cursor string) *string {
	if cursor == "" {
		return nil
	}
	return &cursor
}

// charge returns a charge that has succeeded. ok is false for another one, and for one that is of no payment here: the
// account may have other uses.
func (p *Provider) charge(c *stripego.Charge) (found core.Charge, ok bool) {
	id := c.Metadata["payment_id"]
	if c.Status != stripego.ChargeStatusSucceeded || id == "" || c.PaymentIntent == nil {
		return found, false
	}
	currency := strings.ToUpper(string(c.Currency))
	return core.Charge{
		PaymentID: id, OrderSN: c.Metadata["order_sn"], Reference: c.PaymentIntent.ID,
		Amount: contract.FromStripe(c.Amount, currency), Currency: currency, At: time.Unix(c.Created, 0).UTC(),
		OtherInstallation: p.other(c.Metadata),
	}, true
}
