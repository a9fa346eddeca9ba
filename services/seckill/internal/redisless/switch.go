package redisless

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/grouping"
)

// Bounds of the calls to inventory: requests in one call, and lookup calls in flight for one activity.
const (
	reserveSize = 128
	lookupSize  = 256
	lookupCalls = 4
)

// Switch implements core.Purchases. It passes calls to the gate in Redis, or to inventory while the sale is redisless.
// Between the two, while the sale is returning, nothing is sold, and results come from inventory.
type Switch struct {
	core.Purchases
	watch    *Watch
	timeout  time.Duration // of one call to inventory that no group makes
	reserves *grouping.Grouper[contract.RedislessPurchase, contract.RedislessResult]
	lookups  *grouping.Grouper[string, *contract.LedgerState]
}

var _ core.Purchases = (*Switch)(nil)

// NewSwitch returns a Switch on the gates in Redis. A call to inventory waits for the locks of the stock, so it has the whole wait
// of a caller.
func NewSwitch(redis core.Purchases, watch *Watch, callerWait time.Duration, queue int) *Switch {
	g := &Switch{Purchases: redis, watch: watch, timeout: callerWait}
	bounds := grouping.Bounds{CallTimeout: callerWait, CallerWait: callerWait, Queue: queue}
	g.reserves = grouping.New(grouping.Options{Bounds: bounds, Size: reserveSize}, g.reserveGroup)
	g.lookups = grouping.New(grouping.Options{Bounds: bounds, Size: lookupSize, Calls: lookupCalls}, g.lookupGroup)
	return g
}

// Close refuses new calls and waits for those in flight until ctx ends.
func (g *Switch) Close(ctx context.Context) {
	g.reserves.Close(ctx)
	g.lookups.Close(ctx)
}

// Reserve implements core.Purchases.
func (g *Switch) Reserve(ctx context.Context, activityID string, p core.Purchase) (core.Verdict, error) {
	m, err := g.watch.certainMode(ctx, activityID, false)
	if err != nil {
		return core.Verdict{}, err
	}
	switch m.Mode {
	case contract.ModeRedisless:
	case contract.ModeReturning:
		return core.Verdict{}, core.ErrBreakerOpen
	default:
		if issuedRedisless(p.OrderSN) && g.watch.mayBeRedisless(activityID) {
			// By this order_sn the sale may be redisless. Then the other processes rely on the ledger to have it or
			// not.
			return core.Verdict{}, core.ErrBreakerOpen
		}
		return g.Purchases.Reserve(ctx, activityID, p)
	}
	if rand.Int64N(100) < m.Drop || !g.watch.handedOver(activityID, m.Outage) { //nolint:gosec // no secret depends on it
		return core.Verdict{}, core.ErrLater
	}
	r, err := g.reserves.Do(activityID, contract.RedislessPurchase{
		OrderSN: p.OrderSN, UserID: p.UserID, Lines: p.Lines, Traceparent: telemetry.Traceparent(ctx),
	})
	if err != nil {
		return core.Verdict{}, err
	}
	if r.Outcome == contract.RedislessSoldOut {
		g.watch.noteSoldOut(activityID, p.Lines)
	}
	return g.verdict(activityID, r)
}

var outcomes = map[contract.RedislessOutcome]core.Outcome{
	contract.RedislessSoldOut:      core.SoldOut,
	contract.RedislessLimitReached: core.LimitReached,
	contract.RedislessConflict:     core.Conflict,
	contract.RedislessNotStarted:   core.NotStarted,
	contract.RedislessEnded:        core.Ended,
	contract.RedislessPaused:       core.Paused,
	contract.RedislessUnknownSKU:   core.UnknownSKU,
}

func (g *Switch) verdict(activityID string, r contract.RedislessResult) (core.Verdict, error) {
	switch r.Outcome {
	case contract.RedislessLater:
		return core.Verdict{}, core.ErrLater
	case contract.RedislessReserved:
		if r.Purchase == nil {
			break
		}
		v := core.Verdict{Outcome: core.Known, Reservation: reservation(activityID, *r.Purchase)}
		if r.Fresh {
			v.Outcome = core.Accepted
		}
		return v, nil
	}
	outcome, known := outcomes[r.Outcome]
	if !known {
		return core.Verdict{}, fmt.Errorf("unknown outcome %q from inventory", r.Outcome)
	}
	v := core.Verdict{Outcome: outcome, OrderSNs: r.OrderSNs, BarredUntil: r.BarredUntil, StartsAt: r.StartsAt}
	if m := g.watch.mode(activityID); outcome == core.SoldOut && m.Sale != nil {
		v.MayReturnUntil = m.Sale.EndsAt // units are held back until the sale returns to its gate
	}
	return v, nil
}

func reservation(activityID string, st contract.LedgerState) core.Reservation {
	return core.Reservation{
		ActivityID: activityID, OrderSN: st.OrderSN, UserID: st.UserID, Lines: st.Lines, Status: core.Status(st.Status),
		Reason: st.Reason, ReservedAt: st.ReservedAt, ExpiresAt: st.ExpiresAt,
	}
}

