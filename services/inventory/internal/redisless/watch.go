package redisless

import (
	"context"
	"errors"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// WatchedBefore is how long before its start a sale is watched. Nothing is sold before, and a merchant may plan many.
const WatchedBefore = 10 * time.Minute

// Intervals of a Watch.
const (
	watchEvery   = 200 * time.Millisecond // while an activity has a degraded sale
	idleEvery    = time.Second            // while none has
	watchTimeout = time.Second            // of one reading of a gate
	watchAtOnce  = 16                     // gates that are read at a time
)

// WatchedSales is what a Watch reads and writes in the tables.
type WatchedSales interface {
	Now(ctx context.Context) (time.Time, error)
	// DegradedActivities returns the activities that have a degraded sale, are published or paused, start within
	// WatchedBefore and have not ended, and those whose mode is not gate.
	DegradedActivities(ctx context.Context, now time.Time) ([]core.Activity, error)
	// NoteGates records a reading of gates, unless there is a later one: when they were seen and their figures read, and by
	// activity and SKU the units that had not landed.
	NoteGates(ctx context.Context, seen, figuresAt time.Time, unlanded map[string]map[string]int64) error
}

// WatchedGate is what a Watch reads in the gates.
type WatchedGate interface {
	Now(ctx context.Context) (time.Time, error) // Redis's clock, which stamps reservations
	Audit(ctx context.Context, activityID string) (core.GateAudit, error)
}

// Watch reads the gates of the activities that have a degraded sale. It notes when each last responded, and the units
// that had not landed then. It is safe for concurrent use.
type Watch struct {
	sales WatchedSales
	gate  WatchedGate

	list     []core.Activity // of Run, which is one goroutine
	listedAt time.Time

	mu       sync.Mutex
	contacts map[string]contact // by activity
	modes    map[string]contract.SaleMode
	count    map[contract.SaleMode]int64
}

// contact is since when a gate responds, or does not. One of the two is zero. The times are of this process.
type contact struct{ reachedSince, lostSince time.Time }

// NewWatch makes the watch.
func NewWatch(sales WatchedSales, gate WatchedGate) *Watch {
	return &Watch{sales: sales, gate: gate, contacts: map[string]contact{}}
}

// Run reads the gates until ctx ends. observe is called with the error of each round.
func (w *Watch) Run(ctx context.Context, observe func(error)) error {
	for {
		n, err := w.round(ctx)
		if ctx.Err() == nil {
			observe(err)
		}
		pause := idleEvery
		if n > 0 {
			pause = watchEvery
		}
		if core.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// round reads each gate once and returns their number.
func (w *Watch) round(ctx context.Context) (int, error) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := w.sales.Now(bounded) // before the gates are read
	if err != nil {
		return 0, err
	}
	activities, err := w.activities(bounded, now)
	if err != nil || len(activities) == 0 {
		return 0, err
	}
	call, cancelCall := context.WithTimeout(bounded, watchTimeout)
	defer cancelCall()
	figuresAt, timeErr := w.gate.Now(call) // before the audits
	var mu sync.Mutex
	unlanded := map[string]map[string]int64{}
	slots := make(chan struct{}, watchAtOnce)
	var reading sync.WaitGroup
	for _, a := range activities {
		slots <- struct{}{}
		reading.Go(func() {
			defer func() { <-slots }()
			units, err := w.read(bounded, a, timeErr)
			if err == nil {
				mu.Lock()
				unlanded[a.ID] = units
				mu.Unlock()
			}
		})
	}
	reading.Wait()
	return len(activities), w.sales.NoteGates(bounded, now, figuresAt, unlanded)
}

// activities returns the activities to watch. They are read once in idleEvery.
func (w *Watch) activities(ctx context.Context, now time.Time) ([]core.Activity, error) {
	if age := now.Sub(w.listedAt); age >= 0 && age < idleEvery {
		return w.list, nil
	}
	list, err := w.sales.DegradedActivities(ctx, now)
	if err != nil {
		return nil, err
	}
	w.list, w.listedAt = list, now
	w.setModes(list)
	return list, nil
}

// setModes replaces the modes of the last reading.
func (w *Watch) setModes(activities []core.Activity) {
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

// read reads one gate and returns its units that have not landed. An absent gate has responded; its figures are unknown.
// failed is an earlier error of this round that concerns all gates.
func (w *Watch) read(ctx context.Context, a core.Activity, failed error) (map[string]int64, error) {
	call, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	var audit core.GateAudit
	err := failed
	if err == nil {
		audit, err = w.gate.Audit(call, a.ID)
	}
	w.note(a.ID, !errors.Is(err, core.ErrGateUnavailable))
	if err != nil {
		return nil, err // which the gate controller reports
	}
	unlanded := map[string]int64{}
	for sku, g := range audit.SKUs {
		if n := g.Journal + g.InFlight; n > 0 {
			unlanded[sku] = n
		}
	}
	return unlanded, nil
}

// note records whether a gate has responded.
func (w *Watch) note(activityID string, responded bool) {
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
func (w *Watch) lost(activityID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.contacts[activityID].lostSince
	return !since.IsZero() && time.Since(since) >= lostAfter //nolint:forbidigo // as in note
}

// steady reports whether the gate has responded for steadyAfter.
func (w *Watch) steady(activityID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.contacts[activityID].reachedSince
	return !since.IsZero() && time.Since(since) >= steadyAfter //nolint:forbidigo // as in note
}

// UsesGate reports whether the mode of an activity was gate when this process last read the modes. It is false before
// that, and may be outdated: what must not be wrong reads the mode from the database if it is false.
func (w *Watch) UsesGate(activityID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.modes == nil {
		return false
	}
	mode, degraded := w.modes[activityID]
	return !degraded || mode == contract.ModeGate
}

// Count returns the number of activities with a degraded sale that have this mode.
func (w *Watch) Count(mode contract.SaleMode) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[mode]
}
