package ratelimit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBreakerStopsCallsWhileRedisIsDown: after some failures callers no longer wait for Redis, and the share of this
// process applies. When Redis is back, it is used again.
func TestBreakerStopsCallsWhileRedisIsDown(t *testing.T) {
	s := newServer(t)
	rdb := Connect([]string{s.addr}, 0, patient)
	defer rdb.Close()
	count := &counting{commands: map[string]int{}}
	var states []bool
	var mu sync.Mutex
	c := NewConn(rdb, ConnOptions{
		Instances: 4, Timeout: patience, ProbeEvery: 20 * time.Millisecond,
		OnState: func(up bool, _ error) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, up)
		},
	})
	l, err := c.NewRedis("k", Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 100, Period: time.Hour}}, RedisOptions{})
	require.NoError(t, err)
	open, err := c.NewRedis("open", Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 100, Period: time.Hour}},
		RedisOptions{OnFailure: FailOpen})
	require.NoError(t, err)
	closed, err := c.NewRedis("closed", Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 100, Period: time.Hour}},
		RedisOptions{OnFailure: FailClosed})
	require.NoError(t, err)
	for range 20 {
		require.Equal(t, SourceRedis, take(t, l, "k", 1).Source)
	}
	s.kill()
	for c.Up() {
		take(t, l, "k", 0)
	}
	rdb.AddHook(count)
	c.breaker.runProbes.Store(true) // as if Run did
	granted := 0
	for range 100 {
		res := take(t, l, "k", 1)
		require.Equal(t, SourceFallback, res.Source)
		granted += int(res.Granted)
	}
	require.Equal(t, 20, granted, "a quarter of what was left")
	res, err := open.Take(t.Context(), Request{N: 1})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	res, err = closed.Take(t.Context(), Request{N: 1})
	require.ErrorIs(t, err, ErrUnavailable)
	require.False(t, res.Allowed)
	require.Positive(t, res.RetryAfter)
	require.Empty(t, count.commands)
	c.breaker.runProbes.Store(false)

	require.NoError(t, s.start(t))
	require.Eventually(t, func() bool { // a caller probes
		take(t, l, "probe", 0)
		return c.Up()
	}, patience, time.Millisecond)
	// Redis is empty. It learns what was spent before the outage, and during it: 20 by this process, so 80 by all.
	left := int64(0)
	for take(t, l, "k", 1).Granted == 1 {
		left++
	}
	require.LessOrEqual(t, left, int64(2)) // earned meanwhile
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []bool{false, true}, states)
}

// TestRunCountsProcesses: processes see each other, and share the limit evenly.
func TestRunCountsProcesses(t *testing.T) {
	rdb := realRedis(t)
	prefix := uniqueName(t)
	run := func() (c *Conn, stop func()) {
		c = NewConn(rdb, ConnOptions{Prefix: prefix, Timeout: patience, HeartbeatEvery: 50 * time.Millisecond})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.Run(ctx) })
		return c, func() {
			cancel()
			wg.Wait()
		}
	}
	a, stopA := run()
	defer stopA()
	_, stopB := run()
	require.Eventually(t, func() bool { return a.Instances() == 2 }, patience, time.Millisecond)
	l, err := a.NewRedis("x", Spec{Algorithm: FixedWindow, Limit: PerSecond(100)}, RedisOptions{})
	require.NoError(t, err)
	require.Equal(t, Limit{Rate: 100, Period: 2 * time.Second, Burst: 50},
		shareOf(l.Spec(), int64(a.Instances()), 0).Limit)
	stopB()
	require.Eventually(t, func() bool { return a.Instances() == 1 }, patience, time.Millisecond)
}

// TestDenyCacheSavesCalls: a refused key is refused locally until it can have a permit.
func TestDenyCacheSavesCalls(t *testing.T) {
	rdb := realRedis(t)
	count := &counting{commands: map[string]int{}}
	c := NewConn(rdb, ConnOptions{Timeout: patience})
	for _, a := range Algorithms() {
		s := Spec{Algorithm: a, Limit: Limit{Rate: 5, Period: farOff}}
		l, err := c.NewRedis(uniqueName(t), s, RedisOptions{OnFailure: FailClosed})
		require.NoError(t, err)
		var last Result
		for range 6 {
			last = take(t, l, "k", 1)
		}
		require.False(t, last.Allowed)
		rdb.AddHook(count)
		count.commands = map[string]int{}
		for range 1000 {
			res := take(t, l, "k", 1)
			require.Equal(t, SourceDenyCache, res.Source)
			require.LessOrEqual(t, res.RetryAfter, last.RetryAfter)
			require.Positive(t, res.RetryAfter)
		}
		require.Empty(t, count.commands, a)
		take(t, l, "k", 0) // a peek queries Redis
		require.Len(t, count.commands, 1)
		require.NoError(t, l.Reset(t.Context(), "k"))
		require.True(t, take(t, l, "k", 1).Allowed, "a reset here is seen at once")
	}
}

