package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// GetProfile implements api.ServerInterface.
func (m *Merchant) GetProfile(w http.ResponseWriter, r *http.Request, _ api.GetProfileParams) {
	merchantID, ok := m.ofOne(w, r)
	if !ok {
		return
	}
	p, err := m.merchants.Profile(r.Context(), merchantID)
	m.respondProfile(w, r, p, err)
}

// PutProfile implements api.ServerInterface.
func (m *Merchant) PutProfile(w http.ResponseWriter, r *http.Request, _ api.PutProfileParams) {
	merchantID, ok := m.ofOne(w, r)
	if !ok {
		return
	}
	version, ok := m.ifMatch(w, r)
	if !ok {
		return
	}
	var body api.NewProfile
	err := httpserver.DecodeJSON(w, r, &body)
	switch {
	case err != nil:
	case body.TermsUrl == nil:
		err = contract.InvalidField("terms_url", "is required; empty for none")
	case body.Delivery == nil:
		err = contract.InvalidField("delivery", "is required; empty for none")
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	seller := core.Seller{Name: body.Name, TermsURL: *body.TermsUrl, Delivery: *body.Delivery}
	p, err := m.merchants.PutProfile(r.Context(), caller(r), merchantID, seller, version)
	m.respondProfile(w, r, p, err)
}

// ofOne returns the merchant that a request is about: the parameter merchant_id, which only operators may set to
// another merchant than their own, or that of the caller.
func (m *Merchant) ofOne(w http.ResponseWriter, r *http.Request) (merchantID string, ok bool) {
	if r.URL.Query().Has("merchant_id") {
		in, ok := m.listed(w, r)
		merchantID, _ = in.Limit()
		return merchantID, ok
	}
	by := caller(r)
	if by.MerchantID != "" {
		return by.MerchantID, true
	}
	if by.Operator {
		m.refuse(w, r, contract.InvalidField("merchant_id", "is required, as the token names no merchant"))
		return "", false
	}
	_, err := by.Owner()
	m.refuse(w, r, err)
	return "", false
}

func (m *Merchant) respondProfile(w http.ResponseWriter, r *http.Request, p merchants.Profile, err error) {
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	setETag(w, p.Version)
	httpserver.WriteJSON(w, http.StatusOK, api.Profile{
		MerchantId: p.MerchantID, Name: p.Name, TermsUrl: p.TermsURL, Delivery: p.Delivery, Version: p.Version,
		UpdatedAt: p.UpdatedAt,
	})
}
