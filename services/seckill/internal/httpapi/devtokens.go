package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/api"
)

const devTokenTTL = 24 * time.Hour

// CreateDevToken implements api.ServerInterface. Its route exists only if Deps.DevToken is set.
func (h *handlers) CreateDevToken(w http.ResponseWriter, r *http.Request) {
	var body struct {
		UserID     string      `json:"user_id"`
		Roles      []auth.Role `json:"roles"`
		MerchantID *string     `json:"merchant_id"`
	}
	err := httpserver.DecodeJSON(w, r, &body)
	if err == nil && !contract.ValidUserID(body.UserID) {
		err = contract.InvalidField("user_id", "must be 1 to 64 of A-Z a-z 0-9 _ . -")
	}
	for i, role := range body.Roles {
		if err == nil && role != auth.Merchant && role != auth.Operator {
			err = contract.InvalidField(fmt.Sprintf("roles[%d]", i), "must be merchant or operator")
		}
	}
	id := auth.Identity{UserID: body.UserID, Roles: body.Roles}
	if body.MerchantID != nil {
		id.MerchantID = *body.MerchantID
		if err == nil && !contract.ValidMerchantID(id.MerchantID) {
			err = contract.InvalidField("merchant_id", "must be 1 to 64 of A-Z a-z 0-9 _ . -")
		}
	}
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
