package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/order/api"
	"flashsale.internal/services/order/internal/core"
)

// PaymentCallback implements api.ServerInterface.
func (p *Public) PaymentCallback(w http.ResponseWriter, r *http.Request, name string, _ api.PaymentCallbackParams) {
	provider, ok := p.core.Provider(name)
	if !ok {
		p.refuse(w, r, contract.Refuse(contract.CodeNotFound, "There is no such payment provider."))
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		p.refuse(w, r, contract.Refuse(contract.CodeUnsupportedMediaType, "The body must be application/json."))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, httpserver.MaxBody))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			p.refuse(w, r, contract.Refuse(contract.CodeBodyTooLarge, "The body is too large."))
			return
		}
		p.refuse(w, r, contract.InvalidField("body", "could not be read").Because(err))
		return
	}
	events, err := provider.Parse(r.Context(), r.Header, body)
	if err != nil {
		p.tel.Log.WarnContext(r.Context(), "payment callback refused", "provider", provider.Name(), "error", err.Error())
		p.refuse(w, r, err)
		return
	}
	if len(events) == 0 {
		p.tel.Log.InfoContext(r.Context(), "payment callback that changes nothing", "provider", provider.Name())
	}
	status := http.StatusNoContent
	for _, e := range events {
		handled, err := p.core.Callback(r.Context(), e)
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		if handled == core.EventUnknown {
			status = http.StatusAccepted
		}
	}
	w.WriteHeader(status)
}
