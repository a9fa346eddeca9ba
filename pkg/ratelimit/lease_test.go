package ratelimit

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// leasing returns limiters with leases that share one limit on m, as those of several processes do. They follow its time.
func (m *mini) leasing(t *testing.T, s Spec, processes int) []*Redis {
	t.Helper()
	name := uniqueName(t)
	list := make([]*Redis, processes)
	for i := range list {
		c := NewConn(m.rdb, ConnOptions{Timeout: patience, Prefix: "test", Instances: processes})
		l, err := c.NewRedis(name, s, RedisOptions{OnFailure: FailClosed, DenyCache: -1, Lease: maxLease})
		require.NoError(t, err)
		l.clock = newClock(m.Now)
		list[i] = l
	}
	return list
}

// TestARefundStaysInItsWindow: permits of an ended window that are refunded do not enlarge the next one.
func TestARefundStaysInItsWindow(t *testing.T) {
	m := newMini(t)
	l := m.leasing(t, Spec{Algorithm: FixedWindow, Limit: Limit{Rate: 1000, Period: 10 * time.Second}}, 1)[0]
	old := make([]Result, 30)
	for i := range old {
		old[i] = take(t, l, "k", 1)
		require.True(t, old[i].Allowed)
	}
	m.pass(10 * time.Second)
	granted := int64(0)
	for i := range 1100 {
		res := take(t, l, "k", 1)
		granted += res.Granted
		if res.Allowed && i < len(old) {
			require.NoError(t, l.Refund(t.Context(), "k", old[i]))
		}
	}
	require.EqualValues(t, 1000, granted)
}

// TestALateRefundGivesNothingTwice: a bucket has earned a permit again when it is refunded late, on Redis as locally.
func TestALateRefundGivesNothingTwice(t *testing.T) {
	spec := Spec{Algorithm: TokenBucket, Limit: Limit{Rate: 1, Period: time.Second, Burst: 1}}
	m, v := newMini(t), newVirtual()
	local, err := NewLocal(spec, WithClock(v.Now))
	require.NoError(t, err)
	for name, l := range map[string]Limiter{"local": local, "on Redis": onRedis(t, m.rdb, spec)} {
		t.Run(name, func(t *testing.T) {
			first := take(t, l, "k", 1)
			require.True(t, first.Allowed)
			v.add(time.Second)
			m.pass(time.Second)
			require.True(t, take(t, l, "k", 1).Allowed)
			require.NoError(t, l.Refund(t.Context(), "k", first))
			require.False(t, take(t, l, "k", 1).Allowed)
			v.add(time.Second)
			m.pass(time.Second)
			last := take(t, l, "k", 1)
			require.True(t, last.Allowed)
			require.NoError(t, l.Refund(t.Context(), "k", last))
			require.True(t, take(t, l, "k", 1).Allowed, "a prompt refund")
			m.pass(time.Second)
			v.add(time.Second)

			// Half of a permit is earned again when it is refunded.
			half := take(t, l, "k", 1)
			m.pass(500 * time.Millisecond)
			v.add(500 * time.Millisecond)
			require.NoError(t, l.Refund(t.Context(), "k", half))
			require.Zero(t, take(t, l, "k", 0).ResetAfter)
			again := take(t, l, "k", 1)
			require.True(t, again.Allowed)

			// A grant of an earlier limit is not refunded, also if the limit is the same again.
			for _, rate := range []int64{100, 1} {
				changed := spec
				changed.Rate = rate
				require.NoError(t, l.SetSpec(changed))
				take(t, l, "k", 0)
				m.pass(time.Second)
				v.add(time.Second)
			}
			require.True(t, take(t, l, "k", 1).Allowed)
			require.NoError(t, l.Refund(t.Context(), "k", again))
			require.False(t, take(t, l, "k", 1).Allowed)
			m.pass(time.Second)
			v.add(time.Second)
		})
	}
}

