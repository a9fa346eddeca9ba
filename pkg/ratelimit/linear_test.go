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

// call and outcome are the input and output of an operation in a history.
type call struct {
	n      int64
	atMost bool
	wait   time.Duration
	refund bool
	debit  int64 // of the refunded grant
}

type outcome struct {
	granted int64
	wait    time.Duration
}

// modelState is the state of the sequential model: the permits spent, and those stored.
type modelState struct {
	spent  int64
	stored float64
}

// sequential returns the sequential model of an algorithm with a constant time: a bucket or window of n permits; a
// queue in which the first permit is due now and each other one later by the time of a permit; or the curve of a
// warm-up.
func sequential(p *params) func(at modelState, q call) (modelState, outcome) {
	interval := time.Duration(p.perPermit)
	return func(at modelState, q call) (modelState, outcome) {
		switch a := p.spec.Algorithm; {
		case a == WarmUp && q.refund:
			return modelState{at.spent - q.debit, min(p.warm.stored, at.stored+float64(q.n))}, outcome{}
		case a == WarmUp:
			least := q.n
			if q.atMost {
				least = 1
			}
			stored, next, res := p.decideWarm(at.stored, at.spent, 0, query{n: q.n, least: least, wait: q.wait.Microseconds()})
			if res.granted == 0 {
				return at, outcome{}
			}
			return modelState{next, stored}, outcome{res.granted, time.Duration(res.wait) * time.Microsecond}
		case q.refund:
			return modelState{spent: at.spent - q.n}, outcome{}
		case a == LeakyQueue:
			room := 1 + int64(min(q.wait, p.spec.MaxWait)/interval) - at.spent
			give := q.n
			if give > room && q.atMost {
				give = room
			}
			if give > room || give <= 0 {
				return at, outcome{}
			}
			return modelState{spent: at.spent + give}, outcome{give, time.Duration(at.spent+give-1) * interval}
		default:
			give := q.n
			if left := p.maxCost - at.spent; give > left {
				give = 0
				if q.atMost {
					give = left
				}
			}
			return modelState{spent: at.spent + give}, outcome{granted: give}
		}
	}
}

// TestLocalIsLinearizable: the outcomes of concurrent calls are those of some sequential order of the calls in the
// model.
func TestLocalIsLinearizable(t *testing.T) {
	const budget = 20
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			spec := Spec{Algorithm: a, Limit: Limit{Rate: budget, Period: time.Minute}}
			if a == WarmUp {
				spec.Burst = 5
			}
			p, err := newParams(spec)
			require.NoError(t, err)
			decide := sequential(p)
			model := porcupine.Model{
				Init: func() any { return modelState{stored: p.warm.stored} },
				Step: func(state, input, output any) (bool, any) {
					next, want := decide(state.(modelState), input.(call))
					return want == output.(outcome), next
				},
			}
			for _, key := range []string{"", "k"} {
				for range 20 {
					history := concurrently(t, spec, key)
					require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(model, history, time.Minute))
				}
			}
		})
	}
}

// concurrently runs four concurrent callers of a limiter with a constant time, and returns their history.
func concurrently(t *testing.T, spec Spec, key string) (history []porcupine.Operation) {
	l, err := NewLocal(spec, WithClock(newVirtual().Now))
	require.NoError(t, err)
	var mu sync.Mutex
	record := func(client int, q call, do func() outcome) {
		call := time.Now().UnixNano()
		out := do()
		ret := time.Now().UnixNano()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: q, Call: call, Output: out, Return: ret})
	}
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			for range 10 {
				q := call{n: rand.Int64N(4) + 1, atMost: rand.IntN(2) == 0}
				if spec.Algorithm == LeakyQueue || spec.Algorithm == WarmUp {
					q.wait = time.Duration(rand.Int64N(int64(time.Minute)))
				}
				var res Result
				record(client, q, func() outcome {
					res, _ = l.Take(context.Background(), Request{Key: key, N: q.n, AtMost: q.atMost, MaxWait: q.wait})
					return outcome{res.Granted, res.Wait}
				})
				if res.Granted > 0 && rand.IntN(3) == 0 {
					record(client, call{n: res.Granted, refund: true, debit: res.debit}, func() outcome {
						_ = l.Refund(context.Background(), key, res)
						return outcome{}
					})
				}
			}
		})
	}
	wg.Wait()
	return history
}

// TestConcurrentTakesAndChanges: concurrent requests for the same keys, with concurrent changes of the limit, never
// get more than the limit.
func TestConcurrentTakesAndChanges(t *testing.T) {
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
					s.MaxWait = time.Duration(i%2+1) * time.Second // another Spec with the same numbers
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
