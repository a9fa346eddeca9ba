package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/lock"
)

// All of these run in virtual time, so their times are exact on any machine.

const ttl = 10 * time.Second

func TestWatchdogKeepsALockForHours(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		other, _ := process(t, m, ttl)
		begin := time.Now()
		require.NoError(t, l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
			for range 3 * 60 {
				time.Sleep(time.Minute)
				require.NoError(t, ctx.Err())
				require.ErrorIs(t, other.Do(t.Context(), "x", nil), lock.ErrNotObtained)
			}
			return nil
		}))
		renewals := len(w.made(renew))
		third := int(time.Since(begin) / (ttl / 3))
		require.InDelta(t, third, renewals, float64(third)/5, "one renewal for each third of the TTL")
		require.False(t, m.Exists(key("x")))
	})
}

// Failing renewals: which of them cancel work, and when. "In time" is before the key can expire.
func TestWatchdogWithFailingRenewals(t *testing.T) {
	t.Parallel()
	never := trouble{before: time.Hour}
	for _, c := range []struct {
		name    string
		trouble func(since time.Duration) trouble // of renewals, by the time since work began
		lost    bool
		says    string
	}{
		{"one times out", once(never), false, ""},
		{"one is refused", once(trouble{refuse: true}), false, ""},
		{"one succeeds, and its response is lost", once(trouble{cut: true}), false, ""},
		{"all succeed, and every response is late but in time", always(trouble{after: ttl/5 - time.Millisecond}), false, ""},
		{"an outage shorter than half of the TTL", during(ttl/5, ttl*7/10, trouble{refuse: true}), false, ""},
		{"all time out", always(never), true, "could not be renewed in time"},
		{"all are refused", always(trouble{refuse: true}), true, errCut.Error()},
		{"all succeed, and no response arrives", always(trouble{after: time.Hour}), true, "could not be renewed in time"},
		{"all succeed, and all responses are lost", always(trouble{cut: true}), true, errCut.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
				l, w := process(t, m, ttl)
				begin := time.Now()
				w.inject(func(c2 call) trouble {
					if c2.kind != renew {
						return trouble{}
					}
					return c.trouble(time.Since(begin))
				})
				err := l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
					select {
					case <-ctx.Done():
						require.Less(t, time.Since(begin), ttl, "before another process can get the lock")
						require.Greater(t, time.Since(begin), ttl/2, "not too early")
						require.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
						require.ErrorContains(t, context.Cause(ctx), c.says)
						require.ErrorContains(t, context.Cause(ctx), "lock x")
						return nil
					case <-time.After(5 * ttl):
						require.True(t, m.Exists(key("x")))
						return nil
					}
				})
				if c.lost {
					require.ErrorIs(t, err, lock.ErrLost)
					require.NotErrorIs(t, err, context.DeadlineExceeded, "internal time-outs are not those of the caller")
				} else {
					require.NoError(t, err)
				}
				w.inject(nil)
				time.Sleep(2 * time.Hour) // late calls arrive
				w.late.Wait()
				require.False(t, m.Exists(key("x")), "the lock is not obtained again")
			})
		})
	}
}

func once(x trouble) func(time.Duration) trouble {
	done := false
	return func(time.Duration) trouble {
		if done {
			return trouble{}
		}
		done = true
		return x
	}
}

func always(x trouble) func(time.Duration) trouble { return func(time.Duration) trouble { return x } }

func during(from, to time.Duration, x trouble) func(time.Duration) trouble {
	return func(since time.Duration) trouble {
		if since < from || since > to {
			return trouble{}
		}
		return x
	}
}

// If the clock of Redis jumps ahead, the lock expires early, and the next renewal detects it. If it jumps back, the
// lock lives longer, which does no harm.
func TestWatchdogWhenRedisClockJumps(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, _ := process(t, m, ttl)
		begin := time.Now()
		err := l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
			m.FastForward(time.Hour)
			<-ctx.Done()
			require.Less(t, time.Since(begin), ttl/2, "by the first renewal")
			return nil
		})
		require.ErrorIs(t, err, lock.ErrLost)

		m.SetTime(time.Now().Add(-time.Hour)) // the clock stops here: no key expires
		require.NoError(t, l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
			time.Sleep(3 * ttl)
			return ctx.Err()
		}))
		require.False(t, m.Exists(key("x")))
	})
}

