package ratelimit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// cutoff is a client hook that fails all commands while it is cut.
type cutoff struct{ cut atomic.Bool }

var errCut = errors.New("cutoff")

func (s *cutoff) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *cutoff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if s.cut.Load() {
			for _, cmd := range cmds {
				cmd.SetErr(errCut)
			}
			return errCut
		}
		return next(ctx, cmds)
	}
}

func (s *cutoff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.cut.Load() {
			cmd.SetErr(errCut)
			return errCut
		}
		return next(ctx, cmd)
	}
}

// member is a process of a fleet on virtual time.
type member struct {
	*cutoff
	conn *Conn
	l    *Redis
}

func newMember(t testing.TB, m *mini, name string, instances int, s Spec) member {
	rdb := Connect([]string{m.Addr()}, 0, patient)
	t.Cleanup(func() { _ = rdb.Close() })
	p := member{cutoff: &cutoff{}}
	rdb.AddHook(p.cutoff)
	p.conn = NewConn(rdb, ConnOptions{Timeout: patience, Instances: instances, Prefix: name})
	p.conn.breaker.clock = newClock(m.Now)
	var err error
	p.l, err = p.conn.NewRedis("x", s, RedisOptions{DenyCache: -1})
	require.NoError(t, err)
	p.l.clock = newClock(m.Now)
	return p
}

// loseRedis cuts a process off until its breaker opens.
func (p member) loseRedis(t testing.TB) {
	p.cut.Store(true)
	for p.conn.Up() {
		_, err := p.conn.heartbeat(context.Background(), true)
		require.ErrorIs(t, err, errCut)
	}
}

// reachRedis sends the first heartbeat after an outage, as Run does.
func (p member) reachRedis(t testing.TB) recovery {
	p.cut.Store(false)
	p.conn.breaker.runProbes.Store(true)
	s, err := p.conn.heartbeat(context.Background(), true)
	require.NoError(t, err)
	return s
}

// TestProcessesReturnToRedisTogether: the first process that reaches Redis again sets the time from which all query
// it. Later ones adopt that time; one that returns after it need not wait; another outage has a time of its own.
func TestProcessesReturnToRedisTogether(t *testing.T) {
	m := newMini(t)
	var fleet []member
	for range 4 {
		p := newMember(t, m, "fleet", 4, Spec{Algorithm: TokenBucket, Limit: PerSecond(100)})
		p.conn.o.Timeout, p.conn.o.ProbeEvery = time.Second, time.Second // 3.5 s to return
		_, err := p.conn.heartbeat(t.Context(), true)
		require.NoError(t, err)
		m.pass(time.Millisecond)
		fleet = append(fleet, p)
	}
	for _, p := range fleet {
		p.loseRedis(t)
	}
	m.pass(time.Minute)
	require.Equal(t, 3500*time.Millisecond, fleet[0].reachRedis(t).wait)
	m.pass(500 * time.Millisecond)
	require.Equal(t, 3000*time.Millisecond, fleet[1].reachRedis(t).wait)
	require.False(t, fleet[1].conn.Up(), "Run decides")
	m.pass(2900 * time.Millisecond)
	require.Equal(t, 100*time.Millisecond, fleet[2].reachRedis(t).wait)
	m.pass(100 * time.Millisecond)
	for _, p := range fleet[:3] {
		s := p.reachRedis(t)
		require.Equal(t, recovery{}, s, "no other process reached Redis meanwhile")
		p.conn.breaker.close(s.others > 0)
		require.True(t, p.conn.Up())
	}
	m.pass(5 * time.Second)
	require.Zero(t, fleet[3].reachRedis(t).wait, "the other processes use Redis already")

	fleet[0].loseRedis(t)
	m.pass(time.Millisecond)
	_, err := fleet[1].conn.heartbeat(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, recovery{wait: 3500 * time.Millisecond, others: 1}, fleet[0].reachRedis(t))
}

