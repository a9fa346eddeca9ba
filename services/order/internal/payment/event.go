package payment

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

// Event is the body of a callback in the project's own format, PaymentEvent in the OpenAPI file of the service.
type Event struct {
	EventID   string `json:"event_id"`
	PaymentID string `json:"payment_id"`
	Outcome   string `json:"outcome"`
	Amount    *int64 `json:"amount"`
	Currency  string `json:"currency"`
}

// Parse is core.Provider.Parse of a provider whose callbacks are in the project's own format: it verifies Header over
// the unparsed body by any of the secrets, and returns the event. It returns none for a type that means nothing here,
// since providers send and add others; for the same reason unknown fields are ignored. Codes are compared without case.
func Parse(
	provider string, secrets []string, now time.Time, h http.Header, body []byte,
) ([]core.PaymentEvent, error) {
	if err := Verify(secrets, h.Get(Header), body, now); err != nil {
		return nil, Unauthenticated(err)
	}
	var e Event
	if !utf8.Valid(body) {
		return nil, contract.InvalidField("body", "is not UTF-8")
	}
	if err := json.Unmarshal(body, &e); err != nil { // also fails for a second JSON value
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return nil, contract.InvalidField(wrong.Field, "has the wrong type")
		}
		return nil, contract.InvalidField("body", "is not one JSON object")
	}
	event := core.PaymentEvent{
		Provider: provider, EventID: e.EventID, PaymentID: e.PaymentID,
		Outcome: core.Outcome(strings.ToLower(e.Outcome)), Currency: strings.ToUpper(e.Currency),
	}
	switch {
	case !printable(e.EventID):
		return nil, contract.InvalidField("event_id", "must have 1 to 64 printable characters")
	case !printable(e.Outcome):
		return nil, contract.InvalidField("outcome", "must have 1 to 64 printable characters")
	case !known(event.Outcome):
		return nil, nil
	case !contract.ValidID(e.PaymentID):
		return nil, contract.InvalidField("payment_id", "is not an id")
	case e.Amount == nil:
		return nil, contract.InvalidField("amount", "is required")
	case *e.Amount < 0:
		return nil, contract.InvalidField("amount", "must not be negative")
	case !alphabetic(event.Currency): // the payment's, which may have been withdrawn since
		return nil, contract.InvalidField("currency", "must have three characters of A to Z")
	}
	event.Amount = *e.Amount
	return []core.PaymentEvent{event}, nil
}

// Unauthenticated returns the refusal of a callback whose signature is not valid.
func Unauthenticated(why error) error {
	return contract.Refuse(contract.CodeUnauthenticated, "The signature is missing, wrong or too old.").Because(why)
}

func known(o core.Outcome) bool {
	switch o {
	case core.OutcomeSucceeded, core.OutcomeFailed, core.OutcomeDisputed, core.OutcomeReturned:
		return true
	}
	return false
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
