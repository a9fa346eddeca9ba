package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawSpec draws a limit whose permits take whole units of time both locally and in Redis, so that both must agree
// exactly.
func drawSpec(t *rapid.T, a Algorithm) Spec {
	s := Spec{Algorithm: a, Inherit: rapid.SampledFrom([]Inheritance{AsIs, InProportion}).Draw(t, "inherit")}
	s.Rate = rapid.SampledFrom([]int64{1, 2, 4, 5, 10, 20, 100, 1000}).Draw(t, "rate")
	periods := []time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, time.Minute}
	s.Period = rapid.SampledFrom(periods).Draw(t, "period")
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

// drawChange draws a changed limit, by factors for which both keep the same fractions of time.
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

// grouped is a limiter that is always charged together with another one, so that the scripts for several keys decide.
type grouped struct {
	*Redis
	companion *Redis
}

func newGrouped(t testing.TB, m *mini, s Spec) grouped {
	l := onRedis(t, m.rdb, s)
	other, err := l.conn.NewRedis("companion", Spec{Algorithm: GCRA, Limit: Limit{Rate: 1e9, Period: time.Minute}},
		RedisOptions{OnFailure: FailClosed, DenyCache: -1})
	require.NoError(t, err)
	return grouped{l, other}
}

func (l grouped) Take(ctx context.Context, r Request) (Result, error) {
	if r.N == 0 {
		return l.Redis.Take(ctx, r)
	}
	results := make([]Result, 2)
	_, err := TakeAll(ctx, []Charge{{l.Redis, r}, {l.companion, Request{Key: r.Key, N: 1}}}, results)
	return results[0], err
}

// TestSameDecisionsInGoAndLua compares the local limiter, the scripts for one key and those for several. They must
// decide the same about the same requests at the same times, through changes of the limit and refunds.
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
				remote, companion := onRedis(t, m.rdb, spec), newGrouped(t, m, spec)
				var granted [][3]Result
				all := []Limiter{local, remote, companion}
				for i := range rapid.IntRange(1, 40).Draw(rt, "steps") {
					switch rapid.IntRange(0, 11).Draw(rt, "what") {
					case 0, 1, 2, 3:
						m.pass(time.Duration(rapid.Int64Range(0, 3*spec.Period.Microseconds()/2).Draw(rt, "us")) * time.Microsecond)
					case 4:
						if n := len(granted); n > 0 && a != WarmUp {
							for k, l := range all {
								require.NoError(rt, l.Refund(context.Background(), "k", granted[n-1][k]))
							}
							granted = granted[:n-1]
						}
					case 5:
						if rapid.IntRange(0, 3).Draw(rt, "change") == 0 && a != WarmUp {
							spec = drawChange(rt, spec)
							granted = nil
							var res [3]Result
							for k, l := range all {
								require.NoError(rt, l.SetSpec(spec))
								// Locally a change converts the state at once, in Redis at the next write; time in
								// between would make a difference.
								res[k] = take(rt, l, "k", 1)
							}
							requireSame(rt, i, res)
						}
					default:
						r := Request{
							Key: "k", N: rapid.Int64Range(0, spec.Burst+3).Draw(rt, "n"), AtMost: rapid.Bool().Draw(rt, "at most"),
							MaxWait: time.Duration(rapid.Int64Range(0, spec.Period.Microseconds()).Draw(rt, "wait")) * time.Microsecond,
						}
						if rapid.Bool().Draw(rt, "plain") { // the most common request
							r = Request{Key: "k", N: 1}
						}
						var res [3]Result
						for k, l := range all {
							var err error
							res[k], err = l.Take(context.Background(), r)
							require.NoError(rt, err)
						}
						requireSame(rt, i, res)
						if res[0].Granted > 0 {
							granted = append(granted, res)
						}
					}
				}
			})
		})
	}
}

func requireSame(t *rapid.T, step int, res [3]Result) {
	same := func(a, b time.Duration) bool { return (a - b).Abs() <= 2*time.Microsecond }
	local := res[0]
	for _, remote := range res[1:] {
		if remote.Source == SourceLocal { // an impossible cost is refused without a call to Redis
			remote.Remaining, remote.ResetAfter = local.Remaining, local.ResetAfter
		}
		ok := local.Allowed == remote.Allowed && local.Granted == remote.Granted && local.Remaining == remote.Remaining &&
			same(local.Wait, remote.Wait) && same(local.RetryAfter, remote.RetryAfter) &&
			same(local.ResetAfter, remote.ResetAfter)
		if !ok {
			t.Fatalf("step %d:\nlocal   %+v\nremote  %+v\nof all  %+v", step, local, remote, res)
		}
	}
}