// TestLeasesNeverExceedTheLimit: processes with leases grant no more than the limit together, and nearly all of it.
func TestLeasesNeverExceedTheLimit(t *testing.T) {
	rdb := realRedis(t)
	for _, a := range []Algorithm{TokenBucket, GCRA, LeakyBucket, FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			const quota, processes = 10_000, 4
			name := uniqueName(t)
			count := &counting{commands: map[string]int{}}
			var granted, requests atomic.Int64
			var wg sync.WaitGroup
			spec := Spec{Algorithm: a, Limit: Limit{Rate: quota, Period: farOff}}
			for i := range processes {
				mine := realRedis(t)
				mine.AddHook(count)
				c := NewConn(mine, ConnOptions{Timeout: patience, Instances: processes})
				l, err := c.NewRedis(name, spec, RedisOptions{Lease: 0.01, OnFailure: FailClosed})
				require.NoError(t, err)
				for range 2 {
					wg.Go(func() {
						for range 2000 * (i + 1) {
							r, err := l.Take(context.Background(), Request{N: 1})
							if err != nil {
								panic(err)
							}
							requests.Add(1)
							granted.Add(r.Granted)
						}
					})
				}
			}
			wg.Wait()
			_ = rdb
			calls := count.commands["evalsha"]
			t.Logf("%d decisions, %d granted of %d, %d calls to Redis (1 in %.0f)", requests.Load(), granted.Load(),
				quota, calls, float64(requests.Load())/float64(calls))
			require.LessOrEqual(t, granted.Load(), int64(quota+1)) // +1: earned meanwhile
			require.GreaterOrEqual(t, granted.Load(), int64(quota*97/100))
		})
	}
}

// slowLease is a limiter with leases of 10 permits, whose replies from Redis can be held back.
type slowLease struct {
	*Redis
	proxy *delayProxy
	held  *lease
	count *counting
}

// newSlowLease returns a limiter of 1,000 permits in 12 hours, or in a longer window, that holds no lease. One permit is
// spent.
func newSlowLease(t *testing.T, a Algorithm, burst int64) slowLease {
	period := 12 * time.Hour
	if a == FixedWindow {
		period = farOff
	}
	proxy := newLagging(t, realRedis(t).(*redis.Client).Options().Addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.addr, DB: testDB, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	l, err := NewConn(rdb, ConnOptions{Timeout: patience}).NewRedis(uniqueName(t),
		Spec{Algorithm: a, Limit: Limit{Rate: 1000, Period: period, Burst: burst}},
		RedisOptions{Lease: 0.01, OnFailure: FailClosed, DenyCache: -1})
	require.NoError(t, err)
	require.True(t, take(t, l, "", 1).Allowed) // the script is loaded and a connection open
	l.leases.returnAll(t.Context())
	count := &counting{commands: map[string]int{}}
	rdb.AddHook(count)
	return slowLease{l, proxy, l.leases.leaseFor(""), count}
}

// afterAllWait makes the callers wait for the reply to one call before it arrives. It returns the sum of the grants.
func (l slowLease) afterAllWait(t *testing.T, callers int64) (granted int64) {
	hold := make(chan struct{})
	l.proxy.hold.Store(&hold)
	grants := make(chan int64, callers)
	for range callers {
		go func() {
			res, err := l.Take(context.Background(), Request{N: 1})
			assert.NoError(t, err)
			grants <- res.Granted
		}()
	}
	require.Eventually(t, func() bool { return l.wait(0) == callers }, patience, time.Millisecond)
	l.proxy.hold.Store(nil)
	close(hold)
	for range callers {
		granted += <-grants
	}
	require.Zero(t, l.wait(0))
	return granted
}

// wait makes n more callers wait, and returns how many do.
func (l slowLease) wait(n int64) int64 {
	l.held.mu.Lock()
	defer l.held.mu.Unlock()
	l.held.waiting += n
	return l.held.waiting
}

// TestOneCallServesAllWhoWait: where a call to Redis takes long, the callers that wait meanwhile share the next one, and
// none is refused while the limit has permits. 1 % of it would serve 10 of them with each call.
func TestOneCallServesAllWhoWait(t *testing.T) {
	const callers = 200
	for _, a := range []Algorithm{TokenBucket, FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			l := newSlowLease(t, a, 0)
			require.EqualValues(t, callers, l.afterAllWait(t, callers))
			require.LessOrEqual(t, l.count.commands["evalsha"], 3)
		})
	}
	t.Run("as many as there are", func(t *testing.T) { // also if the next one is due in less than the longest time ahead
		l := newSlowLease(t, TokenBucket, 100)
		require.EqualValues(t, 99, l.afterAllWait(t, callers))
	})
}

