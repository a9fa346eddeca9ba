package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTotalsOfAnActivity(t *testing.T) {
	for name, c := range map[string]struct {
		items []Stock
		want  ActivityTotals
	}{
		"nothing":  {nil, ActivityTotals{}},
		"a draft":  {[]Stock{{Price: 9, Total: 5, Available: 5}}, ActivityTotals{Units: 5, Left: 5}},
		"two SKUs": {[]Stock{{Price: 9, Total: 5, Available: 1, Reserved: 2, Sold: 2}, {Price: 100, Total: 1, Sold: 1}}, ActivityTotals{6, 1, 3, 118}},
		"at the bound": {
			[]Stock{{Price: 1, Total: MaxRevenue - 5, Sold: MaxRevenue - 5}, {Price: 5, Total: 1, Sold: 1}},
			ActivityTotals{MaxRevenue - 4, 0, MaxRevenue - 4, MaxRevenue},
		},
		"above the bound": {
			[]Stock{{Price: 1e11, Total: 1e8, Sold: 1e8}, {Price: 1, Total: 1, Sold: 1}, {Price: 0, Total: 1, Sold: 1}},
			ActivityTotals{1e8 + 2, 0, 1e8 + 2, MaxRevenue},
		},
	} {
		require.Equal(t, c.want, (&Activity{Items: c.items}).Totals(), name)
	}
}
