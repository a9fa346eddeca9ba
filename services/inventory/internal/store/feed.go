package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// changedSince is the condition that a row of an activity changed at a time or later. It reads the latest row of the
// index for each state: MAX and EXISTS would read all that are older.
var changedSince = func() string {
	var latest []string
	for _, state := range gateStates {
		latest = append(latest, "(SELECT r.changed_at FROM reservations r WHERE r.activity_id = activities.id "+
			"AND r.state = '"+state+"' ORDER BY r.changed_at DESC LIMIT 1) >= ?")
	}
	return "(" + strings.Join(latest, " OR ") + ")"
}()

// ChangedActivities implements merchants.ChangedRows.
func (s *Store) ChangedActivities(
	ctx context.Context, in core.Scope, after string, since, endAfter time.Time,
) (ids []string, end string, err error) {
	var all []int64
	err = within(s.read(ctx).Model(&activityRow{}), in).Where("id > ? AND ends_at > ?", number(after), storable(endAfter)).Order("id").
		Limit(merchants.FeedScan).Pluck("id", &all).Error
	if err != nil {
		return nil, "", err
	}
	if len(all) == merchants.FeedScan {
		end = text(all[len(all)-1])
	}
	since = storable(since)
	for len(all) > 0 && len(ids) < merchants.FeedSales {
		chunk := all[:min(chunkSize, len(all))]
		all = all[len(chunk):]
		var changed []int64
		err := s.read(ctx).Model(&activityRow{}).Where("id IN ?", chunk).Where(changedSince, since, since, since, since).
			Order("id").Limit(merchants.FeedSales-len(ids)).Pluck("id", &changed).Error
		if err != nil {
			return nil, "", err
		}
		for _, id := range changed {
			ids = append(ids, text(id))
		}
	}
	if len(ids) == merchants.FeedSales {
		end = ids[len(ids)-1]
	}
	return ids, end, nil
}

// changesOfStream reads rows of the index by activity, state and time of change, which also has the order_sn.
const changesOfStream = "SELECT * FROM (SELECT activity_id, state, order_sn, changed_at FROM reservations " +
	"WHERE activity_id = ? AND state = ? AND changed_at <= ? AND changed_at >= ? AND " +
	"(changed_at > ? OR changed_at = ? AND order_sn > ?) ORDER BY changed_at, order_sn LIMIT ?) AS t"

// streamsAtOnce bounds the streams of one statement.
const streamsAtOnce = 50

// Changes implements merchants.ChangedRows.
func (s *Store) Changes(
	ctx context.Context, streams []merchants.ChangeStream, after core.ReservationPlace, until time.Time, limit int,
) (map[merchants.ChangeStream][]core.ReservationPlace, error) {
	read := make(map[merchants.ChangeStream][]core.ReservationPlace, len(streams))
	at := storable(after.ChangedAt)
	for len(streams) > 0 {
		part := streams[:min(streamsAtOnce, len(streams))]
		streams = streams[len(part):]
		var args []any
		for _, c := range part {
			args = append(args, number(c.ActivityID), string(c.State), until.UTC(), at, at, at, number(after.OrderSN), limit)
		}
		query := changesOfStream + strings.Repeat(" UNION ALL "+changesOfStream, len(part)-1) +
			" ORDER BY changed_at, order_sn"
		err := sqldb.Query(s.read(ctx), query, args, func(rows *sql.Rows) error {
			var activityID, sn int64
			var state string
			var changed time.Time
			err := rows.Scan(&activityID, &state, &sn, &changed)
			c := merchants.ChangeStream{ActivityID: text(activityID), State: ledger.State(state)}
			read[c] = append(read[c], core.ReservationPlace{ChangedAt: changed.UTC(), OrderSN: text(sn)})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return read, nil
}

// ActivitiesByID implements merchants.ChangedRows.
func (s *Store) ActivitiesByID(ctx context.Context, ids []string) (map[string]core.Activity, error) {
	found := make(map[string]core.Activity, len(ids))
	err := chunked(ids, func(c []string) error {
		var list []activityRow
		if err := s.read(ctx).Select(activityColumns).Where("id IN ?", numbers(c)).Find(&list).Error; err != nil {
			return err
		}
		activities, err := s.withItems(ctx, list)
		for _, a := range activities {
			found[a.ID] = a
		}
		return err
	})
	return found, err
}
