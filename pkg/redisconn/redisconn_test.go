package redisconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
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

func TestClientsByMode(t *testing.T) {
	made := func(s settings.Redis) redis.UniversalClient {
		rdb := New(redis.UniversalOptions{ReadTimeout: time.Minute, MaxRedirects: 3}, To(s))
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	one, three := []string{"127.0.0.1:1"}, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	single := made(settings.Redis{Addrs: one, DB: 3, TLS: true, TLSServerName: "redis"}).(*redis.Client).Options()
	require.Equal(t, one[0], single.Addr)
	require.Equal(t, "redis", single.TLSConfig.ServerName)
	require.EqualValues(t, tls.VersionTLS12, single.TLSConfig.MinVersion)

	sentinel := made(settings.Redis{Addrs: three, DB: 3, Mode: settings.RedisSentinel, SentinelMaster: "m"}).(*redis.Client).Options()
	require.Equal(t, "FailoverClient", sentinel.Addr)
	require.Equal(t, 3, sentinel.DB)
	require.Equal(t, time.Minute, sentinel.ReadTimeout)

	for _, s := range []settings.Redis{{Addrs: three}, {Addrs: one, Mode: settings.RedisCluster}} {
		cluster := made(s).(*redis.ClusterClient).Options()
		require.Equal(t, s.Addrs, cluster.Addrs)
		require.Equal(t, time.Second, cluster.ClusterStateReloadInterval)
		require.True(t, cluster.DisableRoutingPolicies)
		require.Equal(t, 3, cluster.MaxRedirects)
		require.Equal(t, time.Minute, cluster.ReadTimeout)
	}
}

func TestThePasswordIsReadAtEachConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	write := func(password string) { require.NoError(t, os.WriteFile(path, []byte(password+"\n"), 0o600)) }
	write("one")
	mini := miniredis.RunT(t)
	mini.RequireUserAuth("gate", "one")
	var s struct{ settings.Redis }
	require.NoError(t, settings.Load(&s, map[string]string{
		"REDIS_ADDRS": mini.Addr(), "REDIS_USERNAME": "gate", "REDIS_PASSWORD_FILE": path,
	}))
	rdb := New(redis.UniversalOptions{MaxRetries: -1}, To(s.Redis))
	defer rdb.Close()
	require.NoError(t, rdb.Ping(t.Context()).Err())
	mini.RequireUserAuth("gate", "two")
	write("two")
	mini.Close()
	require.NoError(t, mini.Restart())
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, 10*time.Second, time.Millisecond,
		"a new connection has the new password")
}

func TestAccess(t *testing.T) {
	var out bytes.Buffer
	a := &Access{lifecycle.NewAccess("redis", "gate", slog.New(slog.NewTextHandler(&out, nil)), noop.Int64Counter{})}
	for _, no := range []error{redis.Nil, context.DeadlineExceeded} {
		a.observe(t.Context(), no)
		require.NoError(t, a.Ready())
	}
	require.Empty(t, out.String())
	denied := errors.New("remote error: tls: certificate required")
	a.observe(t.Context(), denied)
	require.ErrorIs(t, a.Ready(), denied)
}

func TestDenied(t *testing.T) {
	mini := miniredis.RunT(t)
	mini.RequireUserAuth("gate", "right")
	for password, says := range map[string]string{"wrong": "WRONGPASS", "": "NOAUTH"} {
		rdb := New(redis.UniversalOptions{MaxRetries: -1},
			To(settings.Redis{Addrs: []string{mini.Addr()}, Username: "gate", Password: settings.NewCredential(password)}))
		var out bytes.Buffer
		access := Watch(rdb, "gate", slog.New(slog.NewTextHandler(&out, nil)), noop.Int64Counter{})
		err := rdb.Ping(t.Context()).Err()
		require.True(t, Denied(err), err)
		require.ErrorContains(t, access.Ready(), "redis of the gate denies access: "+says)
		require.Contains(t, out.String(), says)
		_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Ping(t.Context()).Err() })
		require.True(t, Denied(err), err)
		require.NoError(t, rdb.Close())
	}
	require.False(t, Denied(redis.Nil))
	require.False(t, Denied(context.Canceled))
}

func TestClientLogIsAtDebug(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	clientLog{log}.Printf(t.Context(), "connection %d is broken", 7)
	require.Contains(t, out.String(), `level=DEBUG msg="redis client" message="connection 7 is broken"`)
}
