package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// ListChanges implements api.ServerInterface.
func (m *Merchant) ListChanges(w http.ResponseWriter, r *http.Request, id string, _ api.ListChangesParams) {
	list, next, ok := ofActivity(m, w, r, id, m.merchants.History.ChangesOfActivity,
		func(c core.PastChange) string { return c.ID })
	if ok {
		httpserver.WriteJSON(w, http.StatusOK, api.ChangeList{Items: views(list, changeView), NextCursor: next})
	}
}

func changeView(c core.PastChange) api.Change {
	v := api.Change{ChangeId: c.ID, At: c.At, Actor: c.Who, What: c.Action}
	if role := api.ChangeRole(c.Role); role != "" {
		v.Role = &role
	}
	details := map[string]any{}
	switch {
	case c.Action == core.ActionReconcile: // the list of reconciliations has the repairs
		if repairs, left, err := reconcile.PastRepairs(c); err == nil {
			details["repairs"], details["left"] = len(repairs), left
		}
	case json.Unmarshal([]byte(c.Detail), &details) != nil:
		if title := ""; json.Unmarshal([]byte(c.Detail), &title) == nil { // of a created activity
			details = map[string]any{"title": title}
		}
	}
	if len(details) > 0 {
		v.Details = &details
	}
	return v
}

// ListAdjustments implements api.ServerInterface.
func (m *Merchant) ListAdjustments(w http.ResponseWriter, r *http.Request, id string, _ api.ListAdjustmentsParams) {
	list, next, ok := ofActivity(m, w, r, id, m.merchants.History.AdjustmentsOfActivity,
		func(a core.Adjustment) string { return a.ID })
	if ok {
		httpserver.WriteJSON(w, http.StatusOK, api.AdjustmentList{Items: views(list, adjustmentView), NextCursor: next})
	}
}

// ListReconciliations implements api.ServerInterface.
func (m *Merchant) ListReconciliations(
	w http.ResponseWriter, r *http.Request, id string, _ api.ListReconciliationsParams,
) {
	list, next, ok := ofActivity(m, w, r, id, m.merchants.History.ReconciliationsOfActivity,
		func(c core.PastChange) string { return c.ID })
	if !ok {
		return
	}
	out := api.ReconciliationList{Items: make([]api.PastReconciliation, len(list)), NextCursor: next}
	for i, c := range list {
		repairs, left, err := reconcile.PastRepairs(c)
		if err != nil {
			m.refuse(w, r, err)
			return
		}
		out.Items[i] = api.PastReconciliation{ComparedAt: c.At, Actor: c.Who, Repairs: []api.Repair{}, Left: left}
		for _, repair := range repairs {
			out.Items[i].Repairs = append(out.Items[i].Repairs, repairView(repair)...)
		}
	}
	httpserver.WriteJSON(w, http.StatusOK, out)
}

// ofActivity reads a page of something that belongs to an activity. It responds and returns ok = false if the caller
// cannot see the activity, or if the request is not valid.
func ofActivity[T any](
	m *Merchant, w http.ResponseWriter, r *http.Request, activityID string,
	read func(ctx context.Context, in core.Scope, activityID string, p core.Page) ([]T, error), idOf func(T) string,
) (list []T, next *string, ok bool) {
	if !m.validID(w, r, activityID) {
		return nil, nil, false
	}
	p, ok := m.page(w, r)
	if !ok {
		return nil, nil, false
	}
	in := caller(r).Scope()
	_, err := m.merchants.Activity(r.Context(), in, activityID)
	if err == nil {
		list, err = read(r.Context(), in, activityID, p)
	}
	if err != nil {
		m.refuse(w, r, err)
		return nil, nil, false
	}
	list, next = cutPage(list, p, idOf)
	return list, next, true
}
