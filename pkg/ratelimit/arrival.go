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
	d := decision{ok: true, granted: give, wait: max(0, cost-free), resetAfter: tat - now + cost}
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

// refundArrival refunds n permits. What has been refilled since is not refunded again: a tat before now means now.
func (p *params) refundArrival(tat, now, n int64) int64 {
	if tat <= now {
		return tat
	}
	return max(now, tat-n*p.perPermit)
}

// convertArrival carries the spent permits over from another limit.
func (p *params) convertArrival(from *params, tat, now int64) int64 {
	debt := tat - now
	if debt <= 0 {
		return tat
	}
	var carried float64 // ns
	if p.spec.Inherit == InProportion {
		carried = float64(debt) / float64(from.tolerance) * float64(p.tolerance)
	} else {
		carried = float64(debt) / float64(from.perPermit) * float64(p.perPermit)
	}
	// No key is locked out for longer than the longest reservation that the new limit allows.
	return now + int64(min(carried+0.5, float64(p.tolerance)+float64(p.maxWait)))
}
