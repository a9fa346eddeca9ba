package bench

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/internal/load"
)

// Payments is the result for the payments of one sale.
type Payments struct {
	Count     int              `json:"count"`
	Begun     load.BatchResult `json:"begun"`         // requests that begin a payment
	BegunUse  Usage            `json:"begun_use"`     // during these
	Callbacks load.BatchResult `json:"callbacks"`     // requests that make the sandbox provider send its callback
	PaidUse   Usage            `json:"paid_use"`      // from the first callback until ledger and gate hold every unit as sold
	Behind    time.Duration    `json:"sold_after_ns"` // from the last callback until then
}

const (
	payingConnections = 64
	// payingRate is the number of requests offered each second. It is below the limit of order-write-total in the
	// development rules, so that no request is refused.
	payingRate = 1500
)

// paying measures payments: 10,000 are begun, and then the sandbox provider reports each as succeeded. The callback of
// the provider and the event for inventory follow from that.
func (b *bench) paying(ctx context.Context) error {
	n := b.scaledCount(10_000, 200)
	s, buyers, err := b.prepare(ctx, int64(n), n)
	if err != nil {
		return err
	}
	if _, err := b.buy(ctx, s, buyers, traffic{}); err != nil {
		return err
	}
	if _, err := b.landed(ctx); err != nil {
		return err
	}
	p := Payments{Count: n}
	m := b.procs.meter()
	ids, err := b.beginPayments(ctx, buyers, &p)
	if err != nil {
		return err
	}
	p.BegunUse = m.used()
	m = b.procs.meter()
	if err := b.succeedPayments(ctx, buyers, ids, &p); err != nil {
		return err
	}
	ended := time.Now()
	if err := b.awaitSold(ctx, s); err != nil {
		return err
	}
	p.Behind, p.PaidUse = time.Since(ended), m.used()
	b.logf("%-28s %8.0f/s begun, %.0f/s called back, the last sold %s later", "payments", p.Begun.PerSec,
		p.Callbacks.PerSec, p.Behind.Round(time.Millisecond))
	b.report.Payments = append(b.report.Payments, p)
	return nil
}

// beginPayments begins a payment of each buyer's order and returns the payment ids, by buyer.
func (b *bench) beginPayments(ctx context.Context, buyers []buyer, p *Payments) (ids []string, err error) {
	ids = make([]string, len(buyers))
	addr := strings.TrimPrefix(b.cfg.Origins.Order, "http://")
	var wrong atomic.Value
	batch := b.batch(traffic{addr: addr, conns: payingConnections, rate: payingRate}, len(buyers))
	batch.Request = func(i int, buf []byte) []byte {
		target := "/v1/orders/" + buyers[i].orderSN + "/payments"
		return request(buf, "POST", target, addr, buyers[i].token, `{"provider":"sandbox"}`,
			"Idempotency-Key: pay-"+buyers[i].orderSN)
	}
	batch.Response = func(i, status int, body []byte) bool {
		if status == 503 || status == 429 {
			return true
		}
		if ids[i] = member(body, "payment_id"); status != 201 || ids[i] == "" {
			wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
		}
		return false
	}
	p.Begun, err = batch.Send(ctx)
	return ids, checked("payment", p.Begun, &wrong, err)
}

// succeedPayments makes the sandbox provider report that these payments succeeded.
func (b *bench) succeedPayments(ctx context.Context, buyers []buyer, ids []string, p *Payments) (err error) {
	addr := strings.TrimPrefix(b.cfg.Origins.Order, "http://")
	var wrong atomic.Value
	batch := b.batch(traffic{addr: addr, conns: payingConnections, rate: payingRate}, len(buyers))
	batch.Request = func(i int, buf []byte) []byte {
		target := "/v1/payments/" + ids[i] + "/sandbox"
		return request(buf, "POST", target, addr, buyers[i].token, `{"outcome":"succeeded"}`)
	}
	batch.Response = func(_, status int, body []byte) bool {
		if status == 503 || status == 429 {
			return true
		}
		if status != 202 {
			wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
		}
		return false
	}
	p.Callbacks, err = batch.Send(ctx)
	return checked("callback", p.Callbacks, &wrong, err)
}

// awaitSold waits until ledger and gate hold every unit of a sale as sold. It fails after stallTimeout.
func (b *bench) awaitSold(ctx context.Context, s *sale) error {
	for began := time.Now(); ; {
		stock, err := b.merchant.Stock(ctx, s.id)
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
			return fmt.Errorf("not every unit of activity %s is sold after %s: %v", s.id, stallTimeout, stock.SKUs)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// payments prints the rates of payments; costs prints their processor time.
func (r *Report) payments(p printer) {
	for _, of := range r.Payments {
		p("| Payments | count | per second | p50 | p99 | max |")
		p("|---|---:|---:|---:|---:|---:|")
		line := func(name string, result load.BatchResult) {
			p("| %s | %d | %.0f | %s | %s | %s |", name, result.Count, result.PerSec,
				ms(result.Latency.P50), ms(result.Latency.P99), ms(result.Latency.Max))
		}
		line("payment begun", of.Begun)
		line("callback of the provider", of.Callbacks)
		p("")
		p("The last unit was sold in ledger and gate %s after the last callback.", ms(of.Behind))
		p("")
	}
}
