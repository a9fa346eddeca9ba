package merchants

import (
	"context"

	"flashsale.internal/services/inventory/internal/core"
)

// ChangesOfActivity lists the changes that merchants and operators made to an activity, newest first.
func (s *Service) ChangesOfActivity(ctx context.Context, in core.Scope, activityID string, p core.Page) ([]core.PastChange, error) {
	return s.history.ChangesOfActivity(ctx, in, activityID, p)
}

// ReconciliationsOfActivity lists the reconciliations of an activity that repaired something or that an operator
// requested, newest first.
func (s *Service) ReconciliationsOfActivity(
	ctx context.Context, in core.Scope, activityID string, p core.Page,
) ([]core.PastChange, error) {
	return s.history.ReconciliationsOfActivity(ctx, in, activityID, p)
}

// AdjustmentsOfActivity lists the adjustments of an activity's stock, newest first.
func (s *Service) AdjustmentsOfActivity(ctx context.Context, in core.Scope, activityID string, p core.Page) ([]core.Adjustment, error) {
	return s.history.AdjustmentsOfActivity(ctx, in, activityID, p)
}

// ChangeLimit records the change of a limit in the change log, and then runs it. The two are in different stores: a
// change that cannot be recorded is not made, and a recorded change that failed was an attempt.
func (s *Service) ChangeLimit(
	ctx context.Context, who, action, name string, rule any, do func(context.Context) error,
) error {
	detail := map[string]any{"name": name}
	if rule != nil {
		detail["rule"] = rule
	}
	if err := s.history.Record(ctx, core.Change{
		At: s.clock(), Who: who, Role: core.RoleOperator, Action: action, Object: "limit", Detail: detail,
	}); err != nil {
		return err
	}
	return do(ctx)
}
