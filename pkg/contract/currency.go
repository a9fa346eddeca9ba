package contract

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

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

// MinorUnits returns the amount that a decimal of this currency states: 99.00 EUR is 9900. It is the inverse of Decimal,
// and also takes fewer decimals, or none. It refuses what can be read in two ways: separators of thousands, a comma, signs,
// leading zeros, and three decimals unless the currency has that many.
func MinorUnits(decimal, code string) (int64, error) {
	digits := int(CurrencyDigits(code))
	if !IsCurrency(code) {
		return 0, fmt.Errorf("%q is no code of ISO 4217, such as EUR", code)
	}
	parts := plainDecimal.FindStringSubmatch(decimal)
	if parts == nil || len(parts[2]) > digits || len(parts[2]) == 3 && digits != 3 {
		return 0, fmt.Errorf("%q is no plain decimal of %s, such as %s", decimal, code, Decimal(123456, code))
	}
	minor, err := strconv.ParseInt(parts[1]+parts[2]+strings.Repeat("0", digits-len(parts[2])), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is too large", decimal)
	}
	return minor, nil
}

// plainDecimal matches digits, and a point with more digits.
var plainDecimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(?:\.([0-9]+))?$`)

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
