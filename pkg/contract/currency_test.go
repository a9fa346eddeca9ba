package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Browsers and operating systems count some of these otherwise: they leave out decimals that are not paid in cash.
func TestCurrencyDigitsAreThoseOfISO4217(t *testing.T) {
	for code, digits := range map[string]int64{
		"EUR": 2, "USD": 2, "CNY": 2, "HUF": 2, "IDR": 2, "COP": 2, "MGA": 2, "JPY": 0, "KRW": 0, "UGX": 0, "ISK": 0,
		"KWD": 3, "IQD": 3, "TND": 3, "CLF": 4,
	} {
		require.True(t, IsCurrency(code), code)
		require.Equal(t, digits, CurrencyDigits(code), code)
	}
	for _, code := range []string{"", "eur", "EU", "EURO", "EUX", "XX1"} {
		require.False(t, IsCurrency(code), code)
	}
	require.EqualValues(t, 2, CurrencyDigits("EUX"), "as before")
	require.Greater(t, len(Currencies()), 150)
	for _, code := range Currencies() {
		require.True(t, IsCurrency(code), code)
		require.LessOrEqual(t, CurrencyDigits(code), int64(4), code)
	}
}

func TestDecimals(t *testing.T) {
	for _, c := range []struct {
		minor int64
		code  string
		want  string
	}{
		{0, "EUR", "0.00"},
		{5, "EUR", "0.05"},
		{9900, "EUR", "99.00"},
		{990000, "HUF", "9900.00"},
		{10000, "JPY", "10000"},
		{1500, "KWD", "1.500"},
		{1, "CLF", "0.0001"},
		{9223372036854775807, "USD", "92233720368547758.07"},
	} {
		require.Equal(t, c.want, Decimal(c.minor, c.code), "%d %s", c.minor, c.code)
	}
}