// TestFailedCallIsChargedOnce: the next call charges what the share granted when a single call failed. It does so
// once, with every algorithm, also if that call fails as well.
func TestFailedCallIsChargedOnce(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			m := newMini(t)
			s := Spec{Algorithm: a, Limit: Limit{Rate: 100, Period: time.Hour}}
			if a == WarmUp {
				s.Burst = 100
			}
			p, watch := newMember(t, m, "fleet", 1, s), newMember(t, m, "fleet", 1, s)
			left := func() int64 { return take(t, watch.l, "k", 0).Remaining }
			take(t, p.l, "k", 1)
			byTime := a == WarmUp || a == LeakyQueue // the peeks of these return what is available at once
			if byTime {
				m.pass(time.Hour)
			}
			before, reset := left(), take(t, watch.l, "k", 0).ResetAfter
			p.cut.Store(true)
			require.Equal(t, SourceFallback, take(t, p.l, "k", 1).Source)
			again := take(t, p.l, "k", 0) // reports the debt, and fails
			require.Equal(t, SourceFallback, again.Source)
			require.True(t, p.conn.Up())
			require.Equal(t, before, left())
			p.cut.Store(false)
			take(t, p.l, "k", 0) // a peek reports it
			if byTime {
				require.Greater(t, take(t, watch.l, "k", 0).ResetAfter, reset)
				return
			}
			require.Equal(t, before-1, left())
			take(t, p.l, "k", 0)
			require.Equal(t, before-1, left())
		})
	}
}

// TestRedisRecoversWhatItLost: when Redis comes back empty, the first queries report what was spent before and during
// the outage.
func TestRedisRecoversWhatItLost(t *testing.T) {
	m := newMini(t)
	s := Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 100, Period: time.Hour}}
	a, b := newMember(t, m, "fleet", 2, s), newMember(t, m, "fleet", 2, s)
	require.Equal(t, int64(40), take(t, a.l, "k", 40).Granted)
	require.Equal(t, int64(30), take(t, b.l, "k", 30).Granted)
	require.Equal(t, int64(30), take(t, a.l, "k", 0).Remaining)
	a.loseRedis(t)
	b.loseRedis(t)
	m.FlushAll()
	granted := [2]int64{}
	for i, p := range []member{a, b} {
		for take(t, p.l, "k", 1).Granted == 1 {
			granted[i]++
		}
	}
	require.Equal(t, [2]int64{15, 15}, granted, "what was left, in halves")
	for _, p := range []member{a, b} {
		p.reachRedis(t)
		p.conn.breaker.close(false)
		require.False(t, take(t, p.l, "k", 1).Allowed)
	}
	m.pass(36 * time.Second)
	require.True(t, take(t, a.l, "k", 1).Allowed)
	require.False(t, take(t, b.l, "k", 1).Allowed)

	// Redis loses its data between two heartbeats, without an outage.
	_, err := a.conn.heartbeat(t.Context(), true)
	require.NoError(t, err)
	m.FlushAll()
	_, err = a.conn.heartbeat(t.Context(), true)
	require.NoError(t, err)
	require.False(t, take(t, a.l, "k", 1).Allowed)
}

