package rules

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Caller is somebody who was refused.
type Caller struct {
	Key     string    `json:"key"`     // the subject, its parts joined by |
	Refused int64     `json:"refused"` // how often, since it was first refused without a pause
	Until   time.Time `json:"until"`   // when the last refused request may pass
}

// tally counts what a rule did, and remembers some of those whom it refuses.
type tally struct {
	allowed, waited, refused, shadowed, failed atomic.Int64

	mu      sync.Mutex
	callers map[string]*Caller
}

const (
	maxCallers   = 1000
	longestKey   = 128         // bytes of a subject that are kept
	callerMemory = time.Minute // after Until
)

func newTally() *tally { return &tally{callers: map[string]*Caller{}} }

func (t *tally) status() Status {
	return Status{
		Allowed: t.allowed.Load(), Waited: t.waited.Load(), Refused: t.refused.Load(), Shadowed: t.shadowed.Load(), Failed: t.failed.Load(),
	}
}

// refuse remembers a refusal. When too many are remembered, who is no longer refused, or else anybody, makes room.
func (t *tally) refuse(key string, now time.Time, retry time.Duration) {
	if len(key) > longestKey {
		key = key[:longestKey]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.callers[key]
	if c == nil {
		looks, somebody := 16, ""
		for k, other := range t.callers { // begins anywhere
			if somebody = k; now.After(other.Until.Add(callerMemory)) {
				delete(t.callers, k)
			}
			if looks--; looks == 0 {
				break
			}
		}
		if len(t.callers) >= maxCallers {
			delete(t.callers, somebody)
		}
		c = &Caller{Key: key}
		t.callers[key] = c
	} else if now.After(c.Until.Add(callerMemory)) {
		c.Refused = 0
	}
	c.Refused++
	c.Until = now.Add(max(0, retry))
}

// limited are those who are refused now, most refused first.
func (t *tally) limited(n int) []Caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	out := []Caller{}
	for _, c := range t.callers {
		if now.Before(c.Until) {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Caller) int {
		switch {
		case a.Refused != b.Refused:
			return int(b.Refused - a.Refused)
		case a.Key < b.Key:
			return -1
		}
		return 1
	})
	return out[:min(n, len(out))]
}
