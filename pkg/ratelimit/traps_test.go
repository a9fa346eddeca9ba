package ratelimit

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// One test for each trap found in other limiters.

func specOf(a Algorithm) Spec {
	return Spec{Algorithm: a, Limit: Limit{
		Rate: 10, Period: time.Second,
		Burst: map[bool]int64{true: 10, false: 0}[a.Reserves()],
	}}
}

// requireAllExpire requires that all keys of the miniredis have an expiry.
func (m *mini) requireAllExpire(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, m.Keys())
	for _, k := range m.Keys() {
		require.Positive(t, m.TTL(k), k)
	}
}

// 1: INCR and EXPIRE as two commands leave a key without expiry if the second fails.
func TestTrap01KeyIsNeverWithoutExpiry(t *testing.T) {
	m := newMini(t)
	for _, a := range Algorithms() {
		l := onRedis(t, m.rdb, specOf(a))
		require.True(t, take(t, l, "k", 1).Allowed, a)
		m.requireAllExpire(t)
		for _, k := range m.Keys() { // a key that lost its expiry gets one again
			m.SetTTL(k, 0)
		}
		m.pass(200 * time.Millisecond)
		if a == WarmUp {
			m.pass(time.Second)
		}
		require.True(t, take(t, l, "k", 1).Allowed, a)
		m.requireAllExpire(t)
		m.FlushAll()
	}
}

// 2: "if the count is 1 then EXPIRE" misses a first request that costs more.
func TestTrap02FirstRequestOfHigherCostExpires(t *testing.T) {
	m := newMini(t)
	for _, a := range Algorithms() {
		s := specOf(a)
		l := onRedis(t, m.rdb, s)
		res, err := l.Take(context.Background(), Request{Key: "k", N: 3, MaxWait: time.Minute})
		require.NoError(t, err)
		require.EqualValues(t, 3, res.Granted, a)
		m.requireAllExpire(t)
		m.FlushAll()
	}
}

// 3: a sorted set whose members are times loses permits that were taken in the same microsecond.
func TestTrap03LogCountsPermitsOfTheSameMoment(t *testing.T) {
	for _, p := range backends(t) {
		t.Run(p.name, func(t *testing.T) {
			l := p.limiter(Spec{Algorithm: SlidingLog, Limit: Limit{Rate: 20_000, Period: time.Hour}})
			for range 100 {
				require.True(t, take(t, l, "k", 199).Allowed)
			}
			for range 100 {
				require.True(t, take(t, l, "k", 1).Allowed)
			}
			require.False(t, take(t, l, "k", 1).Allowed)
			require.Zero(t, take(t, l, "k", 0).Remaining)
		})
	}
}

// 4: Lua writes large numbers with 14 digits, and the microseconds of TIME have no leading zeros.
func TestTrap04TimesKeepTheirMicroseconds(t *testing.T) {
	m := newMini(t)
	at := time.Date(2026, 11, 21, 12, 0, 0, 57_000, time.UTC) // 57 us
	m.SetTime(at)
	l := onRedis(t, m.rdb, Spec{Algorithm: TokenBucket, Limit: PerSecond(10)})
	take(t, l, "k", 1)
	tat := at.Sub(time.Unix(1767225600, 0)).Microseconds() + 100_000
	v, err := m.Get(l.key(l.current.Load(), "k"))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d;3200000;32000000", tat*32), v) // ticks of 1/32 us

	rdb := realRedis(t)
	real := onRedis(t, rdb, Spec{Algorithm: TokenBucket, Limit: PerSecond(3)})
	take(t, real, "k", 1)
	v, err = rdb.Get(t.Context(), real.key(real.current.Load(), "k")).Result()
	require.NoError(t, err)
	require.Regexp(t, `^\d{15,16};10666667;32000001$`, v) // all digits, and a third of a second rounded up
}

// 5 and 6: rounding earned permits down loses permits when polling; rounding up gives too many.
func TestTrap05PollingLosesNoPermits(t *testing.T) { pollForAMinute(t) }

func TestTrap06PollingGainsNoPermits(t *testing.T) { pollForAMinute(t) }

