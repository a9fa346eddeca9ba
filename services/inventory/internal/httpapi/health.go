package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/presence"
	"flashsale.internal/services/inventory/api"
)

// GetHealth implements api.ServerInterface. Without the Redis of the limits, it shows only this process.
func (m *Merchant) GetHealth(w http.ResponseWriter, r *http.Request) {
	source := api.HealthSourceRedis
	states, err := presence.List(r.Context(), m.limits.Redis())
	if err != nil {
		source, states = api.HealthSourceSelf, []presence.State{m.presence.State(r.Context())}
	}
	httpserver.WriteJSON(w, http.StatusOK, struct {
		Source api.HealthSource `json:"source"`
		Items  []presence.State `json:"items"`
	}{source, states})
}
