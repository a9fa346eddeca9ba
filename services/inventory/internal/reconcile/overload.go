package reconcile

import (
	"context"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

// overloadUnits is the number of units in a gate's journals from which the gate counts as overloaded: more purchases
// come in than are relayed. A comparison then competes with the buyers for gate and database. It proves nothing about
// counters, because it is mostly not exact: the gate tracks at most 2,000 changes. If purchases only wait, as without
// a broker, comparisons are exact, and the round that runs after maxRest completes.
const overloadUnits = 2000

// overloadCheckInterval is the shortest time between two checks of all gates for an overload.
const overloadCheckInterval = time.Second

func overloaded(audit core.GateAudit) bool {
	var journaled int64
	for _, sku := range audit.SKUs {
		journaled += sku.Journal
	}
	return journaled >= overloadUnits
}

// anyOverloaded reports whether the gate of one of these activities is overloaded. A gate that cannot be read is not.
func (r *Reconciler) anyOverloaded(ctx context.Context, activities []core.Activity) bool {
	for _, a := range activities {
		if audit, err := r.Gate.Audit(ctx, a.ID); err == nil && overloaded(audit) {
			return true
		}
	}
	return false
}

// round is the overload control of one round of the timer.
type round struct {
	checked time.Time // when the gates were last checked for an overload
	forced  bool      // the round goes on in spite of an overload
}

// yieldToBuyers reports whether this round ends because a gate is overloaded. Rounds yield for maxRest at most; then
// one round is forced.
func (r *Reconciler) yieldToBuyers(ctx context.Context, x *round, activities []core.Activity) bool {
	if x.forced || r.Now().Sub(x.checked) < overloadCheckInterval {
		return false
	}
	over := r.anyOverloaded(ctx, activities)
	x.checked = r.Now()
	if ctx.Err() != nil {
		return true
	}
	if r.yields(over, r.Now()) {
		return true
	}
	x.forced = over
	return false
}

// yields decides whether rounds yield now, and records since when they do.
func (r *Reconciler) yields(over bool, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !over:
		r.yieldingSince = time.Time{}
	case r.yieldingSince.IsZero():
		r.yieldingSince = now
	case now.Sub(r.yieldingSince) >= maxRest:
		r.yieldingSince = time.Time{} // this round runs, and the next ones yield again
		return false
	}
	return over
}
