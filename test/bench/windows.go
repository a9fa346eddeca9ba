package main

import (
	"cmp"
	"context"
	"time"
)

// saleWindow describes a sale that is measured over one window: from its first request to its last response.
type saleWindow struct {
	inline bool          // each buyer fetches the path on the connection of the purchase; otherwise paths are fetched before
	buyers int           // purchases a second for which buyers are prepared, more than the system serves
	every  time.Duration // length of the intervals that are read meanwhile; 0 means none
	traffic
}

// inline measures purchases of which each buyer fetches the path first, on the same connection.
func (b *bench) inline(ctx context.Context) error {
	return b.window(ctx, saleWindow{
		inline: true, buyers: 12_000, traffic: traffic{conns: 64, within: b.scaled(30 * time.Second)},
	})
}

// fetched measures purchases with paths that were fetched before.
func (b *bench) fetched(ctx context.Context) error {
	return b.window(ctx, saleWindow{buyers: 25_000, traffic: traffic{within: b.scaled(20 * time.Second)}})
}

// sustained measures the same as fetched for three minutes, in intervals of ten seconds.
func (b *bench) sustained(ctx context.Context) error {
	within := b.scaled(180 * time.Second)
	return b.window(ctx, saleWindow{buyers: 16_000, every: within / 18, traffic: traffic{within: within}})
}

// window prepares a sale and its buyers, measures it and waits until all of its purchases have landed.
func (b *bench) window(ctx context.Context, of saleWindow) error {
	n := int(float64(of.buyers) * of.within.Seconds())
	s, buyers, err := b.prepare(ctx, int64(n), n, of.inline)
	if err != nil {
		return err
	}
	conns := cmp.Or(of.conns, connections)
	before, err := b.bareRate(ctx, conns, 2)
	if err != nil {
		return err
	}
	if err := b.sell(ctx, s, buyers, of); err != nil {
		return err
	}
	after, err := b.bareRate(ctx, conns, 2)
	if err != nil {
		return err
	}
	accepted := b.figures.last(b.section, "accepted")
	b.record("accepted, of bare", "", higher, ratio(accepted, (before+after)/2))
	return nil
}

// sell sells to these buyers in one window.
func (b *bench) sell(ctx context.Context, s *sale, buyers []buyer, of saleWindow) error {
	buy := b.buy
	if of.inline {
		buy = b.buyInline
	}
	first, err := b.created(ctx)
	if err != nil {
		return err
	}
	course := b.startCourse(ctx, s, of.every)
	m := b.procs.meter()
	result, err := buy(ctx, s, buyers, of.traffic)
	intervals := course.stop()
	if err != nil {
		return err
	}
	last, err := b.created(ctx)
	if err != nil {
		return err
	}
	accepted := s.count()
	behind, err := b.landed(ctx)
	if err != nil {
		return err
	}
	purchases := result.First.Times
	if of.inline {
		purchases = result.Second.Times
	}
	b.record("accepted", "1/s", higher, float64(accepted)/result.Took.Seconds())
	b.record("landed meanwhile", "1/s", none, float64(last-first)/result.Took.Seconds())
	b.record("all landed after", "s", none, behind.Seconds())
	b.record("responses 503", "", none, float64(s.unavailable.Load()))
	b.record("p50 of a purchase", "ms", none, milliseconds(purchases.P50))
	b.record("p99 of a purchase", "ms", lower, milliseconds(purchases.P99))
	b.recordCosts("whole purchase", m.used(), accepted)
	if of.every > 0 {
		b.tables = append(b.tables, courseTable(intervals))
	}
	b.logf("%d accepted in %s, %d landed meanwhile, the last %s after the end; %d responses 503", accepted,
		result.Took.Round(time.Millisecond), last-first, behind.Round(time.Millisecond), s.unavailable.Load())
	if accepted == len(buyers) {
		b.logf("all %d buyers were served before the window ended", accepted)
	}
	return nil
}
