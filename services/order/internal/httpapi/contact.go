package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/order/api"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/phone"
)

// GetContact implements api.ServerInterface.
func (p *Public) GetContact(w http.ResponseWriter, r *http.Request, orderSN api.OrderSN) {
	if !contract.ValidID(orderSN) {
		p.refuse(w, r, errNoOrder)
		return
	}
	c, err := p.core.Contact(r.Context(), auth.From(r.Context()).UserID, orderSN)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, contactView(c))
}

// PutContact implements api.ServerInterface.
func (p *Public) PutContact(w http.ResponseWriter, r *http.Request, orderSN api.OrderSN) {
	if !contract.ValidID(orderSN) {
		p.refuse(w, r, errNoOrder)
		return
	}
	var body api.Contact
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		p.refuse(w, r, err)
		return
	}
	var lines []string
	if body.AddressLines != nil {
		lines = *body.AddressLines
	}
	c, err := core.NewContact(body.Name, body.Phone, lines, phone.Normalize)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	if err := p.core.PutContact(r.Context(), auth.From(r.Context()).UserID, orderSN, c); err != nil {
		p.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, contactView(c))
}

func contactView(c core.Contact) api.Contact {
	v := api.Contact{Name: c.Name, Phone: c.Phone}
	if len(c.AddressLines) > 0 {
		v.AddressLines = &c.AddressLines
	}
	return v
}
