// Package suspects counts refused requests by address and by user in bounded memory, and adds the most frequent of
// them to the gates every few seconds.
package suspects

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
)

// Bounds of a Recorder.
const (
	flushEvery    = 5 * time.Second
	maxActivities = 256
	keptKeys      = stockgate.MaxSuspectsAdded // of each kind, for each activity
	giveUpAfter   = 15 * time.Minute           // for counts that Redis did not take: shorter than it recognises repetitions
)

// Gate holds the method of *stockgate.Gate that a Recorder uses.
type Gate interface {
	AddSuspects(ctx context.Context, activityID, source string, until time.Time, s stockgate.Suspects) error
}

// Options are the options of a Recorder.
type Options struct {
	// Source names the process: 1 to 64 of a-z 0-9 _ -. No other process may have the same one.
	Source string
	// Known reports whether an activity exists, from memory. Refusals of unknown activities are not counted: callers
	// may send any id.
	Known func(activityID string) bool
	// Now returns Redis time.
	Now func(ctx context.Context) time.Time
	Log *slog.Logger
}

// Recorder counts in memory. Run, its only goroutine, adds the counts to the gates.
type Recorder struct {
	Options
	gate Gate

	mu         sync.RWMutex
	activities map[string]*activity
}

// activity holds the counts of one activity since the last flush, and those that Redis has not taken.
type activity struct {
	mu               sync.Mutex
	addresses, users *Sketch // nil: there are none

	// The fields below belong to Run.
	pending *stockgate.Suspects // taken, and not known to be in Redis: sent again unchanged, because it counts once
	until   time.Time           // of the latest taken counts
}

// NewRecorder returns a Recorder; Run makes it write.
func NewRecorder(gate Gate, o Options) *Recorder {
	return &Recorder{Options: o, gate: gate, activities: map[string]*activity{}}
}

// Address counts a refused request of an address.
func (r *Recorder) Address(activityID, address string, c core.Cause) {
	r.add(activityID, address, c, func(a *activity) **Sketch { return &a.addresses })
}

// User counts a refused request of a user.
func (r *Recorder) User(activityID, userID string, c core.Cause) {
	r.add(activityID, userID, c, func(a *activity) **Sketch { return &a.users })
}

func (r *Recorder) add(activityID, key string, c core.Cause, of func(*activity) **Sketch) {
	if key == "" {
		return
	}
	r.mu.RLock()
	a := r.activities[activityID]
	if a != nil { // Run removes no activity while this lock is held
		a.add(key, c, of)
	}
	r.mu.RUnlock()
	if a != nil || !r.Known(activityID) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a = r.activities[activityID]; a == nil {
		if len(r.activities) >= maxActivities {
			return
		}
		a = &activity{}
		r.activities[activityID] = a
	}
	a.add(key, c, of)
}

func (a *activity) add(key string, c core.Cause, of func(*activity) **Sketch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sketch := of(a)
	if *sketch == nil {
		*sketch = NewSketch(keptKeys)
	}
	(*sketch).Add(key, c)
}

// Run adds the counts to the gates every 5 s until ctx ends, and then for the last time.
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
// others for the next flush.
func (r *Recorder) flush(ctx context.Context) {
	now := r.Now(ctx)
	r.mu.RLock()
	all := make(map[string]*activity, len(r.activities))
	for id, a := range r.activities {
		all[id] = a
	}
	r.mu.RUnlock()
	for id, a := range all {
		if err := r.flushOne(ctx, id, a, now); errors.Is(err, stockgate.ErrUnavailable) {
			return
		}
	}
}

func (r *Recorder) flushOne(ctx context.Context, id string, a *activity, now time.Time) error {
	for range 2 { // the counts that an earlier flush could not add, then the new ones
		if a.pending == nil && !a.take(now) {
			r.removeIdle(id, a)
			return nil
		}
		if age := now.Sub(a.until); age >= giveUpAfter {
			// Redis may have added them before, and the record of that may have expired: see stockgate.AddSuspects.
			r.Log.WarnContext(ctx, "counts of suspects dropped", "activity_id", id, "age", age)
			a.pending = nil
			continue
		}
		err := r.gate.AddSuspects(ctx, id, r.Source, a.until, *a.pending)
		switch {
		case err == nil:
		case errors.Is(err, stockgate.ErrUnavailable), errors.Is(err, stockgate.ErrNoGate):
			return err
		default:
			r.Log.WarnContext(ctx, "counts of suspects dropped", "activity_id", id, "error", err)
		}
		a.pending = nil
	}
	return nil
}

// take moves the counts to pending. It returns false if there are none. Each call that takes counts does so for a
// later time than the one before.
func (a *activity) take(now time.Time) bool {
	a.mu.Lock()
	addresses, users := a.addresses, a.users
	a.addresses, a.users = nil, nil
	a.mu.Unlock()
	if addresses == nil && users == nil {
		return false
	}
	a.pending = &stockgate.Suspects{}
	if addresses != nil {
		a.pending.Addresses = addresses.Suspects()
	}
	if users != nil {
		a.pending.Users = users.Suspects()
	}
	if now = now.UTC().Truncate(time.Millisecond); !now.After(a.until) {
		now = a.until.Add(time.Millisecond)
	}
	a.until = now
	return true
}

// removeIdle removes an activity without counts from memory.
func (r *Recorder) removeIdle(id string, a *activity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.addresses == nil && a.users == nil {
		delete(r.activities, id)
	}
}
