package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/order/api/internalapi"
	"flashsale.internal/services/order/internal/core"
)

// ListRefunds implements internalapi.ServerInterface.
func (a *Internal) ListRefunds(w http.ResponseWriter, r *http.Request, _ internalapi.ListRefundsParams) {
	page, err := httpserver.PageOf(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	var after core.Position
	if page.Cursor != "" {
		if after, err = parseCursor(page.Cursor); err != nil {
			a.refuse(w, r, err)
			return
		}
	}
	list, more, err := a.core.WaitingRefunds(r.Context(), after, page.Limit)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	response := internalapi.RefundList{Items: make([]internalapi.Refund, len(list))}
	for i, refund := range list {
		response.Items[i] = refundView(refund)
	}
	if more {
		last := list[len(list)-1]
		next := formatCursor(core.Position{CreatedAt: last.CreatedAt, OrderSN: last.PaymentID})
		response.NextCursor = &next
	}
	httpserver.WriteJSON(w, http.StatusOK, response)
}

// RetryRefund implements internalapi.ServerInterface.
func (a *Internal) RetryRefund(w http.ResponseWriter, r *http.Request, refundID internalapi.RefundID) {
	var body internalapi.RetryRefundRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		a.refuse(w, r, err)
		return
	}
	if err := contract.CheckText("by", body.By, contract.Text{Most: 64}); err != nil {
		a.refuse(w, r, err)
		return
	}
	if !contract.ValidID(refundID) {
		a.refuse(w, r, core.ErrNoRefund)
		return
	}
	refund, err := a.core.RetryRefund(r.Context(), refundID, body.By)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, refundView(refund))
}

// SettleRefund implements internalapi.ServerInterface.
func (a *Internal) SettleRefund(w http.ResponseWriter, r *http.Request, refundID internalapi.RefundID) {
	var body internalapi.SettleRefundRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		a.refuse(w, r, err)
		return
	}
	for _, field := range []struct {
		name, value string
		most        int
	}{{"by", body.By, 64}, {"reference", body.Reference, 128}, {"reason", body.Reason, 255}} {
		if err := contract.CheckText(field.name, field.value, contract.Text{Most: field.most}); err != nil {
			a.refuse(w, r, err)
			return
		}
	}
	if !contract.ValidID(refundID) {
		a.refuse(w, r, core.ErrNoRefund)
		return
	}
	refund, err := a.core.SettleRefund(r.Context(), refundID,
		core.Settlement{By: body.By, Reference: body.Reference, Reason: body.Reason})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, refundView(refund))
}

func refundView(r core.Refund) internalapi.Refund {
	v := internalapi.Refund{
		RefundId: r.PaymentID, OrderSn: r.OrderSN, Provider: r.Provider, Amount: r.Amount, Currency: r.Currency,
		State: internalapi.RefundState(r.State), Reason: r.Reason, Attempts: r.Attempts, CreatedAt: r.CreatedAt,
	}
	if r.LastError != "" {
		v.LastError = &r.LastError
	}
	switch r.State {
	case core.RefundPending:
		v.NextAttemptAt = optionalTime(r.NextAttemptAt)
	case core.RefundDone:
		v.RefundedAt = optionalTime(r.FinishedAt)
	case core.RefundFailed:
	}
	if r.Settled.Reference != "" {
		v.Settled = &internalapi.Settlement{By: r.Settled.By, Reference: r.Settled.Reference, Reason: r.Settled.Reason}
	}
	return v
}
