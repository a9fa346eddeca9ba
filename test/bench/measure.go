package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/client/load"
)

// sampleTime is the duration of one sample of the bare handler, and of a route that is measured in alternation with
// it.
const sampleTime = time.Second

// sample sends one batch for sampleTime and returns its rate. It fails unless every response has that status.
func (b *bench) sample(ctx context.Context, what string, batch load.Batch, status int) (load.BatchResult, error) {
	batch.For = sampleTime
	result, err := b.send(ctx, what, batch, &atomic.Value{})
	if err == nil && (result.First.Times.Count == 0 ||
		result.First.Outcomes[strconv.Itoa(status)] != result.First.Times.Count) {
		err = fmt.Errorf("%s: not all responses were %d: %v", what, status, result.First.Outcomes)
	}
	if err == nil {
		b.logf("%-28s %8.0f/s  %s", what, result.PerSec(), result.First.Times)
	}
	return result, err
}

// bareRate takes n samples of the bare handler with the requests of a purchase, over that many connections, and returns
// their mean rate.
func (b *bench) bareRate(ctx context.Context, conns, n int) (float64, error) {
	sum := 0.0
	target := load.Target{Host: b.seckill(), ActivityID: "1", SKUID: "1"}
	for range n {
		got, err := b.sample(ctx, "bare handler", load.Batch{
			Addr: b.bareAddr, Conns: conns,
			Request: func(i int, buf []byte) []byte {
				by := &b.bareBuyers[i%len(b.bareBuyers)]
				return target.AppendPurchase(buf, by.token, by.path)
			},
		}, http.StatusAccepted)
		if err != nil {
			return 0, err
		}
		sum += got.PerSec()
	}
	return sum / float64(n), nil
}

// refused measures purchases of a sold-out sale, with paths that were issued before. It samples the bare handler and
// seckill in turn: the speed of a shared host changes within a run, so rates that are measured a minute apart cannot be
// compared.
func (b *bench) refused(ctx context.Context) error {
	const stock, paths = 64, 4096
	s, buyers, err := b.prepare(ctx, stock, stock+paths, false)
	if err != nil {
		return err
	}
	losers := buyers[stock:]
	if _, err := b.buy(ctx, s, buyers[:stock], traffic{}); err != nil {
		return err
	}
	if _, err := b.landed(ctx); err != nil {
		return err
	}
	batch := load.Batch{Request: func(i int, buf []byte) []byte {
		by := &losers[i%len(losers)]
		return s.AppendPurchase(buf, by.token, by.path)
	}}
	before, err := b.bareRate(ctx, connections, 1)
	if err != nil {
		return err
	}
	var rates, ratios, p50, p99 []float64
	var use usage
	requests := 0
	for range b.scaledCount(15, 3) {
		m := b.procs.meter()
		got, err := b.sample(ctx, "refused as sold out", batch, http.StatusConflict)
		if err != nil {
			return err
		}
		use.add(m.used())
		requests += got.First.Times.Count
		after, err := b.bareRate(ctx, connections, 1)
		if err != nil {
			return err
		}
		rates, ratios = append(rates, got.PerSec()), append(ratios, ratio(got.PerSec(), (before+after)/2))
		p50, p99 = append(p50, milliseconds(got.First.Times.P50)), append(p99, milliseconds(got.First.Times.P99))
		before = after
	}
	b.record("refused", "1/s", higher, median(rates))
	b.record("refused, of bare", "", higher, median(ratios))
	b.record("p50", "ms", none, median(p50))
	b.record("p99", "ms", lower, median(p99))
	b.recordCosts("refusal", use, requests)
	return nil
}
