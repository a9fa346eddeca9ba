package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// contender is one of the compared limiters.
type contender struct {
	name   string
	decide func(i int)
	calls  [][]time.Duration // time of each decision, by goroutine; nil: not recorded

	spent []float64 // ns per decision, by round
	cpu   []float64 // ns of processor time per decision, by round, if measured
}

// takeTurnsByCall lets contenders alternate after each decision, in one goroutine. It is the comparison with the least
// noise.
func takeTurnsByCall(ctx context.Context, rounds, n int, contenders []*contender) error {
	for round := range rounds + 1 {
		sums := make([]time.Duration, len(contenders))
		for i := range n {
			for _, k := range rand.Perm(len(contenders)) {
				start := time.Now()
				contenders[k].decide(round*n + i)
				took := time.Since(start)
				sums[k] += took
				contenders[k].calls[0] = append(contenders[k].calls[0], took)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		for k, c := range contenders {
			if round > 0 {
				c.spent = append(c.spent, float64(sums[k])/float64(n))
			}
		}
	}
	return nil
}

// takeTurns lets each contender make n decisions in each round, in so many goroutines. used returns the processor time
// used so far.
func takeTurns(
	ctx context.Context, rounds, n, goroutines int, used func() (time.Duration, error), contenders []*contender,
) error {
	for round := range rounds + 1 {
		for _, i := range rand.Perm(len(contenders)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			c := contenders[i]
			before, err := used()
			if err != nil {
				return err
			}
			took := c.round(round*n, n, goroutines)
			after, err := used()
			if err != nil {
				return err
			}
			if round > 0 { // the first round fills caches
				c.spent = append(c.spent, float64(took)/float64(n))
				c.cpu = append(c.cpu, float64(after-before)/float64(n))
			}
		}
	}
	return nil
}

func (c *contender) round(first, n, goroutines int) time.Duration {
	if goroutines == 1 && c.calls == nil {
		start := time.Now()
		for i := range n {
			c.decide(first + i)
		}
		return time.Since(start)
	}
	var wg sync.WaitGroup
	start := time.Now()
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				if c.calls == nil {
					c.decide(first + i)
					continue
				}
				at := time.Now()
				c.decide(first + i)
				c.calls[g] = append(c.calls[g], time.Since(at))
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// against returns the speed of c relative to the reference, by round: 2 is twice as fast.
func (c *contender) against(reference *contender) string { return summary(c.spent, reference.spent) }

func summary(mine, reference []float64) string {
	ratios := make([]float64, 0, len(mine))
	for i := range mine {
		if mine[i] > 0 {
			ratios = append(ratios, reference[i]/mine[i])
		}
	}
	if len(ratios) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f..%.2f)", quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75))
}

// p99 returns the 99th percentile of the times of a decision.
func (c *contender) p99() time.Duration { return quantile(slices.Concat(c.calls...), 0.99) }

func quantile[T float64 | time.Duration](v []T, q float64) T {
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}