func pollForAMinute(t *testing.T) {
	for _, p := range backends(t) {
		if p.real { // would take a minute
			continue
		}
		for _, every := range []time.Duration{500 * time.Millisecond, 130 * time.Millisecond, 170 * time.Millisecond} {
			for _, atMost := range []bool{false, true} {
				// a bucket of one would overflow between two polls
				l := p.limiter(Spec{Algorithm: TokenBucket, Limit: PerSecond(1).WithBurst(2)})
				n := int64(1)
				if atMost {
					l = p.limiter(Spec{Algorithm: TokenBucket, Limit: PerSecond(10)})
					n = 10
				}
				got, start := int64(0), p.now()
				for p.now().Sub(start) <= time.Minute {
					r, err := l.Take(context.Background(), Request{Key: "k", N: n, AtMost: atMost})
					require.NoError(t, err)
					got += r.Granted
					p.pass(every)
				}
				most := l.Spec().Burst + int64(p.now().Add(-every).Sub(start).Seconds()*float64(n))
				require.LessOrEqual(t, got, most, "%s every %s", p.name, every)
				require.GreaterOrEqual(t, got, most-1, "%s every %s", p.name, every)
			}
		}
	}
}

// 7: an expiry before the bucket is full gives a full bucket too early; an expiry rounded to 0 is an error.
func TestTrap07KeyOutlivesItsContent(t *testing.T) {
	m := newMini(t)
	for _, a := range Algorithms() {
		for _, l := range []Limit{
			{Rate: 1000, Period: time.Second, Burst: 1},
			{Rate: 1, Period: 10 * time.Second, Burst: 1},
			{Rate: 7, Period: time.Second, Burst: 5},
		} {
			s := Spec{Algorithm: a, Limit: l}
			if !a.Reserves() {
				s.Burst = 0
			}
			r := onRedis(t, m.rdb, s)
			res := take(t, r, "k", 1)
			require.True(t, res.Allowed)
			require.Len(t, m.Keys(), 1)
			require.GreaterOrEqual(t, m.TTL(m.Keys()[0]), res.ResetAfter, "%s %s", a, l)
			require.LessOrEqual(t, m.TTL(m.Keys()[0]), res.ResetAfter+3*time.Millisecond, "%s %s", a, l)
			m.FlushAll()
		}
	}
}

// 8: keys without any expiry.
func TestTrap08EveryKeyExpires(t *testing.T) {
	m := newMini(t)
	c := NewConn(m.rdb, ConnOptions{Timeout: patience})
	for _, a := range Algorithms() {
		l, err := c.NewRedis(a.String(), specOf(a), RedisOptions{})
		require.NoError(t, err)
		take(t, l, "k", 1)
		take(t, l, "", 1)
		res := take(t, l, "other", 1)
		require.NoError(t, l.Refund(t.Context(), "other", res))
	}
	b, err := c.NewBulkhead("b", BulkheadSpec{Limit: 1}, FailClosed, 0)
	require.NoError(t, err)
	_, err = b.Acquire(t.Context(), "")
	require.NoError(t, err)
	_, err = c.heartbeat(t.Context(), true)
	require.NoError(t, err)
	m.requireAllExpire(t)
}

// 9: trusting the clocks of clients, which differ.
func TestTrap09ClocksOfClientsDoNotMatter(t *testing.T) {
	rdb := realRedis(t)
	name := uniqueName(t)
	sum := int64(0)
	for i := range 4 {
		c := NewConn(rdb, ConnOptions{Timeout: patience})
		l, err := c.NewRedis(name, Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 100, Period: time.Hour}},
			RedisOptions{DenyCache: -1})
		require.NoError(t, err)
		l.clock = newClock(func() time.Time { return time.Now().Add(time.Duration(i-2) * time.Hour) })
		for range 50 {
			sum += take(t, l, "k", 1).Granted
		}
	}
	require.EqualValues(t, 100, sum)
}

