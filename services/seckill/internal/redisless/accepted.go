package redisless

import (
	"sync"
	"time"

	"flashsale.internal/services/seckill/internal/core"
)

// MaxAccepted bounds the purchases that a process keeps until it has seen them published.
const MaxAccepted = 200_000

// acceptance is a purchase that the gate has accepted, and the time at which this process got the reply.
type acceptance struct {
	core.Acceptance
	at time.Time
}

// accepted keeps purchases until they are published or handed over, by activity and in the order of their replies. It is
// safe for concurrent use.
type accepted struct {
	mu      sync.Mutex
	lists   map[string][]acceptance
	kept    int
	dropped int64 // purchases that were given up as there were too many
}

// add keeps purchases of one activity. The oldest of the activity make room.
func (a *accepted) add(activityID string, list []core.Acceptance, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lists == nil {
		a.lists = map[string][]acceptance{}
	}
	for _, p := range list {
		a.lists[activityID] = append(a.lists[activityID], acceptance{p, now})
	}
	if a.kept += len(list); a.kept > MaxAccepted {
		own := a.lists[activityID]
		n := min(a.kept-MaxAccepted, len(own))
		a.lists[activityID] = own[n:]
		a.kept -= n
		a.dropped += int64(n)
	}
}

// published removes the purchases whose replies arrived before then: the journal has none of them any more.
func (a *accepted) published(activityID string, before time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.lists[activityID]
	n := 0
	for n < len(own) && own[n].at.Before(before) {
		n++
	}
	a.removeLocked(activityID, n)
}

// first returns at most n purchases, the oldest ones.
func (a *accepted) first(activityID string, n int) []acceptance {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.lists[activityID]
	return own[:min(n, len(own)):min(n, len(own))]
}

// remove removes the purchases that first returned.
func (a *accepted) remove(activityID string, list []acceptance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	done := make(map[string]bool, len(list))
	for _, p := range list {
		done[p.OrderSN] = true
	}
	n := 0
	for own := a.lists[activityID]; n < len(own) && n < len(list) && done[own[n].OrderSN]; n++ {
	}
	a.removeLocked(activityID, n)
}

func (a *accepted) removeLocked(activityID string, n int) {
	a.kept -= n
	if own := a.lists[activityID]; n < len(own) {
		a.lists[activityID] = own[n:]
	} else {
		delete(a.lists, activityID)
	}
}

// find returns a kept purchase.
func (a *accepted) find(activityID, orderSN string) (core.Acceptance, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.lists[activityID] {
		if p.OrderSN == orderSN {
			return p.Acceptance, true
		}
	}
	return core.Acceptance{}, false
}

// removeOthers removes the purchases of the activities for which keep returns false.
func (a *accepted) removeOthers(keep func(activityID string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, own := range a.lists {
		if !keep(id) {
			a.kept -= len(own)
			delete(a.lists, id)
		}
	}
}

// count returns the number of kept purchases, and of those that were given up.
func (a *accepted) count() (kept int, dropped int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept, a.dropped
}
