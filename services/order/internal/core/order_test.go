package core_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

func TestAmountsDoNotOverflow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		figure := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64))
		lines := make([]contract.PricedLine, rapid.IntRange(0, contract.MaxLines).Draw(t, "lines"))
		want := new(big.Int)
		for i := range lines {
			lines[i] = contract.PricedLine{Qty: figure.Draw(t, "qty"), Price: figure.Draw(t, "price")}
			want.Add(want, new(big.Int).Mul(big.NewInt(lines[i].Qty), big.NewInt(lines[i].Price)))
		}
		got, err := core.AmountOf(lines)
		if !want.IsInt64() {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want.Int64(), got)
	})
	_, err := core.AmountOf([]contract.PricedLine{{Qty: -1, Price: 1}})
	require.Error(t, err)
}
