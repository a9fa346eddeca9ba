package shop

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/stockgate"
)

// GateEntries returns the entries of the sale's gate in a Redis, by order_sn.
func (s Sale) GateEntries(ctx context.Context, t *testing.T, rdb redis.UniversalClient) map[string]stockgate.Entry {
	t.Helper()
	gate := stockgate.New(rdb, stockgate.Options{})
	all := map[string]stockgate.Entry{}
	for cursor := uint64(0); ; {
		entries, next, err := gate.Entries(ctx, s.ActivityID, cursor, 1000)
		require.NoError(t, err)
		for _, e := range entries {
			require.False(t, e.Broken, "entry %s of the gate cannot be read", e.OrderSN)
			all[e.OrderSN] = e
		}
		if cursor = next; cursor == 0 {
			return all
		}
	}
}
