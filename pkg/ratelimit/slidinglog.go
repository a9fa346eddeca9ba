package ratelimit

import "sort"

// permitLog is the state of a sliding log: the time of each permit, oldest first, in a ring that grows to at most Rate
// entries. A permit counts for exactly one Period after it was taken.
type permitLog struct {
	lockedState
	at    []int64 // the length is 0 or a power of two
	first int     // index of the oldest entry
	n     int
}

func (s *permitLog) get(i int) int64 { return s.at[(s.first+i)&(len(s.at)-1)] }

// effectiveNow returns now, or the time of the newest permit if the clock went back.
func (s *permitLog) effectiveNow(now int64) int64 {
	if s.n > 0 {
		now = max(now, s.get(s.n-1))
	}
	return now
}

// expired returns the number of oldest entries that no longer count at t.
func (s *permitLog) expired(p *params, t int64) int {
	return sort.Search(s.n, func(i int) bool { return s.get(i) > t-p.period })
}

func (s *permitLog) take(p *params, now int64, q query) (d decision, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return d, false
	}
	t := s.effectiveNow(now)
	d.stamp = t
	old := s.expired(p, t)
	live := int64(s.n - old)
	d.remaining = max(0, p.rate-live)
	d.granted = min(q.n, d.remaining)
	if live > 0 {
		d.resetAfter = s.get(s.n-1) + p.period - now
	}
	if d.granted < q.least || q.n == 0 {
		d.ok, d.granted = q.n == 0, 0
		if least := max(q.least, 1); least > p.rate {
			d.retryAfter = int64(Never)
		} else if must := live + least - p.rate; must > 0 {
			d.retryAfter = s.get(old+int(must)-1) + p.period - now
		}
		return d, true
	}
	d.ok = true
	d.remaining -= d.granted
	d.resetAfter = t + p.period - now
	if q.dryRun {
		return d, true
	}
	if s.n > 0 {
		s.first = (s.first + old) & (len(s.at) - 1)
	}
	s.n = int(live)
	for range d.granted {
		s.push(t)
	}
	return d, true
}

func (s *permitLog) push(t int64) {
	if s.n == len(s.at) {
		grown := make([]int64, max(8, 2*len(s.at)))
		for i := range s.n {
			grown[i] = s.get(i)
		}
		s.at, s.first = grown, 0
	}
	s.at[(s.first+s.n)&(len(s.at)-1)] = t
	s.n++
}

// refund removes n permits that were taken at stamp.
func (s *permitLog) refund(_ *params, _, stamp, n, _ int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false
	}
	from := sort.Search(s.n, func(i int) bool { return s.get(i) >= stamp })
	to := sort.Search(s.n, func(i int) bool { return s.get(i) > stamp })
	cut := min(int(n), to-from)
	for i := to; i < s.n && cut > 0; i++ {
		s.at[(s.first+i-cut)&(len(s.at)-1)] = s.get(i)
	}
	s.n -= cut
	return true
}

func (s *permitLog) migrate(_, to *params, _ int64) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	if to.spec.Algorithm != SlidingLog {
		return to.newState()
	}
	return &permitLog{at: s.at, first: s.first, n: s.n}
}

func (s *permitLog) idle(p *params, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n == 0 || s.get(s.n-1) <= now-p.period
}
