package httpapi

import (
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/merchants"
)

// Largest lengths of the texts of a settlement in characters; the API description has the same figures.
const (
	maxRefundReference = 128
	maxRefundReason    = 255
)

// ListRefunds implements api.ServerInterface.
func (m *Merchant) ListRefunds(w http.ResponseWriter, r *http.Request, _ api.ListRefundsParams) {
	page, err := httpserver.PageOf(r)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next, err := m.merchants.Refunds.WaitingRefunds(r.Context(), merchants.RefundPage(page))
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, api.RefundList{Items: views(list, refundView), NextCursor: optional(next)})
}

// ListPaymentDifferences implements api.ServerInterface.
func (m *Merchant) ListPaymentDifferences(
	w http.ResponseWriter, r *http.Request, _ api.ListPaymentDifferencesParams,
) {
	page, err := httpserver.PageOf(r)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next, err := m.merchants.Refunds.PaymentDifferences(r.Context(), merchants.RefundPage(page))
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK,
		api.PaymentDifferenceList{Items: views(list, differenceView), NextCursor: optional(next)})
}

func differenceView(d merchants.PaymentDifference) api.PaymentDifference {
	amount := func(a *merchants.DifferenceAmount) *api.DifferenceAmount {
		if a == nil {
			return nil
		}
		return &api.DifferenceAmount{
			Amount: a.Amount, Currency: a.Currency, CurrencyDigits: contract.CurrencyDigits(a.Currency),
		}
	}
	return api.PaymentDifference{
		DifferenceId: d.ID, Provider: d.Provider, Kind: d.Kind, PaymentId: d.PaymentID, OrderSn: optional(d.OrderSN),
		ProviderAmount: amount(d.ProviderAmount), RecordedAmount: amount(d.RecordedAmount), At: d.At.UTC(),
		FirstSeenAt: d.FirstSeenAt.UTC(), LastSeenAt: d.LastSeenAt.UTC(),
	}
}

// RetryRefund implements api.ServerInterface.
func (m *Merchant) RetryRefund(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) || !m.requireNoFields(w, r) {
		return
	}
	refund, err := m.merchants.RetryRefund(r.Context(), caller(r), id)
	m.writeRefund(w, r, refund, err)
}

// SettleRefund implements api.ServerInterface.
func (m *Merchant) SettleRefund(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	var body api.RefundSettlement
	err := httpserver.DecodeJSON(w, r, &body)
	if err == nil {
		err = contract.CheckText("reference", body.Reference, contract.Text{Most: maxRefundReference})
	}
	if err == nil {
		err = contract.CheckText("reason", body.Reason, contract.Text{Most: maxRefundReason})
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	refund, err := m.merchants.SettleRefund(r.Context(), caller(r), id, body.Reference, body.Reason)
	m.writeRefund(w, r, refund, err)
}

func (m *Merchant) writeRefund(w http.ResponseWriter, r *http.Request, refund merchants.Refund, err error) {
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, refundView(refund))
}

func refundView(r merchants.Refund) api.Refund {
	v := api.Refund{
		RefundId: r.ID, OrderSn: r.OrderSN, Provider: r.Provider, Amount: r.Amount, Currency: r.Currency,
		CurrencyDigits: contract.CurrencyDigits(r.Currency),
		State:          api.RefundState(r.State), Reason: r.Reason, Attempts: r.Attempts, NextAttemptAt: inUTC(r.NextAttemptAt),
		LastError: optional(r.LastError), CreatedAt: r.CreatedAt.UTC(), RefundedAt: inUTC(r.RefundedAt),
	}
	if r.Settled != nil {
		v.Settled = &api.SettledRefund{By: r.Settled.By, Reference: r.Settled.Reference, Reason: r.Settled.Reason}
	}
	return v
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}
