package store

import (
	"context"

	"gorm.io/gorm"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
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

// ChangesOfOrder implements merchants.History. The order_sns of a cancellation are strings of a JSON list: the index
// finds the activity's changes, and few of them are cancellations.
func (s *Store) ChangesOfOrder(
	ctx context.Context, in core.Scope, activityID, orderSN string, limit int,
) ([]core.PastChange, error) {
	cancelled, err := changes(s.changesOf(ctx, in, activityID).Where("action = ? AND detail LIKE ?",
		merchants.ActionCancelOrders, `%"`+text(number(orderSN))+`"%`), core.Page{Limit: limit})
	if err != nil {
		return nil, err
	}
	letters := ofActivities(s.read(ctx).Table("dead_letters"), in).Select("id").
		Where("order_sn = ? AND activity_id = ?", number(orderSN), number(activityID))
	decided, err := changes(s.read(ctx).Where("object = 'dead_letter' AND object_id IN (?)", letters),
		core.Page{Limit: limit})
	return append(cancelled, decided...), err
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
