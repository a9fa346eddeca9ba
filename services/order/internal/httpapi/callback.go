package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/order/api"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
)

// PaymentCallback implements api.ServerInterface. It verifies the signature over the unparsed body before it parses
// it.
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
	if err := provider.Verify(r.Header.Get(payment.Header), body, p.now()); err != nil {
		p.tel.Log.WarnContext(r.Context(), "payment callback refused: invalid signature",
			"provider", provider.Name(), "reason", err.Error())
		p.refuse(w, r, contract.Refuse(contract.CodeUnauthenticated, "The signature is missing, wrong or too old."))
		return
	}
	event, used, err := parseEvent(provider.Name(), body)
	switch {
	case err != nil:
		p.tel.Log.WarnContext(r.Context(), "parse signed payment callback failed",
			"provider", provider.Name(), "error", err)
		p.refuse(w, r, err)
		return
	case !used:
		p.tel.Log.InfoContext(r.Context(), "payment callback of a type that changes nothing",
			"provider", provider.Name(), "event_id", event.EventID, "outcome", event.Outcome)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	handled, err := p.core.Callback(r.Context(), event)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	if handled == core.EventUnknown {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// parseEvent parses the body of a callback. used is false for an event of a type that changes no payment, since providers
// send and add others; for the same reason unknown fields are ignored. Codes are compared without case.
func parseEvent(provider string, body []byte) (event core.PaymentEvent, used bool, err error) {
	var e struct {
		EventID   string `json:"event_id"`
		PaymentID string `json:"payment_id"`
		Outcome   string `json:"outcome"`
		Amount    *int64 `json:"amount"`
		Currency  string `json:"currency"`
	}
	if !utf8.Valid(body) {
		return event, false, contract.InvalidField("body", "is not UTF-8")
	}
	if err := json.Unmarshal(body, &e); err != nil { // also fails for a second JSON value
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return event, false, contract.InvalidField(wrong.Field, "has the wrong type")
		}
		return event, false, contract.InvalidField("body", "is not one JSON object")
	}
	event = core.PaymentEvent{
		Provider: provider, EventID: e.EventID, PaymentID: e.PaymentID, Outcome: core.Outcome(strings.ToLower(e.Outcome)),
		Currency: strings.ToUpper(e.Currency),
	}
	switch {
	case !printable(e.EventID):
		return event, false, contract.InvalidField("event_id", "must have 1 to 64 printable characters")
	case !printable(e.Outcome):
		return event, false, contract.InvalidField("outcome", "must have 1 to 64 printable characters")
	case event.Outcome != core.OutcomeSucceeded && event.Outcome != core.OutcomeFailed:
		return event, false, nil
	case !contract.ValidID(e.PaymentID):
		return event, false, contract.InvalidField("payment_id", "is not an id")
	case e.Amount == nil:
		return event, false, contract.InvalidField("amount", "is required")
	case *e.Amount < 0:
		return event, false, contract.InvalidField("amount", "must not be negative")
	case !alphabetic(event.Currency): // the payment's, which may have been withdrawn since
		return event, false, contract.InvalidField("currency", "must have three characters of A to Z")
	}
	event.Amount = *e.Amount
	return event, true, nil
}

// alphabetic reports whether s has the form of a currency: three of A to Z.
func alphabetic(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// printable reports whether s consists of 1 to 64 printable ASCII characters without spaces.
func printable(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
