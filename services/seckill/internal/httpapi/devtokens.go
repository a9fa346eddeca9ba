package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/signin"
)

const devTokenTTL = 24 * time.Hour

// CreateDevToken implements api.ServerInterface. Its route exists only if Deps.DevToken is set.
func (h *handlers) CreateDevToken(w http.ResponseWriter, r *http.Request) {
	id, err := signin.Developer(w, r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	token, err := h.DevToken(id, devTokenTTL)
	if err != nil {
		h.refuse(w, r, fmt.Errorf("mint token: %w", err))
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, api.DevToken{Token: token})
}
