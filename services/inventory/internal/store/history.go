package store

import (
	"context"

	"gorm.io/gorm"

	"flashsale.internal/services/inventory/internal/core"
)

// ChangesOfActivity implements merchants.History.
func (s *Store) ChangesOfActivity(
	ctx context.Context, in core.Scope, activityID string, p core.Page,
) ([]core.PastChange, error) {
	return changes(s.changesOf(ctx, in, activityID).
		Where("NOT (action = ? AND who = ?)", core.ActionReconcile, core.Reconciler), p)
}

// ReconciliationsOfActivity implements merchants.History.
func (s *Store) ReconciliationsOfActivity(
	ctx context.Context, in core.Scope, activityID string, p core.Page,
) ([]core.PastChange, error) {
	return changes(s.changesOf(ctx, in, activityID).Where("action = ?", core.ActionReconcile), p)
}

// ChangesOfLimit implements merchants.History. The object of a limit has no number: its name begins the details.
func (s *Store) ChangesOfLimit(ctx context.Context, name string, p core.Page) ([]core.PastChange, error) {
	prefix := `{"name":"` + name + `"`
	return changes(s.read(ctx).Where("object = 'limit' AND SUBSTR(detail, 1, ?) = ?", len(prefix), prefix), p)
}

// changesOf selects the changes of an activity.
func (s *Store) changesOf(ctx context.Context, in core.Scope, activityID string) *gorm.DB {
	q := s.read(ctx).Where("object = 'activity' AND object_id = ?", number(activityID))
	if merchant, limited := in.Limit(); limited {
		q = q.Where("object_id IN (SELECT id FROM activities WHERE merchant_id = ?)", merchant)
	}
	return q
}

func changes(q *gorm.DB, p core.Page) ([]core.PastChange, error) {
	if p.Cursor != "" {
		q = q.Where("id < ?", number(p.Cursor))
	}
	var list []changeRow
	if err := q.Order("id DESC").Limit(p.Limit).Find(&list).Error; err != nil {
		return nil, err
	}
	out := make([]core.PastChange, len(list))
	for i, r := range list {
		out[i] = core.PastChange{
			ID: text(r.ID), At: r.At.UTC(), Who: r.Who, Role: r.Role, Action: r.Action, Detail: r.Detail,
		}
	}
	return out, nil
}

// AdjustmentsOfActivity implements merchants.History.
func (s *Store) AdjustmentsOfActivity(
	ctx context.Context, in core.Scope, activityID string, p core.Page,
) ([]core.Adjustment, error) {
	q := ofActivities(s.read(ctx), in).Select(adjustmentColumns).Where("activity_id = ?", number(activityID))
	if p.Cursor != "" {
		q = q.Where("id < ?", number(p.Cursor))
	}
	var list []adjustmentRow
	err := q.Order("id DESC").Limit(p.Limit).Find(&list).Error
	return toAdjustments(list), err
}
