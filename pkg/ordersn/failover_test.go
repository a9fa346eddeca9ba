package ordersn_test

import (
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ordersn"
)

// spans are the milliseconds for which a process could issue with the contended id.
type spans []struct{ from, high int64 }

func (s *spans) add(l *ordersn.TermLease) {
	if _, from, high := l.Window(); from > 0 && high >= from {
		*s = append(*s, struct{ from, high int64 }{from, high})
	}
}

// A master is lost after each step of a holder, and each earlier state of the leases is what the promoted replica has.
// A second process acquires the same id there, while the first one continues with the new master, or is cut off from
// it and continues with its last lease. No millisecond is in the windows of both.
func TestAFailoverAtAnyStepSharesNoMillisecond(t *testing.T) {
	const key, contended = "fs:worker:leases", 77
	const steps = 5 // an acquisition and renewals, a second apart
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	began := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	others := map[string]string{"born": "1"} // so that both processes must get one id, in a Redis that was not empty
	for w := range ordersn.RedisWorkers {
		if w != contended {
			others[strconv.Itoa(w)] = "other 1 99999999999999"
		}
	}
	load := func(hash map[string]string) {
		m.FlushAll()
		for field, value := range hash {
			m.HSet(key, field, value)
		}
	}
	state := func() map[string]string {
		all, err := rdb.HGetAll(t.Context(), key).Result()
		require.NoError(t, err)
		return all
	}
	for lostAfter := range steps {
		for replicated := range lostAfter + 2 { // states before the acquisition, after it, after each renewal
			for _, cutOff := range []bool{false, true} {
				for _, behind := range []time.Duration{0, 240 * time.Millisecond} { // the clock of the new master
					name := fmt.Sprintf("after step %d to state %d, cut off %v, behind %v", lostAfter, replicated, cutOff, behind)
					now := began
					a, b := lease(server{rdb, key}), lease(server{rdb, key})
					var ofA, ofB spans
					load(others)
					states := []map[string]string{maps.Clone(others)}
					for step := range lostAfter + 1 {
						m.SetTime(now)
						require.True(t, a.Step(t.Context()), name)
						states = append(states, state())
						ofA.add(a)
						if step < lostAfter {
							now = now.Add(time.Second)
						}
					}
					load(states[replicated])
					for end := now.Add(6 * term); now.Before(end); now = now.Add(500 * time.Millisecond) {
						m.SetTime(now.Add(-behind))
						if !cutOff && now.Sub(end)%time.Second == 0 {
							if a.Step(t.Context()) {
								ofA.add(a)
							}
						}
						if b.Step(t.Context()) {
							ofB.add(b)
						}
					}
					if cutOff {
						require.NotEmpty(t, ofB, name)
					}
					for _, x := range ofA {
						for _, y := range ofB {
							require.False(t, x.from <= y.high && y.from <= x.high, "%s: %v and %v", name, x, y)
						}
					}
				}
			}
		}
	}
}

// Whatever was replicated of it, an acquisition issues nothing within one lease.
func TestAnAcquisitionIssuesNothingWithinOneLease(t *testing.T) {
	each(t, func(t *testing.T, s server) {
		first := lease(s)
		start(t, first)
		eventually(t, first.Held)
		began := time.Now()
		second := lease(s) // Redis is not empty
		start(t, second)
		eventually(t, second.Held)
		require.GreaterOrEqual(t, time.Since(began), term)
	})
}
