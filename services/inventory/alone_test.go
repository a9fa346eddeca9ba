package inventory

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/lock"
)

// Sweeps publish, close and release what was lost, and so free memory. They must run on a Redis that is full, where no
// lock can be made.
func TestSweepsRunOnAFullRedis(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	locker := lock.New(rdb, slog.New(slog.DiscardHandler))
	rounds, failed := 0, errors.New("round failed")
	round := func(context.Context) error {
		rounds++
		return failed
	}
	run := func() error { return runAlone(t.Context(), locker, "sweep", round) }

	require.ErrorIs(t, run(), failed)
	require.Equal(t, 1, rounds)
	server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	require.ErrorIs(t, run(), failed)
	require.Equal(t, 2, rounds)
	server.SetError("LOADING Redis is loading the dataset in memory")
	require.ErrorIs(t, run(), lock.ErrUnavailable)
	require.Equal(t, 2, rounds, "an unreachable Redis is no full one")
}
