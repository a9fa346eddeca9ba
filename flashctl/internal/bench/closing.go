package bench

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/internal/latency"
)

// Closing is the result for orders that all stay unpaid until the same moment.
type Closing struct {
	Orders     int             `json:"orders"`
	Activities int             `json:"activities"`
	Spread     time.Duration   `json:"deadlines_spread_ns"` // from the first to the last deadline
	Restored   time.Duration   `json:"restored_ns"`         // from the last deadline until all units are restored
	Lateness   latency.Summary `json:"lateness"`            // of each order, from its deadline to its closing
	Early      int             `json:"early"`               // orders closed before their deadline; must be 0
	Use        Usage           `json:"use"`                 // since the first deadline
}

const closingActivities = 8

// closing measures how fast orders are closed that are due at once.
func (b *bench) closing(ctx context.Context) error { return b.close(ctx, b.cfg.Closing) }

// closing20k and closing100k measure the same as installed.
func (b *bench) closing20k(ctx context.Context) error { return b.close(ctx, b.scaledCount(20_000, 80)) }

func (b *bench) closing100k(ctx context.Context) error {
	return b.close(ctx, b.scaledCount(100_000, 80))
}

// close measures how fast n orders are closed. It fails if one is closed before its deadline.
func (b *bench) close(ctx context.Context, n int) error {
	c, err := b.closeAll(ctx, n)
	if err != nil {
		return err
	}
	b.report.Closings = append(b.report.Closings, c)
	b.logf("%d orders of %d activities due within %s: all units restored %s after the last deadline; late by %s",
		c.Orders, c.Activities, c.Spread.Round(time.Millisecond), c.Restored.Round(time.Millisecond), c.Lateness)
	if c.Early > 0 {
		return fmt.Errorf("%d orders were closed before their deadline", c.Early)
	}
	return nil
}

// closeAll sells n units in several activities whose pay windows end together, and measures until all units are
// restored.
func (b *bench) closeAll(ctx context.Context, n int) (Closing, error) {
	var c Closing
	sales, err := b.sellUntilDeadline(ctx, n)
	if err != nil {
		return c, err
	}
	c.Activities = len(sales)
	for _, s := range sales {
		c.Orders += s.count()
	}
	first, last, err := b.deadlines(ctx, sales)
	if err != nil {
		return c, err
	}
	c.Spread = last.Sub(first)
	if err := pause(ctx, time.Until(first)); err != nil {
		return c, err
	}
	m := b.procs.meter()
	if err := pause(ctx, time.Until(last)); err != nil {
		return c, err
	}
	if err := b.awaitRestored(ctx, sales, last); err != nil {
		return c, err
	}
	c.Restored = time.Since(last)
	c.Use = m.used()
	c.Lateness, c.Early, err = b.lateness(ctx, sales)
	return c, err
}

// sellUntilDeadline sells n units in closingActivities sales, one after the other. Each has a shorter pay window than
// the one before, so that all pay windows end together.
func (b *bench) sellUntilDeadline(ctx context.Context, n int) ([]*sale, error) {
	each := n / closingActivities
	// A trial sale shows how long one sale takes on this machine.
	began := time.Now()
	if _, err := b.soldAndLanded(ctx, each, 24*time.Hour); err != nil {
		return nil, err
	}
	need := closingActivities*(time.Since(began)*8/5+time.Second) + 6*time.Second
	end := time.Now().Add(need).Truncate(time.Second)
	var sales []*sale
	orders := 0
	for range closingActivities {
		left := time.Until(end).Truncate(time.Second)
		if left < 3*time.Second {
			return nil, fmt.Errorf("selling and landing %d orders took longer than the %s that were planned", n, need)
		}
		// A pay window has whole seconds and starts when the order is created, so begin whole seconds before the end.
		if err := pause(ctx, time.Until(end.Add(-left))); err != nil {
			return nil, err
		}
		s, err := b.soldAndLanded(ctx, each, left)
		if err != nil {
			return nil, err
		}
		sales = append(sales, s)
		orders += s.count()
	}
	b.logf("%d orders of %d activities wait for their deadline at %s", orders, len(sales), end.Format(time.TimeOnly))
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
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// soldAndLanded creates a sale, sells it out and waits until all of its orders exist.
func (b *bench) soldAndLanded(ctx context.Context, n int, payWithin time.Duration) (*sale, error) {
	s, err := b.newSale(ctx, int64(n), payWithin)
	if err != nil {
		return nil, err
	}
	buyers, err := b.newBuyers(n)
	if err != nil {
		return nil, err
	}
	if _, err := b.fetchPaths(ctx, s, buyers); err != nil {
		return nil, err
	}
	if _, err := b.buy(ctx, s, buyers, traffic{}); err != nil {
		return nil, err
	}
	_, err = b.landed(ctx)
	return s, err
}

// restored reports whether all units of a sale are available again, in MySQL and in the gate.
func (b *bench) restored(ctx context.Context, s *sale) (bool, error) {
	stock, err := b.merchant.Stock(ctx, s.id)
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

// target formats the target of a closing of that many orders, or returns "" if there is none.
func (c Closing) target() string {
	if c.Orders != targetClosings {
		return ""
	}
	return fmt.Sprintf(" (target: %s)", targetRestored)
}
