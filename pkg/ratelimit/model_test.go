package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pass is permits that may be used from a moment on.
type pass struct {
	at time.Time
	n  int64
}

// requireWithin checks what was promised on every interval between two grants.
func requireWithin(t *rapid.T, s Spec, passes []pass) {
	for i := range passes {
		sum := int64(0)
		for j := i; j < len(passes); j++ {
			sum += passes[j].n
			if d := passes[j].at.Sub(passes[i].at); sum > mostWithin(s, passes[i].at, d) {
				t.Fatalf("%+v: %d passed within %s of %s, at most %d may", s, sum, d, passes[i].at, mostWithin(s, passes[i].at, d))
			}
		}
	}
}

// mostWithin is how many permits may pass from a grant on, both ends included.
func mostWithin(s Spec, from time.Time, d time.Duration) int64 {
	switch s.Algorithm {
	case FixedWindow:
		first, last := from.UnixNano()/int64(s.Period), from.Add(d).UnixNano()/int64(s.Period)
		return s.Rate * (last - first + 1)
	case SlidingWindow, SlidingLog:
		return s.Rate * (int64(d/s.Period) + 1)
	default:
		burst := s.Burst
		if s.Algorithm == LeakyQueue { // one at a time, or as many as one caller asked for at once
			burst = min(s.Burst, 4)
		}
		return burst + int64(float64(d)/float64(s.Period)*float64(s.Rate)+1e-6)
	}
}

// TestNeverMoreThanTheLimit: whatever is asked at whatever times, also when the clock goes back, with waits, at-most requests
// and refunds of what was not used, no interval sees more than the limit.
func TestNeverMoreThanTheLimit(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				spec := drawSpec(rt, a)
				spec.Rate += rapid.Int64Range(0, 2).Draw(rt, "odd") // permits that take no whole nanoseconds
				v := newVirtual()
				latest := v.Now()
				l, err := NewLocal(spec, WithClock(v.Now))
				require.NoError(rt, err)
				spec = l.Spec()
				take(rt, l, "", 0) // the limiter has seen the time from which the clock may go back
				var passes []pass
				for range rapid.IntRange(1, 60).Draw(rt, "steps") {
					step := time.Duration(rapid.Int64Range(-int64(spec.Period)/2, int64(spec.Period)).Draw(rt, "dt"))
					if rapid.IntRange(0, 3).Draw(rt, "moves") == 0 {
						v.add(step)
					}
					if v.Now().After(latest) {
						latest = v.Now()
					}
					r := Request{
						N: rapid.Int64Range(1, 4).Draw(rt, "n"), AtMost: rapid.Bool().Draw(rt, "at most"),
						MaxWait: time.Duration(rapid.Int64Range(0, int64(spec.Period)).Draw(rt, "wait")),
					}
					res, err := l.Take(context.Background(), r)
					require.NoError(rt, err)
					require.LessOrEqual(rt, res.Granted, r.N)
					require.Equal(rt, res.Allowed, res.Granted > 0)
					require.LessOrEqual(rt, res.Wait, r.MaxWait)
					switch {
					case res.Granted == 0:
					case rapid.IntRange(0, 9).Draw(rt, "refund") == 0:
						require.NoError(rt, l.Refund(context.Background(), "", res))
					default:
						passes = append(passes, pass{latest.Add(res.Wait), res.Granted})
					}
				}
				requireWithin(rt, spec, sorted(passes))
			})
		})
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

// TestWaitingRetryAfterSuffices: who waits as long as he was told gets in, if nobody else came; and not one step earlier,
// where the algorithm is exact.
func TestWaitingRetryAfterSuffices(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				spec := drawSpec(rt, a)
				spec.Rate += rapid.Int64Range(0, 2).Draw(rt, "odd")
				v := newVirtual()
				l, err := NewLocal(spec, WithClock(v.Now))
				require.NoError(rt, err)
				for range rapid.IntRange(1, 20).Draw(rt, "steps") {
					v.add(time.Duration(rapid.Int64Range(0, int64(spec.Period)/4).Draw(rt, "dt")))
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
					if a != WarmUp { // whose time is microseconds
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
}

// TestAtMostIsAsManyAsOneByOne: taking what is there of n gives what n single requests would have got.
func TestAtMostIsAsManyAsOneByOne(t *testing.T) {
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
					if a == WarmUp { // prices are rounded up for each request, so singles may cost a microsecond more
						require.InDelta(rt, got, res.Granted, 1)
						return
					}
					require.Equal(rt, got, res.Granted)
				}
			})
		})
	}
}

// TestChangesNeverGiveABurst: through any changes of the limit, as is, no more passes than the largest limit allows.
func TestChangesNeverGiveABurst(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				v := newVirtual()
				largest := Spec{Algorithm: a, Limit: Limit{Rate: 100, Period: time.Second, Burst: 100}}
				l, err := NewLocal(largest, WithClock(v.Now))
				require.NoError(rt, err)
				largest = l.Spec()
				sum, begun := int64(0), v.Now()
				for range rapid.IntRange(1, 40).Draw(rt, "steps") {
					v.add(time.Duration(rapid.Int64Range(0, int64(200*time.Millisecond)).Draw(rt, "dt")))
					s := largest
					s.Rate = rapid.Int64Range(1, 100).Draw(rt, "rate")
					s.Burst = min(largest.Burst, s.Rate)
					require.NoError(rt, l.SetSpec(s))
					sum += take(rt, l, "", rapid.Int64Range(1, 3).Draw(rt, "n")).Granted
				}
				require.LessOrEqual(rt, sum, mostWithin(largest, begun, v.Now().Sub(begun)))
			})
		})
	}
}
