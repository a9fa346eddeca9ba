package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode"

	"flashsale.internal/pkg/contract"
)

// Bounds of a contact, in characters.
const (
	maxContactName  = 64
	maxAddressLines = 4
	maxAddressLine  = 120
)

// Contact is how to reach the buyer of an order. Its text never leaves the process other than in a response to the
// buyer or to inventory; logged or printed, it is hidden.
type Contact struct {
	Name         string
	Phone        string // E.164
	AddressLines []string
}

// plainContact is the text that is encrypted, in JSON. It never gets another field under an old name, since stored
// contacts are read by later releases.
type plainContact struct {
	Name         string   `json:"name"`
	Phone        string   `json:"phone"`
	AddressLines []string `json:"address_lines,omitempty"`
}

const hidden = "(hidden)"

// String implements fmt.Stringer.
func (Contact) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Contact) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (Contact) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalJSON implements json.Marshaler, for logged values that hold a contact.
func (Contact) MarshalJSON() ([]byte, error) { return json.Marshal(hidden) }

// NewContact returns a contact with its phone number in E.164 and without spaces around its texts. It refuses with
// invalid_request and names each wrong field. normalize returns a phone number in E.164; its error is for the buyer and
// does not repeat the number.
func NewContact(
	name, number string, addressLines []string, normalize func(string) (string, error),
) (Contact, error) {
	var wrong []contract.FieldError
	check := func(field, text string, most int) string {
		text = strings.TrimFunc(text, func(r rune) bool { return unicode.Is(unicode.Zs, r) })
		if message := (contract.Text{Most: most}).Check(text); message != "" {
			wrong = append(wrong, contract.FieldError{Field: field, Message: message})
		}
		return text
	}
	c := Contact{Name: check("name", name, maxContactName)}
	var err error
	if c.Phone, err = normalize(number); err != nil {
		wrong = append(wrong, contract.FieldError{Field: "phone", Message: err.Error()})
	}
	if len(addressLines) > maxAddressLines {
		wrong = append(wrong, contract.FieldError{
			Field: "address_lines", Message: fmt.Sprintf("must be at most %d", maxAddressLines),
		})
		addressLines = nil
	}
	for i, line := range addressLines {
		c.AddressLines = append(c.AddressLines, check(fmt.Sprintf("address_lines[%d]", i), line, maxAddressLine))
	}
	if len(wrong) > 0 {
		refusal := contract.InvalidField(wrong[0].Field, wrong[0].Message)
		refusal.Fields = wrong
		return Contact{}, refusal
	}
	return c, nil
}

// errContactFormat is the error of a decrypted contact that cannot be parsed. It must not contain the text.
var errContactFormat = errors.New("decrypted contact cannot be parsed")

// encode returns the text that is encrypted.
func (c Contact) encode() ([]byte, error) { return json.Marshal(plainContact(c)) }

func decodeContact(plain []byte) (Contact, error) {
	var c plainContact
	if json.Unmarshal(plain, &c) != nil {
		return Contact{}, errContactFormat
	}
	return Contact(c), nil
}
