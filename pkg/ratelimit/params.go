package ratelimit

import (
	"math"
	"time"
)

// query is a Request in numbers. least is n, or 1 with AtMost, or 0 for a peek; wait is the longest wait that the
// caller accepts, in ns.
type query struct {
	n, least, wait int64
	dryRun         bool // decide as usual, but charge nothing
}

// decision is a Result in numbers; times in ns. ok reports whether at least query.least permits are available; granted
// is 0 for a peek.
type decision struct {
	ok                           bool
	granted, remaining           int64
	wait, retryAfter, resetAfter int64
	stamp, debit                 int64 // needed for a refund
}

// params is a Spec in the numbers that a local decision needs. It is immutable.
type params struct {
	spec Spec

	// For arrival times: TokenBucket, GCRA, LeakyBucket, LeakyQueue.
	perPermit int64 // ns in which one permit is earned, rounded up to the strict side
	tolerance int64 // ns of permits that may be taken ahead of time: the burst tolerance of GCRA
	maxWait   int64 // longest wait in ns, whatever the caller accepts

	maxCost int64 // largest grant, in permits

	// For windows.
	period, rate int64
	width        int64 // ns per bucket, rounded up to whole microseconds as in Redis
	buckets      int64

	warm curve
}

func newParams(s Spec) (*params, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &params{
		spec: s, perPermit: ceilDiv(int64(s.Period), s.Rate), maxCost: s.Burst, maxWait: int64(s.MaxWait),
		period: int64(s.Period), rate: s.Rate,
	}
	p.tolerance = p.perPermit * s.Burst
	switch s.Algorithm {
	case LeakyQueue:
		p.tolerance = p.perPermit
	case SlidingWindow:
		p.buckets = int64(s.Buckets)
		p.width = ceilDiv(p.period, p.buckets*int64(time.Microsecond)) * int64(time.Microsecond)
	case WarmUp:
		p.warm = newCurve(float64(s.Period.Microseconds())/float64(s.Rate), float64(s.WarmUp.Microseconds()),
			s.ColdFactor)
		p.warm.tolerance = float64(s.Burst-1) * p.warm.stable
	}
	return p, nil
}

// query converts a request.
func (p *params) query(r Request) query {
	q := query{n: r.N, least: r.N, wait: int64(max(0, r.MaxWait))}
	if r.AtMost && r.N > 1 {
		q.least = 1
	}
	q.wait = min(q.wait, p.maxWait)
	return q
}

// result converts a decision.
func (p *params) result(q query, d decision, source Source) Result {
	r := Result{
		Allowed: d.ok && (d.granted > 0 || q.n == 0), Granted: d.granted, Remaining: d.remaining,
		Wait: time.Duration(d.wait), ResetAfter: time.Duration(d.resetAfter),
		Limit: p.spec.Limit, Source: source, by: p, stamp: d.stamp, debit: d.debit,
	}
	if !r.Allowed || (q.n == 0 && d.remaining < 1) {
		r.RetryAfter = time.Duration(d.retryAfter)
	}
	return r
}

// curve is the price of a permit during a warm-up, as in Guava's SmoothWarmingUp. Idle time stores permits, at most
// stored. A permit costs stable while at most threshold permits are stored; above that the price rises linearly to
// cold. Times are in microseconds. The steps are those of lua/warm.lua, so that both compute the same doubles.
type curve struct {
	stable, cold      float64 // price of one permit
	threshold, stored float64 // permits
	coolDown          float64 // idle time that stores one permit
	tolerance         float64 // how far ahead of the due time permits may be taken
}

func newCurve(stable, warmUp, factor float64) curve {
	c := curve{stable: stable, cold: stable * factor, threshold: 0.5 * warmUp / stable}
	c.stored = c.threshold + 2*warmUp/(c.stable+c.cold)
	c.coolDown = warmUp / c.stored
	return c
}

// cost returns the price of n permits while stored permits are stored: the area under the curve.
func (c *curve) cost(stored float64, n int64) float64 {
	want := float64(n)
	sum := 0.0
	if above := stored - c.threshold; above > 0 && want > 0 {
		k := math.Min(above, want)
		slope := (c.cold - c.stable) / (c.stored - c.threshold)
		sum = k * (2*c.stable + slope*(2*above-k)) / 2
		want -= k
	}
	return sum + want*c.stable
}

// debit returns by how much a grant of n permits moves the due time. The last permit of a grant passes when the price
// of those before it, rounded up, is earned; the next permit follows after no less than the stable price from there.
func (c *curve) debit(stored float64, n int64) float64 {
	return max(math.Ceil(c.cost(stored, n)), math.Ceil(c.cost(stored, n-1))+math.Ceil(c.stable))
}
