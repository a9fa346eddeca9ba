package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// GateController makes the gates in Redis match the activities in the tables. It may run in several processes at once:
// every write may be repeated.
type GateController struct {
	svc    *Service
	window time.Duration // bounds the replication lag of a replica that becomes the master

	mu      sync.Mutex
	unknown map[string]string // by activity, the epoch of its gate that the database did not have in the last round
}

// GateConfirmation records that at a time a Redis master had every earlier effect on a gate. A new master may lack the
// effects of the changes since then, less the window, as replication may have lagged.
//
// A master that got effects of earlier changes may be lost before it has replicated them. Such effects are those that
// were repeated when it became the master, and those of late messages. So the time rises again only after the master
// was held for the window since it got the last of them.
type GateConfirmation struct {
	Master    string    // replication id, or those of all masters of a Cluster
	At        time.Time // zero: no effect is confirmed
	HeldSince time.Time // when the master had got the last effect of an earlier change
}

// NewGateController makes the controller.
func NewGateController(s *Service) *GateController {
	return &GateController{svc: s, window: s.timing.ResettleWindow, unknown: map[string]string{}}
}

// round is one round of the gate controller.
type round struct {
	seen      GateConfirmation            // the present master, and a time before its id was read
	confirmed map[string]GateConfirmation // by activity; absent: never confirmed
	epoch     Epoch
	pending   PendingImports
	skipped   *bool // whether a gate was left as it is, as its activity sells directly
}

