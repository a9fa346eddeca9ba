package contract

import (
	"fmt"

	"github.com/bojanz/currency"
)

// unknownDigits are the decimals of a code outside ISO 4217. A stored SKU may have one that was withdrawn since.
const unknownDigits = 2

// Currencies returns the codes of ISO 4217, in order.
func Currencies() []string { return currency.GetCurrencyCodes() }

// IsCurrency reports whether a code is in ISO 4217.
func IsCurrency(code string) bool {
	_, known := currency.GetDigits(code)
	return known
}

// CurrencyDigits returns the decimals of a currency by ISO 4217: 2 of EUR and HUF, 0 of JPY, 3 of KWD.
func CurrencyDigits(code string) int64 {
	if digits, known := currency.GetDigits(code); known {
		return int64(digits)
	}
	return unknownDigits
}

// Decimal returns an amount in minor units with all decimals of its currency: 9900 EUR is 99.00. It is exact; minor is
// not negative.
func Decimal(minor int64, code string) string {
	digits := int(CurrencyDigits(code))
	text := fmt.Sprintf("%0*d", digits+1, minor)
	if digits == 0 {
		return text
	}
	return text[:len(text)-digits] + "." + text[len(text)-digits:]
}
