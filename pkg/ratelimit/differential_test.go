package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawSpec draws a limit whose permits take whole units of time here and in Redis, so that both must agree to the permit.
func drawSpec(t *rapid.T, a Algorithm) Spec {
	s := Spec{Algorithm: a, Inherit: rapid.SampledFrom([]Inheritance{AsIs, InProportion}).Draw(t, "inherit")}
	s.Rate = rapid.SampledFrom([]int64{1, 2, 4, 5, 10, 20, 100, 1000}).Draw(t, "rate")
	s.Period = rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, time.Minute}).Draw(t, "period")
	if a.Reserves() {
		s.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
	}
	if a == SlidingWindow {
		s.Buckets = rapid.SampledFrom([]int{1, 2, 5, 10}).Draw(t, "buckets")
	}
	if a == WarmUp {
		s.WarmUp = rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second}).Draw(t, "warmup")
	}
	return s
}

// drawChange draws another limit, by factors of which both keep the same fractions of time.
func drawChange(t *rapid.T, s Spec) Spec {
	factor := rapid.SampledFrom([]int64{1, 2, 4})
	s.Inherit = rapid.SampledFrom([]Inheritance{AsIs, InProportion}).Draw(t, "inherit")
	s.Rate *= factor.Draw(t, "more")
	s.Burst *= factor.Draw(t, "more burst")
	if s.Algorithm == SlidingWindow || s.Algorithm == FixedWindow {
		s.Period *= time.Duration(factor.Draw(t, "longer"))
		if s.Algorithm == SlidingWindow {
			s.Buckets = rapid.SampledFrom([]int{1, 2, 5, 10}).Draw(t, "buckets")
		}
	}
	if rapid.Bool().Draw(t, "lower") && s.Rate%4 == 0 && s.Burst%4 == 0 {
		s.Rate, s.Burst = s.Rate/4, s.Burst/4
	}
	return s
}

// TestSameDecisionsInGoAndLua: the local limiter and the script answer the same to the same requests at the same times,
// through changes of the limit and refunds.
func TestSameDecisionsInGoAndLua(t *testing.T) {
	m := newMini(t)
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m.FlushAll()
				m.restart()
				spec := drawSpec(rt, a)
				local, err := NewLocal(spec, WithClock(m.Now))
				require.NoError(rt, err)
				remote := onRedis(t, m.rdb, spec)
				var granted []Result
				var grantedRemote []Result
				for i := range rapid.IntRange(1, 40).Draw(rt, "steps") {
					switch rapid.IntRange(0, 11).Draw(rt, "what") {
					case 0, 1, 2, 3:
						m.pass(time.Duration(rapid.Int64Range(0, 3*spec.Period.Microseconds()/2).Draw(rt, "us")) * time.Microsecond)
					case 4:
						if n := len(granted); n > 0 && a != WarmUp {
							require.NoError(rt, local.Refund(context.Background(), "k", granted[n-1]))
							require.NoError(rt, remote.Refund(context.Background(), "k", grantedRemote[n-1]))
							granted, grantedRemote = granted[:n-1], grantedRemote[:n-1]
						}
					case 5:
						if rapid.IntRange(0, 3).Draw(rt, "change") == 0 && a != WarmUp {
							spec = drawChange(rt, spec)
							require.NoError(rt, local.SetSpec(spec))
							require.NoError(rt, remote.SetSpec(spec))
							granted, grantedRemote = nil, nil
							// A change converts at once here and at the next write there; time in between would show.
							r1 := take(rt, local, "k", 1)
							r2 := take(rt, remote, "k", 1)
							requireSame(rt, i, r1, r2)
						}
					default:
						r := Request{
							Key: "k", N: rapid.Int64Range(0, spec.Burst+3).Draw(rt, "n"), AtMost: rapid.Bool().Draw(rt, "at most"),
							MaxWait: time.Duration(rapid.Int64Range(0, spec.Period.Microseconds()).Draw(rt, "wait")) * time.Microsecond,
						}
						r1, err := local.Take(context.Background(), r)
						require.NoError(rt, err)
						r2, err := remote.Take(context.Background(), r)
						require.NoError(rt, err)
						requireSame(rt, i, r1, r2)
						if r1.Granted > 0 {
							granted, grantedRemote = append(granted, r1), append(grantedRemote, r2)
						}
					}
				}
			})
		})
	}
}

func requireSame(t *rapid.T, step int, local, remote Result) {
	same := func(a, b time.Duration) bool { return (a - b).Abs() <= 2*time.Microsecond }
	if remote.Source == SourceLocal { // an impossible cost is refused without asking Redis how things stand
		remote.Remaining, remote.ResetAfter = local.Remaining, local.ResetAfter
	}
	ok := local.Allowed == remote.Allowed && local.Granted == remote.Granted && local.Remaining == remote.Remaining &&
		same(local.Wait, remote.Wait) && same(local.RetryAfter, remote.RetryAfter) && same(local.ResetAfter, remote.ResetAfter)
	if !ok {
		t.Fatalf("step %d:\nlocal  %+v\nremote %+v", step, local, remote)
	}
}
