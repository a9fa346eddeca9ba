package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

// GateController makes the gates in Redis match the activities in the tables. EnsureGates must not be called
// concurrently in one process. TrimGates uses no state of the controller and may run concurrently with it. Both may
// run in several processes at once: every write may be repeated.
type GateController struct {
	svc    *Service
	window time.Duration // bounds the replication lag of a replica that becomes the master

	master   *master                        // the Redis master as last seen; nil before the first round
	unsynced map[contract.GateRef]time.Time // gates of a new master that lack writes, and since when
}

// master is a Redis master, or all masters of a cluster, by replication id.
type master struct {
	id   string
	seen time.Time // when it was last found as the master
}

// NewGateController makes the controller.
func NewGateController(s *Service) *GateController {
	return &GateController{svc: s, window: s.timing.ResettleWindow, unsynced: map[contract.GateRef]time.Time{}}
}

// EnsureGates checks every gate that has to exist. It builds absent gates, writes newer versions of activities, sale
// documents and the list of gates, and marks this Redis as filled. After a change of the Redis master it repeats the
// effects that the old master may not have replicated.
func (c *GateController) EnsureGates(ctx context.Context) error {
	id, err := c.svc.gate.ReplicationID(ctx)
	if err != nil {
		return err
	}
	now := c.svc.now()
	activities, err := c.svc.store.GateActivities(ctx, now)
	if err != nil {
		return err
	}
	refs := make([]contract.GateRef, len(activities))
	for i, a := range activities {
		refs[i] = contract.GateRef{ActivityID: a.ID}
	}
	if err := c.svc.gate.Register(ctx, refs); err != nil {
		return err
	}
	c.noteMaster(id, now, refs)
	if err := c.ensureEach(ctx, activities); err != nil {
		return err
	}
	return c.markReady(ctx, len(activities))
}

// noteMaster records the present master of Redis. After a change of the master, every gate counts as unsynced: it may
// lack the writes since the old master was last seen, less the window, as replication may have lagged.
func (c *GateController) noteMaster(id string, now time.Time, refs []contract.GateRef) {
	seen := now
	if c.master != nil {
		seen = c.master.seen
	}
	since := seen.Add(-c.window)
	replaced := c.master == nil || c.master.id != id
	unsynced := make(map[contract.GateRef]time.Time, len(refs))
	for _, ref := range refs {
		at, known := c.unsynced[ref]
		if replaced && (!known || since.Before(at)) {
			at, known = since, true
		}
		if known {
			unsynced[ref] = at
		}
	}
	c.unsynced = unsynced
	c.master = &master{id: id, seen: now}
}

// ensureEach ensures the gates one by one. A gate that fails does not hold up the others. A broken gate raises an
// alarm and fails no round: an operator has to repair it, and its buyers get 503 until then.
func (c *GateController) ensureEach(ctx context.Context, activities []Activity) error {
	var errs []error
	for i := range activities {
		a := &activities[i]
		err := c.ensure(ctx, a)
		switch {
		case err == nil:
			delete(c.unsynced, contract.GateRef{ActivityID: a.ID})
		case errors.Is(err, ErrGateBroken) || errors.Is(err, ErrBrokenRow):
			c.svc.Alarms.RaiseBrokenGate(ctx, a.ID, err)
		default:
			errs = append(errs, fmt.Errorf("gate of activity %s: %w", a.ID, err))
		}
	}
	return errors.Join(errs...)
}

func (c *GateController) ensure(ctx context.Context, a *Activity) error {
	ref := contract.GateRef{ActivityID: a.ID}
	audit, err := c.svc.gate.Audit(ctx, ref)
	switch {
	case errors.Is(err, ErrNoGate):
		return c.svc.Gates.Fill(ctx, a.ID)
	case err != nil:
		return err
	case audit.Config.Version < a.Version:
		if err := c.svc.Gates.configure(ctx, a); err != nil {
			return err
		}
	}
	if since, lacks := c.unsynced[ref]; lacks {
		if err := c.svc.Gates.resync(ctx, ref, since); err != nil {
			return err
		}
	}
	return c.svc.gate.ShowSale(ctx, *a)
}

// markReady marks this Redis as filled, if it is not marked yet.
func (c *GateController) markReady(ctx context.Context, gates int) error {
	ready, err := c.svc.gate.Ready(ctx)
	if err != nil || ready {
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
	refs, err := c.svc.gate.Refs(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, ref := range refs {
		errs = append(errs, c.trim(ctx, ref))
	}
	c.svc.Gates.forgetOld()
	return errors.Join(errs...)
}

func (c *GateController) trim(ctx context.Context, ref contract.GateRef) error {
	err := c.svc.gate.Trim(ctx, ref)
	if !errors.Is(err, ErrNoGate) {
		return err
	}
	due, err := c.svc.Gates.Due(ctx, ref)
	if err != nil || due {
		return err
	}
	return c.svc.gate.Unregister(ctx, ref)
}