// 10: after a jump of Redis's clock, a time far in the future would lock a key out.
func TestTrap10JumpOfRedisClockLocksNoKeyOut(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			m := newMini(t)
			s := specOf(a)
			s.MaxWait = time.Second * time.Duration(map[bool]int{true: 1}[a.Reserves()])
			l := onRedis(t, m.rdb, s)
			for take(t, l, "k", 1).Allowed {
			}
			m.SetTime(m.Now().Add(-24 * time.Hour)) // keys are kept
			res := take(t, l, "k", 1)
			require.False(t, res.Allowed, "the clock went back and gave a permit")
			bound := 3 * time.Second // time to full, plus the longest reservation
			if a == WarmUp {
				bound = 5 * time.Second
			}
			require.LessOrEqual(t, res.RetryAfter, bound)
			m.SetTime(m.Now().Add(-24 * time.Hour).Add(res.RetryAfter))
			require.True(t, take(t, l, "k", 1).Allowed)
		})
	}
	m := newMini(t)
	l := onRedis(t, m.rdb, specOf(GCRA))
	require.NoError(t, m.Set(l.key(l.current.Load(), "k"), "1000000000000000000;3200000;32000000"))
	res := take(t, l, "k", 1)
	require.False(t, res.Allowed)
	require.LessOrEqual(t, res.RetryAfter, time.Second+defaultMaxWait)
}

// 11: redis.replicate_commands does not exist in functions and is not needed since Redis 5.
func TestTrap11ScriptsNeedNoReplicateCommands(t *testing.T) {
	for _, a := range Algorithms() {
		for _, verb := range []string{"decide", "refund"} {
			require.NotContains(t, scriptFor(verb, a).text, "replicate_commands")
		}
	}
}

// 12: keys in other slots than the declared one; braces in text from a caller.
func TestTrap12OnlyKeysOfASubjectShareASlot(t *testing.T) {
	c := NewConn(realRedis(t), ConnOptions{})
	tag := func(name, subject string) string {
		l, err := c.NewRedis(name, specOf(GCRA), RedisOptions{})
		require.NoError(t, err)
		k := l.key(l.current.Load(), subject)
		open, shut := strings.IndexByte(k, '{'), strings.IndexByte(k, '}')
		require.Equal(t, 1, strings.Count(k, "{"))
		require.Equal(t, 1, strings.Count(k, "}"))
		require.Less(t, len(k), 100)
		return k[open+1 : shut]
	}
	require.Equal(t, tag("a", "user"), tag("b", "user"))
	require.NotEqual(t, tag("a", "user"), tag("a", "user2"))
	require.NotEqual(t, tag("a", ""), tag("b", ""), "all of an API in one slot")
	for _, evil := range []string{"{x}", "}{", "{", "a:b", "\x00", strings.Repeat("x", 1<<16)} {
		require.Regexp(t, "^[0-9a-f]{32}$", tag("a", evil))
	}
}

func TestTrap12ScriptsRunOnACluster(t *testing.T) {
	rdb := clusterRedis(t)
	c := NewConn(rdb, ConnOptions{Timeout: patience, Prefix: uniqueName(t)})
	require.True(t, c.cluster)
	var charges []Charge
	for _, a := range Algorithms() {
		for _, key := range []string{"user", ""} {
			s := specOf(a)
			s.Period = time.Hour // nothing is earned meanwhile
			l, err := c.NewRedis(a.String(), s, RedisOptions{OnFailure: FailClosed})
			require.NoError(t, err)
			if key == "user" {
				charges = append(charges, Charge{l, Request{Key: key, N: 1}})
			} else {
				charges = append([]Charge{{l, Request{N: 1}}}, charges...)
			}
		}
	}
	results := make([]Result, len(charges))
	ok, err := TakeAll(t.Context(), charges, results)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = TakeAll(t.Context(), charges, results) // the queue and the warm-up refuse the second request at once
	require.NoError(t, err)
	require.False(t, ok)
	for i, ch := range charges {
		if a := ch.Limiter.Spec().Algorithm; a != LeakyQueue && a != WarmUp {
			res := take(t, ch.Limiter, ch.Request.Key, 0)
			require.GreaterOrEqual(t, res.Remaining, int64(9), "%s %v", a, results[i])
		}
	}
}

