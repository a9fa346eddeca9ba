package store

import (
	"context"

	"gorm.io/gorm"

	"flashsale.internal/services/order/internal/core"
)

// changedAt is the time of the last change of an order's state.
const changedAt = "COALESCE(refunded_at, closed_at, paid_at, created_at)"

const (
	changedStep = 10_000 // rows that one statement reads
	changedMost = 200    // statements of one page
)

// ChangedOrders implements core.Store. No index has the time of the change, so it reads by order_sn, changedStep rows
// at a time. It ends early, with fewer orders, after changedMost statements.
func (s *Store) ChangedOrders(
	ctx context.Context, q core.ChangedQuery,
) (orders []core.Order, next string, more bool, err error) {
	rows, last, more, err := s.changedRows(ctx, q)
	if err == nil {
		orders, err = ordersOf(rows)
	}
	return orders, text(last), more, refuseTransient(err)
}

// changedRows returns the rows of a page, and the last order_sn that it has read.
func (s *Store) changedRows(
	ctx context.Context, q core.ChangedQuery,
) (rows []orderRow, after int64, more bool, err error) {
	db := s.db.WithContext(ctx)
	if q.After.OrderSN != "" {
		if after, err = id(q.After.OrderSN); err != nil {
			return nil, 0, false, err
		}
	}
	matching := db.Where("tombstone = ? AND "+changedAt+" >= ?", false, q.Since)
	if q.ActivityID != "" {
		activity, err := id(q.ActivityID)
		if err != nil {
			return nil, 0, false, err
		}
		matching = matching.Where("activity_id = ?", activity)
	}
	matching = matching.Session(&gorm.Session{})
	for steps := 0; len(rows) < q.Limit && steps < changedMost; steps++ {
		var last []int64 // of this step
		err := db.Model(&orderRow{}).Where("order_sn > ?", after).Order("order_sn").Offset(changedStep-1).Limit(1).
			Pluck("order_sn", &last).Error
		if err != nil {
			return nil, 0, false, err
		}
		find := matching.Where("order_sn > ?", after)
		if len(last) > 0 {
			find = find.Where("order_sn <= ?", last[0])
		}
		var some []orderRow
		wanted := q.Limit - len(rows)
		if err := find.Order("order_sn").Limit(wanted).Find(&some).Error; err != nil {
			return nil, 0, false, err
		}
		rows = append(rows, some...)
		switch {
		case len(some) == wanted:
			after = some[len(some)-1].OrderSN
		case len(last) > 0:
			after = last[0]
		default:
			return rows, after, false, nil
		}
	}
	return rows, after, true, nil
}
