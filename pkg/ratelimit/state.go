package ratelimit

import (
	"sync"
	"sync/atomic"
)

// state is what one key has spent.
type state interface {
	// take decides at now (ns since 1970) and charges. ok is false once the state was frozen; the caller looks for the
	// one that took its place.
	take(p *params, now int64, q query) (d decision, ok bool)
	// undo gives back n permits that were taken at stamp for debit.
	undo(p *params, now, stamp, n, debit int64) (ok bool)
	// freeze ends this state and makes the one that carries on under to.
	freeze(from, to *params, now int64) state
	// idle is whether the state says no more than no state would.
	idle(p *params, now int64) bool
}

func (p *params) newState() state {
	switch p.spec.Algorithm {
	case SlidingWindow:
		return &ring{slots: make([]slot, p.buckets+1)}
	case SlidingLog:
		return &timeline{}
	case WarmUp:
		return &warmth{stored: p.warm.stored}
	default:
		return &word{}
	}
}

// frozen is a word that was moved elsewhere. No real state is negative.
const frozen = -1

// word is a state of one number, changed by compare-and-swap: no locks.
type word struct{ v atomic.Int64 }

func (w *word) take(p *params, now int64, q query) (d decision, ok bool) {
	for {
		old := w.v.Load()
		if old == frozen {
			return decision{}, false
		}
		var next int64
		if p.spec.Algorithm == FixedWindow {
			next, d = p.decideWindow(old, now, q)
		} else {
			next, d = p.decideArrival(old, now, q)
		}
		if d.granted == 0 || q.dry || w.v.CompareAndSwap(old, next) {
			return d, true
		}
	}
}

func (w *word) undo(p *params, now, stamp, n, _ int64) bool {
	for {
		old := w.v.Load()
		if old == frozen {
			return false
		}
		var next int64
		if p.spec.Algorithm == FixedWindow {
			next = p.undoWindow(old, stamp, now, n)
		} else {
			next = p.undoArrival(old, now, n)
		}
		if next == old || w.v.CompareAndSwap(old, next) {
			return true
		}
	}
}

func (w *word) freeze(from, to *params, now int64) state {
	v := w.v.Swap(frozen)
	next := &word{}
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

func (w *word) idle(p *params, now int64) bool {
	v := w.v.Load()
	if p.spec.Algorithm == FixedWindow {
		return v/(p.rate+1) < now/p.period
	}
	return v <= now
}

// locked is what the states with more than one number have in common.
type locked struct {
	mu   sync.Mutex
	gone bool
}
