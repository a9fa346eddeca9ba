package redisconn

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestNewKeepsTheCallersTimeouts(t *testing.T) {
	rdb := New(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, DB: 3, ReadTimeout: time.Minute, MaxRetries: -1},
		func(o *redis.UniversalOptions) { o.PoolSize = 2 })
	defer rdb.Close()
	o := rdb.(*redis.Client).Options()
	require.Equal(t, time.Minute, o.ReadTimeout)
	require.Zero(t, o.MaxRetries)
	require.Equal(t, 3, o.DB)
	require.Equal(t, 2, o.PoolSize, "tune wins")
	require.True(t, o.ContextTimeoutEnabled)
}

func TestNewMakesAClusterClientOfSeveralAddresses(t *testing.T) {
	rdb := New(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	defer rdb.Close()
	require.IsType(t, &redis.ClusterClient{}, rdb)
}

func TestClientLogIsAtDebug(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	clientLog{log}.Printf(t.Context(), "connection %d is broken", 7)
	require.Contains(t, out.String(), `level=DEBUG msg="redis client" message="connection 7 is broken"`)
}