func (g *Switch) reserveGroup(
	ctx context.Context, activityID string, purchases []contract.RedislessPurchase,
) ([]contract.RedislessResult, error) {
	// A buyer may send one purchase twice at once: a call has each order_sn once.
	unique := make([]contract.RedislessPurchase, 0, len(purchases))
	at := make(map[string]int, len(purchases))
	which := make([]int, len(purchases))
	for i, p := range purchases {
		n, twice := at[p.OrderSN]
		if !twice {
			n = len(unique)
			at[p.OrderSN] = n
			unique = append(unique, p)
		}
		which[i] = n
	}
	found, err := g.watch.inventory.Reserve(ctx, contract.RedislessReserve{
		ActivityID: activityID, Outage: g.watch.mode(activityID).Outage, Items: unique,
	})
	if err != nil {
		return nil, err
	}
	results := make([]contract.RedislessResult, len(purchases))
	for i, n := range which {
		results[i] = found[n]
		if p := purchases[i]; p.UserID != unique[n].UserID || !contract.SameLines(p.Lines, unique[n].Lines) {
			results[i] = contract.RedislessResult{Outcome: contract.RedislessConflict}
		}
	}
	return results, nil
}

// Lookup implements core.Purchases. A purchase that the ledger lacks may still be in the journal: then the outcome is unknown,
// unless this process has kept it, or its order_sn was issued while Redis was unavailable.
func (g *Switch) Lookup(ctx context.Context, activityID, orderSN string) (core.Reservation, bool, error) {
	m, err := g.watch.certainMode(ctx, activityID, true)
	if err != nil {
		return core.Reservation{}, false, err
	}
	if m.Mode == contract.ModeGate {
		r, found, err := g.Purchases.Lookup(ctx, activityID, orderSN)
		if err == nil && !found && g.watch.mayBeRedisless(activityID) {
			err = core.ErrBreakerOpen
		}
		return r, found, err
	}
	st, err := g.lookups.Do(activityID, orderSN)
	switch {
	case err != nil:
		return core.Reservation{}, false, err
	case st != nil:
		return reservation(activityID, *st), true, nil
	}
	if p, kept := g.watch.accepted.find(activityID, orderSN); kept {
		return core.Reservation{
			ActivityID: activityID, OrderSN: orderSN, UserID: p.UserID, Lines: p.Lines, Status: core.StatusQueued,
			ReservedAt: p.ReservedAt,
		}, true, nil
	}
	if !issuedRedisless(orderSN) {
		return core.Reservation{}, false, core.ErrBreakerOpen
	}
	return core.Reservation{}, false, nil
}

func (g *Switch) lookupGroup(ctx context.Context, activityID string, orderSNs []string) ([]*contract.LedgerState, error) {
	found, err := g.watch.inventory.Lookup(ctx, contract.RedislessLookup{ActivityID: activityID, OrderSNs: orderSNs})
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*contract.LedgerState, len(found))
	for i := range found {
		byID[found[i].OrderSN] = &found[i]
	}
	states := make([]*contract.LedgerState, len(orderSNs))
	for i, sn := range orderSNs {
		states[i] = byID[sn]
	}
	return states, nil
}

// LookupAll implements core.Purchases.
func (g *Switch) LookupAll(
	ctx context.Context, activityID string, orderSNs []string,
) (map[string]core.Reservation, error) {
	m, err := g.watch.certainMode(ctx, activityID, true)
	if err != nil {
		return nil, err
	}
	if m.Mode == contract.ModeGate {
		return g.Purchases.LookupAll(ctx, activityID, orderSNs)
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	all := make(map[string]core.Reservation, len(orderSNs))
	for len(orderSNs) > 0 {
		n := min(lookupSize, len(orderSNs))
		found, err := g.watch.inventory.Lookup(ctx, contract.RedislessLookup{ActivityID: activityID, OrderSNs: orderSNs[:n]})
		if err != nil {
			return nil, err
		}
		for _, st := range found {
			all[st.OrderSN] = reservation(activityID, st)
		}
		orderSNs = orderSNs[n:]
	}
	return all, nil
}

// OfUser implements core.Purchases. While the sale is redisless, it does not state the allowance: inventory decides each
// purchase by it.
func (g *Switch) OfUser(ctx context.Context, activityID, userID string) (core.UserPurchases, error) {
	m, err := g.watch.certainMode(ctx, activityID, true)
	if err != nil {
		return core.UserPurchases{}, err
	}
	if m.Mode == contract.ModeGate {
		return g.Purchases.OfUser(ctx, activityID, userID)
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	found, err := g.watch.inventory.Lookup(ctx, contract.RedislessLookup{ActivityID: activityID, UserID: userID})
	sns := make([]string, len(found))
	for i, st := range found {
		sns[len(found)-1-i] = st.OrderSN
	}
	return core.UserPurchases{OrderSNs: sns}, err
}

// Confirm implements core.Purchases.
func (g *Switch) Confirm(ctx context.Context, r core.Reservation) (core.Reservation, bool, error) {
	if g.watch.mode(r.ActivityID).Mode == contract.ModeGate {
		return g.Purchases.Confirm(ctx, r)
	}
	return r, true, nil
}
