package store

import (
	"context"

	"flashsale.internal/services/order/internal/core"
)

// ChangedOrders implements core.Store. It reads table by table, so that each page needs one step in few indexes.
func (s *Store) ChangedOrders(
	ctx context.Context, q core.ChangedQuery,
) (orders []core.Order, next core.ChangedPosition, more bool, err error) {
	db := s.db.WithContext(ctx)
	var rows []orderRow
	shardOf := map[int64]int{}
	for shard := q.After.Shard; shard < Shards && len(rows) <= q.Limit; shard++ {
		find := db.Table(table(shard)).Where("changed_at >= ? AND tombstone = ?", q.Since, false)
		if q.ActivityID != "" {
			activity, err := id(q.ActivityID)
			if err != nil {
				return nil, next, false, err
			}
			find = find.Where("activity_id = ?", activity)
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
		err := find.Order("changed_at, order_sn").Limit(q.Limit + 1 - len(rows)).Find(&some).Error
		if err != nil {
			return nil, next, false, refuseTransient(err)
		}
		for _, r := range some {
			shardOf[r.OrderSN] = shard
		}
		rows = append(rows, some...)
	}
	if more = len(rows) > q.Limit; more {
		rows = rows[:q.Limit]
	}
	if orders, err = withLines(db, rows); err != nil {
		return nil, next, false, refuseTransient(err)
	}
	if more {
		last := rows[len(rows)-1]
		o := orders[len(orders)-1]
		next = core.ChangedPosition{Shard: shardOf[last.OrderSN], ChangedAt: o.ChangedAt(), OrderSN: o.OrderSN}
	}
	return orders, next, more, nil
}
