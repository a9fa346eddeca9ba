package httpapi

import (
	"cmp"
	"net/http"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/merchants"
)

// GetActivityOrder implements api.ServerInterface.
func (m *Merchant) GetActivityOrder(w http.ResponseWriter, r *http.Request, id, orderSN string) {
	if !m.validID(w, r, id) || !m.validID(w, r, orderSN) {
		return
	}
	page, err := m.merchants.Order(r.Context(), caller(r).Scope(), id, orderSN)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, orderPageView(page, auth.From(r.Context()).Has(auth.Operator)))
}

// orderPageView returns an order as a merchant or an operator sees it.
func orderPageView(p merchants.OrderPage, operator bool) api.ActivityOrder {
	v := api.ActivityOrder{
		OrderSn: p.OrderSN, ActivityId: p.ActivityID, ActivityRef: optional(p.Activity.Ref), ActivityTitle: p.Activity.Title, UserId: p.UserID,
		State: api.ActivityOrderState(p.State), Reason: optional(p.Reason), ReservedAt: p.ReservedAt,
		ChangedAt: p.ChangedAt, CreatedAt: p.OrderCreatedAt, ExpiresAt: p.ExpiresAt,
		Payments: []api.OrderPayment{}, Refunds: []api.OrderRefund{}, Changes: views(p.Changes, orderChangeView),
		Lines: views(p.Lines, func(l contract.Line) api.OrderLine {
			return api.OrderLine{
				SkuId: l.SKUID, SkuRef: optional(refOf(p.Activity, l.SKUID)), Qty: l.Qty, Name: optional(p.Name(l.SKUID)),
			}
		}),
	}
	o := p.Order
	if o == nil {
		return v
	}
	state := api.ActivityOrderOrderState(o.State)
	digits := contract.CurrencyDigits(o.Currency)
	v.ActivityTitle = cmp.Or(o.Title, p.Activity.Title)
	v.OrderState, v.Amount, v.Currency, v.CurrencyDigits = &state, &o.Amount, &o.Currency, &digits
	v.CloseReason, v.PaidBy = optional(o.CloseReason), optional(o.PaidBy)
	v.CreatedAt, v.ExpiresAt, v.PaidAt = inUTC(&o.CreatedAt), inUTC(&o.ExpiresAt), inUTC(o.PaidAt)
	v.ClosedAt, v.RefundedAt, v.PayingUntil = inUTC(o.ClosedAt), inUTC(o.RefundedAt), inUTC(o.PayingUntil)
	v.Lines = views(o.Lines, func(l contract.PricedLine) api.OrderLine {
		return api.OrderLine{
			SkuId: l.SKUID, SkuRef: optional(refOf(p.Activity, l.SKUID)), Qty: l.Qty, UnitPrice: &l.Price,
			Name: optional(p.Name(l.SKUID)),
		}
	})
	v.Payments = views(o.Payments, orderPaymentView)
	v.Refunds = views(o.Refunds, func(r merchants.Refund) api.OrderRefund { return orderRefundView(r, operator) })
	if o.Contact != nil {
		c := *o.Contact
		if operator {
			c = c.Masked()
		}
		v.Contact = contactView(c)
	}
	return v
}

func contactView(c merchants.Contact) *api.Contact {
	v := &api.Contact{Name: c.Name, Phone: c.Phone}
	if len(c.AddressLines) > 0 {
		v.AddressLines = &c.AddressLines
	}
	return v
}

func orderPaymentView(p merchants.Payment) api.OrderPayment {
	v := api.OrderPayment{
		PaymentId: p.ID, Provider: p.Provider, State: api.OrderPaymentState(p.State), Amount: p.Amount,
		Currency: p.Currency, CurrencyDigits: contract.CurrencyDigits(p.Currency), CreatedAt: p.CreatedAt.UTC(),
		FinishedAt: inUTC(p.FinishedAt),
	}
	if p.PaidCurrency != "" {
		v.PaidAmount, v.PaidCurrency = &p.PaidAmount, &p.PaidCurrency
		if contract.IsCurrency(p.PaidCurrency) {
			digits := contract.CurrencyDigits(p.PaidCurrency)
			v.PaidCurrencyDigits = &digits
		}
	}
	return v
}

func orderRefundView(r merchants.Refund, operator bool) api.OrderRefund {
	whole := refundView(r)
	v := api.OrderRefund{
		RefundId: whole.RefundId, Provider: whole.Provider, State: api.OrderRefundState(whole.State), Reason: whole.Reason,
		Amount: whole.Amount, Currency: whole.Currency, CurrencyDigits: whole.CurrencyDigits, CreatedAt: whole.CreatedAt,
		RefundedAt: whole.RefundedAt, Settled: whole.Settled,
	}
	if operator {
		v.Attempts, v.NextAttemptAt, v.LastError = &whole.Attempts, whole.NextAttemptAt, whole.LastError
	}
	return v
}

func orderChangeView(c merchants.OrderChange) api.OrderChange {
	v := api.OrderChange{At: c.At.UTC(), What: c.What, Actor: optional(c.Who)}
	if role := api.OrderChangeRole(c.Role); role != "" {
		v.Role = &role
	}
	if len(c.Details) > 0 {
		details := make(map[string]any, len(c.Details))
		for name, value := range c.Details {
			details[name] = value
		}
		v.Details = &details
	}
	return v
}
