package ratelimit

// The state of a fixed window is one number, window*(rate+1)+count, so that it can be swapped atomically. Windows are
// counted from Unix time 0, which all processes and Redis have in common.

// unpackWindow returns the window that counts at now and the permits spent in it.
func (p *params) unpackWindow(v, now int64) (window, count int64) {
	window = now / p.period
	if at := v / (p.rate + 1); at >= window { // >: the clock went back, and the later window still counts
		return at, v % (p.rate + 1)
	}
	return window, 0
}

func (p *params) packWindow(window, count int64) int64 { return window*(p.rate+1) + count }

func (p *params) decideWindow(v, now int64, q query) (int64, decision) {
	window, count := p.unpackWindow(v, now)
	d := decision{remaining: p.rate - count, stamp: window * p.period}
	d.granted = min(q.n, d.remaining)
	end := (window+1)*p.period - now
	if count > 0 {
		d.resetAfter = end
	}
	if d.granted < q.least || q.n == 0 {
		d.ok, d.granted = q.n == 0, 0
		if least := max(q.least, 1); least > p.rate {
			d.retryAfter = int64(Never)
		} else if least > d.remaining {
			d.retryAfter = end
		}
		return v, d
	}
	d.ok, d.resetAfter = true, end
	d.remaining -= d.granted
	return p.packWindow(window, count+d.granted), d
}

// refundWindow refunds n permits to the window in which they were taken.
func (p *params) refundWindow(v, stamp, now, n int64) int64 {
	window, count := p.unpackWindow(v, now)
	if stamp/p.period != window {
		return v
	}
	return p.packWindow(window, max(0, count-n))
}

// convertWindow carries the count over from another limit if its window has not ended.
func (p *params) convertWindow(from *params, v, now int64) int64 {
	window, count := from.unpackWindow(v, now)
	if window > now/from.period {
		now = window * from.period
	}
	if p.spec.Inherit == InProportion {
		count = ceilShare(count, p.rate, from.rate)
	}
	return p.packWindow(now/p.period, min(count, p.rate))
}

// ceilShare returns n*to/of, rounded up.
func ceilShare(n, to, of int64) int64 {
	whole, rest := n/of, n%of
	return whole*to + ceilDiv(rest*to, of) // rest < of <= 1e9 and to <= 1e9: no overflow
}