// 13: a missing field is false in Lua, and false < 5 is an error; a volatile eviction policy may remove anything.
func TestTrap13GarbageIsNoError(t *testing.T) {
	for _, a := range Algorithms() {
		for _, garbage := range []string{
			"", "x", ";", "x;y;z", "1", "nan;1;1", "inf;1;1", "-1;-1;-1", ";;;;",
			"1e999;1;1", "9;9",
		} {
			m := newMini(t)
			l := onRedis(t, m.rdb, specOf(a))
			k := l.key(l.current.Load(), "k")
			switch a {
			case SlidingWindow:
				m.HSet(k, "p", garbage, garbage, garbage, "1", garbage)
			case SlidingLog:
				_, err := m.RPush(k, garbage, "1")
				require.NoError(t, err)
			default:
				require.NoError(t, m.Set(k, garbage))
			}
			for range 3 {
				_, err := l.Take(context.Background(), Request{Key: "k", N: 1})
				require.NoError(t, err, "%s %q", a, garbage)
				m.pass(time.Second)
			}
			m.pass(time.Minute)
			require.True(t, take(t, l, "k", 1).Allowed, "%s %q locks out", a, garbage)
		}
	}
}

// 14: a rate of 0, NaN, or fractions that become "1e-05" in transit.
func TestTrap14ImpossibleLimitsAreRefused(t *testing.T) {
	for _, s := range []Spec{
		{},
		{Algorithm: 99, Limit: PerSecond(1)},
		{Algorithm: GCRA},
		{Algorithm: GCRA, Limit: PerSecond(0)},
		{Algorithm: GCRA, Limit: PerSecond(-1)},
		{Algorithm: GCRA, Limit: Limit{Rate: 1}},
		{Algorithm: GCRA, Limit: Limit{Rate: 1, Period: -time.Second}},
		{Algorithm: GCRA, Limit: Limit{Rate: 1, Period: time.Microsecond}},
		{Algorithm: GCRA, Limit: Limit{Rate: 1, Period: time.Second + 1}},
		{Algorithm: GCRA, Limit: Limit{Rate: 1, Period: time.Second, Burst: -1}},
		{Algorithm: GCRA, Limit: Limit{Rate: math.MaxInt64, Period: time.Second}},
		{Algorithm: GCRA, Limit: Limit{Rate: 1, Period: 365 * 24 * time.Hour, Burst: 1000}},
		{Algorithm: FixedWindow, Limit: Limit{Rate: 1, Period: time.Second, Burst: 2}},
		{Algorithm: FixedWindow, Limit: Limit{Rate: 1e9, Period: time.Second / 2}, MaxWait: -1},
		{Algorithm: SlidingLog, Limit: Limit{Rate: 1e6, Period: time.Second}},
		{Algorithm: SlidingWindow, Limit: PerSecond(1), Buckets: 100},
		{Algorithm: GCRA, Limit: PerSecond(1), Buckets: 1},
		{Algorithm: WarmUp, Limit: PerSecond(1), ColdFactor: math.NaN()},
		{Algorithm: WarmUp, Limit: PerSecond(1), ColdFactor: 0.5},
		{Algorithm: WarmUp, Limit: PerSecond(1), WarmUp: -1},
		{Algorithm: GCRA, Limit: PerSecond(1), WarmUp: time.Second},
		{Algorithm: GCRA, Limit: PerSecond(1), Inherit: 9},
	} {
		require.Error(t, s.Validate(), "%+v", s)
		_, err := NewLocal(s)
		require.Error(t, err)
	}
	for _, l := range []Limit{
		PerSecond(1e9), PerSecond(3), Every(366 * 24 * time.Hour),
		{Rate: 999_999, Period: time.Millisecond},
		PerSecond(7).WithBurst(1e8),
	} {
		for _, p := range backends(t) {
			r := p.limiter(Spec{Algorithm: GCRA, Limit: l})
			require.True(t, take(t, r, "k", 1).Allowed, "%s %s", p.name, l)
		}
	}
}

