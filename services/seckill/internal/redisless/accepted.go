package redisless

import (
	"context"
	"errors"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/internal/core"
)

// MaxAccepted bounds the purchases that a process keeps until it has seen them published.
const MaxAccepted = 200_000

// acceptance is a purchase that the gate has accepted, and the time at which this process got the reply.
type acceptance struct {
	core.Acceptance
	at time.Time
}

// accepted keeps purchases until they are published or handed over, each once. It is safe for concurrent use.
type accepted struct {
	mu      sync.Mutex
	sales   map[string]*acceptances // by activity
	kept    int
	dropped int64 // purchases that were given up as there were too many
}

// acceptances are the purchases of one activity.
type acceptances struct {
	list  []acceptance // in the order of their replies
	known map[string]bool
}

// add keeps purchases of one activity. The oldest of the activity make room. A purchase that is kept already stays as it
// is: a repeated request of its buyer gets a reply, too.
func (a *accepted) add(activityID string, list []core.Acceptance, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sales == nil {
		a.sales = map[string]*acceptances{}
	}
	own := a.sales[activityID]
	if own == nil {
		own = &acceptances{known: map[string]bool{}}
		a.sales[activityID] = own
	}
	for _, p := range list {
		if !own.known[p.OrderSN] {
			own.known[p.OrderSN] = true
			own.list = append(own.list, acceptance{p, now})
			a.kept++
		}
	}
	if n := min(a.kept-MaxAccepted, len(own.list)); n > 0 {
		a.removeFirst(activityID, n)
		a.dropped += int64(n)
	}
}

// published removes the purchases whose replies arrived before then: the journal has none of them any more.
func (a *accepted) published(activityID string, before time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.sales[activityID]
	if own == nil {
		return
	}
	n := 0
	for n < len(own.list) && own.list[n].at.Before(before) {
		n++
	}
	a.removeFirst(activityID, n)
}

// first returns at most n purchases, the oldest ones.
func (a *accepted) first(activityID string, n int) []acceptance {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.sales[activityID]
	if own == nil {
		return nil
	}
	n = min(n, len(own.list))
	return own.list[:n:n]
}

// remove removes the purchases that first returned, or the first of them.
func (a *accepted) remove(activityID string, list []acceptance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.sales[activityID]
	if own == nil {
		return
	}
	done := make(map[string]bool, len(list))
	for _, p := range list {
		done[p.OrderSN] = true
	}
	n := 0
	for n < len(own.list) && n < len(list) && done[own.list[n].OrderSN] {
		n++
	}
	a.removeFirst(activityID, n)
}

// removeFirst removes the n oldest purchases of an activity. The caller holds mu.
func (a *accepted) removeFirst(activityID string, n int) {
	own := a.sales[activityID]
	for _, p := range own.list[:n] {
		delete(own.known, p.OrderSN)
	}
	own.list = own.list[n:]
	a.kept -= n
	if len(own.list) == 0 {
		delete(a.sales, activityID)
	}
}

// find returns a kept purchase.
func (a *accepted) find(activityID, orderSN string) (core.Acceptance, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.sales[activityID]
	if own == nil || !own.known[orderSN] {
		return core.Acceptance{}, false
	}
	for _, p := range own.list {
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
	for id, own := range a.sales {
		if !keep(id) {
			a.kept -= len(own.list)
			delete(a.sales, id)
		}
	}
}

// count returns the number of kept purchases, and of those that were given up.
func (a *accepted) count() (kept int, dropped int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept, a.dropped
}

// handOver sends inventory what this process has accepted and not seen published, for each sale that has become
// redisless. Redisless purchases of this process wait for it.
func (w *Watch) handOver(ctx context.Context) {
	s := w.modes.Load()
	if s == nil {
		return
	}
	var errs []error
	for id, m := range s.byID {
		if m.Mode == contract.ModeRedisless && ctx.Err() == nil {
			errs = append(errs, w.handOverOf(ctx, id, m.Outage))
		}
	}
	if ctx.Err() == nil {
		w.handOvers.Observe(ctx, w.log, "hand-over of accepted purchases", errors.Join(errs...))
	}
}

func (w *Watch) handOverOf(ctx context.Context, activityID string, outage int64) error {
	for {
		list := w.accepted.first(activityID, handOverSize)
		if len(list) == 0 {
			break
		}
		if err := w.handOverList(ctx, activityID, outage, list); err != nil {
			return err // the next round repeats it
		}
	}
	w.mu.Lock()
	w.handed[activityID] = outage
	w.mu.Unlock()
	return nil
}

// handOverList returns nil once inventory has taken the purchases. If it refuses a call, halves of it follow, and a
// purchase that it refuses alone is given up: it may hold up no other.
func (w *Watch) handOverList(ctx context.Context, activityID string, outage int64, list []acceptance) error {
	r := contract.RedislessReserve{ActivityID: activityID, Outage: outage, Items: make([]contract.RedislessPurchase, len(list))}
	for i, p := range list {
		r.Items[i] = contract.RedislessPurchase{
			OrderSN: p.OrderSN, UserID: p.UserID, Lines: p.Lines, Accepted: true, ReservedAt: p.ReservedAt,
			Traceparent: p.Traceparent,
		}
	}
	call, cancel := context.WithTimeout(ctx, handOverTimeout)
	_, err := w.inventory.Reserve(call, r)
	cancel()
	switch {
	case errors.Is(err, core.ErrRefused) && len(list) > 1:
		half := len(list) / 2
		if err := w.handOverList(ctx, activityID, outage, list[:half]); err != nil {
			return err
		}
		return w.handOverList(ctx, activityID, outage, list[half:])
	case errors.Is(err, core.ErrRefused):
		w.log.ErrorContext(ctx, "inventory refuses a purchase that the gate has accepted", "activity_id", activityID,
			"order_sn", list[0].OrderSN, "error", err)
		w.incidents.Add(ctx, 1)
	case err != nil:
		return err
	}
	w.accepted.remove(activityID, list)
	return nil
}

// handedOver reports whether this process has handed over what it had accepted before the sale became redisless.
func (w *Watch) handedOver(activityID string, outage int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handed[activityID] == outage
}
