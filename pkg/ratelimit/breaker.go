package ratelimit

import (
	"sync/atomic"
	"time"
)

// breaker is the circuit breaker in front of Redis. A number of failures in a row opens it. Then callers do not wait
// for Redis; only occasional probes reach it, and the first success closes the breaker.
type breaker struct {
	threshold  int64         // failures in a row that open it
	probeEvery time.Duration // pause between probes
	onChange   func(up bool, cause error)

	failures        atomic.Int64
	open            atomic.Bool
	runProbes       atomic.Bool // Conn.Run probes and closes the breaker; callers do not
	nextProbe       atomic.Int64
	openedAt        atomic.Int64
	generation      atomic.Int64 // incremented when Redis may have missed or lost grants
	generationSince atomic.Int64 // when generation last changed; 0 = never
	partialOutage   atomic.Int64 // the generation of the last outage in which another process could reach Redis
	clock           clock
}

// allow reports whether the caller may call Redis.
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

// record takes the outcome of a call.
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
		b.newGeneration() // before the breaker opens, so that grants without Redis belong to this generation
		if b.open.CompareAndSwap(false, true) {
			b.onChange(false, err)
		}
	}
}

func (b *breaker) newGeneration() {
	b.generationSince.Store(b.clock.now())
	b.generation.Add(1)
}

// close lets callers use Redis again. partial reports whether at least one other process could reach Redis meanwhile.
func (b *breaker) close(partial bool) {
	if partial {
		b.partialOutage.Store(b.generation.Load())
	}
	if b.open.Load() && b.open.CompareAndSwap(true, false) {
		b.onChange(true, nil)
	}
}
