package ratelimit

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// TestLocalIsLinearizable: what concurrent callers were answered is what some order of their calls would have been answered
// by one who counts on paper. Time stands still, so the only state is what is left.
func TestLocalIsLinearizable(t *testing.T) {
	const budget = 20
	type in struct {
		n      int64
		atMost bool
		refund bool
	}
	model := porcupine.Model{
		Init: func() any { return int64(budget) },
		Step: func(state, input, output any) (bool, any) {
			left, q, granted := state.(int64), input.(in), output.(int64)
			switch {
			case q.refund:
				return true, left + q.n
			case left >= q.n:
				return granted == q.n, left - q.n
			case q.atMost:
				return granted == left, int64(0)
			default:
				return granted == 0, left
			}
		},
	}
	for _, a := range Algorithms() {
		if a == LeakyQueue || a == WarmUp { // whose burst is one
			continue
		}
		t.Run(a.String(), func(t *testing.T) {
			for _, key := range []string{"", "k"} {
				v := newVirtual()
				for range 20 {
					l, err := NewLocal(Spec{Algorithm: a, Limit: Limit{Rate: budget, Period: time.Minute}}, WithClock(v.Now))
					require.NoError(t, err)
					var mu sync.Mutex
					var history []porcupine.Operation
					record := func(client int, q in, do func() int64) {
						call := time.Now().UnixNano()
						out := do()
						ret := time.Now().UnixNano()
						mu.Lock()
						history = append(history, porcupine.Operation{ClientId: client, Input: q, Call: call, Output: out, Return: ret})
						mu.Unlock()
					}
					var wg sync.WaitGroup
					for client := range 4 {
						wg.Go(func() {
							for range 10 {
								q := in{n: rand.Int64N(4) + 1, atMost: rand.IntN(2) == 0}
								var res Result
								record(client, q, func() int64 {
									res, _ = l.Take(context.Background(), Request{Key: key, N: q.n, AtMost: q.atMost})
									return res.Granted
								})
								if res.Granted > 0 && rand.IntN(3) == 0 {
									record(client, in{n: res.Granted, refund: true}, func() int64 {
										_ = l.Refund(context.Background(), key, res)
										return 0
									})
								}
							}
						})
					}
					wg.Wait()
					require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(model, history, time.Minute))
				}
			}
		})
	}
}

// TestManyAtOnce: goroutines that race for the same keys, and changes of the limit meanwhile, never get more than there is.
func TestManyAtOnce(t *testing.T) {
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			v := newVirtual()
			spec := Spec{Algorithm: a, Limit: Limit{Rate: 500, Period: time.Hour}}
			l, err := NewLocal(spec, WithClock(v.Now))
			require.NoError(t, err)
			most := l.Spec().Burst
			if a == LeakyQueue {
				most = 1
			}
			keys := []string{"", "a", "b"}
			granted := make([]int64, len(keys))
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					mine := make([]int64, len(keys))
					for range 1000 {
						for i, key := range keys {
							r, err := l.Take(context.Background(), Request{Key: key, N: 1})
							if err == nil {
								mine[i] += r.Granted
							}
						}
					}
					mu.Lock()
					defer mu.Unlock()
					for i := range keys {
						granted[i] += mine[i]
					}
				})
			}
			wg.Go(func() {
				for i := range 50 {
					s := spec
					s.MaxWait = time.Duration(i%2+1) * time.Second // another limit by name, the same by numbers
					if err := l.SetSpec(s); err != nil {
						panic(err)
					}
				}
			})
			wg.Wait()
			for i, key := range keys {
				require.Equal(t, most, granted[i], "key %q", key)
			}
		})
	}
}
