package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// server is a redis-server started by a test.
type server struct {
	addr   string
	args   []string
	cmd    *exec.Cmd
	exited chan struct{}
}

// newServer starts a server. Another process may take the free port first, so it tries several.
func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	var err error
	for range 5 {
		s := &server{args: args}
		if err = s.try(t); err == nil {
			t.Cleanup(s.kill)
			return s
		}
	}
	t.Fatalf("no redis-server of its own: %v; `make test` installs what is needed", err)
	return nil
}

func (s *server) try(t testing.TB) error {
	s.addr = porttest.Free(t)
	if len(s.args) > 0 {
		_, busPort, _ := net.SplitHostPort(porttest.Free(t))
		s.args = append(s.args, "--cluster-port", busPort)
	}
	return s.start(t)
}

func (s *server) start(t testing.TB) error {
	_, port, _ := net.SplitHostPort(s.addr)
	var output bytes.Buffer
	args := append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "",
		"--appendonly", "no",
	}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	s.cmd.Stdout = &output
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, exited := s.cmd, make(chan struct{})
	s.exited = exited
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	rdb := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for rdb.Ping(ctx).Err() != nil {
		select {
		case <-exited:
			return errors.New(output.String())
		case <-ctx.Done():
			s.kill()
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// clusterRedis is a Redis Cluster of one node, which rejects scripts that mix slots.
func clusterRedis(t testing.TB) redis.UniversalClient {
	s := newServer(t, "--cluster-enabled", "yes")
	rdb := redis.NewClient(&redis.Options{Addr: s.addr})
	defer rdb.Close()
	require.NoError(t, rdb.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	require.Eventually(t, func() bool {
		info, err := rdb.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	}, 20*time.Second, 20*time.Millisecond)
	c := Connect([]string{s.addr}, 0, patient, func(o *redis.UniversalOptions) { o.IsClusterMode = true })
	t.Cleanup(func() { _ = c.Close() })
	return c
}
