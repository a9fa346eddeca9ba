package ratelimit

// The fixed window's state is one number, window*(rate+1)+count, so that it can be swapped atomically. Windows are counted
// from the Unix epoch, which every process and Redis have in common.

func (p *params) unpackWindow(v, now int64) (window, count int64) {
	window = now / p.period
	if at := v / (p.rate + 1); at >= window { // >: the clock went back, the later window still counts
		return at, v % (p.rate + 1)
	}
	return window, 0
}

func (p *params) packWindow(window, count int64) int64 { return window*(p.rate+1) + count }

func (p *params) decideWindow(v, now int64, q ask) (int64, answer) {
	window, count := p.unpackWindow(v, now)
	a := answer{left: p.rate - count, stamp: window * p.period}
	a.give = min(q.n, a.left)
	end := (window+1)*p.period - now
	if count > 0 {
		a.reset = end
	}
	if a.give < q.least || q.n == 0 {
		a.granted, a.give = q.n == 0, 0
		if least := max(q.least, 1); least > p.rate {
			a.retry = int64(Never)
		} else if least > a.left {
			a.retry = end
		}
		return v, a
	}
	a.granted, a.reset = true, end
	a.left -= a.give
	return p.packWindow(window, count+a.give), a
}

// undoWindow gives n permits back to the window in which they were taken.
func (p *params) undoWindow(v, stamp, now, n int64) int64 {
	window, count := p.unpackWindow(v, now)
	if stamp/p.period != window {
		return v
	}
	return p.packWindow(window, max(0, count-n))
}

// convertWindow carries the count over, if its window still runs.
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

// ceilShare is n*to/of, rounded up.
func ceilShare(n, to, of int64) int64 {
	whole, rest := n/of, n%of
	return whole*to + ceilDiv(rest*to, of) // rest < of <= 1e9 and to <= 1e9: no overflow
}
