package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/order/api/internalapi"
	"flashsale.internal/services/order/internal/core"
)

// ListPaymentDifferences implements internalapi.ServerInterface. Its cursors are ids of differences.
func (a *Internal) ListPaymentDifferences(
	w http.ResponseWriter, r *http.Request, _ internalapi.ListPaymentDifferencesParams,
) {
	page, err := httpserver.PageOf(r)
	if err == nil && page.Cursor != "" && !contract.ValidID(page.Cursor) {
		err = contract.InvalidField("cursor", "is not valid")
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	list, more, err := a.core.Differences(r.Context(), page.Cursor, page.Limit)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	response := internalapi.PaymentDifferenceList{Items: make([]internalapi.PaymentDifference, len(list))}
	for i, d := range list {
		response.Items[i] = differenceView(d)
	}
	if more {
		response.NextCursor = &list[len(list)-1].ID
	}
	httpserver.WriteJSON(w, http.StatusOK, response)
}

func differenceView(d core.Difference) internalapi.PaymentDifference {
	v := internalapi.PaymentDifference{
		DifferenceId: d.ID, Provider: d.Provider, Kind: string(d.Kind), PaymentId: d.PaymentID, At: d.At,
		FirstSeenAt: d.FirstSeen, LastSeenAt: d.LastSeen,
	}
	if d.OrderSN != "" {
		v.OrderSn = &d.OrderSN
	}
	if d.Currency != "" {
		v.ProviderAmount = &internalapi.DifferenceAmount{Amount: d.Amount, Currency: d.Currency}
	}
	if d.RecordedCurrency != "" {
		v.RecordedAmount = &internalapi.DifferenceAmount{Amount: d.RecordedAmount, Currency: d.RecordedCurrency}
	}
	return v
}
