package bench

import (
	"context"
	"net/http"
	"time"
)

// warmUpUnits is the number of units that warmUp sells.
const warmUpUnits = 5000

// warmUp sells units and lands them without a measurement: the broker's JVM compiles its code, and connection pools
// are filled.
func (b *bench) warmUp(ctx context.Context) error {
	s, buyers, err := b.prepare(ctx, warmUpUnits, warmUpUnits)
	if err != nil {
		return err
	}
	if _, err := b.buy(ctx, s, buyers, traffic{}); err != nil {
		return err
	}
	_, err = b.landed(ctx)
	return err
}

// accepted measures bursts of purchases. Each is compared with the bare handler and has landed before the next begins.
func (b *bench) accepted(ctx context.Context) error {
	for range b.cfg.Rounds {
		s, buyers, err := b.prepare(ctx, int64(b.cfg.Burst), b.cfg.Burst)
		if err != nil {
			return err
		}
		if err := b.compare(ctx, 2, &b.report.Burst, func() (Sample, error) {
			return b.sell(ctx, "accepted, burst", s, buyers, 0)
		}); err != nil {
			return err
		}
	}
	return nil
}

// sell measures the purchases of these buyers. Then it measures the time until all of them have landed.
func (b *bench) sell(ctx context.Context, what string, s *sale, buyers []buyer, within time.Duration) (Sample, error) {
	m := b.procs.meter()
	result, err := b.buy(ctx, s, buyers, traffic{within: within})
	if err != nil {
		return Sample{}, err
	}
	sample := Sample{BatchResult: result, Use: m.used()}
	n, err := b.created(ctx)
	if err != nil {
		return sample, err
	}
	left := -(n - b.createdBefore)
	for _, s := range b.sales {
		left += s.count()
	}
	b.logf("%-28s %8.0f/s  %s, %d landed while selling", what, result.PerSec, result.Latency, s.count()-left)
	took, err := b.landed(ctx)
	if err != nil {
		return sample, err
	}
	d := Landed{Orders: s.count(), Meanwhile: s.count() - left, Drained: left, DrainTook: took, Whole: m.used()}
	if took > 0 {
		d.DrainPerSec = float64(left) / took.Seconds()
	}
	b.logf("%d more landed in %s, %.0f/s", left, took.Round(time.Millisecond), d.DrainPerSec)
	b.report.Drained = append(b.report.Drained, d)
	return sample, nil
}

// steady measures one long sale.
func (b *bench) steady(ctx context.Context) error {
	rate := b.report.Burst.median().PerSec
	if rate == 0 {
		rate = 10_000
	}
	// More buyers than the service can serve in that time.
	n := int(rate * 1.4 * b.cfg.Steady.Seconds())
	s, buyers, err := b.prepare(ctx, int64(n), n)
	if err != nil {
		return err
	}
	return b.compare(ctx, 5, &b.report.Steady, func() (Sample, error) {
		sample, err := b.sell(ctx, "accepted, steady", s, buyers, b.cfg.Steady)
		if err == nil && sample.Took < b.cfg.Steady {
			b.logf("all %d units were sold after %s already", s.count(), sample.Took)
		}
		return sample, err
	})
}

// refused measures purchases of a sold-out sale, with paths that were issued before.
func (b *bench) refused(ctx context.Context) error {
	const stock, paths = 64, 4096
	s, buyers, err := b.prepare(ctx, stock, stock+paths)
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
	request := func(i int, buf []byte) []byte { return s.purchase(buf, b.cfg.seckill(), &losers[i%len(losers)]) }
	return b.alternate(ctx, "refused as sold out", &b.report.Refused, http.StatusConflict, request)
}

// polled measures requests for the status of a purchase.
func (b *bench) polled(ctx context.Context) error {
	s, buyers, err := b.prepare(ctx, 4096, 4096)
	if err != nil {
		return err
	}
	if _, err := b.buy(ctx, s, buyers, traffic{}); err != nil {
		return err
	}
	if _, err := b.landed(ctx); err != nil {
		return err
	}
	return b.alternate(ctx, "result polled", &b.report.Polled, http.StatusOK, func(i int, buf []byte) []byte {
		buyer := &buyers[i%len(buyers)]
		target := "/v1/activities/" + s.id + "/reservations/" + buyer.orderSN
		return request(buf, http.MethodGet, target, b.cfg.seckill(), buyer.token, "")
	})
}
