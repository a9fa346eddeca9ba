package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// SKUs may have the name of the list. Their messages are decoded in one pass as well.
func TestSKUsNamedItemsAreDecodedInOnePass(t *testing.T) {
	for _, sku := range []string{"items", "Items", "ITEMS"} {
		require.False(t, twoLists([]byte(`{"v":1,"items":[{"lines":[{"sku_id":"`+sku+`","qty":1}]}]}`)), sku)
		require.True(t, twoLists([]byte(`{"v":1,"items":[],"`+sku+`":[]}`)), sku)
	}
}
