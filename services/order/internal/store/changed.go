package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/services/order/internal/core"
)

// changedAt is the time of the last change of an order's state. Tables of version 1 have it as the indexed column
// changed_at.
const changedAt = "COALESCE(refunded_at, closed_at, paid_at, created_at)"

const (
	changedStep = 10_000 // rows that one statement reads
	changedMost = 200    // statements of one page
)

// ChangedOrders implements core.Store. It reads table by table: those of version 1 by the time of the change, those of
// version 2, which have no index for it, by order_sn. A listing that was begun in another layout begins again.
func (s *Store) ChangedOrders(
	ctx context.Context, q core.ChangedQuery,
) (orders []core.Order, next core.ChangedPosition, more bool, err error) {
	err = s.withLayout(ctx, func(l *layout) (err error) {
		if q.After.Layout != l.Generation {
			q.After = core.ChangedPosition{Began: q.After.Began}
		}
		if l.inline() {
			orders, next, more, err = s.changedInOrder(ctx, l, q)
		} else {
			orders, next, more, err = s.changedByTime(ctx, l, q)
		}
		next.Layout = l.Generation
		return err
	})
	return orders, next, more, refuseTransient(err)
}

// inActivity restricts a query to the orders of the requested activity, if there is one.
func inActivity(find *gorm.DB, q core.ChangedQuery) (*gorm.DB, error) {
	if q.ActivityID == "" {
		return find, nil
	}
	activity, err := id(q.ActivityID)
	return find.Where("activity_id = ?", activity), err
}

// changedInOrder reads a page by order_sn. It ends early, with fewer orders, after changedMost statements.
func (s *Store) changedInOrder(
	ctx context.Context, l *layout, q core.ChangedQuery,
) (orders []core.Order, next core.ChangedPosition, more bool, err error) {
	db := s.db.WithContext(ctx)
	names := l.tables()
	var after int64
	if !q.After.ChangedAt.IsZero() {
		if after, err = id(q.After.OrderSN); err != nil {
			return nil, next, false, err
		}
	}
	var rows []orderRow
	shard := q.After.Shard
	for steps := 0; shard < len(names) && len(rows) < q.Limit && steps < changedMost; steps++ {
		var last []int64 // of this step
		err := db.Table(names[shard]).Where("order_sn > ?", after).Order("order_sn").Offset(changedStep-1).Limit(1).
			Pluck("order_sn", &last).Error
		if err != nil {
			return nil, next, false, err
		}
		find := db.Table(names[shard]).Where("order_sn > ? AND tombstone = ? AND "+changedAt+" >= ?", after, false, q.Since)
		if len(last) > 0 {
			find = find.Where("order_sn <= ?", last[0])
		}
		if find, err = inActivity(find, q); err != nil {
			return nil, next, false, err
		}
		var some []orderRow
		wanted := q.Limit - len(rows)
		if err := find.Order("order_sn").Limit(wanted).Find(&some).Error; err != nil {
			return nil, next, false, err
		}
		rows = append(rows, some...)
		switch {
		case len(some) == wanted:
			after = some[len(some)-1].OrderSN
		case len(last) > 0:
			after = last[0]
		default:
			shard, after = shard+1, 0
		}
	}
	if orders, err = withLines(db, l, rows); err != nil || shard == len(names) {
		return orders, next, false, err
	}
	// Without an order in the step the position is that before the first order of the table.
	return orders, core.ChangedPosition{Shard: shard, ChangedAt: time.UnixMilli(1).UTC(), OrderSN: text(max(after, 1))},
		true, nil
}

// changedByTime reads a page by the index of version 1 of the layout, so that each page needs one step in few indexes.
func (s *Store) changedByTime(
	ctx context.Context, l *layout, q core.ChangedQuery,
) (orders []core.Order, next core.ChangedPosition, more bool, err error) {
	db := s.db.WithContext(ctx)
	names := l.tables()
	var rows []orderRow
	shardOf := map[int64]int{}
	for shard := q.After.Shard; shard < len(names) && len(rows) <= q.Limit; shard++ {
		find, err := inActivity(db.Table(names[shard]).Where("changed_at >= ? AND tombstone = ?", q.Since, false), q)
		if err != nil {
			return nil, next, false, err
		}
		if shard == q.After.Shard && !q.After.ChangedAt.IsZero() {
			sn, err := id(q.After.OrderSN)
			if err != nil {
				return nil, next, false, err
			}
			find = find.Where("changed_at >= ? AND (changed_at > ? OR order_sn > ?)",
				q.After.ChangedAt, q.After.ChangedAt, sn)
		}
		var some []orderRow
		err = find.Order("changed_at, order_sn").Limit(q.Limit + 1 - len(rows)).Find(&some).Error
		if err != nil {
			return nil, next, false, err
		}
		for _, r := range some {
			shardOf[r.OrderSN] = shard
		}
		rows = append(rows, some...)
	}
	if more = len(rows) > q.Limit; more {
		rows = rows[:q.Limit]
	}
	if orders, err = withLines(db, l, rows); err != nil {
		return nil, next, false, err
	}
	if more {
		o := orders[len(orders)-1]
		next = core.ChangedPosition{Shard: shardOf[rows[len(rows)-1].OrderSN], ChangedAt: o.ChangedAt(), OrderSN: o.OrderSN}
	}
	return orders, next, more, nil
}
