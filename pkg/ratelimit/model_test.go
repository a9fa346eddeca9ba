package ratelimit

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pass is permits that may be used from a time on.
type pass struct {
	at time.Time
	n  int64
}

// requireWithin checks the bound of the limit on every interval between two grants. unit is the unit to which waits
// are rounded up: two grants may be that much further apart than recorded.
func requireWithin(t *rapid.T, s Spec, unit time.Duration, passes []pass) {
	for i := range passes {
		sum := int64(0)
		for j := i; j < len(passes); j++ {
			sum += passes[j].n
			d := passes[j].at.Sub(passes[i].at)
			if s.Algorithm != FixedWindow && s.Algorithm != SlidingWindow && s.Algorithm != SlidingLog { // these have no waits
				d += unit
			}
			if sum > mostWithin(s, passes[i].at, d) {
				t.Fatalf("%+v: %d passed within %s of %s, at most %d may", s, sum, d, passes[i].at, mostWithin(s, passes[i].at, d))
			}
		}
	}
}

// mostWithin returns how many permits may pass within d of a grant, both ends included.
func mostWithin(s Spec, from time.Time, d time.Duration) int64 {
	switch s.Algorithm {
	case FixedWindow:
		first, last := from.UnixNano()/int64(s.Period), from.Add(d).UnixNano()/int64(s.Period)
		return s.Rate * (last - first + 1)
	case SlidingWindow, SlidingLog:
		return s.Rate * (int64(d/s.Period) + 1)
	default:
		burst := s.Burst
		if s.Algorithm == LeakyQueue { // one at a time, or as many as one request had
			burst = min(s.Burst, 4)
		}
		return burst + int64(float64(d)/float64(s.Period)*float64(s.Rate)+1e-6)
	}
}

// TestNeverMoreThanTheLimit: whatever is requested at whatever times, no interval has more permits than the limit
// allows. This includes a clock that goes back, waits, at-most requests and refunds of unused permits.
//
// Redis stores only the times of grants. A time to which its clock ran ahead before the first grant leaves no trace,
// nor does that of a refunded grant. And no key is locked out for longer than the limit and the longest wait, so the
// guarantee for a clock that goes back holds for steps up to that length. So where the clock goes back on Redis, the
// test has no refunds and no waits, and the clock is never further behind the latest grant than that.
func TestNeverMoreThanTheLimit(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, a Algorithm, v virtualBackend) {
		rapid.Check(t, func(rt *rapid.T) {
			spec := drawSpec(rt, a)
			spec.Rate += rapid.Int64Range(0, 2).Draw(rt, "odd") // permits that do not take whole nanoseconds
			v.restart()
			latest := v.Now()
			l := v.limiter(spec)
			spec = l.Spec()
			take(rt, l, "", 0) // the limiter has seen the time from which the clock may go back
			var passes []pass
			back := rapid.Bool().Draw(rt, "clock goes back")
			redisGoesBack, furthest := back && v.micros, spec.Period
			if v.micros {
				latest = time.Time{} // no grant yet
			}
			if a.Reserves() {
				furthest = min(furthest, spec.MaxWait)
			}
			for range rapid.IntRange(1, v.steps).Draw(rt, "steps") {
				us := rapid.Int64Range(-int64(spec.Period)/2000, int64(spec.Period)/1000).Draw(rt, "us")
				step := time.Duration(us) * time.Microsecond
				if step < 0 && (!back || redisGoesBack && latest.Sub(v.Now().Add(step)) > furthest) {
					step = -step
				}
				if rapid.IntRange(0, 3).Draw(rt, "moves") == 0 {
					v.add(step)
				}
				if !v.micros && v.Now().After(latest) {
					latest = v.Now()
				}
				r := Request{
					N: rapid.Int64Range(1, 4).Draw(rt, "n"), AtMost: rapid.Bool().Draw(rt, "at most"),
					MaxWait: time.Duration(rapid.Int64Range(0, int64(spec.Period)).Draw(rt, "wait")),
				}
				if redisGoesBack {
					r.MaxWait = 0
				}
				res, err := l.Take(context.Background(), r)
				require.NoError(rt, err)
				if res.Granted > 0 && v.Now().After(latest) {
					latest = v.Now()
				}
				require.LessOrEqual(rt, res.Granted, r.N)
				require.Equal(rt, res.Allowed, res.Granted > 0)
				require.LessOrEqual(rt, res.Wait, r.MaxWait)
				switch {
				case res.Granted == 0:
				case !redisGoesBack && rapid.IntRange(0, 9).Draw(rt, "refund") == 0:
					require.NoError(rt, l.Refund(context.Background(), "", res))
				default:
					passes = append(passes, pass{latest.Add(res.Wait), res.Granted})
				}
			}
			requireWithin(rt, spec, v.unit, sorted(passes))
		})
	})
}