// EnsureGates checks every gate that has to exist. It builds absent gates, writes newer versions of activities, sale
// documents and the list of gates, and marks this Redis as filled. A gate that was last confirmed on another Redis
// master gets the effects again that the old master may not have replicated.
//
// The confirmations are in the tables. So the effects are repeated from the same time on after an outage and a restart,
// however long these lasted.
func (c *GateController) EnsureGates(ctx context.Context) error {
	// Before the id is read: a process that stalls in between must not confirm a replaced master.
	began, err := c.svc.store.Now(ctx)
	if err != nil {
		return err
	}
	id, err := c.svc.gate.ReplicationID(ctx)
	if err != nil {
		return err
	}
	ready, err := c.svc.gate.Ready(ctx)
	if err != nil {
		return err
	}
	filling := ""
	if !ready { // before the activities are read: those that a merchant opens later are written by that call
		if filling, err = c.svc.gate.BeginFilling(ctx); err != nil {
			return err
		}
	}
	activities, err := c.svc.store.GateActivities(ctx, began)
	if err != nil {
		return err
	}
	activityIDs := make([]string, len(activities))
	for i, a := range activities {
		activityIDs[i] = a.ID
	}
	if err := c.svc.gate.Register(ctx, activityIDs); err != nil {
		return err
	}
	r := round{seen: GateConfirmation{Master: id, At: began}, skipped: new(bool)}
	if r.confirmed, err = c.svc.store.GateConfirmations(ctx, activityIDs); err != nil {
		return err
	}
	if r.epoch, err = c.svc.store.PresentEpoch(ctx); err != nil {
		return err
	}
	if r.pending, err = c.svc.store.PendingImports(ctx); err != nil {
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
	if err := c.returnOver(ctx, activities, began); err != nil {
		return err
	}
	if ready || *r.skipped {
		return nil
	}
	return c.markReady(ctx, filling, id, len(activities))
}

// renew raises the times of confirmations on the present master, if it is held for the window: it has lost nothing. It
// writes each tenth of the window only.
func (c *GateController) renew(ctx context.Context, r round) error {
	r.seen.HeldSince = r.seen.At.Add(-c.window)
	var due []string
	for id, last := range r.confirmed {
		if last.Master == r.seen.Master && last.At.Before(r.seen.At.Add(-c.window/10)) &&
			!last.HeldSince.After(r.seen.HeldSince) {
			due = append(due, id)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.Sort(due)
	return c.svc.store.RenewConfirmations(ctx, due, r.seen)
}

// ensureEach ensures the gates one by one. A gate that fails does not hold up the others. A broken gate raises an
// alarm and fails no round: an operator has to repair it, and its buyers get 503 until then.
func (c *GateController) ensureEach(ctx context.Context, activities []Activity, r round) error {
	// After Redis has lost its data, the gates with few purchases do not wait for the build of a large one.
	slices.SortStableFunc(activities, func(a, b Activity) int { return cmp.Compare(a.taken(), b.taken()) })
	var errs []error
	for i := range activities {
		a := &activities[i]
		err := c.ensure(ctx, a, r)
		switch {
		case err == nil:
		case errors.Is(err, ErrGateBroken) || errors.Is(err, ErrBrokenRow):
			c.svc.Alarms.RaiseBrokenGate(ctx, a.ID, err)
		default:
			errs = append(errs, fmt.Errorf("gate of activity %s: %w", a.ID, err))
		}
	}
	return errors.Join(errs...)
}

func (c *GateController) ensure(ctx context.Context, a *Activity, r round) error {
	if may, err := c.mayReturn(ctx, a); err != nil || !may {
		*r.skipped = true
		return err
	}
	audit, err := c.svc.gate.Audit(ctx, a.ID)
	switch {
	case errors.Is(err, ErrNoGate):
		if err := c.svc.Gates.Fill(ctx, a.ID); err != nil {
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
		if err := c.svc.Gates.configure(ctx, a); err != nil {
			return err
		}
	}
	if r.lacks(a.ID) {
		if err := c.svc.Gates.resync(ctx, a.ID, r.confirmed[a.ID].since(r.seen.At, c.window)); err != nil {
			return err
		}
		if err := c.confirm(ctx, a.ID, r, time.Time{}); err != nil {
			return err
		}
	}
	if err := c.svc.gate.ShowSale(ctx, *a); err != nil || a.UsesGate() {
		return err
	}
	return c.returnToGate(ctx, a)
}

// lacks reports whether the present master may lack effects on a gate.
func (r round) lacks(activityID string) bool {
	last, known := r.confirmed[activityID]
	return !known || last.Master != r.seen.Master
}

// confirm records that the present master has every effect on a gate since now. at is the time of the confirmation;
// zero keeps that of the last one.
func (c *GateController) confirm(ctx context.Context, activityID string, r round, at time.Time) error {
	if !r.lacks(activityID) {
		return nil // renewed
	}
	now, err := c.svc.store.Now(ctx)
	if err != nil {
		return err
	}
	return c.svc.store.ConfirmGate(ctx, activityID, GateConfirmation{Master: r.seen.Master, At: at, HeldSince: now})
}

// since returns from when on a new master may lack effects: zero, for all, without a confirmation.
func (c GateConfirmation) since(now time.Time, window time.Duration) time.Time {
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
func (c *GateController) markReady(ctx context.Context, filling, id string, gates int) error {
	now, err := c.svc.gate.BeginFilling(ctx)
	if err != nil || now != filling {
		return err
	}
	if master, err := c.svc.gate.ReplicationID(ctx); err != nil || master != id {
		return err
	}
	if err := c.svc.gate.MarkReady(ctx); err != nil {
		return err
	}
	c.svc.recorder.Info(ctx, "Redis is filled", "gates", gates)
	return nil
}

// TrimGates deletes entries that ended long ago from the gates, and gates that expired from the list.
func (c *GateController) TrimGates(ctx context.Context) error {
	activityIDs, err := c.svc.gate.Registered(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, activityID := range activityIDs {
		errs = append(errs, c.trim(ctx, activityID))
	}
	return errors.Join(append(errs, c.svc.Gates.forgetOld(ctx))...)
}

func (c *GateController) trim(ctx context.Context, activityID string) error {
	err := c.svc.gate.Trim(ctx, activityID)
	if !errors.Is(err, ErrNoGate) {
		return err
	}
	due, err := c.svc.Gates.Due(ctx, activityID)
	if err != nil || due {
		return err
	}
	return c.svc.gate.Unregister(ctx, activityID)
}