// 15: a cost above the burst can never pass; a finite wait would be wrong.
func TestTrap15ImpossibleCostIsNever(t *testing.T) {
	for _, p := range backends(t) {
		for _, a := range Algorithms() {
			l := p.limiter(specOf(a))
			res := take(t, l, "k", 11)
			require.False(t, res.Allowed)
			require.Equal(t, Never, res.RetryAfter, "%s %s", p.name, a)
			_, err := Wait(t.Context(), l, "k", 11, time.Hour)
			require.ErrorIs(t, err, ErrCostExceedsBurst)
			if a.Reserves() {
				_, err = Reserve(t.Context(), l, "k", 11, time.Hour)
				require.ErrorIs(t, err, ErrCostExceedsBurst)
			}
			_, err = l.Take(t.Context(), Request{Key: "k", N: -1})
			require.Error(t, err)
		}
	}
}

// 16: counting refusals locks a polling caller out for ever; writing at refusals doubles the work.
func TestTrap16RefusalsWriteNothing(t *testing.T) {
	for _, a := range Algorithms() {
		m := newMini(t)
		l := onRedis(t, m.rdb, specOf(a))
		for take(t, l, "k", 1).Allowed {
		}
		before := m.Dump()
		first := take(t, l, "k", 1)
		for range 100 {
			require.False(t, take(t, l, "k", 1).Allowed)
		}
		require.Equal(t, before, m.Dump(), a)
		m.pass(first.RetryAfter)
		require.True(t, take(t, l, "k", 1).Allowed, a)
	}
}

// 17: a request that one limit refuses must not drain the others.
func TestTrap17OneRefusalChargesNothing(t *testing.T) {
	m := newMini(t)
	c := NewConn(m.rdb, ConnOptions{Timeout: patience})
	limiter := func(kind string, a Algorithm, n int64) Limiter {
		s := Spec{Algorithm: a, Limit: Limit{Rate: n, Period: time.Hour}}
		if a == WarmUp || a == LeakyQueue {
			s.Burst = n
		}
		if kind == "local" {
			l, err := NewLocal(s, WithClock(m.Now))
			require.NoError(t, err)
			return l
		}
		l, err := c.NewRedis(uniqueName(t), s, RedisOptions{OnFailure: FailClosed, DenyCache: -1})
		require.NoError(t, err)
		return l
	}
	for _, wideKind := range []string{"local", "redis"} {
		for _, narrowKind := range []string{"local", "redis"} {
			for _, a := range Algorithms() {
				wide, narrow := limiter(wideKind, a, 100), limiter(narrowKind, GCRA, 3)
				charges := []Charge{{wide, Request{Key: "k", N: 1, MaxWait: time.Minute}}, {narrow, Request{Key: "k", N: 1}}}
				results := make([]Result, 2)
				passed := 0
				for range 20 {
					ok, err := TakeAll(t.Context(), charges, results)
					require.NoError(t, err)
					if ok {
						passed++
					} else if a != WarmUp && a != LeakyQueue {
						require.True(t, results[0].Allowed)
						require.False(t, results[1].Allowed)
						require.Positive(t, results[1].RetryAfter)
						if results[0].Remaining != Unknown { // not queried, because the other one refused from its cache
							require.EqualValues(t, 97, results[0].Remaining)
						}
						require.Zero(t, results[0].Granted)
					}
				}
				if a != WarmUp && a != LeakyQueue {
					require.Equal(t, 3, passed)
					require.EqualValues(t, 97, take(t, wide, "k", 0).Remaining, "%s %s %s", wideKind, narrowKind, a)
				}
			}
		}
	}
}

