package contract_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
)

// In every currency an amount is refused, or Stripe takes the same money: it reads the decimals of its own table.
func TestStripeTakesTheSameMoney(t *testing.T) {
	t.Parallel()
	none := []string{"BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF", "UYI"}
	three := []string{"BHD", "JOD", "KWD", "OMR", "TND"}
	scale := func(digits int64) int64 { return []int64{1000, 100, 10, 1}[digits] }
	rapid.Check(t, func(t *rapid.T) {
		minor := rapid.Int64Range(1, 1e13).Draw(t, "amount")
		for _, code := range contract.Currencies() {
			amount, err := contract.ToStripe(minor, code)
			if err != nil {
				continue
			}
			digits := int64(2)
			switch {
			case slices.Contains(none, code):
				digits = 0
			case slices.Contains(three, code):
				digits = 3
				require.Zero(t, amount%10, code)
			}
			if code == "ISK" || code == "UGX" {
				require.Zero(t, amount%100, code)
			}
			require.Equal(t, minor*scale(contract.CurrencyDigits(code)), amount*scale(digits), code)
			require.Equal(t, minor, contract.FromStripe(amount, code), code)
		}
	})
}

func TestAmountsThatStripeCannotTake(t *testing.T) {
	t.Parallel()
	for code, minor := range map[string]int64{"KWD": 1001, "MGA": 150, "IQD": 1000, "CLF": 1000, "UYW": 1000, "EUX": 1, "UGX": 1e18} {
		_, err := contract.ToStripe(minor, code)
		require.ErrorContains(t, err, map[bool]string{true: "amount", false: code}[code == "UGX"])
	}
	refused := 0
	for _, code := range contract.Currencies() {
		if _, err := contract.ToStripe(100, code); err != nil {
			refused++
		}
	}
	require.Equal(t, 4, refused, "only CLF, IQD, LYD and UYW are refused whatever the amount")
}
