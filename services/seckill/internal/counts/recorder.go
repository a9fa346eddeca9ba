// Package counts counts path and purchase requests by activity in memory and adds the counts to the gates once a
// second.
package counts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/stockgate"
)

// Bounds of a Recorder.
const (
	flushEvery    = time.Second
	maxActivities = 1024
	idleAfter     = time.Minute      // without a request; then the activity is removed from memory
	giveUpAfter   = 15 * time.Minute // for counts that Redis did not take
)

// Gate holds the method of *stockgate.Gate that a Recorder uses.
type Gate interface {
	AddCounts(ctx context.Context, activityID, source string, c stockgate.RequestCounts) error
}

// Options are the options of a Recorder.
type Options struct {
	// Source names the process: 1 to 64 of a-z 0-9 _ -. No other process may have the same one.
	Source string
	// Known reports whether an activity exists, from memory. Refusals of unknown activities are not counted: callers may
	// send any id.
	Known func(activityID string) bool
	// Now returns Redis time.
	Now func(ctx context.Context) time.Time
	Log *slog.Logger
}

// Recorder counts in memory. Run, its only goroutine, adds the counts to the gates.
type Recorder struct {
	Options
	gate Gate

	mu         sync.RWMutex // held for reading while a request is counted
	activities map[string]*activity
}

// activity holds the counts of one activity since the last flush.
type activity struct {
	accepted, paths, solved, failed atomic.Int64
	refused                         sync.Map // contract.Code -> *atomic.Int64

	// The fields below belong to Run.
	pending *stockgate.RequestCounts // taken, and not known to be in Redis: sent again unchanged, because it counts once
	last    time.Time                // the second of the latest taken counts
	usedAt  time.Time                // the last flush that found a request
}

// NewRecorder returns a Recorder; Run makes it write.
func NewRecorder(gate Gate, o Options) *Recorder {
	return &Recorder{Options: o, gate: gate, activities: map[string]*activity{}}
}

// Path counts an issued path.
func (r *Recorder) Path(activityID string) {
	r.count(activityID, true, func(a *activity) { a.paths.Add(1) })
}

// Solved counts a solved challenge.
func (r *Recorder) Solved(activityID string) {
	r.count(activityID, true, func(a *activity) { a.solved.Add(1) })
}

// Failed counts a wrong answer to a challenge.
func (r *Recorder) Failed(activityID string) {
	r.count(activityID, true, func(a *activity) { a.failed.Add(1) })
}

// Accepted counts an accepted purchase.
func (r *Recorder) Accepted(activityID string) {
	r.count(activityID, true, func(a *activity) { a.accepted.Add(1) })
}

// Refused counts a refused path or purchase request.
func (r *Recorder) Refused(activityID string, code contract.Code) {
	r.count(activityID, false, func(a *activity) {
		n, ok := a.refused.Load(code)
		if !ok {
			n, _ = a.refused.LoadOrStore(code, new(atomic.Int64))
		}
		n.(*atomic.Int64).Add(1)
	})
}

// count calls add for the counters of the activity. exists is whether the request proves that the activity exists.
func (r *Recorder) count(activityID string, exists bool, add func(*activity)) {
	r.mu.RLock()
	a := r.activities[activityID]
	if a != nil {
		add(a)
	}
	r.mu.RUnlock()
	if a != nil || !exists && !r.Known(activityID) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a = r.activities[activityID]; a == nil {
		if len(r.activities) >= maxActivities {
			return
		}
		a = &activity{usedAt: time.Now()}
		r.activities[activityID] = a
	}
	add(a)
}

// Run adds the counts to the gates once a second until ctx ends, and then for the last time.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := lifecycle.DrainContext(ctx)
			defer cancel()
			r.flush(last)
			return nil
		case <-tick.C:
			r.flush(ctx)
		}
	}
}

// flush adds what was counted since the last flush. While Redis does not respond, it makes one call and leaves the
// others for the next second.
func (r *Recorder) flush(ctx context.Context) {
	now := r.Now(ctx)
	r.mu.RLock()
	ids := make([]string, 0, len(r.activities))
	for id := range r.activities {
		ids = append(ids, id)
	}
	r.mu.RUnlock()
	for _, id := range ids {
		if err := r.flushOne(ctx, id, now); errors.Is(err, stockgate.ErrUnavailable) {
			return
		}
	}
}

func (r *Recorder) flushOne(ctx context.Context, id string, now time.Time) error {
	r.mu.RLock()
	a := r.activities[id]
	r.mu.RUnlock()
	for range 2 { // the counts that an earlier flush could not add, then the new ones
		if a.pending == nil && !a.take(now) {
			r.removeIdle(id, a)
			return nil
		}
		if age := now.Sub(a.pending.At); age >= giveUpAfter {
			// Redis may have added them before, and the record of that may have expired: see stockgate.AddCounts.
			r.Log.WarnContext(ctx, "request counts dropped", "activity_id", id, "age", age)
			a.pending = nil
			continue
		}
		err := r.gate.AddCounts(ctx, id, r.Source, *a.pending)
		switch {
		case err == nil:
		case errors.Is(err, stockgate.ErrUnavailable), errors.Is(err, stockgate.ErrNoGate):
			return err
		default:
			r.Log.WarnContext(ctx, "request counts dropped", "activity_id", id, "error", err)
		}
		a.pending = nil
	}
	return nil
}

// take moves the counters to pending. It returns false if there is nothing to add. Each call that takes counts does so
// for a later second than the one before.
func (a *activity) take(now time.Time) bool {
	c := stockgate.RequestCounts{
		At: now.UTC().Truncate(time.Second), Accepted: a.accepted.Swap(0), Paths: a.paths.Swap(0),
		Solved: a.solved.Swap(0), Failed: a.failed.Swap(0),
	}
	some := c.Accepted > 0 || c.Paths > 0 || c.Solved > 0 || c.Failed > 0
	a.refused.Range(func(code, n any) bool {
		if n := n.(*atomic.Int64).Swap(0); n > 0 {
			if c.Refused == nil {
				c.Refused = map[string]int64{}
			}
			c.Refused[string(code.(contract.Code))] = n
			some = true
		}
		return true
	})
	if !some {
		return false
	}
	if !c.At.After(a.last) {
		c.At = a.last.Add(time.Second)
	}
	a.pending, a.last, a.usedAt = &c, c.At, time.Now()
	return true
}

// removeIdle removes an activity without requests from memory, unless one was counted meanwhile. The next flush adds
// that one.
func (r *Recorder) removeIdle(id string, a *activity) {
	if time.Since(a.usedAt) < idleAfter {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.empty() {
		delete(r.activities, id)
	}
}

func (a *activity) empty() bool {
	empty := a.accepted.Load() == 0 && a.paths.Load() == 0 && a.solved.Load() == 0 && a.failed.Load() == 0
	a.refused.Range(func(_, n any) bool {
		empty = empty && n.(*atomic.Int64).Load() == 0
		return empty
	})
	return empty
}
