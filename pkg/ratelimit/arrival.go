package ratelimit

// decideArrival is TokenBucket, GCRA, LeakyBucket and LeakyQueue on one number: the theoretical arrival time, at which all
// that was granted will have been earned. tat <= now means full. A clock that goes back meets a tat that lies further ahead,
// so it refills nothing twice.
func (p *params) decideArrival(tat, now int64, q query) (int64, decision) {
	tat = max(tat, now)
	free := now + p.tolerance - tat // ns of permits that are there; below 0: reserved ahead
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
	if free-cost >= p.perPermit { // a division costs as much as all the rest
		d.remaining = (free - cost) / p.perPermit
	}
	return tat + cost, d
}

// refuseArrival answers a refusal, or a look.
func (p *params) refuseArrival(free, reset int64, q query) decision {
	d := decision{ok: q.n == 0, resetAfter: reset}
	if free >= p.perPermit {
		d.remaining = free / p.perPermit
	}
	switch least := max(q.least, 1); {
	case least > p.maxCost || (q.n > 0 && least*p.perPermit > p.tolerance+q.wait):
		d.retryAfter = int64(Never) // too much even for one who finds it full
	default:
		d.retryAfter = max(0, least*p.perPermit-free-q.wait)
	}
	return d
}

// refundArrival gives n permits back. What has been refilled meanwhile anyway is not given twice: a tat before now means now.
func (p *params) refundArrival(tat, now, n int64) int64 {
	if tat <= now {
		return tat
	}
	return max(now, tat-n*p.perPermit)
}

// convertArrival carries what is spent over from another limit.
func (p *params) convertArrival(from *params, tat, now int64) int64 {
	debt := tat - now
	if debt <= 0 {
		return tat
	}
	var share float64
	if p.spec.Inherit == InProportion {
		share = float64(debt) / float64(from.tolerance) * float64(p.tolerance)
	} else {
		share = float64(debt) / float64(from.perPermit) * float64(p.perPermit)
	}
	// Nobody is locked out for longer than one who reserved as far ahead as the new limit allows.
	return now + int64(min(share+0.5, float64(p.tolerance)+float64(p.maxWait)))
}