// A lock that was obtained so slowly that little of its TTL is left is renewed sooner.
func TestWatchdogAfterASlowStart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, w := process(t, m, ttl)
		require.NoError(t, l.Do(t.Context(), "x", func(context.Context, int64) error { time.Sleep(ttl); return nil })) // loads the scripts into Redis
		known := len(w.made(renew))
		slow := ttl/5 - time.Millisecond
		w.inject(func(c call) trouble {
			if c.kind == take || c.kind == fence {
				return trouble{after: slow}
			}
			return trouble{}
		})
		require.NoError(t, l.Do(t.Context(), "x", func(ctx context.Context, _ int64) error {
			time.Sleep(ttl / 30)
			require.Len(t, w.made(renew), known+1)
			time.Sleep(3 * ttl)
			return ctx.Err()
		}))
	})
}

// Whatever happens to any call, work never runs twice at once unless the context of the first was cancelled.
func TestWatchdogNeverTwoUncancelled(t *testing.T) {
	t.Parallel()
	begun := 0
	rapid.Check(t, func(rt *rapid.T) {
		upTo := func(d time.Duration) *rapid.Generator[time.Duration] {
			return rapid.Map(rapid.IntRange(0, int(d/time.Millisecond)), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
		}
		troubles := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) trouble {
			x := trouble{}
			switch rapid.SampledFrom([]string{"", "", "", "slow", "late", "cut", "refuse"}).Draw(rt, "kind") {
			case "slow":
				x.before, x.after = upTo(ttl/6).Draw(rt, "before"), upTo(ttl/6).Draw(rt, "after")
			case "late":
				x.before, x.after = upTo(2*ttl).Draw(rt, "before"), upTo(ttl).Draw(rt, "after")
			case "cut":
				x.before, x.cut = upTo(ttl/2).Draw(rt, "before"), true
			case "refuse":
				x.refuse = true
			}
			return x
		}), 20, 60).Draw(rt, "troubles")
		works := rapid.SliceOfN(upTo(3*ttl), 2, 6).Draw(rt, "works")
		var wrong []string
		bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
			var mu sync.Mutex
			next := 0
			inside := map[context.Context]bool{}
			last := int64(0)
			var wires []*wire
			var wg sync.WaitGroup
			for i, length := range works {
				l, w := process(t, m, ttl)
				wires = append(wires, w)
				w.inject(func(call) trouble {
					mu.Lock()
					defer mu.Unlock()
					next++
					return troubles[next%len(troubles)]
				})
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Second)
					_ = l.DoWithin(t.Context(), 4*ttl, "x", func(ctx context.Context, fence int64) error {
						mu.Lock()
						begun++
						for c := range inside {
							if c.Err() == nil {
								wrong = append(wrong, fmt.Sprintf("two holders at %v", time.Now()))
							}
						}
						if fence <= last {
							wrong = append(wrong, fmt.Sprintf("fence %d after %d", fence, last))
						}
						last = fence
						inside[ctx] = true
						mu.Unlock()
						select {
						case <-time.After(length):
						case <-ctx.Done():
							time.Sleep(ttl / 20) // work does not end at once
						}
						mu.Lock()
						delete(inside, ctx)
						mu.Unlock()
						return nil
					})
				})
			}
			wg.Wait()
			for _, w := range wires {
				w.late.Wait()
			}
			time.Sleep(2 * ttl)
			if m.Exists(key("x")) {
				wrong = append(wrong, "the lock was held for longer than its TTL")
			}
		})
		if len(wrong) > 0 {
			rt.Fatal(strings.Join(wrong, "; "))
		}
	})
	require.Positive(t, begun)
	t.Logf("work began %d times", begun)
}

// Work that ignores its context keeps the name in this process, and its call returns ErrLost.
func TestWorkThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *miniredis.Miniredis) {
		l, _ := process(t, m, ttl)
		other, _ := process(t, m, ttl)
		boom := errors.New("boom")
		err := l.Do(t.Context(), "x", func(ctx context.Context, fence int64) error {
			m.Del(key("x"))
			time.Sleep(ttl)
			require.Error(t, ctx.Err())
			require.ErrorIs(t, l.Do(t.Context(), "x", nil), lock.ErrNotObtained, "in this process")
			require.NoError(t, other.Do(t.Context(), "x", func(_ context.Context, second int64) error {
				require.Greater(t, second, fence, "later writes of the first are refused")
				return nil
			}))
			return boom
		})
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorIs(t, err, boom)
	})
}
