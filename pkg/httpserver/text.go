package httpserver

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"flashsale.internal/pkg/contract"
)

// CheckText returns the *contract.Refusal of a text field that is blank, longer than most characters, or not UTF-8; nil
// if it is fine.
func CheckText(field, s string, most int) error {
	if strings.TrimSpace(s) == "" || utf8.RuneCountInString(s) > most || !utf8.ValidString(s) {
		return contract.InvalidField(field, "must have 1 to "+strconv.Itoa(most)+" characters, not only white space")
	}
	return nil
}
