package ratelimit

import (
	"sync"
	"sync/atomic"
)

// state is what one key has spent.
type state interface {
	// take decides at now (ns since 1970) and charges. ok is false after migrate: the caller uses the new state.
	take(p *params, now int64, q query) (d decision, ok bool)
	// refund returns n permits that were taken with stamp for the price debit.
	refund(p *params, now, stamp, n, debit int64) (ok bool)
	// migrate ends this state and returns its successor under the limit to.
	migrate(from, to *params, now int64) state
	// idle reports whether the state is equivalent to a new one.
	idle(p *params, now int64) bool
}

func (p *params) newState() state {
	switch p.spec.Algorithm {
	case SlidingWindow:
		return &bucketRing{slots: make([]slot, p.buckets+1)}
	case SlidingLog:
		return &permitLog{}
	case WarmUp:
		return &warmUpState{stored: p.warm.stored}
	default:
		return &atomicState{}
	}
}

// migrated is the value of an atomicState after migrate. No valid state is negative.
const migrated = -1

// atomicState is a state of one number, changed by compare-and-swap.
type atomicState struct{ v atomic.Int64 }

func (s *atomicState) take(p *params, now int64, q query) (d decision, ok bool) {
	for {
		old := s.v.Load()
		if old == migrated {
			return decision{}, false
		}
		var next int64
		if p.spec.Algorithm == FixedWindow {
			next, d = p.decideWindow(old, now, q)
		} else {
			next, d = p.decideArrival(old, now, q)
		}
		if d.granted == 0 || q.dryRun || s.v.CompareAndSwap(old, next) {
			return d, true
		}
	}
}

func (s *atomicState) refund(p *params, now, stamp, n, _ int64) bool {
	for {
		old := s.v.Load()
		if old == migrated {
			return false
		}
		var next int64
		if p.spec.Algorithm == FixedWindow {
			next = p.refundWindow(old, stamp, now, n)
		} else {
			next = p.refundArrival(old, now, stamp, n)
		}
		if next == old || s.v.CompareAndSwap(old, next) {
			return true
		}
	}
}

func (s *atomicState) migrate(from, to *params, now int64) state {
	v := s.v.Swap(migrated)
	next := &atomicState{}
	switch {
	case from.spec.Algorithm != FixedWindow && to.spec.Algorithm.Reserves() && to.spec.Algorithm != WarmUp:
		next.v.Store(to.convertArrival(from, v, now))
	case from.spec.Algorithm == FixedWindow && to.spec.Algorithm == FixedWindow:
		next.v.Store(to.convertWindow(from, v, now))
	default:
		return to.newState()
	}
	return next
}

func (s *atomicState) idle(p *params, now int64) bool {
	v := s.v.Load()
	if p.spec.Algorithm == FixedWindow {
		return v/(p.rate+1) < now/p.period
	}
	return v <= now
}

// lockedState is embedded in the states that have more than one number.
type lockedState struct {
	mu      sync.Mutex
	retired bool
}
