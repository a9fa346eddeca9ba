package inventory

import (
	"context"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory/internal/core"
)

// ownRedis starts a Redis server whose settings the test may change.
func ownRedis(t *testing.T) (addr string) {
	t.Helper()
	addr = porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "",
		"--appendonly", "no")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer rdb.Close()
	require.Eventually(t, func() bool { return rdb.Ping(context.Background()).Err() == nil }, time.Minute,
		10*time.Millisecond)
	return addr
}

// A Redis that has reached maxmemory is filled, swept, trimmed and repaired as before: that is how it drains.
func TestAtFullMemoryTheRoundsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, dbtest.MariaDB(t, Migrations), []string{ownRedis(t)}, 0)
	a := w.sale(1, 50)
	landed, lost, queued := w.buy(a, "u1"), w.buy(a, "u2"), w.buy(a, "u3")
	w.land(landed)
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	require.NoError(t, w.rdb.ConfigSet(w.ctx, "maxmemory", "1").Err())
	require.ErrorContains(t, w.rdb.Set(w.ctx, "x", "y", 0).Err(), "OOM")

	paused, err := w.merchants.Pause(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	require.Equal(t, core.ActivityPaused, paused.State)
	_, err = w.merchants.Resume(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	w.shift = time.Hour
	for name, round := range map[string]func(context.Context) error{
		"gate controller": w.gates.EnsureGates, "tidying": w.gates.TrimGates, "orders": w.orderSweep.Run,
		"overdue": w.overdueSweep.Run, "journal": w.journalSweep.Run, "adjustments": w.adjustmentSweep.Run,
		"reconciler": w.reconciler.ReconcileAll,
	} {
		require.NoError(t, round(w.ctx), name)
	}
	require.NoError(t, w.rdb.HDel(w.ctx, gateKey(a, "held"), lost.OrderSN).Err())
	require.NotEmpty(t, w.reconcile(a).Repairs)
	w.land(queued)
	w.follow(event(landed, contract.OrderCreated), event(landed, contract.OrderClosed))
	require.Equal(t, int64(49), w.left(a, 0))

	// So do the loops, which take a lock each.
	require.NoError(t, w.rdb.Del(w.ctx, gateKey(a, "sale")).Err())
	svc, err := New(Config{
		Auth: settings.Auth{Lenient: true, HS256Secrets: []string{testSecret}}, Internal: settings.Internal{Secrets: []string{"x"}},
		Timers: often(20 * time.Millisecond),
	}, Deps{DB: w.db, Redis: w.rdb, Bus: discardBus{w.broker}, Telemetry: w.tel})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for _, c := range svc.Components() {
		if c.Name == "inventory gate controller" {
			wg.Go(func() { _ = lifecycle.Run(ctx, w.tel.Log, time.Second, c) })
		}
	}
	require.Eventually(t, func() bool {
		_, err := w.gate.Sale(w.ctx, a.ID)
		return err == nil
	}, time.Minute, 10*time.Millisecond, "the sale is shown again")
}
