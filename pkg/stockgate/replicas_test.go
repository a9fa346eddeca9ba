package stockgate

import (
	"context"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// startServer starts a Redis server without data.
func startServer(t *testing.T) (addr string, rdb *redis.Client, process *os.Process) {
	t.Helper()
	addr = porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	rdb = redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	require.Eventually(t, func() bool { return rdb.Ping(context.Background()).Err() == nil }, patience, 10*time.Millisecond)
	return addr, rdb, cmd.Process
}

// nodeName returns the address of a local server by name: go-redis replaces the IP addresses of nodes on this machine.
func nodeName(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return "localhost:" + port
}

// A purchase is Accepted only once a replica has it. Until then it is Unconfirmed, also when it is repeated.
func TestAPurchaseWaitsForAReplica(t *testing.T) {
	master, rdb, _ := startServer(t)
	_, replica, process := startServer(t)
	e := newEnv(t, rdb, Options{WaitReplicas: 1})
	e.open(openConfig(), 100)
	outcome := func(sn string) Outcome { return e.reserve(sn, "u"+sn, lines(1)).Outcome }

	require.Equal(t, Unconfirmed, outcome("1"), "there is no replica")
	again := e.reserve("1", "u1", lines(1))
	require.Equal(t, Unconfirmed, again.Outcome, "the same purchase, in the gate and on no replica")
	require.Equal(t, e.entry("1"), again.Entry, "with the time of its reservation")
	_, err := e.Confirm(t.Context(), e.activityID, []string{"1"})
	require.ErrorIs(t, err, ErrUnavailable)

	host, port, err := net.SplitHostPort(master)
	require.NoError(t, err)
	require.NoError(t, replica.ReplicaOf(t.Context(), host, port).Err())
	require.Eventually(t, func() bool { return outcome("1") == Known }, patience, 10*time.Millisecond)
	require.Equal(t, Accepted, outcome("2"))
	found, err := e.Confirm(t.Context(), e.activityID, []string{"1", "404"})
	require.NoError(t, err)
	require.Equal(t, map[string]Entry{"1": e.entry("1")}, found)
	has := func(sn string) bool {
		return replica.HExists(t.Context(), keyOf(e.activityID, "held"), sn).Val()
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

// after calls do after the first pipeline of a client.
type after struct {
	once sync.Once
	do   func()
}

func (*after) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*after) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (a *after) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[0].Name() == "evalsha" {
			a.once.Do(a.do)
		}
		return err
	}
}

// A master that no replica follows has a purchase. It is replaced between the reply that the purchase is known and the
// WAIT, by a master that lacks it and has a replica: that replica confirms nothing of the purchase.
func TestARepeatedPurchaseIsNotConfirmedByAnotherMaster(t *testing.T) {
	first, firstClient, process := startServer(t)
	second, secondClient, _ := startServer(t)
	_, replica, _ := startServer(t)
	host, port, err := net.SplitHostPort(second)
	require.NoError(t, err)
	require.NoError(t, replica.ReplicaOf(t.Context(), host, port).Err())
	var master atomic.Value
	master.Store(first)
	rdb := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, master.Load().(string))
	}})
	t.Cleanup(func() { _ = rdb.Close() })

	one := newEnv(t, firstClient, Options{WaitReplicas: 1})
	one.open(openConfig(), 100)
	require.Equal(t, Unconfirmed, one.reserve("1", "ann", lines(1)).Outcome)
	two := newEnv(t, secondClient, Options{WaitReplicas: 1})
	two.activityID = one.activityID
	two.open(openConfig(), 100)
	require.Eventually(t, func() bool { return two.reserve("2", "bob", lines(1)).Outcome != Unconfirmed }, patience,
		10*time.Millisecond)

	both := newEnv(t, rdb, Options{WaitReplicas: 1})
	both.activityID = one.activityID
	_, err = both.Lookup(t.Context(), both.activityID, []string{"1"})
	require.NoError(t, err)
	rdb.AddHook(&after{do: func() {
		master.Store(second)
		require.NoError(t, process.Kill())
		require.Eventually(t, func() bool { return firstClient.Ping(t.Context()).Err() != nil }, patience, time.Millisecond)
	}})
	require.NoError(t, scriptReserve.Load(t.Context(), firstClient).Err())
	require.Equal(t, Unconfirmed, both.reserve("1", "ann", lines(1)).Outcome, "the new master lacks it")
	require.Equal(t, second, master.Load())
	require.Equal(t, Accepted, both.reserve("1", "ann", lines(1)).Outcome)
	require.True(t, replica.HExists(t.Context(), keyOf(one.activityID, "held"), "1").Val())
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

// The client of a Cluster holds a master that is lost. It learns of the new one from the failed call itself, before its
// own interval of a minute ends, although no other command is made.
func TestALostMasterReloadsTheTopology(t *testing.T) {
	lost, _, process := startServer(t)
	require.NoError(t, process.Kill())
	fresh, rdb, _ := startServer(t)
	var replaced atomic.Bool
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			addr := lost
			if replaced.Load() {
				addr = fresh
			}
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: nodeName(t, addr)}}}}, nil
		},
		ContextTimeoutEnabled: true, MaxRetries: -1, ClusterStateReloadInterval: time.Hour,
	})
	t.Cleanup(func() { _ = cluster.Close() })
	old := newEnv(t, rdb, Options{})
	old.open(openConfig(), 100)
	e := newEnv(t, cluster, Options{WaitReplicas: 1, BreakerFailures: 1 << 20})
	request := []Request{{OrderSN: "1", UserID: "ann", Lines: lines(1)}}
	_, err := e.Reserve(t.Context(), old.activityID, request)
	require.ErrorIs(t, err, ErrUnavailable)
	replaced.Store(true)
	require.Eventually(t, func() bool {
		verdicts, err := e.Reserve(t.Context(), old.activityID, request)
		return err == nil && verdicts[0].Outcome == Unconfirmed
	}, patience, 50*time.Millisecond)
}
