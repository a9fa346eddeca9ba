package redisless

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// Intervals of a Watch.
const (
	watchEvery   = 200 * time.Millisecond // while an activity has a degraded sale
	idleEvery    = time.Second            // while none has
	watchTimeout = time.Second            // of one reading of a gate
	watchAtOnce  = 16                     // gates that are read at a time
	// The gates of sales that start later than in nearBefore are read each farEvery: nothing is sold there yet, and a
	// merchant may plan many.
	nearBefore = 10 * time.Minute
	farEvery   = time.Minute
)

// WatchedSales is what a Watch reads and writes in the tables.
type WatchedSales interface {
	Now(ctx context.Context) (time.Time, error)
	// DegradedActivities returns the activities that are published or paused, have not ended and have a degraded sale, and
	// those whose mode is not gate.
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

	// Of Run, which is one goroutine.
	near, far []core.Activity
	listedAt  time.Time
	farAt     time.Time // when the gates of far were read

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
		return len(w.near), err
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
	write, cancelWrite := context.WithTimeout(ctx, watchTimeout) // also if some gates have used up the time
	defer cancelWrite()
	return len(w.near), w.sales.NoteGates(write, now, figuresAt, unlanded)
}

// activities returns the activities whose gates are due. The list is read once in idleEvery.
func (w *Watch) activities(ctx context.Context, now time.Time) ([]core.Activity, error) {
	if age := now.Sub(w.listedAt); age < 0 || age >= idleEvery {
		list, err := w.sales.DegradedActivities(ctx, now)
		if err != nil {
			return nil, err
		}
		w.near, w.far, w.listedAt = nil, nil, now
		for _, a := range list {
			if a.UsesGate() && a.StartsAt.After(now.Add(nearBefore)) {
				w.far = append(w.far, a)
			} else {
				w.near = append(w.near, a)
			}
		}
		w.setModes(list)
	}
	if age := now.Sub(w.farAt); age >= 0 && age < farEvery {
		return w.near, nil
	}
	w.farAt = now
	return slices.Concat(w.near, w.far), nil
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
	if ctx.Err() != nil {
		return nil, ctx.Err() // the round had no time for this gate
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
