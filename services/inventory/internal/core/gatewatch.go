package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// Intervals of the GateWatch.
const (
	watchEvery   = 200 * time.Millisecond // while an activity has a degraded sale
	idleEvery    = time.Second            // while none has
	watchTimeout = time.Second            // of one reading of a gate
	watchAtOnce  = 16                     // gates that are read at a time
)

// GateWatch reads the gates of the activities that have a degraded sale. It notes when each last responded, and the units
// that had not landed then. It is safe for concurrent use.
type GateWatch struct {
	store Store
	gate  Gate

	mu       sync.Mutex
	contacts map[string]contact // by activity
	modes    map[string]contract.SaleMode
	count    map[contract.SaleMode]int64
}

// contact is since when a gate responds, or does not. One of the two is zero. The times are of this process.
type contact struct{ reachedSince, lostSince time.Time }

// NewGateWatch makes the watch.
func NewGateWatch(store Store, gate Gate) *GateWatch {
	return &GateWatch{store: store, gate: gate, contacts: map[string]contact{}}
}

// Run reads the gates until ctx ends. observe is called with the error of each round.
func (w *GateWatch) Run(ctx context.Context, observe func(error)) error {
	for {
		n, err := w.round(ctx)
		if ctx.Err() == nil {
			observe(err)
		}
		pause := idleEvery
		if n > 0 {
			pause = watchEvery
		}
		if Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// round reads each gate once and returns their number.
func (w *GateWatch) round(ctx context.Context) (int, error) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := w.store.Now(bounded) // before the gates are read
	if err != nil {
		return 0, err
	}
	activities, err := w.store.DegradedActivities(bounded, now)
	if err != nil {
		return 0, err
	}
	w.setModes(activities)
	errs := make([]error, len(activities))
	slots := make(chan struct{}, watchAtOnce)
	var reading sync.WaitGroup
	for i, a := range activities {
		slots <- struct{}{}
		reading.Go(func() {
			defer func() { <-slots }()
			errs[i] = w.read(bounded, a, now)
		})
	}
	reading.Wait()
	return len(activities), errors.Join(errs...)
}

// setModes replaces the modes of the last reading.
func (w *GateWatch) setModes(activities []Activity) {
	modes, count := make(map[string]contract.SaleMode, len(activities)), map[contract.SaleMode]int64{}
	for _, a := range activities {
		modes[a.ID] = a.Mode
		count[a.Mode]++
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.modes, w.count = modes, count
	for id := range w.contacts {
		if _, is := modes[id]; !is {
			delete(w.contacts, id)
		}
	}
}

// read reads one gate. An absent gate has responded; its figures are unknown.
func (w *GateWatch) read(ctx context.Context, a Activity, now time.Time) error {
	call, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	figuresAt, err := w.gate.Now(call) // before the audit
	var audit GateAudit
	if err == nil {
		audit, err = w.gate.Audit(call, a.ID)
	}
	w.note(a.ID, !errors.Is(err, ErrGateUnavailable))
	if err != nil {
		return nil //nolint:nilerr // the gate controller reports gates that cannot be read
	}
	unlanded := map[string]int64{}
	for sku, g := range audit.SKUs {
		if n := g.Journal + g.InFlight; n > 0 {
			unlanded[sku] = n
		}
	}
	return w.store.NoteGate(ctx, a.ID, DirectSale{SeenAt: now, FiguresAt: figuresAt, Unlanded: unlanded})
}

// note records whether a gate has responded.
func (w *GateWatch) note(activityID string, responded bool) {
	now := time.Now() //nolint:forbidigo // measures only for how long it responds
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.contacts[activityID]
	switch {
	case responded && c.reachedSince.IsZero():
		c = contact{reachedSince: now}
	case !responded && c.lostSince.IsZero():
		c = contact{lostSince: now}
	}
	w.contacts[activityID] = c
}

// lost reports whether the gate has not responded for lostAfter.
func (w *GateWatch) lost(activityID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.contacts[activityID].lostSince
	return !since.IsZero() && time.Since(since) >= lostAfter //nolint:forbidigo // as in note
}

// steady reports whether the gate has responded for steadyAfter.
func (w *GateWatch) steady(activityID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.contacts[activityID].reachedSince
	return !since.IsZero() && time.Since(since) >= steadyAfter //nolint:forbidigo // as in note
}

// usesGate reports whether the mode of an activity was gate when this process last read the modes. It is false before
// that, and may be outdated: what must not be wrong reads the mode from the database if it is false.
func (w *GateWatch) usesGate(activityID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.modes == nil {
		return false
	}
	mode, degraded := w.modes[activityID]
	return !degraded || mode == contract.ModeGate
}

// Count returns the number of activities with a degraded sale that have this mode.
func (w *GateWatch) Count(mode contract.SaleMode) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[mode]
}
