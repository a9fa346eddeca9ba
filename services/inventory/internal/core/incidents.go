package core

import (
	"context"
	"maps"
	"sync"
	"time"

	"flashsale.internal/services/inventory/internal/ledger"
)

// incidentInterval is the shortest time between two incidents with the same key.
const incidentInterval = time.Hour

// Incidents raises incidents about conditions that may last, each once an hour at most. It is safe for concurrent use.
type Incidents struct {
	recorder Recorder
	now      func() time.Time

	mu      sync.Mutex
	raised  map[string]time.Time // by key, when the incident was last raised
	cleaned time.Time            // when old keys were last deleted from raised
}

// NewIncidents makes an Incidents that raised nothing yet.
func NewIncidents(recorder Recorder, now func() time.Time) *Incidents {
	return &Incidents{recorder: recorder, now: now, raised: map[string]time.Time{}}
}

// Raise records an incident, unless one with this key was recorded within the last hour.
func (x *Incidents) Raise(ctx context.Context, key, what string, attrs ...any) {
	if x.due(key) {
		x.recorder.Incident(ctx, what, attrs...)
	}
}

// RaiseBrokenGate reports a gate that cannot be read, or cannot be built from the tables.
func (x *Incidents) RaiseBrokenGate(ctx context.Context, activityID string, err error) {
	x.Raise(ctx, "broken "+activityID, "a gate is broken", "activity_id", activityID, "error", err)
}

// RaiseUnreadable counts and reports ledger rows that were set aside because they cannot be read.
func (x *Incidents) RaiseUnreadable(ctx context.Context, broken []ledger.Row) {
	if len(broken) > 0 {
		x.recorder.Unreadable(ctx, len(broken))
	}
	for _, r := range broken {
		x.Raise(ctx, "unreadable "+r.OrderSN, "ledger row cannot be read", "order_sn", r.OrderSN, "activity_id",
			r.ActivityID)
	}
}

// due reports whether the incident with this key is due, and if so notes that it is raised now.
func (x *Incidents) due(key string) bool {
	now := x.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if now.Sub(x.cleaned) >= incidentInterval {
		x.cleaned = now
		maps.DeleteFunc(x.raised, func(_ string, at time.Time) bool { return now.Sub(at) >= 2*incidentInterval })
	}
	if last, ok := x.raised[key]; ok && now.Sub(last) < incidentInterval {
		return false
	}
	x.raised[key] = now
	return true
}
