package core

import (
	"context"
	"time"
)

// PastChange is an entry of the change log as it was stored.
type PastChange struct {
	ID     string
	At     time.Time
	Who    string
	Role   string // RoleMerchant or RoleOperator; "" for repairs of the reconciler
	Action string
	Detail string // JSON; "" without any
}

// ChangesOfActivity lists the changes that merchants and operators made to an activity, newest first.
func (s *Service) ChangesOfActivity(ctx context.Context, in Scope, activityID string, p Page) ([]PastChange, error) {
	return s.store.ChangesOfActivity(ctx, in, activityID, p)
}

// ReconciliationsOfActivity lists the reconciliations of an activity that repaired something or that an operator
// requested, newest first.
func (s *Service) ReconciliationsOfActivity(
	ctx context.Context, in Scope, activityID string, p Page,
) ([]PastChange, error) {
	return s.store.ReconciliationsOfActivity(ctx, in, activityID, p)
}

// AdjustmentsOfActivity lists the adjustments of an activity's stock, newest first.
func (s *Service) AdjustmentsOfActivity(ctx context.Context, in Scope, activityID string, p Page) ([]Adjustment, error) {
	return s.store.AdjustmentsOfActivity(ctx, in, activityID, p)
}
