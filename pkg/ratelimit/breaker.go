package ratelimit

import (
	"sync/atomic"
	"time"
)

// breaker keeps callers from waiting for a Redis that is not there. Some failures in a row open it; then nobody asks Redis
// but a probe now and then, whose success closes it.
type breaker struct {
	tolerates int64         // failures in a row
	pause     time.Duration // between probes
	changed   func(up bool, cause error)

	failures atomic.Int64
	open     atomic.Bool
	probed   atomic.Bool // somebody else probes, callers need not
	probeAt  atomic.Int64
	clock    clock
}

// ask says whether the caller may ask Redis.
func (b *breaker) ask() bool {
	if !b.open.Load() {
		return true
	}
	if b.probed.Load() {
		return false
	}
	at, now := b.probeAt.Load(), b.clock.now()
	return now >= at && b.probeAt.CompareAndSwap(at, now+int64(b.pause))
}

// done takes the outcome of a call.
func (b *breaker) done(err error) {
	if err == nil {
		b.failures.Store(0)
		if b.open.Load() && b.open.CompareAndSwap(true, false) {
			b.changed(true, nil)
		}
		return
	}
	if b.failures.Add(1) >= b.tolerates && !b.open.Load() {
		b.probeAt.Store(b.clock.now() + int64(b.pause))
		if b.open.CompareAndSwap(false, true) {
			b.changed(false, err)
		}
	}
}