// virtualBackend is a backend on virtual time.
type virtualBackend struct {
	*virtual
	restart func()
	set     func() // applies the time
	limiter func(s Spec) Limiter
	micros  bool          // resolution of microseconds
	unit    time.Duration // the unit to which waits are rounded
	steps   int
}

func (v virtualBackend) add(d time.Duration) {
	v.virtual.add(d)
	v.set()
}

// onVirtualTime runs do for each algorithm, in this process and on miniredis.
func onVirtualTime(t *testing.T, do func(t *testing.T, a Algorithm, v virtualBackend)) {
	clock := newVirtual()
	local := virtualBackend{
		virtual: clock, steps: 60, set: func() {}, restart: func() { clock.reset() },
		limiter: func(s Spec) Limiter {
			l, err := NewLocal(s, WithClock(clock.Now))
			require.NoError(t, err)
			return l
		},
	}
	m := newMini(t)
	redis := virtualBackend{
		virtual: &m.virtual, micros: true, unit: time.Microsecond, steps: 20, restart: func() {
			m.FlushAll()
			m.restart()
		},
		set:     func() { m.SetTime(m.Now()) },
		limiter: func(s Spec) Limiter { return onRedis(t, m.rdb, s) },
	}
	for name, v := range map[string]virtualBackend{"local": local, "miniredis": redis} {
		for _, a := range Algorithms() {
			t.Run(name+" "+a.String(), func(t *testing.T) { do(t, a, v) })
		}
	}
}

func sorted(p []pass) []pass {
	for i := range p {
		for j := i; j > 0 && p[j].at.Before(p[j-1].at); j-- {
			p[j], p[j-1] = p[j-1], p[j]
		}
	}
	return p
}

// TestRetryAfterSuffices: a refused request passes after RetryAfter if there were no others; and not earlier, where
// the algorithm is exact.
func TestRetryAfterSuffices(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, a Algorithm, v virtualBackend) {
		rapid.Check(t, func(rt *rapid.T) {
			spec := drawSpec(rt, a)
			spec.Rate += rapid.Int64Range(0, 2).Draw(rt, "odd")
			v.restart()
			l := v.limiter(spec)
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				v.add(time.Duration(rapid.Int64Range(0, int64(spec.Period)/4000).Draw(rt, "us")) * time.Microsecond)
				r := Request{
					Key: "k", N: rapid.Int64Range(1, l.Spec().Burst+1).Draw(rt, "n"),
					MaxWait: time.Duration(rapid.Int64Range(0, int64(spec.Period)/2).Draw(rt, "wait")),
				}
				res, err := l.Take(context.Background(), r)
				require.NoError(rt, err)
				if res.Allowed {
					continue
				}
				if res.RetryAfter == Never {
					if r.N <= l.Spec().Burst {
						require.Contains(rt, []Algorithm{LeakyQueue, WarmUp}, a, "%+v", r)
					}
					continue
				}
				require.Positive(rt, res.RetryAfter)
				if a != WarmUp && !v.micros { // these have a resolution of microseconds
					v.add(res.RetryAfter - 1)
					early, err := l.Take(context.Background(), r)
					require.NoError(rt, err)
					require.False(rt, early.Allowed, "%+v after %s: %+v", r, res.RetryAfter-1, early)
					v.add(1)
				} else {
					v.add(res.RetryAfter)
				}
				again, err := l.Take(context.Background(), r)
				require.NoError(rt, err)
				require.True(rt, again.Allowed, "%+v after %s: %+v", r, res.RetryAfter, again)
			}
		})
	})
}

