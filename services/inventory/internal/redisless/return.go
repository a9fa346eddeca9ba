package redisless

import (
	"context"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// beginReturn makes the mode of a redisless activity returning, in this outage: nothing is sold until finishReturn.
func (s *Service) beginReturn(ctx context.Context, activityID string, outage int64) (*core.Activity, error) {
	return s.Sales.ChangeMode(ctx, activityID, func(a *core.Activity, _ *core.RedislessSale, now time.Time) (bool, error) {
		if !a.Redisless() || a.Outage != outage {
			return false, nil
		}
		a.Mode, a.ModeChangedAt = contract.ModeReturning, &now
		return true, nil
	})
}

// finishReturn makes the mode gate, once the gate has every effect, unless the sale has become redisless meanwhile.
func (s *Service) finishReturn(ctx context.Context, activityID string, outage int64) error {
	changed := false
	_, err := s.Sales.ChangeMode(ctx, activityID, func(a *core.Activity, _ *core.RedislessSale, now time.Time) (bool, error) {
		changed = a.Mode == contract.ModeReturning && a.Outage == outage
		if changed {
			a.Mode, a.ModeChangedAt, a.GateLacksSince = contract.ModeGate, &now, nil
		}
		return changed, nil
	})
	if err == nil && changed {
		s.Recorder.Info(ctx, "a sale uses its gate again", "activity_id", activityID)
	}
	return err
}

// MayWrite reports whether the gate of an activity may be written. That of a redisless one must have responded to this
// process for a while.
func (s *Service) MayWrite(a *core.Activity) bool { return !a.Redisless() || s.Watch.steady(a.ID) }

// ReturnToGate moves an activity back to its gate, which responds and has been ensured: it gets what changed while it
// was not used. The sale goes on without the gate until it has most of that: a gate that does not take it ends no sale.
func (s *Service) ReturnToGate(ctx context.Context, a *core.Activity) error {
	if a.Redisless() {
		began, err := s.Rows.Now(ctx)
		if err != nil {
			return err
		}
		if err := s.resync(ctx, a.ID, a.GateLacksSince); err != nil {
			return err
		}
		changed, err := s.beginReturn(ctx, a.ID, a.Outage)
		if err != nil || changed.Mode != contract.ModeReturning || changed.Outage != a.Outage {
			return err
		}
		if lower := changed.GateLacksSince; a.GateLacksSince != nil && lower != nil && lower.Before(*a.GateLacksSince) {
			began = *lower // by a change that was noted since
		}
		a.Mode, a.GateLacksSince = changed.Mode, &began
	}
	if err := s.resync(ctx, a.ID, a.GateLacksSince); err != nil {
		return err
	}
	return s.finishReturn(ctx, a.ID, a.Outage)
}

// resync brings the effects of the changes since then into the gate; nil: of all.
func (s *Service) resync(ctx context.Context, activityID string, lacks *time.Time) error {
	var since time.Time
	if lacks != nil {
		since = lacks.Add(-lackOverlap)
	}
	return s.Gates.Resync(ctx, activityID, since)
}

// ReturnOver makes the mode gate for activities whose gate is not due any more.
func (s *Service) ReturnOver(ctx context.Context, due []core.Activity, now time.Time) error {
	all, err := s.Sales.DegradedActivities(ctx, now)
	if err != nil {
		return err
	}
	var errs []error
	for i := range all {
		a := &all[i]
		if a.UsesGate() || slices.ContainsFunc(due, func(d core.Activity) bool { return d.ID == a.ID }) {
			continue
		}
		if !s.MayWrite(a) {
			continue
		}
		_, err := s.beginReturn(ctx, a.ID, a.Outage)
		if err == nil {
			err = s.finishReturn(ctx, a.ID, a.Outage)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
