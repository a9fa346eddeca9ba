package store

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Rebuild implements gates.Rows.
func (s *Store) Rebuild(ctx context.Context, activityID string, fn func(tx gates.RebuildTx) error) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		id := number(activityID)
		var locked []int64
		err := sqldb.ForUpdate(tx).Model(&activityRow{}).Where("id = ?", id).Pluck("id", &locked).Error
		if err != nil {
			return err
		}
		if len(locked) == 0 {
			return notFound()
		}
		items, err := itemsOf(tx, id, true)
		if err != nil {
			return err
		}
		a, err := activityOf(tx, id, items)
		if err != nil {
			return err
		}
		if err := addSellers(tx, a); err != nil {
			return err
		}
		return fn(&rebuildTx{tx, id, *a})
	})
}

type rebuildTx struct {
	tx       *gorm.DB
	id       int64
	activity core.Activity
}

func (r *rebuildTx) Activity() core.Activity { return r.activity }

// Changed implements gates.RebuildTx.
func (r *rebuildTx) Changed(ctx context.Context, since time.Time, limit int) ([]core.RowVersion, error) {
	return versions(r.tx.WithContext(ctx).
		Where("activity_id = ? AND state IN ? AND changed_at >= ?", r.id, gateStates, storable(since)).Limit(limit))
}

// Reservations implements gates.RebuildTx.
func (r *rebuildTx) Reservations(ctx context.Context, orderSNs []string) ([]ledger.Row, error) {
	list := make([]ledger.Row, 0, len(orderSNs))
	err := eachBySN(r.tx.WithContext(ctx), orderSNs, func(row ledger.Row, err error) error {
		list = append(list, row)
		return err
	})
	return list, err
}

// Adjusted implements gates.RebuildTx.
func (r *rebuildTx) Adjusted(ctx context.Context) ([]string, error) {
	var ids []int64
	if err := decidedOf(r.tx.WithContext(ctx), r.id).Pluck("id", &ids).Error; err != nil {
		return nil, err
	}
	out := make([]string, len(ids))
	for i, n := range ids {
		out[i] = text(n)
	}
	return out, nil
}

var (
	endedStates = []string{string(ledger.StateReleased), string(ledger.StateRejected)}
	gateStates  = slices.Concat(holdingStates, endedStates)
)

// storable returns t, or 1970 if t is before: no row is older, and the databases do not take every time.
func storable(t time.Time) time.Time {
	if t.Unix() < 0 {
		return time.Unix(0, 0).UTC()
	}
	return t.UTC()
}

// GateRows implements gates.Rows. It reads the numbers of a page from the index by activity, and then the rows by their
// primary key. With one statement for both, MariaDB reads that index from the activity's first row for each page.
func (s *Store) GateRows(
	ctx context.Context, activityID string, kept time.Time, afterSN string, limit int,
) (rows []ledger.Row, next string, err error) {
	var sns []int64
	err = s.read(ctx).Model(&reservationRow{}).
		Where("activity_id = ? AND order_sn > ?", number(activityID), number(afterSN)).
		Order("order_sn").Limit(limit).Pluck("order_sn", &sns).Error
	if err != nil {
		return nil, "", err
	}
	err = chunked(sns, func(c []int64) error {
		var list []reservationRow
		err := s.read(ctx).Select(reservationColumns).
			Where("order_sn IN ? AND (state IN ? OR changed_at >= ?)", c, holdingStates, storable(kept)).
			Order("order_sn").Find(&list).Error
		if err != nil {
			return err
		}
		page, err := toRows(list)
		rows = append(rows, page...)
		return err
	})
	if len(sns) == limit {
		next = text(sns[limit-1])
	}
	return rows, next, err
}

// RowVersions implements gates.Rows. The index by activity, state and time of change has all columns, in this order.
func (s *Store) RowVersions(
	ctx context.Context, activityID string, state ledger.State, since time.Time, after *core.ReservationPlace,
	limit int,
) ([]core.RowVersion, error) {
	q := s.read(ctx).
		Where("activity_id = ? AND state = ? AND changed_at >= ?", number(activityID), string(state), storable(since))
	if after != nil {
		at := after.ChangedAt.UTC()
		q = q.Where("changed_at >= ? AND (changed_at > ? OR order_sn > ?)", at, at, number(after.OrderSN))
	}
	return versions(q.Order("changed_at, order_sn").Limit(limit))
}

// versions reads the versions of the rows of a query.
func versions(q *gorm.DB) ([]core.RowVersion, error) {
	rows, err := q.Model(&reservationRow{}).Select("order_sn", "state", "changed_at").Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []core.RowVersion
	for rows.Next() {
		var sn int64
		var state string
		var at time.Time
		if err := rows.Scan(&sn, &state, &at); err != nil {
			return nil, err
		}
		list = append(list, core.RowVersion{
			OrderSN: text(sn), State: ledger.State(state), ChangedAt: at.UTC(),
		})
	}
	return list, rows.Err()
}

// LatestChange implements gates.Rows. It reads one row of the index for each state.
func (s *Store) LatestChange(ctx context.Context, activityID string) (latest time.Time, err error) {
	for _, state := range gateStates {
		var at []time.Time
		err := s.read(ctx).Model(&reservationRow{}).Where("activity_id = ? AND state = ?", number(activityID), state).
			Order("changed_at DESC").Limit(1).Pluck("changed_at", &at).Error
		if err != nil {
			return latest, err
		}
		if len(at) > 0 && at[0].After(latest) {
			latest = at[0].UTC()
		}
	}
	return latest, nil
}

// CountEnded implements gates.Rows.
func (s *Store) CountEnded(ctx context.Context, activityID string, before time.Time) (n int64, err error) {
	err = s.read(ctx).Model(&reservationRow{}).
		Where("activity_id = ? AND state IN ? AND changed_at < ?", number(activityID), endedStates, before.UTC()).
		Count(&n).Error
	return n, err
}
