package ratelimit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWaitsAreEven: callers of a token bucket pass at its rate in the order of their arrival, and none waits longer
// than it accepted.
func TestWaitsAreEven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLocal(Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1000, Period: time.Second, Burst: 1}})
		require.NoError(t, err)
		start := time.Now()
		var mu sync.Mutex
		var passed []time.Duration
		refused := 0
		var wg sync.WaitGroup
		for range 5000 {
			wg.Go(func() {
				_, err := Wait(t.Context(), l, "", 1, time.Second)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					// a caller that cannot pass in time is refused at once
					if !errors.Is(err, ErrLimited) || !time.Now().Equal(start) {
						panic(err)
					}
					refused++
				} else {
					passed = append(passed, time.Since(start))
				}
			})
		}
		wg.Wait()
		require.Len(t, passed, 1001)
		require.Equal(t, 3999, refused)
		for i, d := range passed {
			require.Equal(t, time.Duration(i)*time.Millisecond, d)
		}
	})
}

// TestOfferedWaitIsNeverExceeded: not even by the fraction of a microsecond that Redis cannot represent.
func TestOfferedWaitIsNeverExceeded(t *testing.T) {
	for _, p := range backends(t) {
		for _, a := range Algorithms() {
			for _, s := range []Spec{
				{Algorithm: a, Limit: Limit{Rate: 6, Period: time.Second}, MaxWait: time.Minute},
				{Algorithm: a, Limit: Limit{Rate: 999_983, Period: time.Second}, MaxWait: time.Minute},
			} {
				if a == SlidingLog {
					s.Rate = min(s.Rate, 10_000)
				}
				if !a.Reserves() {
					s.MaxWait = 0
				}
				l := p.limiter(s)
				for offer := time.Duration(1); offer < time.Second; offer = offer*3 + 1 {
					r := Request{Key: "k", N: max(1, l.Spec().Burst/2), AtMost: true, MaxWait: offer}
					res, err := l.Take(context.Background(), r)
					require.NoError(t, err)
					require.LessOrEqual(t, res.Wait, offer, "%s %s %+v", p.name, a, res)
				}
			}
		}
	}
}

// TestWaitOnWindows: a window takes no reservations; Wait retries when a request may pass.
func TestWaitOnWindows(t *testing.T) {
	for _, a := range []Algorithm{FixedWindow, SlidingWindow, SlidingLog} {
		synctest.Test(t, func(t *testing.T) {
			l, err := NewLocal(Spec{Algorithm: a, Limit: PerSecond(2)})
			require.NoError(t, err)
			start := time.Now()
			for range 5 {
				_, err := Wait(t.Context(), l, "k", 1, 2*time.Second)
				require.NoError(t, err)
			}
			require.GreaterOrEqual(t, time.Since(start), 2*time.Second)
			require.LessOrEqual(t, time.Since(start), 2500*time.Millisecond)
			_, err = Reserve(t.Context(), l, "k", 1, time.Second)
			require.ErrorIs(t, err, ErrNoReservation)
			take(t, l, "k", 1)
			_, err = Wait(t.Context(), l, "k", 2, time.Millisecond)
			require.ErrorIs(t, err, ErrLimited)
		})
	}
}

// TestReservation: a reservation returns its delay and refunds its permits once.
func TestReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLocal(Spec{Algorithm: GCRA, Limit: Limit{Rate: 1, Period: time.Second, Burst: 2}})
		require.NoError(t, err)
		r, err := Reserve(t.Context(), l, "k", 2, 0)
		require.NoError(t, err)
		require.Zero(t, r.Delay())
		r, err = Reserve(t.Context(), l, "k", 2, 5*time.Second)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, r.Delay())
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 1500*time.Millisecond, r.Delay())
		require.NoError(t, r.Cancel(t.Context()))
		require.NoError(t, r.Cancel(t.Context()))
		require.Equal(t, 500*time.Millisecond, take(t, l, "k", 0).RetryAfter)
		_, err = Reserve(t.Context(), l, "k", 2, time.Second)
		require.ErrorIs(t, err, ErrLimited)
	})
}

