package stockgate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllKeysOfAGateShareASlot(t *testing.T) {
	ctx := t.Context()
	rdb := clusterRedis(t)
	for _, activityID := range []string{"1", "9223372036854775807"} {
		slots := map[int64]bool{}
		for _, key := range keysOf(activityID) {
			require.True(t, strings.HasPrefix(key, "fs:{"+activityID+"}:"), key)
			slot, err := rdb.ClusterKeySlot(ctx, key).Result()
			require.NoError(t, err)
			slots[slot] = true
		}
		require.Len(t, slots, 1, activityID)
	}
}
