package lock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/lock"
)

var (
	quiet           = slog.New(slog.DiscardHandler)
	noNotifications = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled} // they would resolve names and log failures
)

const (
	patience = time.Minute      // bound for a busy machine; nothing waits that long in a successful test
	long     = 30 * time.Second // a TTL in real time; calls to Redis (a fifth of it) must not time out on a busy machine
	short    = 6 * time.Second  // the same for tests that wait for a renewal
)

func dial() *redis.Client {
	addr := os.Getenv("REDIS_ADDRS")
	if addr == "" {
		addr = "127.0.0.1:16379"
	}
	return redis.NewClient(&redis.Options{Addr: strings.Split(addr, ",")[0], DB: 4, ContextTimeoutEnabled: true, ReadTimeout: patience, MaintNotificationsConfig: noNotifications})
}

func realRedis(t *testing.T) *redis.Client {
	rdb := dial()
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("no Redis (REDIS_ADDRS): run `make test`, which starts one: %v", err)
	}
	return rdb
}

func mini(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true, MaxRetries: -1, ReadTimeout: patience, MaintNotificationsConfig: noNotifications})
	t.Cleanup(func() { _ = rdb.Close() })
	return m, rdb
}

// fresh returns a lock name for this test only; its keys are deleted at the end.
func fresh(t *testing.T, rdb *redis.Client) string {
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	name := "test-" + hex.EncodeToString(random)
	t.Cleanup(func() { rdb.Del(context.Background(), key(name), key(name)+":fence") })
	return name
}

// each runs fn with a fresh lock name on the real Redis and on miniredis (whose keys expire only by FastForward).
func each(t *testing.T, fn func(t *testing.T, rdb *redis.Client, name string)) {
	t.Run("redis", func(t *testing.T) {
		rdb := realRedis(t)
		fn(t, rdb, fresh(t, rdb))
	})
	t.Run("miniredis", func(t *testing.T) {
		_, rdb := mini(t)
		fn(t, rdb, "test")
	})
}

// bubble runs fn in virtual time, with a miniredis that uses the virtual time and is reached through pipes.
func bubble(t *testing.T, fn func(t *testing.T, m *miniredis.Miniredis)) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		fn(t, m)
	})
}

// process returns a Locker with its own connection, which stands for the locker of another process.
func process(t *testing.T, m *miniredis.Miniredis, ttl time.Duration) (*lock.Locker, *wire) {
	rdb := piped(t, m)
	w := &wire{}
	t.Cleanup(w.late.Wait)
	rdb.AddHook(w)
	return lock.New(rdb, quiet, lock.TTL(ttl)), w
}

// piped returns a client for use in a bubble.
func piped(t *testing.T, m *miniredis.Miniredis) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaxRetries:               -1,
		ConnMaxIdleTime:          -1, // measured by a clock outside of the bubble
		MaintNotificationsConfig: noNotifications,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func key(name string) string { return "fs:lock:{" + name + "}" }

func locker(rdb *redis.Client, ttl time.Duration) *lock.Locker {
	return lock.New(rdb, quiet, lock.TTL(ttl))
}

func free(t *testing.T, rdb *redis.Client, name string) {
	t.Helper()
	n, err := rdb.Exists(context.Background(), key(name)).Result()
	require.NoError(t, err)
	require.Zero(t, n, "the lock was not released")
}

// awaitLoss waits until the context of work is cancelled.
func awaitLoss(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		t.Error("the context of work was not cancelled")
	}
}