// TestBulkhead: the limits on holders, the queue and the wait hold, first come, first served.
func TestBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBulkhead(BulkheadSpec{Limit: 2, Queue: 2, MaxWait: time.Second})
		require.NoError(t, err)
		first, err := b.Acquire(t.Context(), "k")
		require.NoError(t, err)
		second, err := b.Acquire(t.Context(), "k")
		require.NoError(t, err)
		other, err := b.Acquire(t.Context(), "other")
		require.NoError(t, err)
		other.Release()
		order := make(chan int, 4)
		var permits [2]Permit
		for i := range 2 {
			go func() {
				p, err := b.Acquire(t.Context(), "k")
				if err != nil {
					panic(err)
				}
				permits[i] = p
				order <- i
			}()
			synctest.Wait()
		}
		_, err = b.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, ErrQueueFull)
		running, waiting := b.Running("k")
		require.EqualValues(t, 2, running)
		require.EqualValues(t, 2, waiting)
		first.Release()
		first.Release() // does nothing, although the slot has a new holder
		synctest.Wait()
		require.Equal(t, 0, <-order)
		require.Empty(t, order)
		second.Release()
		require.Equal(t, 1, <-order)

		start := time.Now()
		_, err = b.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, ErrLimited)
		require.Equal(t, time.Second, time.Since(start))
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("gave up")
		cancel(cause)
		_, err = b.Acquire(ctx, "k")
		require.ErrorIs(t, err, cause)
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		_, err = b.Acquire(ctx, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		go func() { // a higher limit admits queued callers at once
			p, err := b.Acquire(t.Context(), "k")
			if err != nil {
				panic(err)
			}
			order <- 2
			p.Release()
		}()
		synctest.Wait()
		require.NoError(t, b.SetSpec(BulkheadSpec{Limit: 3, Queue: 2, MaxWait: time.Second}))
		require.Equal(t, 2, <-order)
		permits[0].Release()
		permits[1].Release()
		synctest.Wait()
		running, waiting = b.Running("k")
		require.Zero(t, running+waiting)
		require.Empty(t, b.shard("k").byKey)
	})
	require.Error(t, BulkheadSpec{}.validate())
}

// TestBulkheadUnderLoad: never more than the limit hold a slot, and all callers get their turn.
func TestBulkheadUnderLoad(t *testing.T) {
	b, err := NewBulkhead(BulkheadSpec{Limit: 3, Queue: 100, MaxWait: patience})
	require.NoError(t, err)
	var mu sync.Mutex
	running, most, done := 0, 0, 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				p, err := b.Acquire(context.Background(), "k")
				if err != nil {
					panic(err)
				}
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				mu.Lock()
				running--
				done++
				mu.Unlock()
				p.Release()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most, 3)
	require.Equal(t, 1000, done)
}

// TestRedisBulkhead: a slot is a lease that its process renews, and that expires if the process dies.
func TestRedisBulkhead(t *testing.T) {
	rdb := realRedis(t)
	prefix, name := uniqueName(t), "b"
	spec := BulkheadSpec{Limit: 2, Queue: 1, MaxWait: patience}
	process := func(ttl time.Duration) *RedisBulkhead {
		c := NewConn(rdb, ConnOptions{Prefix: prefix, Timeout: patience, HeartbeatEvery: 20 * time.Millisecond})
		b, err := c.NewBulkhead(name, spec, FailClosed, ttl)
		require.NoError(t, err)
		return b
	}
	alive, dies := process(time.Minute), process(3*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = alive.conn.Run(ctx) })
	defer wg.Wait()
	defer cancel()

	mine, err := alive.Acquire(t.Context(), "k")
	require.NoError(t, err)
	lost, err := dies.Acquire(t.Context(), "k") // its Conn does not run, so the slot is not renewed
	require.NoError(t, err)
	next, err := alive.Acquire(t.Context(), "k") // gets the slot that expired
	require.NoError(t, err)
	select {
	case <-mine.Lost():
		t.Fatal("a renewed slot was lost")
	default:
	}
	dies.renew(t.Context())
	<-lost.Lost()
	lost.Release()
	n, err := rdb.ZCard(t.Context(), alive.redisKey("k")).Result()
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	mine.Release()
	next.Release()
	n, err = rdb.ZCard(t.Context(), alive.redisKey("k")).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}
