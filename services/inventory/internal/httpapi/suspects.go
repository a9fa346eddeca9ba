package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// maxSuspects bounds the addresses and the users of a response.
const maxSuspects = 200

// GetAbuse implements api.ServerInterface.
func (m *Merchant) GetAbuse(w http.ResponseWriter, r *http.Request, id string, _ api.GetAbuseParams) {
	if !m.validID(w, r, id) {
		return
	}
	if err := validFormat(r.URL.Query()); err != nil {
		m.refuse(w, r, err)
		return
	}
	a, err := m.merchants.Suspects(r.Context(), caller(r).Scope(), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	v := suspectsView(a)
	w.Header().Set("Vary", "Accept")
	if acceptsCSV(r) {
		writeSuspectsCSV(w, id, v)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, v)
}

func suspectsView(a merchants.Suspects) api.Abuse {
	v := api.Abuse{
		AsOf: a.AsOf, RequestsAvailable: a.Requests != nil, Refused: map[string]int64{},
		Addresses: views(a.Addresses[:min(maxSuspects, len(a.Addresses))], suspectAddress),
		Users:     views(a.Users[:min(maxSuspects, len(a.Users))], suspectUser),
	}
	if q := a.Requests; q != nil {
		v.Challenges = api.AbuseChallenges{Solved: q.Solved, Failed: q.Failed}
		if q.ByCode != nil {
			v.Refused = q.ByCode
		}
	}
	return v
}

func suspectAddress(s merchants.Suspect) api.AbuseAddress {
	return api.AbuseAddress{
		Address: s.Key, Early: s.Early, RateLimited: s.RateLimited, FailedChallenges: s.FailedChallenges,
		VoidedPaths: s.VoidedPaths,
	}
}

func suspectUser(u merchants.SuspectUser) api.AbuseUser {
	return api.AbuseUser{
		UserId: u.UserID, Early: u.Early, RateLimited: u.RateLimited, FailedChallenges: u.FailedChallenges,
		VoidedPaths: u.VoidedPaths, ExpiredHolds: u.Expired, CancelledHolds: u.Cancelled, Purchases: u.Purchases,
		Causes: suspectCauses(u.Causes()),
	}
}

func suspectCauses(list []merchants.SuspectCause) []api.AbuseCause {
	return views(list, func(c merchants.SuspectCause) api.AbuseCause { return api.AbuseCause(c) })
}

// writeSuspectsCSV sends a row for each address and each user.
func writeSuspectsCSV(w http.ResponseWriter, id string, v api.Abuse) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	out := newSheet(w, "abuse-"+id, "kind", "subject", "early", "rate_limited", "failed_challenges", "voided_paths", "expired_holds",
		"cancelled_holds", "purchases", "causes")
	for _, a := range v.Addresses {
		out.row("address", a.Address, number(a.Early), number(a.RateLimited), number(a.FailedChallenges),
			number(a.VoidedPaths), "", "", "", "")
	}
	for _, u := range v.Users {
		causes := views(u.Causes, func(c api.AbuseCause) string { return string(c) })
		out.row("user", u.UserId, number(u.Early), number(u.RateLimited), number(u.FailedChallenges), number(u.VoidedPaths),
			number(u.ExpiredHolds), number(u.CancelledHolds), number(u.Purchases), strings.Join(causes, " "))
	}
	_ = out.flush()
}

// ListReview implements api.ServerInterface.
func (m *Merchant) ListReview(w http.ResponseWriter, r *http.Request, id string, _ api.ListReviewParams) {
	if !m.validID(w, r, id) {
		return
	}
	p, ok := m.page(w, r)
	if !ok {
		return
	}
	list, requestsKnown, err := m.merchants.Review(r.Context(), caller(r).Scope(), id, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next := cutPage(list, p, func(o merchants.ReviewedOrder) string { return o.OrderSN })
	h, _ := m.withOrders(r, id, views(list, func(o merchants.ReviewedOrder) ledger.Row { return o.Row }))
	httpserver.WriteJSON(w, http.StatusOK, api.ReviewList{
		Items: views(list, h.reviewItem), RequestsAvailable: requestsKnown, NextCursor: next,
	})
}

func (h orderDetails) reviewItem(o merchants.ReviewedOrder) api.ReviewItem {
	v := h.view(o.Row, nil)
	item := api.ReviewItem{
		OrderSn: v.OrderSn, UserId: v.UserId, Lines: v.Lines, State: api.ReviewItemState(v.State), ReservedAt: v.ReservedAt,
		Amount: v.Amount, Currency: v.Currency, CurrencyDigits: v.CurrencyDigits,
		Causes: suspectCauses(o.Causes),
	}
	if v.OrderState != nil {
		state := api.ReviewItemOrderState(*v.OrderState)
		item.OrderState = &state
	}
	return item
}

// CancelReviewed implements api.ServerInterface.
func (m *Merchant) CancelReviewed(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	var body api.CancelRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	results, err := m.merchants.CancelOrders(r.Context(), caller(r), id, body.OrderSns, body.Reason)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, api.CancelResults{
		Results: views(results, func(c merchants.CancelResult) api.CancelResult {
			return api.CancelResult{OrderSn: c.OrderSN, Outcome: api.CancelResultOutcome(c.Outcome)}
		}),
	})
}
