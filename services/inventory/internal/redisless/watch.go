package redisless

import (
	"context"
	"errors"
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
)

// WatchedSales is what a Watch reads and writes in the tables.
type WatchedSales interface {
	Now(ctx context.Context) (time.Time, error)
	// DegradedActivities returns the activities that are published or paused, have not ended and have a degraded sale, and
	// those whose mode is not gate.
	DegradedActivities(ctx context.Context, now time.Time) ([]core.Activity, error)
	// NoteGate records a reading of the gate, unless there is a later one.
	NoteGate(ctx context.Context, activityID string, read core.RedislessSale) error
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
	activities, err := w.sales.DegradedActivities(bounded, now)
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

// read reads one gate. An absent gate has responded; its figures are unknown.
func (w *Watch) read(ctx context.Context, a core.Activity, now time.Time) error {
	call, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	figuresAt, err := w.gate.Now(call) // before the audit
	var audit core.GateAudit
	if err == nil {
		audit, err = w.gate.Audit(call, a.ID)
	}
	w.note(a.ID, !errors.Is(err, core.ErrGateUnavailable))
	if err != nil {
		return nil //nolint:nilerr // the gate controller reports gates that cannot be read
	}
	unlanded := map[string]int64{}
	for sku, g := range audit.SKUs {
		if n := g.Journal + g.InFlight; n > 0 {
			unlanded[sku] = n
		}
	}
	return w.sales.NoteGate(ctx, a.ID, core.RedislessSale{SeenAt: now, FiguresAt: figuresAt, Unlanded: unlanded})
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