// TestPermitsOfCallersThatLeftAreReturned: if the contexts of callers end during a call, no more than a lease is held.
func TestPermitsOfCallersThatLeftAreReturned(t *testing.T) {
	for _, a := range []Algorithm{TokenBucket, FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			l := newSlowLease(t, a, 0)
			l.wait(300)
			hold := make(chan struct{})
			l.proxy.hold.Store(&hold)
			granted := make(chan int64)
			go func() {
				res, err := l.Take(context.Background(), Request{N: 1})
				assert.NoError(t, err)
				granted <- res.Granted
			}()
			require.Eventually(t, func() bool { return l.wait(0) == 301 }, patience, time.Millisecond)
			l.wait(-300)
			l.proxy.hold.Store(nil)
			close(hold)
			require.EqualValues(t, 1, <-granted)
			require.EqualValues(t, 10, l.held.permits)
			require.EqualValues(t, 1000-2-10, take(t, l, "", 0).Remaining)
		})
	}
}

// TestLeaseAfterAFixedWindow: when a limit stops being a FixedWindow, its leases no longer end with the window.
func TestLeaseAfterAFixedWindow(t *testing.T) {
	l := newSlowLease(t, FixedWindow, 0)
	take(t, l, "", 1)
	require.NotZero(t, l.held.expiresAt)
	require.NoError(t, l.SetSpec(Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1000, Period: 12 * time.Hour}}))
	l.held.expiresAt = 1 // the window has ended
	for range 20 {
		require.True(t, take(t, l, "", 1).Allowed)
	}
	require.Less(t, l.count.commands["evalsha"], 20)
}

// TestFixedWindowKeepsWhatItHolds: a request that costs more than the lease holds adds to it.
func TestFixedWindowKeepsWhatItHolds(t *testing.T) {
	l := newSlowLease(t, FixedWindow, 0)
	take(t, l, "", 1)
	l.held.permits, l.held.demand, l.held.measuredSince = 2, 0, math.MaxInt64 // so it fetches only what is missing
	require.EqualValues(t, 3, take(t, l, "", 3).Granted)
}

// TestIdleLeaseIsReturned: unused leased permits are returned for the other processes.
func TestIdleLeaseIsReturned(t *testing.T) {
	rdb := realRedis(t)
	c := NewConn(rdb, ConnOptions{Timeout: patience, Prefix: uniqueName(t)})
	l, err := c.NewRedis("x", Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 10_000, Period: 24 * time.Hour}},
		RedisOptions{Lease: 0.01})
	require.NoError(t, err)
	used := int64(0)
	require.Eventually(t, func() bool { // until it holds a large lease
		require.True(t, take(t, l, "", 1).Allowed)
		used++
		v, _ := l.leases.keys.Load("")
		held := v.(*lease)
		held.mu.Lock()
		defer held.mu.Unlock()
		return held.permits > 50
	}, patience, time.Microsecond)
	require.Less(t, take(t, l, "", 0).Remaining, 10_000-used)
	l.leases.returnAll(t.Context())
	require.Equal(t, 10_000-used, take(t, l, "", 0).Remaining)
	require.Zero(t, l.leases.n.Load())
}

// fleetEnv makes this test binary run as a process of a fleet.
const fleetEnv = "RATELIMIT_FLEET"

type order struct {
	Addr  string
	Lease float64
	Rate  int64
}

// tick is the decisions of a process within 50 ms, or longer on a slow machine.
type tick struct {
	From, At                   int64 // us since 1970; the decisions were made between them
	Granted, Refused, Fallback int64
}

