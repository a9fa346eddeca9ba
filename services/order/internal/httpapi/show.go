package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/order/api/internalapi"
	"flashsale.internal/services/order/internal/core"
)

// ShowOrder implements internalapi.ServerInterface.
func (a *Internal) ShowOrder(w http.ResponseWriter, r *http.Request, orderSN string) {
	if !contract.ValidID(orderSN) {
		a.refuse(w, r, contract.InvalidField("order_sn", "is not an id"))
		return
	}
	o, err := a.core.Show(r.Context(), orderSN)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	about := descriptions(r.Context(), a.core, a.tel, []core.Order{o.Order})
	httpserver.WriteJSON(w, http.StatusOK, shownView(o, about[0]))
}

func shownView(o core.Shown, about contract.ActivityInfo) internalapi.ShownOrder {
	v := internalapi.ShownOrder{
		OrderSn: o.OrderSN, State: internalapi.ShownOrderStateUnknown, Lines: []internalapi.ShownLine{},
		Payments: []internalapi.ShownPayment{}, Refunds: []internalapi.Refund{}, Decisions: []internalapi.RefundDecision{},
	}
	if !o.Found {
		if o.Tombstone {
			v.Tombstone = &o.Tombstone
		}
		return v
	}
	looked := lookupView(o.LookedUp, about)
	v.State = internalapi.ShownOrderState(o.State)
	v.UserId, v.ActivityId, v.ActivityTitle = &o.UserID, &o.ActivityID, optionalText(about.Title)
	v.Amount, v.Currency, v.CreatedAt, v.ExpiresAt = looked.Amount, looked.Currency, looked.CreatedAt, looked.ExpiresAt
	v.PaidAt, v.ClosedAt, v.CloseReason, v.Contact = looked.PaidAt, looked.ClosedAt, looked.CloseReason, looked.Contact
	v.RefundedAt, v.PaidBy = optionalTime(o.RefundedAt), optionalText(o.PaidBy)
	if o.State == core.Pending {
		v.PayingUntil = optionalTime(o.PayingUntil)
	}
	for _, l := range o.Lines {
		v.Lines = append(v.Lines, internalapi.ShownLine{
			SkuId: l.SKUID, Qty: l.Qty, Price: l.Price, Name: optionalText(skuName(about, l.SKUID)),
		})
	}
	for _, p := range o.Payments {
		v.Payments = append(v.Payments, shownPayment(p))
	}
	for _, r := range o.Refunds {
		v.Refunds = append(v.Refunds, refundView(r))
	}
	for _, d := range o.Decisions {
		v.Decisions = append(v.Decisions, internalapi.RefundDecision{
			RefundId: d.PaymentID, Action: internalapi.RefundDecisionAction(d.Action), By: d.By, At: d.At,
			Reference: optionalText(d.Reference), Reason: optionalText(d.Reason),
		})
	}
	return v
}

func shownPayment(p core.Payment) internalapi.ShownPayment {
	v := internalapi.ShownPayment{
		PaymentId: p.PaymentID, Provider: p.Provider, State: internalapi.ShownPaymentState(p.State), Amount: p.Amount,
		Currency: p.Currency, CreatedAt: p.CreatedAt, FinishedAt: optionalTime(p.FinishedAt),
	}
	if p.PaidCurrency != "" {
		v.PaidAmount, v.PaidCurrency = &p.PaidAmount, &p.PaidCurrency
	}
	return v
}

// optionalText returns nil for the empty text.
func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
