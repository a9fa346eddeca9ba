package ratelimit

import (
	"sync/atomic"
	"time"
)

// breaker keeps callers from waiting for a Redis that is not there. Some failures in a row open it; then nobody asks Redis
// but a probe now and then, whose success closes it.
type breaker struct {
	threshold  int64         // failures in a row
	probeEvery time.Duration // between probes
	onChange   func(up bool, cause error)

	failures        atomic.Int64
	open            atomic.Bool
	runProbes       atomic.Bool // Run probes and says when Redis is back; callers need not
	nextProbe       atomic.Int64
	openedAt        atomic.Int64
	generation      atomic.Int64 // rises when Redis may have missed, or forgotten, what was granted
	generationSince atomic.Int64 // when it rose; 0 = never
	aloneGeneration atomic.Int64 // the era in which it was out of reach of this process only
	clock           clock
}

// ask says whether the caller may ask Redis.
func (b *breaker) allow() bool {
	if !b.open.Load() {
		return true
	}
	if b.runProbes.Load() {
		return false
	}
	at, now := b.nextProbe.Load(), b.clock.now()
	return now >= at && b.nextProbe.CompareAndSwap(at, now+int64(b.probeEvery))
}

// done takes the outcome of a call.
func (b *breaker) record(err error) {
	if err == nil {
		b.failures.Store(0)
		if !b.runProbes.Load() {
			b.close(false)
		}
		return
	}
	if b.failures.Add(1) >= b.threshold && !b.open.Load() {
		now := b.clock.now()
		b.nextProbe.Store(now + int64(b.probeEvery))
		b.openedAt.Store(now)
		b.newGeneration() // first, so that what is granted while it is open belongs to this era
		if b.open.CompareAndSwap(false, true) {
			b.onChange(false, err)
		}
	}
}

func (b *breaker) newGeneration() {
	b.generationSince.Store(b.clock.now())
	b.generation.Add(1)
}

// back lets callers ask Redis again. only is whether others did all the time.
func (b *breaker) close(alone bool) {
	if alone {
		b.aloneGeneration.Store(b.generation.Load())
	}
	if b.open.Load() && b.open.CompareAndSwap(true, false) {
		b.onChange(true, nil)
	}
}
