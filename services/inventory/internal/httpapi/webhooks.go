package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/webhooks"
)

func webhookView(e webhooks.Endpoint) api.Webhook {
	return api.Webhook{
		WebhookId: e.ID, MerchantId: e.MerchantID, Url: e.URL, State: api.WebhookState(e.State),
		Types: views(e.Types, func(t string) api.EventType { return api.EventType(t) }),
	}
}

func webhookSecretView(e webhooks.Endpoint, secret string) api.WebhookSecret {
	v := webhookView(e)
	return api.WebhookSecret{
		WebhookId: v.WebhookId, MerchantId: v.MerchantId, Url: v.Url, Types: v.Types,
		State: api.WebhookSecretState(v.State), Secret: secret,
	}
}

// CreateWebhook implements api.ServerInterface.
func (m *Merchant) CreateWebhook(w http.ResponseWriter, r *http.Request) {
	var body api.NewWebhook
	err := httpserver.DecodeJSON(w, r, &body)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	e, secret, err := m.webhooks.Create(r.Context(), caller(r), body.Url, eventTypes(body.Types))
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/merchant/webhooks/"+e.ID)
	httpserver.WriteJSON(w, http.StatusCreated, webhookSecretView(e, secret))
}

func eventTypes(types []api.EventType) []string {
	return views(types, func(t api.EventType) string { return string(t) })
}

// ListWebhooks implements api.ServerInterface.
func (m *Merchant) ListWebhooks(w http.ResponseWriter, r *http.Request, _ api.ListWebhooksParams) {
	p, ok := m.page(w, r)
	if !ok {
		return
	}
	in, ok := m.listed(w, r)
	if !ok {
		return
	}
	list, err := m.webhooks.List(r.Context(), in, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next := cutPage(list, p, func(e webhooks.Endpoint) string { return e.ID })
	httpserver.WriteJSON(w, http.StatusOK, api.WebhookList{Items: views(list, webhookView), NextCursor: next})
}

// respondWebhook responds with a webhook, or with the problem document of err.
func (m *Merchant) respondWebhook(w http.ResponseWriter, r *http.Request, e *webhooks.Endpoint, err error) {
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, webhookView(*e))
}

// GetWebhook implements api.ServerInterface.
func (m *Merchant) GetWebhook(w http.ResponseWriter, r *http.Request, id string) {
	if m.validID(w, r, id) {
		e, err := m.webhooks.Get(r.Context(), caller(r).Scope(), id)
		m.respondWebhook(w, r, e, err)
	}
}

// PatchWebhook implements api.ServerInterface.
func (m *Merchant) PatchWebhook(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	var body api.WebhookPatch
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	patch := webhooks.Patch{URL: body.Url, State: (*webhooks.State)(body.State)}
	if body.Types != nil {
		types := eventTypes(*body.Types)
		patch.Types = &types
	}
	e, err := m.webhooks.Patch(r.Context(), caller(r), id, patch)
	m.respondWebhook(w, r, e, err)
}

// DeleteWebhook implements api.ServerInterface.
func (m *Merchant) DeleteWebhook(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	if err := m.webhooks.Delete(r.Context(), caller(r), id); err != nil {
		m.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// ReplaceWebhookSecret implements api.ServerInterface.
func (m *Merchant) ReplaceWebhookSecret(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) || !m.requireNoFields(w, r) {
		return
	}
	e, secret, err := m.webhooks.ReplaceSecret(r.Context(), caller(r), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, webhookSecretView(*e, secret))
}

// TestWebhook implements api.ServerInterface.
func (m *Merchant) TestWebhook(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) || !m.requireNoFields(w, r) {
		return
	}
	out, err := m.webhooks.Test(r.Context(), caller(r), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, api.WebhookTest{Status: int64(out.Status), Error: out.Error})
}

// ReplayWebhook implements api.ServerInterface.
func (m *Merchant) ReplayWebhook(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	var body api.WebhookReplay
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	e, err := m.webhooks.Replay(r.Context(), caller(r), id, body.Since)
	m.respondWebhook(w, r, e, err)
}

// ListDeliveries implements api.ServerInterface.
func (m *Merchant) ListDeliveries(w http.ResponseWriter, r *http.Request, id string, _ api.ListDeliveriesParams) {
	if !m.validID(w, r, id) {
		return
	}
	state := webhooks.Waiting
	if r.URL.Query().Has("state") {
		state = webhooks.DeliveryState(r.URL.Query().Get("state"))
	}
	if state != webhooks.Waiting && state != webhooks.Delivered && state != webhooks.Failed {
		m.refuse(w, r, contract.InvalidField("state", "must be waiting, delivered or failed"))
		return
	}
	p, ok := m.page(w, r)
	if !ok {
		return
	}
	list, err := m.webhooks.Deliveries(r.Context(), caller(r).Scope(), id, state, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next := cutPage(list, p, func(d webhooks.Delivery) string { return d.ID })
	httpserver.WriteJSON(w, http.StatusOK, api.DeliveryList{Items: views(list, deliveryView), NextCursor: next})
}

func deliveryView(d webhooks.Delivery) api.Delivery {
	v := api.Delivery{
		EventId: d.EventID(), OrderSn: d.OrderSN, Type: api.EventType(d.Type), State: api.DeliveryState(d.State),
		Attempts: int64(d.Attempts), Status: int64(d.Status), Error: d.Error, ChangedAt: d.ChangedAt, CreatedAt: d.CreatedAt,
	}
	if d.State == webhooks.Waiting {
		v.NextAttemptAt = &d.NextAt
	}
	return v
}
