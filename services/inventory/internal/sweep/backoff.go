package sweep

import "time"

// backoffs keeps the growing pauses between attempts by order_sn. They start anew with the process, which costs one
// repeated message at most. It is not safe for concurrent use.
type backoffs struct {
	first, limit time.Duration
	byOrderSN    map[string]backoff
}

type backoff struct {
	attempts int
	next     time.Time
}

func newBackoffs(first, limit time.Duration) *backoffs {
	return &backoffs{first: first, limit: limit, byOrderSN: map[string]backoff{}}
}

// due reports whether the next attempt of an order_sn may be made.
func (b *backoffs) due(orderSN string, now time.Time) bool {
	return !b.byOrderSN[orderSN].next.After(now)
}

// attempted begins the next, longer pause of each.
func (b *backoffs) attempted(orderSNs []string, now time.Time) {
	for _, sn := range orderSNs {
		x := b.byOrderSN[sn]
		x.attempts++
		x.next = now.Add(doubled(b.first, b.limit, x.attempts))
		b.byOrderSN[sn] = x
	}
}

// forgetOld deletes those whose next attempt has been due for two full pauses: the purchase needs no attempt any more.
func (b *backoffs) forgetOld(now time.Time) {
	for sn, x := range b.byOrderSN {
		if x.next.Add(2 * b.limit).Before(now) {
			delete(b.byOrderSN, sn)
		}
	}
}

// doubled returns first doubled so many times, limit at most.
func doubled(first, limit time.Duration, times int) time.Duration {
	d := first
	for i := 0; i < times && d < limit; i++ {
		d *= 2
	}
	return min(d, limit)
}
