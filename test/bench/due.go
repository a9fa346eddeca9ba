package main

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/client/load"
)

const dueActivities = 8

// due sells units in several activities whose pay windows end together, and measures until all units are restored. It
// fails if an order is closed before its deadline.
func (b *bench) due(ctx context.Context) error {
	sales, err := b.sellUntilDeadline(ctx, b.scaledCount(b.Orders, 80))
	if err != nil {
		return err
	}
	orders := 0
	for _, s := range sales {
		orders += s.count()
	}
	first, last, err := b.deadlines(ctx, sales)
	if err != nil {
		return err
	}
	if err := load.Until(ctx, first); err != nil {
		return err
	}
	m := b.procs.meter()
	if err := load.Until(ctx, last); err != nil {
		return err
	}
	if err := b.awaitRestored(ctx, sales, last); err != nil {
		return err
	}
	restored, use := time.Since(last), m.used()
	late, early, err := b.lateness(ctx, sales)
	if err != nil {
		return err
	}
	b.record("orders", "", none, float64(orders))
	b.record("deadlines within", "s", none, last.Sub(first).Seconds())
	b.record("all units restored after the last deadline", "s", lower, restored.Seconds())
	b.record("p50 from a deadline to its closing", "ms", none, milliseconds(late.P50))
	b.record("p99 from a deadline to its closing", "ms", none, milliseconds(late.P99))
	b.recordCosts("order closed and restored", use, orders)
	b.logf("%d orders due within %s: all units restored %s after the last deadline; late by %s", orders,
		last.Sub(first).Round(time.Millisecond), restored.Round(time.Millisecond), late)
	if early > 0 {
		return fmt.Errorf("%d orders were closed before their deadline", early)
	}
	return nil
}

// sellUntilDeadline sells n units in dueActivities sales, one after the other. Each has a shorter pay window than the
// one before, so that all pay windows end together.
func (b *bench) sellUntilDeadline(ctx context.Context, n int) ([]*sale, error) {
	each := n / dueActivities
	// A trial sale shows how long one sale takes on this machine.
	began := time.Now()
	if _, _, err := b.sold(ctx, each, 24*time.Hour); err != nil {
		return nil, err
	}
	need := dueActivities*(time.Since(began)*8/5+time.Second) + 6*time.Second
	end := time.Now().Add(need).Truncate(time.Second)
	var sales []*sale
	for range dueActivities {
		left := time.Until(end).Truncate(time.Second)
		if left < 3*time.Second {
			return nil, fmt.Errorf("selling and landing %d orders took longer than the %s that were planned", n, need)
		}
		// A pay window has whole seconds and starts when the order is created, so begin whole seconds before the end.
		if err := load.Until(ctx, end.Add(-left)); err != nil {
			return nil, err
		}
		s, _, err := b.sold(ctx, each, left)
		if err != nil {
			return nil, err
		}
		sales = append(sales, s)
	}
	b.logf("%d orders of %d activities wait for their deadline at %s", n, len(sales), end.Format(time.TimeOnly))
	return sales, nil
}

// awaitRestored waits until all units of these sales are restored. It fails 2*stallTimeout after the last deadline.
func (b *bench) awaitRestored(ctx context.Context, sales []*sale, last time.Time) error {
	for open := sales; ; {
		var still []*sale
		for _, s := range open {
			restored, err := b.restored(ctx, s)
			if err != nil {
				return err
			}
			if !restored {
				still = append(still, s)
			}
		}
		if open = still; len(open) == 0 {
			return nil
		}
		if time.Since(last) > 2*stallTimeout {
			return fmt.Errorf("%d of %d activities are not restored %s after the last deadline",
				len(open), len(sales), 2*stallTimeout)
		}
		if err := load.Until(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
}

// restored reports whether all units of a sale are available again, in MySQL and in the gate.
func (b *bench) restored(ctx context.Context, s *sale) (bool, error) {
	stock, err := b.merchant.Stock(ctx, s.ActivityID)
	if err != nil {
		return false, err
	}
	for _, k := range stock.SKUs {
		if k.MySQL.Available != s.stock || k.Gate.Left != s.stock {
			return false, nil
		}
	}
	return true, nil
}
