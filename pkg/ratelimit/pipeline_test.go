package ratelimit

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// barrier is a client hook that blocks commands until it is lifted, and counts the commands in pipelines.
type barrier struct {
	held   chan struct{} // receives a value for each single command
	lifted chan struct{}

	mu        sync.Mutex
	pipelines []int // number of commands in each
}

func newBarrier() *barrier {
	return &barrier{held: make(chan struct{}, 1000), lifted: make(chan struct{})}
}

func (b *barrier) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *barrier) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.mu.Lock()
		b.pipelines = append(b.pipelines, len(cmds))
		b.mu.Unlock()
		if err := b.pass(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

func (b *barrier) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.held <- struct{}{}
		if err := b.pass(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (b *barrier) pass(ctx context.Context) error {
	select {
	case <-b.lifted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitFor waits until n calls are pending.
func (p *pipeline) waitFor(t *testing.T, n int) {
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.pending) == n
	}, patience, time.Millisecond)
}

// TestPendingCallsShareAPipeline: calls that find all slots taken share the next pipeline. Each gets its own reply,
// from a server that has not loaded the scripts.
func TestPendingCallsShareAPipeline(t *testing.T) {
	s := newServer(t)
	rdb := Connect([]string{s.addr}, 0, patient)
	defer rdb.Close()
	c := NewConn(rdb, ConnOptions{Timeout: patience})
	const callers = 3 * maxBatch / 2
	wants := map[Algorithm]int64{TokenBucket: 7, FixedWindow: 9}
	var limiters []*Redis
	for a, n := range wants {
		l, err := c.NewRedis("x", Spec{Algorithm: a, Limit: Limit{Rate: n, Period: farOff}},
			RedisOptions{OnFailure: FailClosed})
		require.NoError(t, err)
		limiters = append(limiters, l)
	}
	b := newBarrier()
	rdb.AddHook(b)
	var wg sync.WaitGroup
	ask := func(i int) {
		wg.Go(func() {
			l := limiters[i%len(limiters)]
			res, err := l.Take(context.Background(), Request{Key: strconv.Itoa(i), N: 3})
			if err != nil {
				panic(err)
			}
			if want := wants[l.Spec().Algorithm]; !res.Allowed || res.Remaining != want-3 || res.Limit.Rate != want {
				panic(res)
			}
		})
	}
	for i := range c.pipeline.limit {
		ask(i)
	}
	for range c.pipeline.limit {
		<-b.held
	}
	for i := range callers {
		ask(i + c.pipeline.limit)
	}
	c.pipeline.waitFor(t, callers)
	close(b.lifted)
	wg.Wait()
	require.Zero(t, c.pipeline.inFlight)
	require.Empty(t, c.pipeline.pending)
	require.LessOrEqual(t, len(b.pipelines), 4, "two batches, each possibly sent again with the sources: %v", b.pipelines)
	require.Contains(t, b.pipelines, maxBatch)
}

// TestPendingCallsKeepTheirDeadlines: if Redis does not reply, pending calls end at their own deadlines and charge
// nothing. Later calls find a free slot.
func TestPendingCallsKeepTheirDeadlines(t *testing.T) {
	s := newServer(t)
	rdb := Connect([]string{s.addr}, 0, patient)
	defer rdb.Close()
	c := NewConn(rdb, ConnOptions{Timeout: 300 * time.Millisecond, Failures: 1_000_000})
	l, err := c.NewRedis("x", Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1000, Period: 24 * time.Hour}},
		RedisOptions{OnFailure: FailClosed})
	require.NoError(t, err)
	b := newBarrier()
	rdb.AddHook(b)
	var wg sync.WaitGroup
	for range c.pipeline.limit + 2*maxBatch {
		wg.Go(func() {
			_, err := l.Take(context.Background(), Request{N: 1})
			if err == nil {
				panic("granted without a reply from Redis")
			}
		})
	}
	wg.Wait()
	require.Zero(t, c.pipeline.inFlight)
	require.Empty(t, c.pipeline.pending)
	close(b.lifted)
	require.Eventually(t, func() bool {
		res, err := l.Take(t.Context(), Request{N: 1})
		return err == nil && res.Allowed && res.Remaining > 1000-10 // some calls may have been sent on a slow machine
	}, patience, time.Millisecond)
}
