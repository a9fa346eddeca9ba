//go:build unix

package lock_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/lock"
)

const (
	victimEnv = "LOCK_TEST_VICTIM"
	victimTTL = short
)

// guarded is a write with a fencing number: the largest number wins, whatever the order of the writes.
var guarded = redis.NewScript(`
if tonumber(ARGV[1]) <= tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'by', ARGV[2])
return 1`)

func stored(name string) string { return "fs:lock-test:{" + name + "}" }

// victim is a process that holds the lock until its context is cancelled, then writes anyway and prints the outcome.
func victim(name string) int {
	rdb := dial()
	defer rdb.Close()
	err := locker(rdb, victimTTL).DoWithin(context.Background(), patience, name, func(ctx context.Context, fence int64) error {
		fmt.Println("held", fence)
		select {
		case <-ctx.Done():
		case <-time.After(3 * patience):
			return nil
		}
		fmt.Println("cause", context.Cause(ctx))
		wrote, err := guarded.Run(context.Background(), rdb, []string{stored(name)}, fence, "victim").Int()
		fmt.Println("wrote", wrote, err)
		return nil
	})
	fmt.Println("ended", err)
	return 0
}

// inVictim starts a victim and returns its fencing number and a reader of its output lines.
func inVictim(t *testing.T, name string) (cmd *exec.Cmd, fence int64, line func() string) {
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	line = func() string { lines.Scan(); return lines.Text() }
	_, err = fmt.Sscanf(line(), "held %d", &fence)
	require.NoError(t, err)
	return cmd, fence, line
}

// A process is paused for longer than its lock lives, and continues while another process holds the lock.
func TestHolderPausedForLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	rdb := realRedis(t)
	name := fresh(t, rdb)
	t.Cleanup(func() { rdb.Del(context.Background(), stored(name)) })
	cmd, first, line := inVictim(t, name)
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, locker(rdb, 2*patience).DoWithin(t.Context(), patience, name, func(ctx context.Context, second int64) error {
		require.Greater(t, second, first)
		wrote, err := guarded.Run(ctx, rdb, []string{stored(name)}, second, "us").Int()
		require.NoError(t, err)
		require.Equal(t, 1, wrote)
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		require.Contains(t, line(), "lock "+name+": "+lock.ErrLost.Error())
		require.Equal(t, "wrote 0 <nil>", line(), "the fencing number refuses its write")
		require.True(t, strings.HasPrefix(line(), "ended lock "+name+": "+lock.ErrLost.Error()))
		require.NoError(t, cmd.Wait())
		return ctx.Err()
	}), "the victim did not release the lock of the other process")
	by, err := rdb.HGet(t.Context(), stored(name), "by").Result()
	require.NoError(t, err)
	require.Equal(t, "us", by)
}

// A process is paused briefly: the lock is not lost.
func TestHolderPausedBriefly(t *testing.T) {
	t.Parallel()
	rdb := realRedis(t)
	name := fresh(t, rdb)
	cmd, _, _ := inVictim(t, name)
	value := rdb.Get(t.Context(), key(name)).Val()
	for range 2 {
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		time.Sleep(victimTTL / 20)
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		left := rdb.PTTL(t.Context(), key(name)).Val()
		require.Eventually(t, func() bool { // renewed
			now := rdb.PTTL(t.Context(), key(name)).Val()
			renewed := now > left
			left = now
			return renewed
		}, patience, 10*time.Millisecond)
		require.Equal(t, value, rdb.Get(t.Context(), key(name)).Val(), "held by the same process")
	}
}

// A process is killed: its lock expires, and a waiting caller gets it.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	rdb := realRedis(t)
	name := fresh(t, rdb)
	cmd, first, _ := inVictim(t, name)
	require.ErrorIs(t, locker(rdb, long).Do(t.Context(), name, nil), lock.ErrNotObtained)
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, locker(rdb, long).DoWithin(t.Context(), patience, name, func(_ context.Context, second int64) error {
		require.Greater(t, second, first)
		return nil
	}))
	free(t, rdb, name)
}
