package gates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

// Confirmation records that at a time a Redis master had every earlier effect on a gate. A new master may lack the
// effects of the changes since then, less the window, as replication may have lagged.
//
// A master that got effects of earlier changes may be lost before it has replicated them. Such effects are those that
// were repeated when it became the master, and those of late messages. So the time rises again only after the master
// was held for the window since it got the last of them.
type Confirmation struct {
	Master    string    // replication id, or those of all masters of a Cluster
	At        time.Time // zero: no effect is confirmed
	HeldSince time.Time // when the master had got the last effect of an earlier change
}

// Confirmations keeps the confirmations of gates. Every method is one transaction.
type Confirmations interface {
	// GateConfirmations returns the confirmations of gates, by activity.
	GateConfirmations(ctx context.Context, activityIDs []string) (map[string]Confirmation, error)
	// ConfirmGate replaces the confirmation of a gate. Without a time it keeps that of the present one.
	ConfirmGate(ctx context.Context, activityID string, c Confirmation) error
	// LowerConfirmation lowers the time of a gate's confirmation to that of a change whose effect the master gets only
	// now. Its master is held since now.
	LowerConfirmation(ctx context.Context, activityID string, changed, now time.Time) error
	// RenewConfirmations raises the time of those confirmations that name this master, are older, and whose master is
	// held at least since c.HeldSince.
	RenewConfirmations(ctx context.Context, activityIDs []string, c Confirmation) error
}

// Registry is the list of gates, and what the controller reads and changes in each.
type Registry interface {
	Registered(ctx context.Context) ([]string, error)
	Register(ctx context.Context, activityIDs []string) error // adds them to Registered
	Unregister(ctx context.Context, activityID string) error
	Audit(ctx context.Context, activityID string) (core.GateAudit, error)
	Trim(ctx context.Context, activityID string) error // deletes some of the entries that ended long ago
	// MarkForImport makes a gate of another epoch, or without one, sell nothing until RenewEpoch.
	MarkForImport(ctx context.Context, activityID, epoch string) error
}

// Redis is the server of the gates.
type Redis interface {
	Ready(ctx context.Context) (bool, error)
	// BeginFilling returns a value that Redis keeps until it loses its data.
	BeginFilling(ctx context.Context) (string, error)
	MarkReady(ctx context.Context) error
	ReplicationID(ctx context.Context) (string, error) // it changes when a master is restarted or replaced
}

// Modes moves the activities that sell without their gate back to it.
type Modes interface {
	// MayWrite reports whether the gate of an activity, which responds, may be written.
	MayWrite(a *core.Activity) bool
	// ReturnToGate moves an activity back to its gate, which has been ensured.
	ReturnToGate(ctx context.Context, a *core.Activity) error
	// ReturnOver makes the mode gate for activities whose gate is not due any more.
	ReturnOver(ctx context.Context, due []core.Activity, now time.Time) error
}

// ControllerDeps are the ports of a Controller, and the clock of the process.
type ControllerDeps struct {
	*Syncer
	Registry  Registry
	Redis     Redis
	Modes     Modes
	Inventory interface { // the part of core.Service
		DrawEpoch(ctx context.Context, instead, cause string) error
	}
	Now func() time.Time
}

// Controller makes the gates in Redis match the activities in the tables. It may run in several processes at once:
// every write may be repeated.
type Controller struct {
	ControllerDeps
	now func() time.Time // of records that operators read

	mu      sync.Mutex
	unknown map[string]string // by activity, the epoch of its gate that the database did not have in the last round
}

// NewController makes the controller.
func NewController(d ControllerDeps) *Controller {
	return &Controller{ControllerDeps: d, now: core.TableTime(d.Now), unknown: map[string]string{}}
}

// round is one round of the gate controller.
type round struct {
	seen      Confirmation            // the present master, and a time before its id was read
	confirmed map[string]Confirmation // by activity; absent: never confirmed
	epoch     core.Epoch
	pending   core.PendingImports
	skipped   *bool // whether a gate was left as it is, as its activity is redisless
}

// EnsureGates checks every gate that has to exist. It builds absent gates, writes newer versions of activities, sale
// documents and the list of gates, and marks this Redis as filled. A gate that was last confirmed on another Redis
// master gets the effects again that the old master may not have replicated.
//
// The confirmations are in the tables. So the effects are repeated from the same time on after an outage and a restart,
// however long these lasted.
func (c *Controller) EnsureGates(ctx context.Context) error {
	// Before the id is read: a process that stalls in between must not confirm a replaced master.
	began, err := c.Activities.Now(ctx)
	if err != nil {
		return err
	}
	id, err := c.Redis.ReplicationID(ctx)
	if err != nil {
		return err
	}
	ready, err := c.Redis.Ready(ctx)
	if err != nil {
		return err
	}
	filling := ""
	if !ready { // before the activities are read: those that a merchant opens later are written by that call
		if filling, err = c.Redis.BeginFilling(ctx); err != nil {
			return err
		}
	}
	activities, err := c.Activities.GateActivities(ctx, began)
	if err != nil {
		return err
	}
	activityIDs := make([]string, len(activities))
	for i, a := range activities {
		activityIDs[i] = a.ID
	}
	if err := c.Registry.Register(ctx, activityIDs); err != nil {
		return err
	}
	r := round{seen: Confirmation{Master: id, At: began}, skipped: new(bool)}
	if r.confirmed, err = c.Confirmations.GateConfirmations(ctx, activityIDs); err != nil {
		return err
	}
	if r.epoch, err = c.Epochs.PresentEpoch(ctx); err != nil {
		return err
	}
	if r.pending, err = c.Epochs.PendingImports(ctx); err != nil {
		return err
	}
	if err := c.markForImports(ctx, r); err != nil {
		return err
	}
	if err := c.renew(ctx, r); err != nil {
		return err
	}
	if err := c.ensureEach(ctx, activities, r); err != nil {
		return err
	}
	if err := c.Modes.ReturnOver(ctx, activities, began); err != nil {
		return err
	}
	if ready || *r.skipped {
		return nil
	}
	return c.markReady(ctx, filling, id, len(activities))
}