// 18: a check followed by a charge lets two requests in for one permit.
func TestTrap18DecisionAndChargeAreOneStep(t *testing.T) {
	rdb := realRedis(t)
	for _, a := range Algorithms() {
		if a == LeakyQueue || a == WarmUp {
			continue
		}
		name := uniqueName(t)
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			l, err := NewConn(rdb, ConnOptions{Timeout: patience}).NewRedis(name,
				Spec{Algorithm: a, Limit: Limit{Rate: 100, Period: farOff}}, RedisOptions{DenyCache: -1})
			require.NoError(t, err)
			wg.Go(func() {
				for range 40 {
					r, err := l.Take(context.Background(), Request{Key: "k", N: 1})
					if err != nil {
						panic(err)
					}
					granted.Add(r.Granted)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 100, granted.Load(), a)
	}
}

// counting counts the commands of a client by name.
type counting struct {
	mu       sync.Mutex
	commands map[string]int
}

func (c *counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.mu.Lock()
		for _, cmd := range cmds {
			c.commands[cmd.Name()]++
		}
		c.mu.Unlock()
		return next(ctx, cmds)
	}
}

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.mu.Lock()
		c.commands[cmd.Name()]++
		c.mu.Unlock()
		return next(ctx, cmd)
	}
}

// 19: compare-and-swap by the client gives up on a hot key after some attempts. 23: reading from replicas.
func TestTrap19OneCallPerDecision(t *testing.T) { oneCallPerDecision(t) }

func TestTrap23DecisionsAreMadeByTheMaster(t *testing.T) { oneCallPerDecision(t) }

