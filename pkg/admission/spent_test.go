package admission

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// One process after another spends an id once. While Redis is unavailable, each process does.
func TestSpent(t *testing.T) {
	mini := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr(), MaxRetries: -1, DialTimeout: 50 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	one, two := NewSpent(NewShared(rdb), "p:", time.Minute), NewSpent(NewShared(rdb), "p:", time.Minute)
	require.True(t, one.Spend(t.Context(), "a"))
	require.False(t, one.Spend(t.Context(), "a"))
	require.False(t, two.Spend(t.Context(), "a"))
	require.Equal(t, time.Minute, mini.TTL("p:a"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, one.Spend(cancelled, "b"))
	require.False(t, two.Spend(t.Context(), "b"), "the caller had disconnected")

	mini.Close()
	for _, id := range []string{"c", "d", "e"} {
		require.True(t, one.Spend(t.Context(), id))
		require.False(t, one.Spend(t.Context(), id))
	}
}

func TestSpentIsBounded(t *testing.T) {
	s := NewSpent(NewShared(nil), "p:", time.Minute)
	for i := range MaxLocal + 10 {
		require.True(t, s.Spend(t.Context(), time.Duration(i).String()))
	}
	require.LessOrEqual(t, len(s.local), MaxLocal)
}