// TestTheSameLimitKeepsLeases: rules that are read again without a change cost no permits.
func TestTheSameLimitKeepsLeases(t *testing.T) {
	m := newMini(t)
	l := m.leasing(t, Spec{Algorithm: FixedWindow, Limit: Limit{Rate: 1000, Period: time.Hour}}, 1)[0]
	for range 21 {
		require.True(t, take(t, l, "k", 1).Allowed)
		m.pass(time.Millisecond)
	}
	require.NoError(t, l.SetSpec(l.Spec()))
	l.leases.returnAll(t.Context())
	require.EqualValues(t, 1000-21, take(t, l, "k", 0).Remaining)
}

// TestLeasesWithRefundsAndChangesKeepTheLimit: whatever processes with leases take, refund, return and change, and when,
// they pass no more than the limit together. Of a bucket, the leases of all processes may come on top after a pause.
func TestLeasesWithRefundsAndChangesKeepTheLimit(t *testing.T) {
	m := newMini(t)
	for _, a := range Algorithms() {
		if !a.Leases() {
			continue
		}
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m.FlushAll()
				m.restart()
				spec := Spec{
					Algorithm: a, Limit: Limit{Rate: rapid.SampledFrom([]int64{200, 1000}).Draw(rt, "rate"), Period: time.Second},
				}
				processes := m.leasing(t, spec, rapid.IntRange(1, 3).Draw(rt, "processes"))
				highest, changed := processes[0].Spec(), false
				var passes []pass
				var granted []Result
				var by []int // the process that granted it
				for range rapid.IntRange(1, 40).Draw(rt, "steps") {
					i := rapid.IntRange(0, len(processes)-1).Draw(rt, "process")
					switch l := processes[i]; rapid.IntRange(0, 9).Draw(rt, "what") {
					case 0:
						m.pass(time.Duration(rapid.Int64Range(0, int64(spec.Period)*6/5000).Draw(rt, "us")) * time.Microsecond)
					case 1:
						if len(granted) > 0 {
							k := rapid.IntRange(0, len(granted)-1).Draw(rt, "refunded")
							require.NoError(rt, processes[by[k]].Refund(context.Background(), "", granted[k]))
							passes[k].n, granted[k].Granted = 0, 0
						}
					case 2:
						l.leases.returnAll(context.Background())
					case 3:
						if !changed {
							changed = true
							other := spec
							other.Rate *= 2
							other.Inherit = rapid.SampledFrom([]Inheritance{AsIs, InProportion}).Draw(rt, "inherit")
							for _, p := range processes {
								require.NoError(rt, p.SetSpec(other))
							}
							highest = processes[0].Spec()
						}
					default: // a few from the lease, or all that is left and then from the lease
						requests := []Request{{N: 1}, {N: 2}, {N: 1}}
						if rapid.Bool().Draw(rt, "all") {
							requests = slices.Insert(requests, 0, Request{N: l.Spec().Burst, AtMost: true})
						}
						for _, r := range requests {
							res, err := l.Take(context.Background(), r)
							require.NoError(rt, err)
							if res.Granted > 0 {
								passes = append(passes, pass{m.Now(), res.Granted})
								granted, by = append(granted, res), append(by, i)
							}
						}
					}
				}
				requireWithLeases(rt, highest, int64(len(processes)), passes)
			})
		})
	}
}

// requireWithLeases checks the bound of the limit on every interval between two grants.
func requireWithLeases(t *rapid.T, s Spec, processes int64, passes []pass) {
	extra := int64(0)
	if s.Algorithm != FixedWindow {
		extra = processes * int64(float64(s.Rate)*maxLease)
	}
	byTime := make([]pass, 0, len(passes)) // one entry for each time
	for _, p := range passes {
		if n := len(byTime); n > 0 && byTime[n-1].at.Equal(p.at) {
			byTime[n-1].n += p.n
		} else {
			byTime = append(byTime, p)
		}
	}
	for i := range byTime {
		sum := int64(0)
		for _, p := range byTime[i:] {
			sum += p.n
			d := p.at.Sub(byTime[i].at)
			if most := mostWithin(s, byTime[i].at, d+time.Microsecond) + extra; sum > most {
				t.Fatalf("%+v, %d processes: %d passed within %s of %s, at most %d may", s, processes, sum, d, byTime[i].at, most)
			}
		}
	}
}
