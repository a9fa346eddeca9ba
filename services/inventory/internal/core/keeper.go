package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const retryGateAfter = 2 * time.Second

// KeepGates looks at every gate that has to exist: builds the absent ones, tells those of an older version what was
// decided since, keeps the sales' documents, and says that this Redis is filled. After a change of Redis's master it
// settles again what the new one may not have heard of. All of it is safe to repeat and to run twice at once.
func (s *Service) KeepGates(ctx context.Context) error {
	runID, err := s.Gate.RunID(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	heal := s.runID == nil || *s.runID != runID
	s.mu.Unlock()
	activities, err := s.Store.GateActivities(ctx, s.now())
	if err != nil {
		return err
	}
	var errs []error
	for i := range activities {
		if err := s.keepGate(ctx, &activities[i], heal); err != nil {
			errs = append(errs, fmt.Errorf("gate of activity %s: %w", activities[i].ID, err))
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
		s.Watch.Info(ctx, "Redis is filled", "gates", len(activities))
	}
	if heal {
		s.mu.Lock()
		s.runID = &runID
		s.mu.Unlock()
	}
	return nil
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

func (s *Service) keepGate(ctx context.Context, a *Activity, heal bool) error {
	ref := GateRef{ActivityID: a.ID}
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
		if err := s.resettle(ctx, ref, s.now().Add(-s.Timing.ResettleWindow)); err != nil {
			return err
		}
	}
	return s.Gate.ShowSale(ctx, *a)
}

// configure tells the gate what was decided. A gate with a newer version has heard of a later decision already.
func (s *Service) configure(ctx context.Context, a *Activity) error {
	err := s.Gate.Configure(ctx, GateRef{ActivityID: a.ID}, gateConfig(a))
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
		return s.Gate.Preload(ctx, GateRef{ActivityID: activityID}, r)
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
	s.Watch.Rebuilt(ctx, activityID)
	return s.Gate.ShowSale(ctx, a)
}

// showSale refreshes what buyers are shown. A failure is the keeper's to mend.
func (s *Service) showSale(ctx context.Context, activityID string) {
	a, err := s.Store.Activity(ctx, activityID)
	if err == nil && a != nil {
		err = s.Gate.ShowSale(ctx, *a)
	}
	if err != nil {
		s.Watch.Warn(ctx, "sale document not refreshed yet", err)
	}
}
