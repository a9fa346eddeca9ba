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
	probed   atomic.Bool // Run probes and says when Redis is back; callers need not
	probeAt  atomic.Int64
	openedAt atomic.Int64
	era      atomic.Int64 // rises when Redis may have missed, or forgotten, what was granted
	eraAt    atomic.Int64 // when it rose; 0 = never
	only     atomic.Int64 // the era in which it was out of reach of this process only
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
		if !b.probed.Load() {
			b.back(false)
		}
		return
	}
	if b.failures.Add(1) >= b.tolerates && !b.open.Load() {
		now := b.clock.now()
		b.probeAt.Store(now + int64(b.pause))
		b.openedAt.Store(now)
		b.newEra() // first, so that what is granted while it is open belongs to this era
		if b.open.CompareAndSwap(false, true) {
			b.changed(false, err)
		}
	}
}

func (b *breaker) newEra() {
	b.eraAt.Store(b.clock.now())
	b.era.Add(1)
}

// back lets callers ask Redis again. only is whether others did all the time.
func (b *breaker) back(only bool) {
	if only {
		b.only.Store(b.era.Load())
	}
	if b.open.Load() && b.open.CompareAndSwap(true, false) {
		b.changed(true, nil)
	}
}