func oneCallPerDecision(t *testing.T) {
	rdb := realRedis(t)
	count := &counting{commands: map[string]int{}}
	c := NewConn(rdb, ConnOptions{Timeout: patience})
	l, err := c.NewRedis(uniqueName(t), Spec{Algorithm: GCRA, Limit: Limit{Rate: 1000, Period: time.Hour}},
		RedisOptions{OnFailure: FailClosed})
	require.NoError(t, err)
	take(t, l, "k", 1) // now the script is loaded
	rdb.AddHook(count)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 30 {
				if _, err := l.Take(context.Background(), Request{Key: "k", N: 1}); err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
	delete(count.commands, "hello") // of new connections
	delete(count.commands, "select")
	require.Equal(t, map[string]int{"evalsha": 32 * 30}, count.commands) // no evalsha_ro, no get
}

// delayProxy is a proxy that forwards requests at once and replies when it is released.
type delayProxy struct {
	addr string
	hold atomic.Pointer[chan struct{}]
}

func newLagging(t *testing.T, to string) *delayProxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &delayProxy{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				return
			}
			wg.Go(func() {
				_, _ = io.Copy(server, client)
				server.Close()
			})
			wg.Go(func() {
				defer client.Close()
				buf := make([]byte, 4096)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					if hold := p.hold.Load(); hold != nil {
						<-*hold
					}
					if _, err := client.Write(buf[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	return p
}

// 20: a client that retries a call whose reply is late charges four times.
func TestTrap20LateAnswerChargesOnce(t *testing.T) {
	direct := realRedis(t)
	p := newLagging(t, direct.(*redis.Client).Options().Addr)
	// retries 3 times by default
	rdb := redis.NewClient(&redis.Options{
		Addr: p.addr, DB: testDB, ReadTimeout: 50 * time.Millisecond,
		WriteTimeout: patience, DisableIdentity: true,
	})
	defer rdb.Close()
	spec := Spec{Algorithm: FixedWindow, Limit: Limit{Rate: 100, Period: farOff}}
	name := uniqueName(t)
	slow, err := NewConn(rdb, ConnOptions{Timeout: patience}).NewRedis(name, spec, RedisOptions{OnFailure: FailClosed})
	require.NoError(t, err)
	watch, err := NewConn(direct, ConnOptions{Timeout: patience}).NewRedis(name, spec,
		RedisOptions{OnFailure: FailClosed})
	require.NoError(t, err)
	for take(t, watch, "k", 1).Granted == 0 { // the script is loaded and a connection open
	}
	require.Eventually(t, func() bool { // a slow machine may need more than 50 ms
		res, err := slow.Take(context.Background(), Request{Key: "k", N: 0})
		return err == nil && res.Remaining == 99
	}, patience, time.Millisecond)
	hold := make(chan struct{})
	p.hold.Store(&hold)
	_, err = slow.Take(context.Background(), Request{Key: "k", N: 1})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Eventually(t, func() bool { return take(t, watch, "k", 0).Remaining == 98 }, patience, time.Millisecond)
	p.hold.Store(nil)
	close(hold)
	require.EqualValues(t, 98, take(t, watch, "k", 0).Remaining)
}

// 21: a hit, or a refusal, that extends the window.
func TestTrap21HitsDoNotExtendTheWindow(t *testing.T) {
	m := newMini(t)
	l := onRedis(t, m.rdb, Spec{Algorithm: FixedWindow, Limit: Limit{Rate: 5, Period: 10 * time.Second}})
	end := m.Now().Truncate(10 * time.Second).Add(10 * time.Second)
	for m.Now().Before(end.Add(-time.Second)) {
		res := take(t, l, "k", 1)
		require.Equal(t, end.Sub(m.Now()), res.ResetAfter)
		require.LessOrEqual(t, m.TTL(m.Keys()[0]), end.Sub(m.Now())+2*time.Millisecond)
		m.pass(time.Second)
	}
	m.pass(end.Sub(m.Now()))
	require.True(t, take(t, l, "k", 1).Allowed)
}

// 22: an evicted key starts with nothing spent; if one of two keys is evicted, the other must not cause an error.
func TestTrap22EvictedKeyStartsAnew(t *testing.T) {
	m := newMini(t)
	c := NewConn(m.rdb, ConnOptions{Timeout: patience})
	for _, a := range Algorithms() {
		var charges []Charge
		for range 2 {
			l, err := c.NewRedis(uniqueName(t), specOf(a), RedisOptions{OnFailure: FailClosed, DenyCache: -1})
			require.NoError(t, err)
			charges = append(charges, Charge{l, Request{Key: "k", N: 1}})
		}
		results := make([]Result, 2)
		ok, err := TakeAll(t.Context(), charges, results)
		require.NoError(t, err)
		require.True(t, ok)
		l := charges[0].Limiter.(*Redis)
		require.True(t, m.Del(l.key(l.current.Load(), "k")))
		_, err = TakeAll(t.Context(), charges, results)
		require.NoError(t, err)
	}
	rdb := realRedis(t)
	policy, err := rdb.ConfigGet(t.Context(), "maxmemory-policy").Result()
	require.NoError(t, err)
	err = NewConn(rdb, ConnOptions{Timeout: patience}).CheckEviction(t.Context())
	if strings.HasPrefix(policy["maxmemory-policy"], "allkeys") {
		require.Error(t, err)
	} else {
		require.NoError(t, err)
	}
}

// 24: a sweep that removes a key between a decision and its charge refunds the key.
func TestTrap24SweepKeepsKeysInUse(t *testing.T) {
	l, err := NewLocal(Spec{Algorithm: FixedWindow, Limit: Limit{Rate: 1000, Period: farOff}}, WithMaxKeys(128))
	require.NoError(t, err)
	var granted atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				r, _ := l.Take(context.Background(), Request{Key: "hot", N: 1})
				granted.Add(r.Granted)
				_, _ = l.Take(context.Background(), Request{Key: fmt.Sprintf("%d-%d", w, i), N: 0})
				r, _ = l.Take(context.Background(), Request{Key: fmt.Sprintf("%d-%d", w, i), N: 1})
				_ = l.Refund(context.Background(), fmt.Sprintf("%d-%d", w, i), r)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1000, granted.Load())
	require.LessOrEqual(t, l.Keys(), 128)
}

// 25: the permits of a cancelled wait stay charged.
func TestTrap25CancelledWaitRefundsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLocal(Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1, Period: time.Second, Burst: 1}})
		require.NoError(t, err)
		require.True(t, take(t, l, "k", 1).Allowed)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := Wait(ctx, l, "k", 1, time.Minute)
			done <- err
		}()
		synctest.Wait()
		require.Equal(t, 2*time.Second, take(t, l, "k", 0).RetryAfter)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Equal(t, time.Second, take(t, l, "k", 0).RetryAfter)
	})
}