// TestGrantsOfAnIsolatedProcessAreReported: a process that alone had lost Redis is charged for what it granted.
func TestGrantsOfAnIsolatedProcessAreReported(t *testing.T) {
	for _, a := range []Algorithm{TokenBucket, FixedWindow, SlidingWindow, SlidingLog} {
		m := newMini(t)
		s := Spec{Algorithm: a, Limit: Limit{Rate: 100, Period: time.Hour}}
		p, other := newMember(t, m, "fleet", 2, s), newMember(t, m, "fleet", 2, s)
		require.Equal(t, int64(50), take(t, p.l, "k", 50).Granted)
		_, err := p.conn.heartbeat(t.Context(), true)
		require.NoError(t, err)
		p.loseRedis(t)
		m.pass(time.Millisecond)
		_, err = other.conn.heartbeat(t.Context(), true)
		require.NoError(t, err)
		granted := int64(0)
		for take(t, p.l, "k", 1).Granted == 1 {
			granted++
		}
		require.Positive(t, granted)
		require.Equal(t, int64(50), take(t, other.l, "k", 0).Remaining)
		rec := p.reachRedis(t)
		require.EqualValues(t, 1, rec.others)
		p.conn.breaker.close(true)
		take(t, p.l, "k", 0)
		require.Equal(t, 50-granted, take(t, other.l, "k", 0).Remaining, a)
		take(t, p.l, "k", 0)
		require.Equal(t, 50-granted, take(t, other.l, "k", 0).Remaining, a)
	}
}

// TestRedisIsChargedForAllThatAFleetGranted: each process granted one permit during an outage, together more than can
// be reserved. They are charged until they are earned, also if Redis is lost again, and under another limit.
func TestRedisIsChargedForAllThatAFleetGranted(t *testing.T) {
	for _, s := range []Spec{
		{Algorithm: LeakyQueue, Limit: Limit{Rate: 1, Period: time.Second, Burst: 1}},
		{Algorithm: TokenBucket, Limit: Limit{Rate: 1, Period: 20 * time.Minute, Burst: 1}},
	} {
		t.Run(s.Algorithm.String(), func(t *testing.T) {
			m := newMini(t)
			const n = 4
			var fleet [n]member
			for i := range fleet {
				fleet[i] = newMember(t, m, "fleet", n, s)
			}
			grants := func() (sum int64) {
				for _, p := range fleet {
					sum += take(t, p.l, "k", 1).Granted
				}
				return sum
			}
			lose := func() {
				for _, p := range fleet {
					p.loseRedis(t)
				}
			}
			reach := func() {
				for _, p := range fleet {
					p.reachRedis(t)
					p.conn.breaker.close(false)
				}
			}
			require.EqualValues(t, 1, grants())
			require.EqualValues(t, 0, grants()) // now every process has an entry
			lose()
			m.pass(s.Period)
			require.EqualValues(t, n, grants())
			m.FlushAll()
			reach()
			require.EqualValues(t, 0, grants())
			lose()
			m.pass(2 * s.Period)
			require.EqualValues(t, 0, grants(), "the last outage is not earned yet")
			reach()
			require.EqualValues(t, 0, grants())
			faster := s
			faster.Rate *= 2
			for _, p := range fleet {
				require.NoError(t, p.l.SetSpec(faster))
			}
			require.EqualValues(t, 0, grants())
			m.pass(s.Period - time.Millisecond)
			require.EqualValues(t, 0, grants(), "owed under another limit")
			m.pass(2 * time.Millisecond)
			require.EqualValues(t, 1, grants())
		})
	}
}

// TestReportsAddUp: what each process granted when a single call failed is charged, and that of all together, however
// much it is. A change of the limit meanwhile loses nothing of it.
func TestReportsAddUp(t *testing.T) {
	const n = 5
	s := Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1, Period: 20 * time.Minute, Burst: 1}}
	m := newMini(t)
	var fleet [n]member
	for i := range fleet {
		fleet[i] = newMember(t, m, "fleet", n, s)
	}
	require.Equal(t, SourceRedis, take(t, fleet[0].l, "k", 1).Source)
	for _, p := range fleet[1:] {
		p.cut.Store(true)
		require.EqualValues(t, 1, take(t, p.l, "k", 1).Granted)
		p.cut.Store(false)
	}
	for _, p := range fleet {
		require.False(t, take(t, p.l, "k", 1).Allowed)
	}
	require.Equal(t, n*s.Period, take(t, fleet[0].l, "k", 0).ResetAfter)

	for _, p := range fleet {
		p.loseRedis(t)
	}
	m.pass(n * s.Period)
	for _, p := range fleet {
		require.EqualValues(t, 1, take(t, p.l, "k", 1).Granted)
	}
	faster := s
	faster.Rate = 2
	m.FlushAll()
	for _, p := range fleet {
		require.NoError(t, p.l.SetSpec(faster))
		require.NoError(t, p.l.SetSpec(faster))
		p.reachRedis(t)
		p.conn.breaker.close(false)
	}
	require.False(t, take(t, fleet[0].l, "k", 1).Allowed)
	require.Equal(t, n*s.Period/2, take(t, fleet[0].l, "k", 0).ResetAfter)

	// After the clock was set back the key is locked out for no longer than that and a full burst.
	m.add(-24 * time.Hour)
	m.SetTime(m.Now())
	require.LessOrEqual(t, take(t, fleet[0].l, "k", 0).ResetAfter, n*s.Period/2+s.Period/2)
}

