package sweep

import (
	"math/rand/v2"
	"time"
)

// backoffs keeps the growing pauses between attempts by id, an order_sn for example. They start anew with the process,
// which costs one repeated message at most. It is not safe for concurrent use.
type backoffs struct {
	first, limit time.Duration
	byID         map[string]backoff
}

type backoff struct {
	attempts int
	next     time.Time
}

func newBackoffs(first, limit time.Duration) *backoffs {
	return &backoffs{first: first, limit: limit, byID: map[string]backoff{}}
}

// due reports whether the next attempt of an id may be made.
func (b *backoffs) due(id string, now time.Time) bool {
	return !b.byID[id].next.After(now)
}

// attempted begins the next, longer pause of each.
func (b *backoffs) attempted(ids []string, now time.Time) {
	for _, id := range ids {
		x := b.byID[id]
		x.attempts++
		x.next = now.Add(doubled(b.first, b.limit, x.attempts))
		b.byID[id] = x
	}
}

// failed begins the next, longer pause of an id, with jitter.
func (b *backoffs) failed(id string, now time.Time) {
	x := b.byID[id]
	x.attempts++
	x.next = now.Add(jittered(doubled(b.first, b.limit, x.attempts)))
	b.byID[id] = x
}

// succeeded makes the next pause of an id the first one again.
func (b *backoffs) succeeded(id string) { delete(b.byID, id) }

// forgetOld deletes those whose next attempt has been due for two full pauses: none is needed any more.
func (b *backoffs) forgetOld(now time.Time) {
	for id, x := range b.byID {
		if x.next.Add(2 * b.limit).Before(now) {
			delete(b.byID, id)
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

// jittered returns d plus or minus at most a tenth of it, so that attempts that failed together spread.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // no secret depends on it
}
