package bench

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// stallTimeout is the time without a new order after which the run gives up.
	stallTimeout = 2 * time.Minute
	// countTablesAfter is the time without a new order after which the tables are counted. The metric lacks orders of
	// commits whose outcome is unknown to the service.
	countTablesAfter = 5 * time.Second
	// sustainedWithin is the time after the last purchase within which the last order must land for a rate to count as
	// sustained. Without load a purchase needs some tenths of a second to become an order.
	sustainedWithin = 500 * time.Millisecond
	// offerWarmUp is the time after which offer begins to count orders.
	offerWarmUp = 500 * time.Millisecond
)

// landing measures orders per second while selling, with raw inserts before, in between and after. First it searches
// by bisection the rate of purchases at which orders land without a backlog: purchases at a higher rate only take
// processor time from landing.
func (b *bench) landing(ctx context.Context) error {
	if err := b.raw(ctx); err != nil {
		return err
	}
	rate, err := b.sustainedRate(ctx)
	if err != nil {
		return err
	}
	if err := b.raw(ctx); err != nil {
		return err
	}
	o, err := b.offerFor(ctx, rate, 4*b.cfg.Slice)
	if err != nil {
		return err
	}
	b.report.Offered = append(b.report.Offered, o)
	return b.raw(ctx)
}

// sustainedRate returns the highest rate of purchases that was sustained in four trials. If none was, it returns the
// rate after the last trial.
func (b *bench) sustainedRate(ctx context.Context) (float64, error) {
	rate := b.report.drainRate() * 0.6
	if rate == 0 {
		rate = 3000
	}
	sustained, beyond := 0.0, 0.0
	for range 4 {
		o, err := b.offerFor(ctx, rate, b.cfg.Slice)
		if err != nil {
			return 0, err
		}
		if o.Behind <= sustainedWithin {
			sustained = rate
		} else {
			beyond = rate
		}
		switch {
		case beyond == 0:
			rate *= 1.3
		case sustained == 0:
			rate *= 0.75
		default:
			rate = (sustained + beyond) / 2
		}
	}
	if sustained == 0 {
		return rate, nil
	}
	return sustained, nil
}

// offerFor prepares a sale and buyers and calls offer.
func (b *bench) offerFor(ctx context.Context, rate float64, within time.Duration) (Offered, error) {
	n := int(rate*within.Seconds()) + 1
	s, buyers, err := b.prepare(ctx, int64(n), n)
	if err != nil {
		return Offered{}, err
	}
	return b.offer(ctx, s, buyers, rate, within)
}

// offer sells at a rate and measures the number of orders that are created per second meanwhile.
func (b *bench) offer(
	ctx context.Context, s *sale, buyers []buyer, rate float64, within time.Duration,
) (Offered, error) {
	o := Offered{Offered: rate}
	type count struct {
		n   int
		at  time.Time
		err error
	}
	from := make(chan count, 1)
	began := time.Now()
	go func() { // the first purchases need a moment to become orders, so counting starts after offerWarmUp
		err := pause(ctx, offerWarmUp)
		n, e := b.created(ctx)
		from <- count{n, time.Now(), errors.Join(err, e)}
	}()
	m := b.procs.meter()
	result, err := b.buy(ctx, s, buyers, traffic{rate: rate, within: within})
	first := <-from
	if err != nil {
		return o, err
	}
	last, err := b.created(ctx)
	if err = errors.Join(err, first.err); err != nil {
		return o, err
	}
	at := time.Now()
	o.Accepted = Sample{BatchResult: result, Use: m.used()}
	o.PerSec = float64(last-first.n) / at.Sub(first.at).Seconds()
	took, err := b.landed(ctx)
	if err != nil {
		return o, err
	}
	o.Behind = took
	o.Whole = m.used()
	b.logf("%-28s %8.0f/s of %.0f/s offered for %s; the last landed %s after the end", "landed while selling",
		o.PerSec, rate, at.Sub(began).Round(100*time.Millisecond), took.Round(time.Millisecond))
	return o, nil
}

// created returns the number of orders that the order service has created since it started. It reads the metrics page,
// because counting the tables would change the measurement.
func (b *bench) created(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.cfg.OrderAdmin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if ok && strings.HasPrefix(name, "flashsale_order_orders_total{flashsale_state=\"created\"") {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, lines.Err() // no order was created yet
}

// landed waits until all accepted purchases are orders and no deduction is pending. It returns the time from the call
// to the last order.
func (b *bench) landed(ctx context.Context) (time.Duration, error) {
	want := 0
	for _, s := range b.sales {
		want += s.count()
	}
	began := time.Now()
	last, lastAt := -1, began
	var took time.Duration
	for {
		n, err := b.created(ctx)
		if err != nil {
			return 0, err
		}
		n -= b.createdBefore
		if n < want && time.Since(lastAt) > countTablesAfter {
			inTables, err := b.countOrders(ctx)
			if err != nil {
				return 0, err
			}
			b.createdBefore -= max(inTables-n, 0)
			n = max(n, inTables)
		}
		if n >= want && took == 0 {
			took = time.Since(began)
		}
		if n >= want {
			idle, err := b.inventoryIdle(ctx)
			if err != nil {
				return 0, err
			}
			if idle {
				return took, nil
			}
		}
		if n != last {
			last, lastAt = n, time.Now()
		}
		if time.Since(lastAt) > stallTimeout {
			return 0, fmt.Errorf("%d were accepted, %d became orders, and no more for %s", want, n, stallTimeout)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// inventoryIdle reports whether the ledger has confirmed an order for each of its rows.
func (b *bench) inventoryIdle(ctx context.Context) (bool, error) {
	var one int
	const query = "SELECT 1 FROM reservations WHERE republish_at IS NOT NULL LIMIT 1"
	err := b.inventoryDB.QueryRowContext(ctx, query).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