// renew raises the times of confirmations on the present master, if it is held for the window: it has lost nothing. It
// writes each tenth of the window only.
func (c *Controller) renew(ctx context.Context, r round) error {
	r.seen.HeldSince = r.seen.At.Add(-c.Window)
	var due []string
	for id, last := range r.confirmed {
		if last.Master == r.seen.Master && last.At.Before(r.seen.At.Add(-c.Window/10)) &&
			!last.HeldSince.After(r.seen.HeldSince) {
			due = append(due, id)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.Sort(due)
	return c.Confirmations.RenewConfirmations(ctx, due, r.seen)
}

// ensureEach ensures the gates one by one. A gate that fails does not hold up the others. A broken gate raises an
// incident and fails no round: an operator has to repair it, and its buyers get 503 until then.
func (c *Controller) ensureEach(ctx context.Context, activities []core.Activity, r round) error {
	// After Redis has lost its data, the gates with few purchases do not wait for the build of a large one.
	slices.SortStableFunc(activities, func(a, b core.Activity) int { return cmp.Compare(taken(a), taken(b)) })
	var errs []error
	for i := range activities {
		a := &activities[i]
		err := c.ensure(ctx, a, r)
		switch {
		case err == nil:
		case errors.Is(err, core.ErrGateBroken) || errors.Is(err, core.ErrBrokenRow):
			c.Incidents.RaiseBrokenGate(ctx, a.ID, err)
		default:
			errs = append(errs, fmt.Errorf("gate of activity %s: %w", a.ID, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) ensure(ctx context.Context, a *core.Activity, r round) error {
	if !c.Modes.MayWrite(a) {
		*r.skipped = true
		return nil
	}
	audit, err := c.Registry.Audit(ctx, a.ID)
	switch {
	case errors.Is(err, core.ErrNoGate):
		if err := c.Fill(ctx, a.ID); err != nil {
			return err
		}
		return c.confirm(ctx, a.ID, r, r.seen.At) // a replica has all of a build or no gate
	case err != nil:
		return err
	}
	if ready, err := c.ensureEpoch(ctx, a, audit, r); err != nil || !ready {
		return err
	}
	if audit.Config.Version < a.Version {
		if err := c.configure(ctx, a); err != nil {
			return err
		}
	}
	if r.lacks(a.ID) {
		if err := c.Resync(ctx, a.ID, r.confirmed[a.ID].since(r.seen.At, c.Window)); err != nil {
			return err
		}
		if err := c.confirm(ctx, a.ID, r, time.Time{}); err != nil {
			return err
		}
	}
	if err := c.Gate.ShowSale(ctx, *a); err != nil || a.UsesGate() {
		return err
	}
	return c.Modes.ReturnToGate(ctx, a)
}

// lacks reports whether the present master may lack effects on a gate.
func (r round) lacks(activityID string) bool {
	last, known := r.confirmed[activityID]
	return !known || last.Master != r.seen.Master
}

// confirm records that the present master has every effect on a gate since now. at is the time of the confirmation;
// zero keeps that of the last one.
func (c *Controller) confirm(ctx context.Context, activityID string, r round, at time.Time) error {
	if !r.lacks(activityID) {
		return nil // renewed
	}
	now, err := c.Activities.Now(ctx)
	if err != nil {
		return err
	}
	return c.Confirmations.ConfirmGate(ctx, activityID, Confirmation{Master: r.seen.Master, At: at, HeldSince: now})
}

// since returns from when on a new master may lack effects: zero, for all, without a confirmation.
func (c Confirmation) since(now time.Time, window time.Duration) time.Time {
	if c.At.IsZero() {
		return time.Time{}
	}
	if now.Before(c.At) { // by a database server whose clock is ahead
		return now.Add(-window)
	}
	return c.At.Add(-window)
}

// markReady marks this Redis as filled, unless it has lost data since the round began to fill it: another round does
// then. filling shows the loss of everything, id that of what a promoted replica did not have yet.
func (c *Controller) markReady(ctx context.Context, filling, id string, gates int) error {
	now, err := c.Redis.BeginFilling(ctx)
	if err != nil || now != filling {
		return err
	}
	if master, err := c.Redis.ReplicationID(ctx); err != nil || master != id {
		return err
	}
	if err := c.Redis.MarkReady(ctx); err != nil {
		return err
	}
	c.Recorder.Info(ctx, "Redis is filled", "gates", gates)
	return nil
}

// TrimGates deletes entries that ended long ago from the gates, and gates that expired from the list.
func (c *Controller) TrimGates(ctx context.Context) error {
	activityIDs, err := c.Registry.Registered(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, activityID := range activityIDs {
		errs = append(errs, c.trim(ctx, activityID))
	}
	return errors.Join(append(errs, c.forgetOld(ctx))...)
}

func (c *Controller) trim(ctx context.Context, activityID string) error {
	err := c.Registry.Trim(ctx, activityID)
	if !errors.Is(err, core.ErrNoGate) {
		return err
	}
	due, err := c.Due(ctx, activityID)
	if err != nil || due {
		return err
	}
	return c.Registry.Unregister(ctx, activityID)
}

// taken returns the number of units that reservations hold or have bought.
func taken(a core.Activity) (n int64) {
	for _, it := range a.Items {
		n += it.Reserved + it.Sold
	}
	return n
}