// TestOnRealTime: on Redis with its own clock, no interval has more permits than the limit, and a refused request
// passes after RetryAfter.
func TestOnRealTime(t *testing.T) {
	rdb := realRedis(t)
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			s := Spec{Algorithm: a, Limit: Limit{Rate: 30, Period: 200 * time.Millisecond}}
			if a.Reserves() {
				s.Burst = 10
			}
			l := onRedis(t, rdb, s)
			type call struct {
				start, ended time.Time
				n            int64
			}
			var calls []call
			for start := time.Now(); time.Since(start) < 1500*time.Millisecond; {
				at := time.Now()
				n := 1 + rand.Int64N(3)
				if a == LeakyQueue || a == WarmUp { // these grant only one at once
					n = 1
				}
				res := take(t, l, "k", n)
				calls = append(calls, call{at, time.Now(), res.Granted})
				switch {
				case !res.Allowed && rand.IntN(2) == 0:
					wait := res.RetryAfter
					require.Positive(t, wait)
					time.Sleep(wait)
					at = time.Now()
					res = take(t, l, "k", 1)
					require.True(t, res.Allowed, "after %s: %+v", wait, res)
					calls = append(calls, call{at, time.Now(), res.Granted})
				case rand.IntN(3) == 0:
					time.Sleep(time.Duration(rand.Int64N(int64(20 * time.Millisecond))))
				}
			}
			spec := l.Spec()
			for i, first := range calls {
				sum := int64(0)
				for _, last := range calls[i:] {
					sum += last.n
					d := last.ended.Sub(first.start)
					require.LessOrEqual(t, sum, mostWithin(spec, first.start, d), "within %s", d)
				}
			}
		})
	}
}

// TestAtMostEqualsSingleRequests: an at-most request for n gets as many permits as n single requests.
func TestAtMostEqualsSingleRequests(t *testing.T) {
	for _, a := range Algorithms() {
		if a == LeakyQueue { // one at a time either way
			continue
		}
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				spec := drawSpec(rt, a)
				v := newVirtual()
				one, err := NewLocal(spec, WithClock(v.Now))
				require.NoError(rt, err)
				many, err := NewLocal(spec, WithClock(v.Now))
				require.NoError(rt, err)
				for range rapid.IntRange(1, 20).Draw(rt, "steps") {
					v.add(time.Duration(rapid.Int64Range(0, spec.Period.Microseconds()).Draw(rt, "dt")) * time.Microsecond)
					n := rapid.Int64Range(1, one.Spec().Burst).Draw(rt, "n")
					got := int64(0)
					for range n {
						got += take(rt, one, "k", 1).Granted
					}
					res, err := many.Take(context.Background(), Request{Key: "k", N: n, AtMost: true})
					require.NoError(rt, err)
					if a == WarmUp { // prices are rounded up for each request, so single requests may cost a microsecond more
						require.InDelta(rt, got, res.Granted, 1)
						return
					}
					require.Equal(rt, got, res.Granted)
				}
			})
		})
	}
}

// TestChangesNeverGiveABurst: through any changes of the limit, with AsIs, no more permits pass than the largest limit
// allows.
func TestChangesNeverGiveABurst(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				v := newVirtual()
				largest := Spec{Algorithm: a, Limit: Limit{Rate: 100, Period: time.Second, Burst: 100}}
				l, err := NewLocal(largest, WithClock(v.Now))
				require.NoError(rt, err)
				largest = l.Spec()
				sum, start := int64(0), v.Now()
				for range rapid.IntRange(1, 40).Draw(rt, "steps") {
					v.add(time.Duration(rapid.Int64Range(0, int64(200*time.Millisecond)).Draw(rt, "dt")))
					s := largest
					s.Rate = rapid.Int64Range(1, 100).Draw(rt, "rate")
					s.Burst = min(largest.Burst, s.Rate)
					require.NoError(rt, l.SetSpec(s))
					sum += take(rt, l, "", rapid.Int64Range(1, 3).Draw(rt, "n")).Granted
				}
				require.LessOrEqual(rt, sum, mostWithin(largest, start, v.Now().Sub(start)))
			})
		})
	}
}