// 26: in Guava a large request passes at once and the next one waits for it.
func TestTrap26LargeRequestsWaitThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, a := range []Algorithm{TokenBucket, LeakyQueue} {
			s := Spec{Algorithm: a, Limit: Limit{Rate: 10, Period: time.Second, Burst: 10}}
			l, err := NewLocal(s)
			require.NoError(t, err)
			first := map[Algorithm]int64{TokenBucket: 10, LeakyQueue: 1}[a]
			require.True(t, take(t, l, "", first).Allowed)
			start := time.Now()
			_, err = Wait(t.Context(), l, "", 5, time.Second)
			require.NoError(t, err)
			require.Equal(t, 500*time.Millisecond, time.Since(start))
			_, err = Wait(t.Context(), l, "", 1, time.Second)
			require.NoError(t, err)
			require.Equal(t, 600*time.Millisecond, time.Since(start), "the next one waits for its own permit only")
		}
	})
}

// 27: a warm-up in steps of a second jumps, and never warms up at low traffic.
func TestTrap27WarmUpIsSmooth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Guava's own example: 2 per second, warm-up 4 s, cold factor 3.
		l, err := NewLocal(Spec{Algorithm: WarmUp, Limit: PerSecond(2).WithBurst(1), WarmUp: 4 * time.Second})
		require.NoError(t, err)
		var gaps []float64
		last := time.Now()
		for range 10 {
			_, err := Wait(t.Context(), l, "", 1, time.Minute)
			require.NoError(t, err)
			gaps = append(gaps, math.Round(time.Since(last).Seconds()*1000)/1000)
			last = time.Now()
		}
		// as in Guava's RateLimiterTest
		require.Equal(t, []float64{0, 1.375, 1.125, 0.875, 0.625, 0.5, 0.5, 0.5, 0.5, 0.5}, gaps)
		time.Sleep(time.Hour)
		_, err = Wait(t.Context(), l, "", 1, 0)
		require.NoError(t, err)
		require.Equal(t, 1375*time.Millisecond, take(t, l, "", 0).RetryAfter, "cold again")
	})
}

// TestWarmUpWaitsAreRoundedToTheStrictSide: 60 ms apart stay 60 ms apart where the price of earlier permits, which is
// 219.2 ms here, comes out as a fraction of a microsecond more and is rounded up.
func TestWarmUpWaitsAreRoundedToTheStrictSide(t *testing.T) {
	spec := Spec{Algorithm: WarmUp, Limit: PerMinute(1000).WithBurst(4), WarmUp: time.Second}
	m, v := newMini(t), newVirtual()
	local, err := NewLocal(spec, WithClock(v.Now))
	require.NoError(t, err)
	for name, l := range map[string]Limiter{"local": local, "on Redis": onRedis(t, m.rdb, spec)} {
		t.Run(name, func(t *testing.T) {
			require.True(t, take(t, l, "k", 2).Allowed)
			var last time.Duration
			for _, n := range []int64{4, 4, 1} {
				res, err := l.Take(t.Context(), Request{Key: "k", N: n, MaxWait: time.Minute})
				require.NoError(t, err)
				require.Equal(t, n, res.Granted)
				require.GreaterOrEqual(t, res.Wait, last+time.Duration(n)*time.Minute/1000)
				last = res.Wait
			}
		})
	}
}

// TestWarmUpDebitsAreEqual: locally and on Redis, where a price is no whole number of microseconds.
func TestWarmUpDebitsAreEqual(t *testing.T) {
	spec := Spec{Algorithm: WarmUp, Limit: PerSecond(7).WithBurst(4), WarmUp: time.Second}
	m, v := newMini(t), newVirtual()
	local, err := NewLocal(spec, WithClock(v.Now))
	require.NoError(t, err)
	shared := onRedis(t, m.rdb, spec)
	for range 20 {
		want, got := take(t, local, "k", 2), take(t, shared, "k", 2)
		require.Equal(t, want.Granted, got.Granted)
		require.Equal(t, want.debit, got.debit)
		const step = 285_716 * time.Microsecond
		v.add(step)
		m.pass(step)
	}
}