// TestFleetMember is a process of TestFleetThroughOutages. Without fleetEnv it does nothing.
func TestFleetMember(t *testing.T) {
	text := os.Getenv(fleetEnv)
	if text == "" {
		return
	}
	var o order
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	rdb := Connect([]string{o.Addr}, 0)
	defer rdb.Close()
	c := NewConn(rdb, ConnOptions{Instances: 4, HeartbeatEvery: 500 * time.Millisecond, Timeout: 250 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = c.Run(ctx) })
	l, err := c.NewRedis("path-total", Spec{
		Algorithm: TokenBucket,
		Limit:     Limit{Rate: o.Rate, Period: time.Second, Burst: o.Rate},
	}, RedisOptions{Lease: o.Lease})
	require.NoError(t, err)
	var granted, refused, fallback atomic.Int64
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, err := l.Take(ctx, Request{N: 1})
				switch {
				case err != nil:
				case !r.Allowed:
					refused.Add(1)
				default:
					granted.Add(1)
					if r.Source == SourceFallback {
						fallback.Add(1)
					}
				}
				_ = sleep(ctx, 400*time.Microsecond)
			}
		})
	}
	wg.Go(func() { // ends when the parent closes the pipe
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	})
	out := json.NewEncoder(os.Stdout)
	for from := time.Now().UnixMicro(); ctx.Err() == nil; {
		_ = sleep(ctx, 50*time.Millisecond)
		next := time.Now().UnixMicro() // read before the counters, so that decisions that this tick misses are later
		k := tick{From: from, Granted: granted.Swap(0), Refused: refused.Swap(0), Fallback: fallback.Swap(0)}
		k.At = time.Now().UnixMicro()
		from = next
		_ = out.Encode(k)
	}
}

// TestFleetThroughOutages: four processes on one Redis. One of them is killed; Redis is paused, then killed and
// restarted empty. While Redis is up the fleet admits the limit. While it is down, it admits neither nothing nor
// everything. No return of Redis lets a burst pass.
func TestFleetThroughOutages(t *testing.T) {
	leases := []float64{0, 0.01}
	if testing.Short() {
		leases = leases[1:] // the default; half a minute each
	}
	for _, lease := range leases {
		t.Run(fmt.Sprintf("lease %v", lease), func(t *testing.T) { fleetThroughOutages(t, lease) })
	}
}

func fleetThroughOutages(t *testing.T, leased float64) {
	const rate, burst, processes = 1000, 1000, 4
	s := newServer(t)
	text, err := json.Marshal(order{Addr: s.addr, Lease: leased, Rate: rate})
	require.NoError(t, err)
	f := &fleet{t: t, rate: rate}
	defer f.wg.Wait()
	for range processes {
		f.send(string(text))
	}
	defer func() {
		for _, m := range f.members {
			_ = m.Process.Kill()
		}
	}()
	require.Eventually(t, func() bool { return f.within(0, time.Now().UnixMicro()).Granted > burst }, 5*patience,
		20*time.Millisecond)

	f.phase("four processes", 2*time.Second, 4*time.Second, 0.97)

	require.NoError(t, f.members[0].Process.Kill())
	f.phase("one of them killed", 500*time.Millisecond, 4*time.Second, 0.97)

	f.downAt[0] = time.Now()
	admin := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer admin.Close()
	require.NoError(t, admin.Do(t.Context(), "CLIENT", "PAUSE", 2500, "ALL").Err())
	k := f.phase("redis paused", 500*time.Millisecond, 1500*time.Millisecond, 0.5)
	require.Positive(t, k.Fallback)

	f.upAt[0] = time.Now().Add(2 * time.Second)
	f.phase("redis is back", 1500*time.Millisecond, 3*time.Second, 0.97)

	f.downAt[1] = time.Now()
	s.kill()
	k = f.phase("redis killed", 500*time.Millisecond, 2*time.Second, 0.5)
	require.Positive(t, k.Fallback)

	require.NoError(t, s.start(t))
	f.upAt[1] = time.Now().Add(2 * time.Second)
	f.phase("redis started again, empty", 2*time.Second, 4*time.Second, 0.97)

	// The documented error, plus grants that goroutines have not counted yet, plus grants without Redis by a process
	// that alone had lost it on a slow machine.
	f.requireNoBurst(burst, processes*rate/100+4*processes+f.fallbackWhileUp())
}

