package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"flashsale.internal/pkg/contract"
)

const retryGateAfter = 2 * time.Second

// master is a Redis master, or all of a Cluster's, by replication id.
type master struct {
	id   string
	seen time.Time // when it was last found in its place
}

// EnsureGates looks at every gate that has to exist: builds the absent ones, tells those of an older version what was
// decided since, keeps the sales' documents and the list of gates, and says that this Redis is filled. A new master of
// Redis is told again what it may not have heard of. All of it is safe to repeat and to run twice at once.
func (s *Service) EnsureGates(ctx context.Context) error {
	id, err := s.Gate.ReplicationID(ctx)
	if err != nil {
		return err
	}
	now := s.now()
	s.mu.Lock()
	last := s.master
	s.mu.Unlock()
	// What a new master has not heard, its predecessor was told since it was last seen, or shortly before.
	since := now.Add(-s.Timing.ResettleWindow)
	if last != nil {
		since = last.seen.Add(-s.Timing.ResettleWindow)
	}
	activities, err := s.Store.GateActivities(ctx, now)
	if err != nil {
		return err
	}
	refs := make([]contract.GateRef, len(activities))
	for i, a := range activities {
		refs[i] = contract.GateRef{ActivityID: a.ID}
	}
	if err := s.Gate.List(ctx, refs); err != nil {
		return err
	}
	unhealed := map[contract.GateRef]time.Time{}
	s.mu.Lock()
	for _, ref := range refs {
		if at, ok := s.unhealed[ref]; ok {
			unhealed[ref] = at
		}
		if at, ok := unhealed[ref]; (last == nil || last.id != id) && (!ok || since.Before(at)) {
			unhealed[ref] = since
		}
	}
	s.unhealed = maps.Clone(unhealed)
	s.master = &master{id: id, seen: now}
	s.mu.Unlock()
	var errs []error
	for i := range activities {
		a := &activities[i]
		since, heal := unhealed[refs[i]]
		err := s.ensureGate(ctx, a, heal, since)
		switch {
		case err == nil:
			s.mu.Lock()
			delete(s.unhealed, refs[i])
			s.mu.Unlock()
		case errors.Is(err, ErrGateBroken) || errors.Is(err, ErrBrokenRow):
			// This one waits for a person. Its buyers are told 503; the other sales go on.
			s.alarmBroken(ctx, a.ID, err)
		default:
			errs = append(errs, fmt.Errorf("gate of activity %s: %w", a.ID, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	ready, err := s.Gate.Ready(ctx)
	if err != nil {
		return err
	}
	if !ready {
		if err := s.Gate.MarkReady(ctx); err != nil {
			return err
		}
		s.Recorder.Info(ctx, "Redis is filled", "gates", len(activities))
	}
	return nil
}

// alarmBroken calls somebody to a gate that cannot be read, or not be built.
func (s *Service) alarmBroken(ctx context.Context, activityID string, err error) {
	s.alarm(ctx, "broken "+activityID, "a gate is broken", "activity_id", activityID, "error", err)
}

// TidyGates takes off the list what has expired, and lets go of entries that ended long ago.
func (s *Service) TidyGates(ctx context.Context) error {
	refs, err := s.Gate.Refs(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, ref := range refs {
		err := s.Gate.Trim(ctx, ref)
		if errors.Is(err, ErrNoGate) {
			var due bool
			if due, err = s.gateDue(ctx, ref); err == nil && !due {
				err = s.Gate.Forget(ctx, ref)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Service) ensureGate(ctx context.Context, a *Activity, heal bool, since time.Time) error {
	ref := contract.GateRef{ActivityID: a.ID}
	audit, err := s.Gate.Audit(ctx, ref)
	switch {
	case errors.Is(err, ErrNoGate):
		return s.FillGate(ctx, a.ID)
	case err != nil:
		return err
	case audit.Config.Version < a.Version:
		if err := s.configure(ctx, a); err != nil {
			return err
		}
	}
	if heal {
		if err := s.resync(ctx, ref, since); err != nil {
			return err
		}
	}
	return s.Gate.ShowSale(ctx, *a)
}

// configure tells the gate what was decided. A gate with a newer version has heard of a later decision already.
func (s *Service) configure(ctx context.Context, a *Activity) error {
	err := s.Gate.Configure(ctx, contract.GateRef{ActivityID: a.ID}, gateConfig(a))
	if errors.Is(err, ErrGateVersion) {
		return nil
	}
	return err
}

func gateConfig(a *Activity) GateConfig {
	return GateConfig{State: a.State, StartsAt: a.StartsAt, EndsAt: a.EndsAt, PerUserLimit: a.PerUserLimit, Version: a.Version}
}

// FillGate builds an absent gate from the tables: activity and stock are locked while ledger, allowances and adjustments
// are read and while the gate is written, so nothing lands in between that neither the gate nor a later settling knows.
// A gate that is live already is left as it is.
func (s *Service) FillGate(ctx context.Context, activityID string) error {
	var a Activity
	err := s.Store.Rebuild(ctx, activityID, s.now(), func(r Rebuild) error {
		a = r.Activity
		return s.Gate.Preload(ctx, contract.GateRef{ActivityID: activityID}, r)
	})
	switch {
	case errors.Is(err, ErrGateLive):
		fresh, err := s.Store.Activity(ctx, activityID)
		if err != nil || fresh == nil {
			return err
		}
		if err := s.configure(ctx, fresh); err != nil {
			return err
		}
		return s.Gate.ShowSale(ctx, *fresh)
	case err != nil:
		return err
	}
	s.Recorder.Rebuilt(ctx, activityID)
	return s.Gate.ShowSale(ctx, a)
}

// showSale refreshes what buyers are shown. A failure is the keeper's to mend.
func (s *Service) showSale(ctx context.Context, activityID string) {
	a, err := s.Store.Activity(ctx, activityID)
	if err == nil && a != nil {
		err = s.Gate.ShowSale(ctx, *a)
	}
	if err != nil {
		s.Recorder.Warn(ctx, "sale document not refreshed yet", err)
	}
}
