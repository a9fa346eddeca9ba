package bench

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/internal/latency"
)

// Closing is what came of orders that were all left unpaid until the same moment.
type Closing struct {
	Orders     int             `json:"orders"`
	Activities int             `json:"activities"`
	Spread     time.Duration   `json:"deadlines_spread_ns"` // from the first to the last deadline
	Restored   time.Duration   `json:"restored_ns"`         // from the last deadline until all pieces were on sale again, in MySQL and in the gate
	Lateness   latency.Summary `json:"lateness"`            // of each order, from its deadline to its closing
	Early      int             `json:"early"`               // orders closed before their deadline: must be none
	Use        Usage           `json:"use"`                 // from the first deadline on
}

const closingSlices = 8

// closeAll sells n pieces in several activities so that all pay windows end together, and watches the pieces come back.
// One activity is sold after another, each with a pay window that is shorter by the time that has passed.
func (b *bench) closeAll(ctx context.Context, n int) (Closing, error) {
	var c Closing
	each := n / closingSlices
	// How long one takes here is tried out first.
	tried := time.Now()
	if _, err := b.soldAndLanded(ctx, each, 24*time.Hour); err != nil {
		return c, err
	}
	need := closingSlices*(time.Since(tried)*8/5+time.Second) + 6*time.Second
	end := time.Now().Add(need).Truncate(time.Second)
	var sales []*sale
	for range closingSlices {
		left := time.Until(end).Truncate(time.Second)
		if left < 3*time.Second {
			return c, fmt.Errorf("selling and landing %d orders took longer than the %s that were planned", n, need)
		}
		// The deadline is counted from when the order is made, so begin on a whole second before the end.
		if err := pause(ctx, time.Until(end.Add(-left))); err != nil {
			return c, err
		}
		s, err := b.soldAndLanded(ctx, each, left)
		if err != nil {
			return c, err
		}
		sales = append(sales, s)
		c.Orders += s.count()
	}
	b.say("%d orders of %d activities wait for their deadline at %s", c.Orders, len(sales), end.Format(time.TimeOnly))
	c.Activities = len(sales)
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
	for open := sales; ; {
		var still []*sale
		for _, s := range open {
			back, err := b.restored(ctx, s)
			if err != nil {
				return c, err
			}
			if !back {
				still = append(still, s)
			}
		}
		if open = still; len(open) == 0 {
			break
		}
		if time.Since(last) > 2*stall {
			return c, fmt.Errorf("%d of %d activities are not restored %s after the last deadline", len(open), len(sales), 2*stall)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return c, err
		}
	}
	c.Restored = time.Since(last)
	c.Use = m.used()
	c.Lateness, c.Early, err = b.lateness(ctx, sales)
	return c, err
}

// soldAndLanded makes a sale, sells it out, and waits until the orders are there.
func (b *bench) soldAndLanded(ctx context.Context, n int, payWithin time.Duration) (*sale, error) {
	s, err := b.newSale(ctx, int64(n), payWithin)
	if err != nil {
		return nil, err
	}
	buyers, err := b.gather(n)
	if err != nil {
		return nil, err
	}
	if _, err := b.fetchPaths(ctx, s, buyers); err != nil {
		return nil, err
	}
	if _, err := b.buy(ctx, s, buyers, 0, 0); err != nil {
		return nil, err
	}
	_, err = b.landed(ctx)
	return s, err
}

// restored tells whether all pieces of a sale are on sale again, in both places.
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
