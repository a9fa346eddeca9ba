package contract

import (
	"strings"
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

func TestMinorUnitsAreNeverGuessed(t *testing.T) {
	for _, c := range []struct {
		decimal, code string
		want          int64
	}{
		{"99.00", "EUR", 9900},
		{"99", "EUR", 9900},
		{"99.5", "EUR", 9950},
		{"0.05", "EUR", 5},
		{"0", "EUR", 0},
		{"10000", "JPY", 10000},
		{"1.500", "KWD", 1500},
		{"1.5", "KWD", 1500},
		{"0.0001", "CLF", 1},
		{"92233720368547758.07", "USD", 9223372036854775807},
	} {
		got, err := MinorUnits(c.decimal, c.code)
		require.NoError(t, err, "%s %s", c.decimal, c.code)
		require.Equal(t, c.want, got, "%s %s", c.decimal, c.code)
	}
	for _, decimal := range []string{
		"", " ", "9,000", "9.000", "9,00", "9.000,00", "9,000.00", "9 000", "9'000", "9\u00a0000", "09", "00.50", ".5", "5.",
		"+5", "-5", "5e3", "0x5", "5.001", "1.2.3", "€5", "5 EUR", " 5", "5 ", "٥", "５", "NaN", "92233720368547758.08",
	} {
		_, err := MinorUnits(decimal, "EUR")
		require.Error(t, err, "%q", decimal)
	}
	for _, c := range [][2]string{{"1.0", "JPY"}, {"1.234", "CLF"}, {"1.0000", "KWD"}, {"1", "eur"}, {"1", ""}, {"1", "EUX"}} {
		_, err := MinorUnits(c[0], c[1])
		require.Error(t, err, "%v", c)
	}
}

// What is accepted is what Decimal prints, without zeros at its end.
func FuzzMinorUnits(f *testing.F) {
	for _, decimal := range []string{"99.00", "9,000", "9.000", "0.5", "1e3", "10000"} {
		f.Add(decimal, "EUR")
		f.Add(decimal, "KWD")
		f.Add(decimal, "JPY")
	}
	f.Fuzz(func(t *testing.T, decimal, code string) {
		minor, err := MinorUnits(decimal, code)
		if err != nil {
			return
		}
		whole := Decimal(minor, code)
		require.True(t, strings.HasPrefix(whole, decimal), "%s %s is %s", decimal, code, whole)
		require.Empty(t, strings.Trim(whole[len(decimal):], ".0"), "%s %s is %s", decimal, code, whole)
		again, err := MinorUnits(whole, code)
		require.NoError(t, err)
		require.Equal(t, minor, again)
	})
}
