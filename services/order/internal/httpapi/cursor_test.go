package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

func FuzzCursor(f *testing.F) {
	f.Add(formatCursor(core.Position{CreatedAt: time.UnixMilli(1_795_000_000_123), OrderSN: "249851862746972224"}))
	f.Add("MQ")
	f.Add("")
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := parseCursor(cursor)
		if err != nil {
			require.Equal(t, contract.CodeInvalidRequest, contract.CodeOf(err))
			return
		}
		again, err := parseCursor(formatCursor(p))
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
