package ordersn_test

import (
	"context"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// A worker whose lease is not renewed issues no path, and soon another one may take its id.
func TestAtFullMemoryALeaseIsAcquiredAndRenewed(t *testing.T) {
	addr := porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "",
		"--appendonly", "no")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	eventually(t, func() bool { return rdb.Ping(context.Background()).Err() == nil })
	s := server{rdb, "fs:worker:leases"}

	held := lease(s)
	require.True(t, held.Step(t.Context()))
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, rdb.HSet(t.Context(), s.key, "x", "y").Err(), "OOM")
	_, _, before := held.Window()
	require.Eventually(t, func() bool {
		_, _, high := held.Window()
		return held.Step(t.Context()) && high > before
	}, time.Minute, 5*time.Millisecond, "renewed")

	fresh := lease(s)
	require.True(t, fresh.Step(t.Context()), "acquired")
	a, _, _ := held.Window()
	b, _, _ := fresh.Window()
	require.NotEqual(t, a, b)
}
