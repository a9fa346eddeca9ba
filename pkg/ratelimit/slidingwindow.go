package ratelimit

type slot struct{ bucket, count int64 }

// bucketRing is the state of a sliding window: buckets+1 buckets, of which the oldest counts in full. The count always
// covers at least the last Period, so no Period has more than Rate permits.
type bucketRing struct {
	lockedState
	newest int64 // newest bucket with a count
	slots  []slot
}

// current returns the bucket of now, or the newest one if the clock went back.
func (s *bucketRing) current(p *params, now int64) int64 { return max(now/p.width, s.newest) }

func (s *bucketRing) sum(p *params, current int64) (sum int64) {
	for _, b := range s.slots {
		if b.bucket >= current-p.buckets {
			sum += b.count
		}
	}
	return sum
}

func (s *bucketRing) take(p *params, now int64, q query) (d decision, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return d, false
	}
	current := s.current(p, now)
	used := s.sum(p, current)
	d.stamp = current * p.width
	d.remaining = max(0, p.rate-used)
	d.granted = min(q.n, d.remaining)
	for b := current; used > 0 && b >= current-p.buckets; b-- {
		if at := s.slots[b%int64(len(s.slots))]; at.bucket == b && at.count > 0 {
			d.resetAfter = s.expiresAt(p, b) - now
			break
		}
	}
	if d.granted < q.least || q.n == 0 {
		d.ok, d.granted = q.n == 0, 0
		d.retryAfter = s.retry(p, now, current, used, max(q.least, 1))
		return d, true
	}
	d.ok = true
	d.remaining -= d.granted
	d.resetAfter = s.expiresAt(p, current) - now
	if !q.dryRun {
		s.add(current, d.granted)
	}
	return d, true
}

func (s *bucketRing) add(bucket, n int64) {
	at := &s.slots[bucket%int64(len(s.slots))]
	if at.bucket != bucket {
		*at = slot{bucket: bucket}
	}
	at.count += n
	s.newest = max(s.newest, bucket)
}

// expiresAt returns when a bucket no longer counts.
func (s *bucketRing) expiresAt(p *params, bucket int64) int64 {
	return (bucket + p.buckets + 1) * p.width
}

// retry returns the wait after which enough buckets have expired for least permits.
func (s *bucketRing) retry(p *params, now, current, used, least int64) int64 {
	if least > p.rate {
		return int64(Never)
	}
	for b := current - p.buckets; b <= current && used+least > p.rate; b++ {
		if at := s.slots[max(0, b)%int64(len(s.slots))]; at.bucket == b && at.count > 0 {
			if used -= at.count; used+least <= p.rate {
				return s.expiresAt(p, b) - now
			}
		}
	}
	return 0
}

func (s *bucketRing) refund(p *params, _, stamp, n, _ int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false
	}
	b := stamp / p.width
	if at := &s.slots[b%int64(len(s.slots))]; at.bucket == b {
		at.count = max(0, at.count-n)
	}
	return true
}

func (s *bucketRing) migrate(from, to *params, now int64) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	next := to.newState()
	into, same := next.(*bucketRing)
	if !same {
		return next
	}
	current := s.current(from, now)
	scale := func(n int64) int64 {
		if to.spec.Inherit == InProportion {
			n = ceilShare(n, to.rate, from.rate)
		}
		return n
	}
	if from.width == to.width && from.buckets == to.buckets {
		for _, b := range s.slots {
			if b.bucket >= current-from.buckets && b.count > 0 {
				into.add(b.bucket, scale(b.count))
			}
		}
		return next
	}
	sum := int64(0)
	for _, b := range s.slots {
		if b.bucket >= current-from.buckets {
			sum += scale(b.count)
		}
	}
	if sum > 0 { // different buckets: the whole count counts as of now, the strict side
		into.add(max(now/to.width, current*from.width/to.width), sum)
	}
	return next
}

func (s *bucketRing) idle(p *params, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expiresAt(p, s.newest) <= now
}
