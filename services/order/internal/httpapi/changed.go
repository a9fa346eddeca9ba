package httpapi

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/order/api/internalapi"
	"flashsale.internal/services/order/internal/core"
)

// The bounds of a page of changed orders.
const (
	changedDefault = 256
	changedMost    = 1000
)

// OrdersSince implements internalapi.ServerInterface.
func (a *Internal) OrdersSince(w http.ResponseWriter, r *http.Request) {
	var body internalapi.SinceRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		a.refuse(w, r, err)
		return
	}
	q, err := changedQuery(body)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	page, err := a.core.ChangedOrders(r.Context(), q)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	response := internalapi.ChangedOrders{
		Items: make([]internalapi.ChangedOrder, len(page.Orders)), NextSince: page.NextSince,
	}
	for i, o := range page.Orders {
		response.Items[i] = changedView(o)
	}
	if page.More {
		next := formatChanged(page.Next)
		response.NextCursor = &next
	}
	httpserver.WriteJSON(w, http.StatusOK, response)
}

func changedQuery(body internalapi.SinceRequest) (core.ChangedQuery, error) {
	q := core.ChangedQuery{Since: body.Since.UTC(), Limit: changedDefault}
	if body.Since.IsZero() {
		return q, contract.InvalidField("since", "is required")
	}
	if body.ActivityId != nil {
		q.ActivityID = *body.ActivityId
		if !contract.ValidID(q.ActivityID) {
			return q, contract.InvalidField("activity_id", "is not an id")
		}
	}
	if body.Limit != nil {
		q.Limit = *body.Limit
		if q.Limit < 1 || q.Limit > changedMost {
			return q, contract.InvalidField("limit", "must be 1 to 1000")
		}
	}
	if body.Cursor != nil && *body.Cursor != "" {
		var ok bool
		if q.After, ok = parseChanged(*body.Cursor); !ok {
			return q, contract.InvalidField("cursor", "is not valid")
		}
	}
	return q, nil
}

func changedView(o core.Order) internalapi.ChangedOrder {
	v := internalapi.ChangedOrder{
		OrderSn: o.OrderSN, UserId: o.UserID, ActivityId: o.ActivityID,
		State: internalapi.ChangedOrderState(o.State), Lines: make([]internalapi.PricedLine, len(o.Lines)),
		Amount: o.Amount, Currency: o.Currency, CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt,
		PaidAt: optionalTime(o.PaidAt), ClosedAt: optionalTime(o.ClosedAt), RefundedAt: optionalTime(o.RefundedAt),
		ChangedAt: o.ChangedAt(),
	}
	for i, l := range o.Lines {
		v.Lines[i] = internalapi.PricedLine{SkuId: l.SKUID, Qty: l.Qty, Price: l.Price}
	}
	if o.CloseReason != "" {
		v.Reason = &o.CloseReason
	}
	if o.Traceparent != "" {
		v.Traceparent = &o.Traceparent
	}
	return v
}

// formatChanged encodes a position: the start of the listing in milliseconds, and the order_sn.
func formatChanged(p core.ChangedPosition) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.Began.UnixMilli(), 10) + "." + p.OrderSN))
}

func parseChanged(s string) (p core.ChangedPosition, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return p, false
	}
	at, sn, _ := strings.Cut(string(raw), ".")
	began, err := strconv.ParseInt(at, 10, 64)
	if err != nil || began < 1 || began > 1<<46 || !contract.ValidID(sn) {
		return p, false
	}
	return core.ChangedPosition{Began: time.UnixMilli(began).UTC(), OrderSN: sn}, true
}
