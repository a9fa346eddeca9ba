package stockgate

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// startServer starts a Redis server without data.
func startServer(t *testing.T) (addr string, rdb *redis.Client, process *os.Process) {
	t.Helper()
	port, err := freePort()
	require.NoError(t, err)
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	rdb = redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	require.Eventually(t, func() bool { return rdb.Ping(context.Background()).Err() == nil }, patience, 10*time.Millisecond)
	return addr, rdb, cmd.Process
}

// A purchase is Accepted only once a replica has it. Until then it is Unconfirmed, also when it is repeated.
func TestAPurchaseWaitsForAReplica(t *testing.T) {
	master, rdb, _ := startServer(t)
	_, replica, process := startServer(t)
	e := newEnv(t, rdb, Options{WaitReplicas: 1})
	e.open(openConfig(), 100)
	outcome := func(sn string) Outcome { return e.reserve(sn, "u"+sn, lines(1)).Outcome }

	require.Equal(t, Unconfirmed, outcome("1"), "there is no replica")
	require.Equal(t, Unconfirmed, outcome("1"), "the same purchase, in the gate and on no replica")
	require.ErrorIs(t, e.Confirm(t.Context(), e.ref), ErrUnavailable)

	host, port, err := net.SplitHostPort(master)
	require.NoError(t, err)
	require.NoError(t, replica.ReplicaOf(t.Context(), host, port).Err())
	require.Eventually(t, func() bool { return outcome("1") == Known }, patience, 10*time.Millisecond)
	require.Equal(t, Accepted, outcome("2"))
	require.NoError(t, e.Confirm(t.Context(), e.ref))
	has := func(sn string) bool {
		return replica.HExists(t.Context(), keyOf(e.ref, "held"), sn).Val()
	}
	require.True(t, has("1") && has("2"), "at the moment of the verdict")

	// A stopped replica confirms nothing. What landed is in the database and needs no replica.
	e.settle("2", "u2", lines(1), StepLanded)
	require.NoError(t, process.Signal(syscall.SIGSTOP))
	require.Equal(t, Unconfirmed, outcome("3"))
	require.Equal(t, Known, outcome("2"))
	require.Equal(t, Unconfirmed, outcome("1"), "what was written since on this connection is not confirmed")
	require.Equal(t, LimitReached, e.reserve("4", "u4", lines(3)).Outcome, "a refusal needs no replica")
}

// On a Cluster the script and the WAIT go to the same node.
func TestAPurchaseWaitsForAReplicaOfItsMaster(t *testing.T) {
	e := newEnv(t, clusterRedis(t), Options{WaitReplicas: 1})
	t.Cleanup(func() { e.wipe() })
	e.open(openConfig(), 1)
	require.Equal(t, Unconfirmed, e.reserve("1", "ann", lines(1)).Outcome)
	require.Equal(t, StatusQueued, e.entry("1").Status, "the purchase is journaled all the same")
	require.Equal(t, SoldOut, e.reserve("2", "bob", lines(1)).Outcome)
}
