package ratelimit

import (
	"math"
	"time"
)

// warmUpState is the state of a warm-up bucket: the number of permits that idle time has stored (many = cold), and the
// time at which the next permit is due.
type warmUpState struct {
	lockedState
	stored float64
	next   int64 // microseconds since 1970; before now: idle since then
}

// accrue adds the permits that the idle time until now has stored.
func (p *params) accrue(stored float64, next, now int64) (float64, int64) {
	if now > next {
		return math.Min(p.warm.stored, stored+float64(now-next)/p.warm.coolDown), now
	}
	return stored, next
}

// decideWarm grants a request if all its permits but the last are earned within the tolerance and the accepted wait. A
// grant moves the due time by the price of all its permits. now, next and q.wait are in microseconds.
func (p *params) decideWarm(stored float64, next, now int64, q query) (float64, int64, decision) {
	stored, next = p.accrue(stored, next, now)
	free, wait := float64(now)+p.warm.tolerance-float64(next), float64(q.wait)
	before := func(n int64) float64 { return math.Ceil(p.warm.cost(stored, n-1)) }
	d := decision{granted: q.n}
	if q.least < q.n {
		d.granted = min(q.n, p.maxWarm(stored, free+wait))
	}
	if q.n == 0 || d.granted < q.least || d.granted > p.maxCost || before(d.granted) > free+wait {
		d.ok, d.granted = q.n == 0, 0
		d.remaining, d.resetAfter = p.maxWarm(stored, free), p.coldIn(stored, next, now)
		// The price of a permit does not rise during the wait: idle time stores permits only after next, and the wait
		// ends before next.
		if least := max(q.least, 1); least > p.maxCost || before(least) > p.warm.tolerance+wait {
			d.retryAfter = int64(Never)
		} else {
			d.retryAfter = int64(math.Ceil(max(0, before(least)-free-wait)))
		}
		return stored, next, d
	}
	d.ok = true
	d.wait = int64(math.Ceil(max(0, before(d.granted)-free)))
	d.debit = int64(p.warm.debit(stored, d.granted))
	next += d.debit
	stored = math.Max(0, stored-float64(d.granted))
	d.remaining = p.maxWarm(stored, float64(now)+p.warm.tolerance-float64(next))
	d.resetAfter = p.coldIn(stored, next, now)
	return stored, next, d
}

// coldIn returns the time until the bucket is as cold as a new one.
func (p *params) coldIn(stored float64, next, now int64) int64 {
	return next - now + int64(math.Ceil((p.warm.stored-stored)*p.warm.coolDown))
}

// maxWarm returns how many permits pass at once within free: a permit passes when those before it are earned.
func (p *params) maxWarm(stored, free float64) int64 {
	if free < 0 {
		return 0
	}
	lo, hi := int64(1), p.maxCost
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if math.Ceil(p.warm.cost(stored, mid-1)) <= free {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

const micro = int64(time.Microsecond)

func (s *warmUpState) take(p *params, now int64, q query) (d decision, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return d, false
	}
	q.wait /= micro // rounded down: an accepted wait is never exceeded
	stored, next, d := p.decideWarm(s.stored, s.next, now/micro, q)
	if d.granted > 0 && !q.dryRun {
		s.stored, s.next = stored, next
	}
	d.wait *= micro
	d.resetAfter *= micro
	if d.retryAfter > 0 {
		d.retryAfter *= micro
	}
	return d, true
}

func (s *warmUpState) refund(p *params, now, _, n, debit int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false
	}
	if now /= micro; s.next > now {
		s.next = max(now, s.next-debit)
		s.stored = math.Min(p.warm.stored, s.stored+float64(n))
	}
	return true
}

// migrate carries over the debt in permits and the stored permits in proportion, as Guava's setRate does.
func (s *warmUpState) migrate(from, to *params, now int64) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	if to.spec.Algorithm != WarmUp {
		return to.newState()
	}
	now /= micro
	stored, next := from.accrue(s.stored, s.next, now)
	debt := math.Ceil(float64(next-now) / from.warm.stable * to.warm.stable)
	return &warmUpState{
		stored: stored / from.warm.stored * to.warm.stored,
		next: now +
			int64(math.Min(debt, to.warm.tolerance+float64(to.maxWait/micro)+float64(to.maxCost)*to.warm.cold)),
	}
}

func (s *warmUpState) idle(p *params, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.coldIn(s.stored, s.next, now/micro) <= 0
}
