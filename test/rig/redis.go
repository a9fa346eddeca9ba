package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// RedisServer is a Redis server of one test, with the settings of the gate's Redis.
type RedisServer struct {
	Addr string

	dir string
	cmd *exec.Cmd
	rdb *redis.Client // of the services' database
}

// StartRedis starts a server that runs until the test ends, or until Kill. flags are further settings of redis-server.
func StartRedis(t testing.TB, flags ...string) *RedisServer {
	t.Helper()
	return startRedis(t, t.TempDir(), flags...)
}

func startRedis(t testing.TB, dir string, flags ...string) *RedisServer {
	t.Helper()
	s := &RedisServer{Addr: porttest.Free(t), dir: dir}
	_, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	// The append-only file is never rewritten: it keeps every write of the test.
	s.cmd = exec.Command("redis-server", append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--maxmemory-policy", "noeviction",
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
	}, flags...)...)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		if s.cmd != nil {
			s.kill()
			_ = s.cmd.Wait()
		}
	})
	s.rdb = redis.NewClient(&redis.Options{Addr: s.Addr, DB: redisDB})
	t.Cleanup(func() { _ = s.rdb.Close() })
	s.wait(t, "respond", func(ctx context.Context) bool { return s.rdb.Ping(ctx).Err() == nil })
	return s
}

// RedisAt makes a rig use the Redis at that address, instead of that of the environment.
func RedisAt(addr string) Option {
	return func(p *Dependencies) { p.RedisAddr = addr }
}

// Client returns a client of the services' database on this server. It is closed when the test ends.
func (s *RedisServer) Client() *redis.Client { return s.rdb }

func (s *RedisServer) kill() { _ = s.cmd.Process.Kill() }

// Bounce kills the server with SIGKILL and starts it again with its files. It does not wait until it responds.
func (s *RedisServer) Bounce(t testing.TB) {
	t.Helper()
	s.kill()
	_ = s.cmd.Wait()
	s.cmd = exec.Command(s.cmd.Path, s.cmd.Args[1:]...)
	require.NoError(t, s.cmd.Start())
}

// Follow makes the server a replica of the master at that address. It does not wait until it has the data.
func (s *RedisServer) Follow(ctx context.Context, master string) error {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return err
	}
	return s.rdb.ReplicaOf(ctx, host, port).Err()
}

// Following reports whether the server is a replica that has had all data of its master, and is connected to it.
func (s *RedisServer) Following(ctx context.Context) bool {
	return s.Info(ctx)["master_link_status"] == "up"
}

// WaitFollowing waits until Following is true.
func (s *RedisServer) WaitFollowing(t testing.TB) {
	t.Helper()
	s.wait(t, "follow its master", s.Following)
}

// Promote makes a replica a master.
func (s *RedisServer) Promote(t testing.TB) {
	t.Helper()
	require.NoError(t, s.rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// Info returns the fields of INFO REPLICATION. It is empty while the server does not respond.
func (s *RedisServer) Info(ctx context.Context) map[string]string {
	fields := map[string]string{}
	text, _ := s.rdb.Info(ctx, "replication").Result()
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// WaitWritable waits until a master with min-replicas-to-write has enough replicas.
func (s *RedisServer) WaitWritable(t testing.TB) {
	t.Helper()
	s.wait(t, "accept writes", func(ctx context.Context) bool { return s.rdb.Set(ctx, "rig:written", 1, time.Second).Err() == nil })
}

func (s *RedisServer) wait(t testing.TB, what string, done func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for !done(ctx) {
		select {
		case <-ctx.Done():
			require.Fail(t, "the Redis at "+s.Addr+" did not "+what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// aofFolder is where a server keeps its append-only file.
const aofFolder = "appendonlydir"

// CopyFiles copies the files of a server that is not written to meanwhile, and returns the folder of the copy.
func (s *RedisServer) CopyFiles(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, aofFolder), os.DirFS(filepath.Join(s.dir, aofFolder))))
	return dir
}

// LoadRedis starts a server with copied files.
func LoadRedis(t testing.TB, dir string) *RedisServer {
	t.Helper()
	return startRedis(t, dir)
}

// KillMaster sends SIGKILL to a master and cuts the way to its replica at the same moment, as when a machine fails:
// what was on that way is lost. It returns when the replica has applied what it had received.
func KillMaster(t testing.TB, master, replica *RedisServer, way *Proxy) {
	t.Helper()
	master.kill()
	way.Cut()
	_ = master.cmd.Wait()
	master.cmd = nil
	replica.wait(t, "notice the end of its master", func(ctx context.Context) bool {
		return replica.Info(ctx)["master_link_status"] == "down"
	})
}

// String returns the address and the replication state.
func (s *RedisServer) String() string {
	i := s.Info(context.Background())
	return fmt.Sprintf("%s (%s, offset %s)", s.Addr, i["role"], i["master_repl_offset"])
}
