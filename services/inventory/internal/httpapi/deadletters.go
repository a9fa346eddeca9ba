package httpapi

import (
	"context"
	"net/http"
	"strings"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
)

func deadLetterView(d core.DeadLetter) api.DeadLetter {
	return api.DeadLetter{
		DeadLetterId: d.ID, Where: d.Where, Topic: d.Topic, OrderSn: optional(d.OrderSN),
		ActivityId: optional(d.ActivityID), MerchantId: optional(d.MerchantID), Why: d.Why,
		Item:  strings.ToValidUTF8(string(d.Item), "\uFFFD"),
		State: api.DeadLetterState(d.State), Occurrences: d.Occurrences, FailedAt: d.FailedAt,
		DecidedBy: optional(d.DecidedBy), DecidedAt: d.DecidedAt,
	}
}

// ListDeadLetters implements api.ServerInterface.
func (m *Merchant) ListDeadLetters(w http.ResponseWriter, r *http.Request, params api.ListDeadLettersParams) {
	p, ok := m.page(w, r)
	if !ok {
		return
	}
	in, ok := m.listed(w, r)
	if !ok {
		return
	}
	state := core.DeadLetterOpen
	if r.URL.Query().Has("state") {
		state = ""
		if params.State != nil {
			state = string(*params.State)
		}
		switch state {
		case core.DeadLetterOpen, core.DeadLetterReplayed, core.DeadLetterRejected:
		case "all":
			state = ""
		default:
			m.refuse(w, r, contract.InvalidField("state", "must be open, replayed, rejected or all"))
			return
		}
	}
	list, err := m.core.DeadLetters(r.Context(), in, state, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next := cutPage(list, p, func(d core.DeadLetter) string { return d.ID })
	httpserver.WriteJSON(w, http.StatusOK, api.DeadLetterList{Items: views(list, deadLetterView), NextCursor: next})
}

// ReplayDeadLetter implements api.ServerInterface.
func (m *Merchant) ReplayDeadLetter(w http.ResponseWriter, r *http.Request, id string) {
	m.decide(w, r, id, m.core.ReplayDeadLetter)
}

// RejectDeadLetter implements api.ServerInterface.
func (m *Merchant) RejectDeadLetter(w http.ResponseWriter, r *http.Request, id string) {
	m.decide(w, r, id, m.core.RejectDeadLetter)
}

func (m *Merchant) decide(
	w http.ResponseWriter, r *http.Request, id string,
	do func(ctx context.Context, by core.Caller, id string) (*core.DeadLetter, error),
) {
	if !m.validID(w, r, id) || !m.requireNoFields(w, r) {
		return
	}
	d, err := do(r.Context(), caller(r), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, deadLetterView(*d))
}
