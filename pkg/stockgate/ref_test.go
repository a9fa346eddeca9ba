package stockgate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func TestAllKeysOfAGateShareASlot(t *testing.T) {
	ctx := t.Context()
	rdb := clusterRedis(t)
	for _, ref := range []contract.GateRef{
		{ActivityID: "1", Bucket: 0}, {ActivityID: "1", Bucket: 1}, {ActivityID: "9223372036854775807", Bucket: 12},
	} {
		slots := map[int64]bool{}
		for _, key := range keysOf(ref) {
			require.True(t, strings.HasPrefix(key, "fs:{"+ref.String()+"}:"), key)
			slot, err := rdb.ClusterKeySlot(ctx, key).Result()
			require.NoError(t, err)
			slots[slot] = true
		}
		require.Len(t, slots, 1, ref)
	}
}

func TestParseRefAcceptsOneForm(t *testing.T) {
	for _, ref := range []contract.GateRef{{ActivityID: "1", Bucket: 0}, {ActivityID: "77", Bucket: 3}} {
		back, ok := parseRef(ref.String())
		require.True(t, ok)
		require.Equal(t, ref, back)
	}
	for _, s := range []string{"", "1", ":0", "1:", "1:-1", "01:0", "1:00", "1:+1", "a:0", "1:0:0"} {
		_, ok := parseRef(s)
		require.False(t, ok, s)
	}
}