// TestATighterLimitLocksNoKeyOut: what Redis has granted is carried over by it, and no further ahead than it may be.
func TestATighterLimitLocksNoKeyOut(t *testing.T) {
	m := newMini(t)
	p := newMember(t, m, "fleet", 1, Spec{Algorithm: TokenBucket, Limit: PerSecond(1000)})
	take(t, p.l, "k", 1000)
	tighter := Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 10, Period: time.Hour}}
	require.NoError(t, p.l.SetSpec(tighter))
	p.loseRedis(t)
	p.reachRedis(t)
	p.conn.breaker.close(false)
	onePermit := time.Hour / 10 // reports are whole permits
	require.LessOrEqual(t, take(t, p.l, "k", 0).ResetAfter, time.Hour+defaultMaxWait+onePermit)
}

// TestFleetNeverExceedsTheLimit: all processes request more than the limit, through outages in which Redis keeps or
// loses its data. No interval has more than a burst, the rate, and one permit per process.
func TestFleetNeverExceedsTheLimit(t *testing.T) {
	m := newMini(t)
	rapid.Check(t, func(rt *rapid.T) {
		m.FlushAll()
		m.restart()
		n := rapid.IntRange(1, 4).Draw(rt, "processes")
		s := Spec{Algorithm: rapid.SampledFrom([]Algorithm{TokenBucket, LeakyBucket, LeakyQueue}).Draw(rt, "algorithm")}
		s.Limit = Limit{
			Rate:   rapid.Int64Range(1, 50).Draw(rt, "rate"),
			Period: rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(rt, "period"),
			Burst:  rapid.Int64Range(1, 40).Draw(rt, "burst"),
		}
		var fleet []member
		for range n {
			fleet = append(fleet, newMember(t, m, "fleet", n, s))
		}
		var passes []pass
		allTake := func() {
			for _, i := range rapid.Permutation(indexes(n)).Draw(rt, "order") {
				for range 60 {
					res, err := fleet[i].l.Take(context.Background(), Request{N: 1})
					require.NoError(rt, err)
					if res.Granted == 0 {
						break
					}
					passes = append(passes, pass{m.Now(), res.Granted})
				}
			}
		}
		allTake()
		allTake() // now every process has an entry
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				for _, p := range fleet {
					p.loseRedis(t)
				}
			case 1:
				if rapid.Bool().Draw(rt, "empty") && !fleet[0].conn.Up() {
					m.FlushAll()
				}
				for _, p := range fleet {
					p.cut.Store(false)
					p.conn.breaker.close(false)
					p.conn.breaker.failures.Store(0)
				}
			default:
				m.pass(time.Duration(rapid.Int64Range(0, 500_000).Draw(rt, "us")) * s.Period / 1_000_000)
			}
			allTake()
		}
		s.Burst += int64(n)
		if s.Algorithm == LeakyQueue {
			s.Algorithm, s.Burst = LeakyBucket, 1+int64(n)
		}
		requireWithin(rt, s, 0, passes)
	})
}

func indexes(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}
