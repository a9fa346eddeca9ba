package rules

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Caller is a key whose requests a rule refused.
type Caller struct {
	Key     string    `json:"key"`     // the subject; its parts are joined by |
	Refused int64     `json:"refused"` // refusals; starts again at 1 if Until is more than a minute ago at a refusal
	Until   time.Time `json:"until"`   // when the request refused last may pass
}

// counters counts the decisions of a rule and remembers some of the callers that it refuses.
type counters struct {
	allowed, waited, refused, shadowed, failed atomic.Int64

	mu      sync.Mutex
	callers map[string]*Caller
}

const (
	maxCallers   = 1000
	maxCallerKey = 128         // bytes of a subject that are kept
	callerMemory = time.Minute // after Caller.Until
)

func newCounters() *counters { return &counters{callers: map[string]*Caller{}} }

func (n *counters) status() Status {
	return Status{
		Allowed: n.allowed.Load(), Waited: n.waited.Load(), Refused: n.refused.Load(), Shadowed: n.shadowed.Load(),
		Failed: n.failed.Load(),
	}
}

// refuse remembers a refusal. If too many callers are remembered, it drops some that are no longer refused, or else an
// arbitrary one.
func (n *counters) refuse(key string, now time.Time, retry time.Duration) {
	if len(key) > maxCallerKey {
		key = key[:maxCallerKey]
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.callers[key]
	if c == nil {
		checks, arbitrary := 16, ""
		for k, other := range n.callers { // map iteration begins at a random entry
			if arbitrary = k; now.After(other.Until.Add(callerMemory)) {
				delete(n.callers, k)
			}
			if checks--; checks == 0 {
				break
			}
		}
		if len(n.callers) >= maxCallers {
			delete(n.callers, arbitrary)
		}
		c = &Caller{Key: key}
		n.callers[key] = c
	} else if now.After(c.Until.Add(callerMemory)) {
		c.Refused = 0
	}
	c.Refused++
	c.Until = now.Add(max(0, retry))
}

// limited returns up to limit callers that are refused now, most refused first.
func (n *counters) limited(limit int) []Caller {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	out := []Caller{}
	for _, c := range n.callers {
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
	return out[:min(limit, len(out))]
}
