package ratelimit

// decideArrival implements TokenBucket, GCRA, LeakyBucket and LeakyQueue. The state is one number, the theoretical
// arrival time (tat): the time at which all granted permits will have been earned. tat <= now means that the bucket is
// full. After the clock went back, tat is further ahead, so nothing is refilled twice.
func (p *params) decideArrival(tat, now int64, q query) (int64, decision) {
	tat = max(tat, now)
	free := now + p.tolerance - tat // ns of permits available; negative if reserved ahead
	give := q.n
	if give > p.maxCost || give*p.perPermit > free+q.wait {
		give = 0
		if q.least < q.n {
			give = min(q.n, p.maxCost, max(0, free+q.wait)/p.perPermit)
		}
	}
	if give < q.least || q.n == 0 {
		return tat, p.refuseArrival(free, tat-now, q)
	}
	cost := give * p.perPermit
	d := decision{ok: true, granted: give, wait: max(0, cost-free), resetAfter: tat - now + cost, stamp: tat}
	if free-cost >= p.perPermit { // the condition saves a division, which costs as much as the rest of this function
		d.remaining = (free - cost) / p.perPermit
	}
	return tat + cost, d
}

// refuseArrival returns the decision for a refusal or a peek.
func (p *params) refuseArrival(free, reset int64, q query) decision {
	d := decision{ok: q.n == 0, resetAfter: reset}
	if free >= p.perPermit {
		d.remaining = free / p.perPermit
	}
	least := max(q.least, 1)
	d.retryAfter = max(0, least*p.perPermit-free-q.wait)
	if least > p.maxCost || (q.n > 0 && least*p.perPermit > p.tolerance+q.wait) {
		d.retryAfter = int64(Never) // more than even a full bucket can grant
	}
	return d
}

// refundArrival refunds n permits that were granted when the arrival time was stamp. From then on the bucket has earned
// them, and without the grant it would have been full: that time is not refunded again. The result is exact if nothing
// was granted or refunded since. Later grants make it too little. If grants before this one were refunded since, it may
// be too much, by what is earned between grant and refund.
func (p *params) refundArrival(tat, now, stamp, n int64) int64 {
	unearned := n*p.perPermit - max(0, now-stamp)
	if tat <= now || unearned <= 0 {
		return tat
	}
	return max(now, tat-unearned)
}

// refundable reports whether a grant can be refunded. After a change of the limit it cannot: the state was converted, and
// no longer shows what the grant has changed.
func (p *params) refundable(granted Result) bool { return granted.Granted > 0 && granted.by == p }

// convertArrival carries the spent permits over from another limit. No key is locked out for longer than the longest
// reservation that the new limit allows.
func (p *params) convertArrival(from *params, tat, now int64) int64 {
	if tat <= now {
		return tat
	}
	return now + min(p.carryOver(from, tat-now), p.tolerance+p.maxWait)
}

// carryOver returns the time in which what is owed under another limit is earned, both in ns.
func (p *params) carryOver(from *params, owed int64) int64 {
	scale := float64(p.perPermit) / float64(from.perPermit)
	if p.spec.Inherit == InProportion {
		scale = float64(p.tolerance) / float64(from.tolerance)
	}
	return int64(min(float64(owed)*scale+0.5, float64(maxHorizon)))
}
