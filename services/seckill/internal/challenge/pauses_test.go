package challenge

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/contract"
)

func connect(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	mini := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr(), MaxRetries: -1, DialTimeout: 50 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	return mini, rdb
}

// clocked are the pauses of several processes, whose clock the test advances.
type clocked struct {
	*testing.T
	now  time.Time
	mini *miniredis.Miniredis // nil without Redis
	pods []*Pauses
	next int
}

// wait advances the clock.
func (c *clocked) wait(d time.Duration) {
	c.now = c.now.Add(d)
	if c.mini != nil {
		c.mini.FastForward(d)
	}
}

// answer is an answer at one process after the other. It returns the rest of the pause that refuses it.
func (c *clocked) answer(user, address string, o outcome) time.Duration {
	p := c.pods[c.next%len(c.pods)]
	c.next++
	a, left := p.begin(c.Context(), c.now, user, address)
	if left == 0 {
		p.end(c.Context(), c.now, a, o)
	}
	return left
}

func eachStore(t *testing.T, test func(c *clocked)) {
	t.Run("miniredis", func(t *testing.T) {
		mini, rdb := connect(t)
		test(&clocked{T: t, now: time.Now(), mini: mini, pods: []*Pauses{newPauses(admission.NewShared(rdb)), newPauses(admission.NewShared(rdb))}})
	})
	t.Run("one process", func(t *testing.T) {
		test(&clocked{T: t, now: time.Now(), pods: []*Pauses{newPauses(admission.NewShared(nil))}})
	})
	t.Run("Redis unavailable", func(t *testing.T) {
		mini, rdb := connect(t)
		mini.Close()
		test(&clocked{T: t, now: time.Now(), pods: []*Pauses{newPauses(admission.NewShared(rdb))}})
	})
}

// Each wrong answer in a row doubles the pause of its user, from 2 s to 5 min, over all processes. A right one ends it.
func TestPausesOfAUserDouble(t *testing.T) {
	eachStore(t, func(c *clocked) {
		for _, s := range []int{2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			require.Zero(c, c.answer("ann", "", wrong))
			require.Equal(c, time.Duration(s)*time.Second, c.answer("ann", "", right))
			require.Equal(c, time.Duration(s)*time.Second, c.pods[0].Left(c.Context(), c.now, "ann", ""))
			require.Zero(c, c.answer("bob"+strconv.Itoa(s), "", right), "another user")
			c.wait(time.Duration(s) * time.Second)
		}
		require.Zero(c, c.pods[0].Left(c.Context(), c.now, "ann", ""))
		require.Zero(c, c.answer("ann", "", right))
		require.Zero(c, c.answer("ann", "", wrong))
		require.Equal(c, 2*time.Second, c.answer("ann", "", wrong))
		c.wait(wrongMemory)
		require.Zero(c, c.answer("ann", "", wrong))
		require.Equal(c, 2*time.Second, c.answer("ann", "", wrong), "forgotten")
	})
}

// The pause of an address holds for users who were wrong themselves. A right answer from the address ends it.
func TestPausesOfAnAddress(t *testing.T) {
	eachStore(t, func(c *clocked) {
		for i := range 8 {
			require.Zero(c, c.answer("robot"+strconv.Itoa(i), "nat", wrong))
		}
		require.Zero(c, c.answer("ann", "nat", void), "was not wrong")
		require.Zero(c, c.answer("ann", "nat", void), "and still was not")
		require.Zero(c, c.answer("robot9", "home", wrong))
		c.wait(2 * time.Second)
		require.Equal(c, contract.ChallengePause(7)-2*time.Second, c.answer("robot1", "nat", right))
		require.Equal(c, contract.ChallengePause(7)-2*time.Second, c.answer("robot9", "nat", right), "wrong elsewhere")
		left := func(user, address string) time.Duration { return c.pods[0].Left(c.Context(), c.now, user, address) }
		require.Equal(c, contract.ChallengePause(7)-2*time.Second, left("robot1", "nat"))
		require.Zero(c, left("robot1", "home"))
		require.Zero(c, left("ann", "nat"), "was not wrong")
		require.Zero(c, c.answer("robot9", "home", wrong), "another address")
		require.Zero(c, c.answer("ann", "nat", right))
		require.Zero(c, c.answer("robot1", "nat", void), "that of the address has ended")
		c.wait(contract.ChallengePause(7))
		require.Zero(c, c.answer("robot1", "nat", wrong))
		c.wait(2 * time.Second)
		require.Equal(c, 2*time.Second, c.answer("robot1", "nat", wrong), "its own; that of the address began anew")
	})
}

// While an answer of a user is checked, no other one is.
func TestOneAnswerOfAUserAtATime(t *testing.T) {
	eachStore(t, func(c *clocked) {
		a, left := c.pods[0].begin(c.Context(), c.now, "ann", "nat")
		require.Zero(c, left)
		require.Equal(c, contract.ChallengePauseLeast, c.answer("ann", "nat", right))
		require.Zero(c, c.answer("bob", "nat", right))
		c.pods[0].end(c.Context(), c.now, a, void)
		require.Zero(c, c.answer("ann", "nat", right))
	})
}

// calls records the calls of a client of Redis, a pipeline as one, but for those that begin a connection.
type calls []string

func (c *calls) add(cmd redis.Cmder) {
	if name := cmd.Name(); name != "hello" && name != "client" {
		*c = append(*c, name)
	}
}

func (c *calls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd)
		return next(ctx, cmd)
	}
}

func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add(cmds[0])
		return next(ctx, cmds)
	}
}

// Pauses are read and begun in one call, and ended in one, also where both a user and an address were wrong.
func TestPausesTakeOneCall(t *testing.T) {
	_, rdb := connect(t)
	p, made := newPauses(admission.NewShared(rdb)), &calls{}
	for range 2 {
		p.Left(t.Context(), time.Now(), "ann", "nat") // connects, and Redis gets the script
	}
	rdb.AddHook(made)
	one := func(what string, call func()) {
		t.Helper()
		*made = nil
		call()
		require.Len(t, *made, 1, what)
	}
	for _, o := range []outcome{wrong, right, wrong, void} {
		var a *attempt
		one("read", func() { require.Zero(t, p.Left(t.Context(), time.Now(), "ann", "nat")) })
		one("begin", func() { a, _ = p.begin(t.Context(), time.Now(), "ann", "nat") })
		one("begin again", func() {
			_, left := p.begin(t.Context(), time.Now(), "ann", "nat")
			require.Positive(t, left)
		})
		one("end", func() { p.end(t.Context(), time.Now(), a, o) })
		require.NoError(t, rdb.Del(t.Context(), pausePrefix+"u:ann", pausePrefix+"a:nat").Err())
	}
}

func TestPausesAreBounded(t *testing.T) {
	p, now := newPauses(admission.NewShared(nil)), time.Now()
	for i := range admission.MaxLocal + 10 {
		a, _ := p.begin(t.Context(), now, strconv.Itoa(i), "")
		p.end(t.Context(), now, a, wrong)
	}
	require.LessOrEqual(t, len(p.local), admission.MaxLocal)
}
