// Package reconcile compares the gate, the ledger and the allowances of each activity while purchases go on, and
// repairs what disagrees. It repairs purchases by order_sn, and counters by adding what they lack. It does not
// repair what is in flight: the messages and calls of package core and the sweeps of package sweep complete that.
//
// It imports core, ledger, the standard library and the contract only.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// Actor is the actor recorded for repairs that no operator requested.
const Actor = core.Reconciler

// lockWait bounds how long an operator's call waits for another reconciliation of the same activity.
const lockWait = 5 * time.Second

// idleFactor is the ratio of the pause after a clean comparison or check to its duration, up to maxRest. So those that
// take up to 30 s (maxRest / idleFactor) need at most a tenth of the time.
const (
	idleFactor = 10
	maxRest    = 5 * time.Minute
)

// Config holds the settings of a Reconciler.
type Config struct {
	Grace         time.Duration // a row that changed more recently counts as in flight to the gate
	Pause         time.Duration // between two comparisons
	Confirmations int           // equal comparisons in a row before a counter is corrected
	// FullEvery is the interval of comparisons of all entries of an activity in which nothing is wrong. It is up to
	// maxFullRests times as long where they take long.
	FullEvery time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Grace: 10 * time.Second, Pause: 2 * time.Second, Confirmations: 3, FullEvery: 5 * time.Minute}
}

// Deps are the ports and settings of a Reconciler.
type Deps struct {
	Activities  Activities
	Rows        Rows
	Adjustments Adjustments
	Imports     Imports
	Gate        Holdings
	Repairs     Repairs
	Gates       Gates
	Locks       Locks
	Recorder    Recorder
	Incidents   Incidents
	Epochs      Epochs
	Now         func() time.Time // clock of the process: how long comparisons take, and how long it rests
	Config      Config
}

// Reconciler compares gate, ledger and allowances of activities, and repairs them. It is safe for concurrent use.
type Reconciler struct {
	Deps
	tableTime func() time.Time // Now, for records that operators read

	mu            sync.Mutex
	compared      map[string]compared // by activity, the latest reconciliation
	proofs        map[string]proof    // by activity, what the last reconciliation found
	yieldingSince time.Time           // since when rounds yield to buyers; zero: they do not
}

// compared is when an activity was last reconciled, and how long its last comparison or check took if nothing was
// wrong.
type compared struct {
	at       time.Time
	took     time.Duration
	left     int       // differences that remained
	baseline *baseline // nil: the next reconciliation compares all entries
}

// rests reports whether the activity need not be compared at this time.
func (c compared) rests(now time.Time) bool {
	return now.Before(c.at.Add(min(idleFactor*c.took, maxRest)))
}

// New makes a reconciler.
func New(d Deps) *Reconciler {
	return &Reconciler{Deps: d, tableTime: core.TableTime(d.Now), compared: map[string]compared{}, proofs: map[string]proof{}}
}

// Reconcile compares and repairs an activity now, on an operator's request. It refuses with not_found if there is no
// such activity, and with unavailable if another reconciliation of it does not end in time.
func (r *Reconciler) Reconcile(ctx context.Context, by core.Caller, activityID string) (*Result, error) {
	a, err := r.Activities.Activity(ctx, by.Scope(), activityID)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, contract.Refuse(contract.CodeNotFound, "no such resource")
	}
	if !a.UsesGate() {
		return nil, core.GateUnreadable(core.ErrGateUnavailable)
	}
	for began := r.Now(); ; {
		out, err := r.reconcileLocked(ctx, by.UserID, a)
		if !errors.Is(err, ErrLockHeld) {
			return out, core.GateUnreadable(err)
		}
		if r.Now().Sub(began) > lockWait {
			return nil, core.Unavailable("the activity is being reconciled; repeat the call", err)
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// ReconcileAll is one round of the timer: it reconciles every activity that has a gate, those first whose last
// comparison is the oldest. An activity that fails does not hold up the others. The round ends early while a gate is
// overloaded.
func (r *Reconciler) ReconcileAll(ctx context.Context) error {
	now, err := r.Activities.Now(ctx)
	if err != nil {
		return err
	}
	activities, err := r.Activities.GateActivities(ctx, now)
	if err != nil {
		return err
	}
	began := r.Now()
	complete := true
	last := r.lastCompared(activities)
	slices.SortStableFunc(activities, func(a, b core.Activity) int { return last[a.ID].at.Compare(last[b.ID].at) })
	var errs []error
	var x round
	for i := range activities {
		a := &activities[i]
		if last[a.ID].rests(began) || !a.UsesGate() {
			continue
		}
		// The next round goes on with the activities that this one did not reach.
		if r.yieldToBuyers(ctx, &x, activities) || ctx.Err() != nil {
			complete = false
			break
		}
		if _, err := r.reconcileLocked(ctx, Actor, a); err != nil && !errors.Is(err, ErrLockHeld) {
			errs = append(errs, fmt.Errorf("activity %s: %w", a.ID, err))
		}
	}
	if complete && len(errs) == 0 {
		r.Recorder.Compared(r.tableTime(), r.differences())
	}
	return errors.Join(errs...)
}

// differences returns how many differences the latest reconciliations have left.
func (r *Reconciler) differences() (left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.compared {
		left += c.left
	}
	return left
}

// lastCompared returns the latest reconciliations of these activities, and deletes those of all others.
func (r *Reconciler) lastCompared(activities []core.Activity) map[string]compared {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := make(map[string]compared, len(activities))
	for _, a := range activities {
		if c, ok := r.compared[a.ID]; ok {
			last[a.ID] = c
		}
	}
	r.compared = maps.Clone(last)
	return last
}

// reconcileLocked reconciles under the activity's lock. It records the repairs also if the reconciliation fails.
func (r *Reconciler) reconcileLocked(ctx context.Context, who string, a *core.Activity) (*Result, error) {
	p := &pass{Reconciler: r, activity: a, actor: who}
	err := r.Locks.Do(ctx, "inventory reconcile "+a.ID, func(ctx context.Context) error {
		ctx, end := r.Recorder.Span(ctx, "reconcile", false)
		err := p.run(ctx)
		err = errors.Join(err, p.record(ctx, err == nil && who != Actor))
		end(err)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &p.result, nil
}

// wait is a pause with jitter that ends with ctx.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d + rand.N(d/8+1)) //nolint:gosec // no secret depends on it
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
