// Package counting keeps counts by activity in memory and adds them to the gates, each once.
package counting

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/stockgate"
)

// Bounds of Activities.
const (
	IdleAfter   = time.Minute      // without a request; then the activity is removed from memory
	GiveUpAfter = 15 * time.Minute // for counts that Redis did not take: shorter than it recognises repetitions
)

// Options are the options of Activities.
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

// Counter counts the requests of one activity. B is what it has counted.
type Counter[B any] interface {
	// Take returns what was counted since the last call, and false if nothing was.
	Take() (B, bool)
}

// Kind is what distinguishes the counts of one kind from those of another.
type Kind[C Counter[B], B any] struct {
	Name          string        // in log messages
	Every         time.Duration // between flushes
	Unit          time.Duration // of the times of counts
	MaxActivities int           // those above are not counted
	New           func() C
	// Add adds counts to the gate of an activity. Different counts of a source for one activity have different times;
	// a call with the time of an earlier one repeats it, and adds nothing.
	Add func(ctx context.Context, activityID, source string, at time.Time, counted B) error
}

// Activities has a counter for each activity. Run, its only goroutine, adds what they count to the gates.
type Activities[C Counter[B], B any] struct {
	Options
	kind Kind[C, B]

	mu  sync.RWMutex // held for reading while a request is counted
	all map[string]*activity[C, B]
}

// activity is one activity with its counter.
type activity[C Counter[B], B any] struct {
	counter C

	// The fields below belong to Run.
	pending *B        // taken, and not known to be in Redis: sent again unchanged, because it counts once
	at      time.Time // of the latest taken counts
	usedAt  time.Time // the last flush that found a request
}

// NewActivities returns Activities without an activity.
func NewActivities[C Counter[B], B any](k Kind[C, B], o Options) *Activities[C, B] {
	return &Activities[C, B]{Options: o, kind: k, all: map[string]*activity[C, B]{}}
}

// Len returns the number of activities in memory.
func (s *Activities[C, B]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.all)
}

// Count calls add for the counter of an activity. exists is whether the request proves that the activity exists.
func (s *Activities[C, B]) Count(activityID string, exists bool, add func(C)) {
	s.mu.RLock()
	a := s.all[activityID]
	if a != nil {
		add(a.counter)
	}
	s.mu.RUnlock()
	if a != nil || !exists && !s.Known(activityID) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a = s.all[activityID]; a == nil {
		if len(s.all) >= s.kind.MaxActivities {
			return
		}
		a = &activity[C, B]{counter: s.kind.New(), usedAt: time.Now()}
		s.all[activityID] = a
	}
	add(a.counter)
}

// Run adds the counts to the gates at regular times until ctx ends, and then for the last time.
func (s *Activities[C, B]) Run(ctx context.Context) error {
	tick := time.NewTicker(s.kind.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := lifecycle.DrainContext(ctx)
			defer cancel()
			s.flush(last)
			return nil
		case <-tick.C:
			s.flush(ctx)
		}
	}
}

// flush adds what was counted since the last flush. While Redis does not respond, it makes one call and leaves the
// others for the next flush.
func (s *Activities[C, B]) flush(ctx context.Context) {
	now := s.Now(ctx)
	s.mu.RLock()
	all := make(map[string]*activity[C, B], len(s.all))
	for id, a := range s.all {
		all[id] = a
	}
	s.mu.RUnlock()
	for id, a := range all {
		if err := s.flushOne(ctx, id, a, now); errors.Is(err, stockgate.ErrUnavailable) {
			return
		}
	}
}

func (s *Activities[C, B]) flushOne(ctx context.Context, id string, a *activity[C, B], now time.Time) error {
	for range 2 { // the counts that an earlier flush could not add, then the new ones
		if a.pending == nil && !s.take(a, now) {
			s.removeIdle(id, a, now)
			return nil
		}
		if age := now.Sub(a.at); age >= GiveUpAfter {
			// Redis may have added them before, and the record of that may have expired: see stockgate.AddCounts.
			s.Log.WarnContext(ctx, s.kind.Name+" dropped", "activity_id", id, "age", age)
			a.pending = nil
			continue
		}
		err := s.kind.Add(ctx, id, s.Source, a.at, *a.pending)
		switch {
		case err == nil:
		case errors.Is(err, stockgate.ErrUnavailable), errors.Is(err, stockgate.ErrNoGate):
			return err
		default:
			s.Log.WarnContext(ctx, s.kind.Name+" dropped", "activity_id", id, "error", err)
		}
		a.pending = nil
	}
	return nil
}

// take moves what was counted to pending. It returns false if there is nothing. Each call that takes counts does so for
// a later time than the one before.
func (s *Activities[C, B]) take(a *activity[C, B], now time.Time) bool {
	counted, some := a.counter.Take()
	if !some {
		return false
	}
	at := now.UTC().Truncate(s.kind.Unit)
	if !at.After(a.at) {
		at = a.at.Add(s.kind.Unit)
	}
	a.pending, a.at, a.usedAt = &counted, at, time.Now()
	return true
}

// removeIdle removes an activity without requests from memory, unless one was counted meanwhile. The next flush adds
// that one.
func (s *Activities[C, B]) removeIdle(id string, a *activity[C, B], now time.Time) {
	if time.Since(a.usedAt) < IdleAfter {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.take(a, now) {
		delete(s.all, id)
	}
}