// fleet is the processes and their ticks.
type fleet struct {
	t       *testing.T
	rate    int64
	wg      sync.WaitGroup
	members []*exec.Cmd
	mu      sync.Mutex
	ticks   []tick

	downAt, upAt [2]time.Time // intervals in which Redis was down
}

func (f *fleet) send(text string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestFleetMember$")
	cmd.Env = append(os.Environ(), fleetEnv+"="+text)
	in, err := cmd.StdinPipe()
	require.NoError(f.t, err)
	f.t.Cleanup(func() { in.Close() })
	out, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, cmd.Start())
	f.members = append(f.members, cmd)
	f.wg.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var k tick
			if json.Unmarshal(lines.Bytes(), &k) == nil && k.At > 0 {
				f.mu.Lock()
				f.ticks = append(f.ticks, k)
				f.mu.Unlock()
			}
		}
		_ = cmd.Wait()
	})
}

// within sums the ticks that lie completely in an interval.
func (f *fleet) within(from, to int64) (sum tick) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.ticks {
		if k.From >= from && k.At <= to {
			sum.Granted, sum.Refused, sum.Fallback = sum.Granted+k.Granted, sum.Refused+k.Refused, sum.Fallback+k.Fallback
		}
	}
	return sum
}

// fallbackWhileUp returns the number of grants by the fallback while Redis was up.
func (f *fleet) fallbackWhileUp() (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.ticks {
		down := false
		for i := range f.downAt {
			down = down || k.At >= f.downAt[i].UnixMicro() && k.From <= f.upAt[i].UnixMicro()
		}
		if !down {
			n += k.Fallback
		}
	}
	return n
}

// phase lets the fleet run and requires that it admitted at least a fraction of the limit. A refusal means that no
// permits were left. So between two refusals everything that was earned must have been admitted, however few requests
// a slow machine made. If Redis was up but too slow for one process, the phase requires nothing of the others.
func (f *fleet) phase(name string, settle, measure time.Duration, atLeast float64) tick {
	time.Sleep(settle)
	from := time.Now()
	time.Sleep(measure)
	to := time.Now()
	time.Sleep(300 * time.Millisecond) // what was counted by then has arrived
	k := f.within(from.UnixMicro(), to.UnixMicro())
	var first, last tick
	f.mu.Lock()
	for _, k := range f.ticks {
		if k.Refused == 0 || k.From < from.UnixMicro() || k.At > to.UnixMicro() {
			continue
		}
		if first.At == 0 || k.At < first.At {
			first = k
		}
		if k.From > last.From {
			last = k
		}
	}
	f.mu.Unlock()
	between := time.Duration(last.From-first.At) * time.Microsecond
	share := float64(f.within(first.From, last.At).Granted) / float64(f.rate) / between.Seconds()
	f.t.Logf("%-28s %6d admitted; between refusals %s apart %.3f of the limit; %d by fallback, %d refused", name,
		k.Granted, between.Round(time.Millisecond), share, k.Fallback, k.Refused)
	if slow := atLeast > 0.5 && k.Fallback > 0; between > measure/2 && !slow {
		require.GreaterOrEqual(f.t, share, atLeast, name)
	}
	return k
}

// requireNoBurst requires that no interval has more permits than a burst, the rate and the slack. It checks every
// interval from the start of a tick to the end of one.
func (f *fleet) requireNoBurst(burst, slack int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ticks := f.ticks
	slices.SortFunc(ticks, func(a, b tick) int { return cmp.Compare(a.At, b.At) })
	worst, from, to, all := int64(-1<<62), int64(0), int64(0), int64(0)
	for i, first := range ticks {
		sum := int64(0)
		for _, k := range ticks { // sorted by their ends
			if k.From < first.From {
				continue
			}
			sum += k.Granted
			if over := sum - burst - f.rate*(k.At-first.From)/1_000_000; over > worst {
				worst, from, to = over, first.From, k.At
			}
		}
		if i == 0 {
			for _, k := range ticks {
				all += k.Granted
			}
		}
	}
	start := ticks[0].From
	took := time.Duration(ticks[len(ticks)-1].At-start) * time.Microsecond
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	f.t.Logf("total                        %6d admitted in %s; worst interval %s, from %s: "+
		"%d more than a burst and the rate, %d allowed",
		all, took.Round(time.Millisecond), us(to-from), us(from-start), worst, slack)
	require.LessOrEqual(f.t, worst, slack)
}
