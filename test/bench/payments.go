package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/client/load"
)

const (
	payingConnections = 64
	// payingRate is the number of requests offered each second. It is below the limit of order-write-total in the
	// development rules, so that no request is refused.
	payingRate = 1500
)

// payments measures 10,000 payments: they are begun, and then the sandbox provider reports each as succeeded. The
// callback of the provider and the event for inventory follow from that.
func (b *bench) payments(ctx context.Context) error {
	s, buyers, err := b.sold(ctx, b.scaledCount(10_000, 200), 24*time.Hour)
	if err != nil {
		return err
	}
	ids := make([]string, len(buyers))
	m := b.procs.meter()
	err = b.pay(ctx, "payment", len(buyers), func(i int, buf []byte) []byte {
		return load.AppendRequest(buf, "POST", "/v1/orders/"+buyers[i].orderSN+"/payments", b.order(), buyers[i].token,
			`{"provider":"sandbox"}`, "Idempotency-Key: pay-"+buyers[i].orderSN)
	}, func(i int, r *load.Response) bool {
		ids[i] = r.Member("payment_id")
		return r.Status == 201 && ids[i] != ""
	})
	if err != nil {
		return err
	}
	b.recordCosts("payment begun", m.used(), len(buyers))
	m = b.procs.meter()
	err = b.pay(ctx, "callback", len(buyers), func(i int, buf []byte) []byte {
		return load.AppendRequest(buf, "POST", "/v1/payments/"+ids[i]+"/sandbox", b.order(), buyers[i].token,
			`{"outcome":"succeeded"}`)
	}, func(_ int, r *load.Response) bool { return r.Status == 202 })
	if err != nil {
		return err
	}
	ended := time.Now()
	if err := b.awaitSold(ctx, s); err != nil {
		return err
	}
	b.record("last unit sold after the last callback", "s", none, time.Since(ended).Seconds())
	b.recordCosts("callback", m.used(), len(buyers)) // with the paid event until ledger and gate hold every unit as sold
	return nil
}

// pay sends n requests to the order service. expected reports whether a response is the expected one.
func (b *bench) pay(
	ctx context.Context, what string, n int, request func(i int, buf []byte) []byte,
	expected func(i int, r *load.Response) bool,
) error {
	var wrong atomic.Value
	batch := load.Batch{Addr: b.order(), Conns: payingConnections, N: n, Rate: payingRate, Request: request}
	batch.Response = func(i int, r *load.Response) bool {
		if r.Status == 503 || r.Status == 429 {
			return true
		}
		if !expected(i, r) {
			wrong.Store(unexpected(r))
		}
		return false
	}
	result, err := b.send(ctx, what, batch, &wrong)
	if err != nil {
		return err
	}
	b.record(what+"s", "1/s", none, result.PerSec())
	b.record("p50 of a "+what, "ms", none, milliseconds(result.First.Times.P50))
	b.record("p99 of a "+what, "ms", lower, milliseconds(result.First.Times.P99))
	b.logf("%-28s %8.0f/s  %s", what+"s", result.PerSec(), result.First.Times)
	return nil
}

// awaitSold waits until ledger and gate hold every unit of a sale as sold. It fails after stallTimeout.
func (b *bench) awaitSold(ctx context.Context, s *sale) error {
	for began := time.Now(); ; {
		stock, err := b.merchant.Stock(ctx, s.ActivityID)
		if err != nil {
			return err
		}
		sold := true
		for _, k := range stock.SKUs {
			sold = sold && k.MySQL.Sold == s.stock && k.Gate.Held == 0
		}
		if sold {
			return nil
		}
		if time.Since(began) > stallTimeout {
			return fmt.Errorf("not every unit of activity %s is sold after %s: %v", s.ActivityID, stallTimeout, stock.SKUs)
		}
		if err := load.Until(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
}
