// Package phone normalizes the phone numbers that buyers enter.
package phone

import (
	"errors"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// mainland is the region of numbers without a country code.
const mainland = "CN"

// maxLen bounds the text, with separators, in bytes.
const maxLen = 40

// maxE164 is the length of the longest number in E.164, with its +.
const maxE164 = 16

// ErrInvalid reports a text that is no phone number.
var ErrInvalid = errors.New("must be a number of mainland China, or an international one such as +4915112345678")

// Normalize returns a number in E.164, such as +8613812345678. The text consists of ASCII digits, spaces, hyphens and
// parentheses, with one + at most, at the start. A number without + or 00 is one of mainland China. Such a number, also
// with +86, must be valid according to the numbering plan; any other number must have a known country code and a
// length that exists there.
func Normalize(text string) (string, error) {
	text = strings.Trim(text, " ")
	if text == "" || len(text) > maxLen || strings.Trim(strings.TrimPrefix(text, "+"), "0123456789 -()") != "" {
		return "", ErrInvalid
	}
	if strings.Contains(text[1:], "+") || strings.Trim(text[:1], "+(0123456789") != "" {
		return "", ErrInvalid
	}
	e164, ok := parse(text)
	if !ok {
		return "", ErrInvalid
	}
	// Some texts of zeros are not the same number when they are read again.
	if again, ok := parse(e164); !ok || again != e164 {
		return "", ErrInvalid
	}
	return e164, nil
}

func parse(text string) (e164 string, ok bool) {
	number, err := phonenumbers.Parse(text, mainland)
	if err != nil {
		return "", false
	}
	if phonenumbers.GetRegionCodeForCountryCode(int(number.GetCountryCode())) == mainland {
		ok = phonenumbers.IsValidNumber(number)
	} else {
		ok = phonenumbers.IsPossibleNumber(number)
	}
	e164 = phonenumbers.Format(number, phonenumbers.E164)
	return e164, ok && len(e164) <= maxE164
}
