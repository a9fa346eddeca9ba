package redisless

import (
	"context"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// beginReturn makes the mode of a redisless activity returning: nothing is sold until finishReturn.
func (s *Service) beginReturn(ctx context.Context, activityID string) (*core.Activity, error) {
	return s.Sales.ChangeMode(ctx, activityID, func(a *core.Activity, _ *core.RedislessSale, now time.Time) (bool, error) {
		if !a.Redisless() {
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

// MayReturn reports whether the gate of an activity may be written. For a redisless one, this process must have
// read it for a while; then its mode becomes returning.
func (s *Service) MayReturn(ctx context.Context, a *core.Activity) (bool, error) {
	if !a.Redisless() {
		return true, nil
	}
	if !s.Watch.steady(a.ID) {
		return false, nil
	}
	changed, err := s.beginReturn(ctx, a.ID)
	if err != nil {
		return false, err
	}
	a.Mode, a.Outage, a.GateLacksSince = changed.Mode, changed.Outage, changed.GateLacksSince
	return !a.Redisless(), nil
}

// ReturnToGate moves an activity back to its gate, which responds and has been ensured: it gets what changed while it
// was not used.
func (s *Service) ReturnToGate(ctx context.Context, a *core.Activity) error {
	var since time.Time
	if a.GateLacksSince != nil {
		since = a.GateLacksSince.Add(-lackOverlap)
	}
	if err := s.Gates.Resync(ctx, a.ID, since); err != nil {
		return err
	}
	return s.finishReturn(ctx, a.ID, a.Outage)
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
		ready, err := s.MayReturn(ctx, a)
		if err == nil && ready {
			err = s.finishReturn(ctx, a.ID, a.Outage)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
