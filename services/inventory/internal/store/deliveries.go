package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/webhooks"
)

type deliveryRow struct {
	ID         int64 `gorm:"primaryKey"`
	EndpointID int64
	OrderSN    int64 `gorm:"column:order_sn"`
	ChangedAt  time.Time
	Type       string
	State      string
	Attempts   int
	NextAt     time.Time
	Status     int
	Error      string
	Body       string
	CreatedAt  time.Time `gorm:"autoCreateTime:false"`
}

func (deliveryRow) TableName() string { return "deliveries" }

func toDelivery(r deliveryRow) webhooks.Delivery {
	return webhooks.Delivery{
		ID: text(r.ID), EndpointID: text(r.EndpointID), OrderSN: text(r.OrderSN), ChangedAt: r.ChangedAt.UTC(), Type: r.Type,
		State: webhooks.DeliveryState(r.State), Attempts: r.Attempts, NextAt: r.NextAt.UTC(), Status: r.Status,
		Error: r.Error, Body: []byte(r.Body), CreatedAt: r.CreatedAt.UTC(),
	}
}

func deliveriesOf(q *gorm.DB) ([]webhooks.Delivery, error) {
	var rows []deliveryRow
	err := q.Find(&rows).Error
	list := make([]webhooks.Delivery, len(rows))
	for i, r := range rows {
		list[i] = toDelivery(r)
	}
	return list, err
}

// deliveriesOfState is the table, for statements that order the deliveries of an endpoint and state by id: without a hint
// MariaDB reads all of the primary key for them.
func (s *Store) deliveriesOfState() string {
	if sqldb.IsSQLite(s.db) {
		return "deliveries"
	}
	return "deliveries FORCE INDEX (deliveries_of_state)"
}

// Deliveries implements webhooks.Endpoints.
func (s *Store) Deliveries(
	ctx context.Context, endpointID string, state webhooks.DeliveryState, p core.Page,
) ([]webhooks.Delivery, error) {
	query, args := "SELECT id, endpoint_id, order_sn, changed_at, type, state, attempts, next_at, status, error, created_at FROM "+
		s.deliveriesOfState()+" WHERE endpoint_id = ? AND state = ?", []any{number(endpointID), string(state)}
	if p.Cursor != "" {
		query, args = query+" AND id < ?", append(args, number(p.Cursor))
	}
	return deliveriesOf(s.read(ctx).Raw(query+" ORDER BY id DESC LIMIT ?", append(args, p.Limit)...))
}

// KnownChanges implements webhooks.Queue.
func (s *Store) KnownChanges(
	ctx context.Context, endpointIDs []string, places []core.ReservationPlace,
) (map[webhooks.ChangeID]bool, error) {
	known := map[webhooks.ChangeID]bool{}
	err := chunked(places, func(c []core.ReservationPlace) error {
		var args []any
		for _, id := range endpointIDs {
			args = append(args, number(id))
		}
		for _, p := range c {
			args = append(args, number(p.OrderSN))
		}
		return sqldb.Query(s.read(ctx), "SELECT endpoint_id, order_sn, changed_at FROM deliveries WHERE endpoint_id IN "+
			sqldb.List(len(endpointIDs))+" AND order_sn IN "+sqldb.List(len(c)), args, func(rows *sql.Rows) error {
			var endpoint, sn int64
			var at time.Time
			err := rows.Scan(&endpoint, &sn, &at)
			known[webhooks.ChangeID{EndpointID: text(endpoint), OrderSN: text(sn), ChangedAt: at.UnixMilli()}] = true
			return err
		})
	})
	return known, err
}

// AddDeliveries implements webhooks.Queue.
func (s *Store) AddDeliveries(ctx context.Context, list []webhooks.Delivery, again bool) error {
	insert, known := "INSERT", " ON DUPLICATE KEY UPDATE endpoint_id = endpoint_id"
	if sqldb.IsSQLite(s.db) {
		known = " ON CONFLICT DO NOTHING"
	}
	if again {
		insert, known = "REPLACE", ""
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return chunked(list, func(c []webhooks.Delivery) error {
		var args []any
		for _, d := range c {
			args = append(args, number(d.EndpointID), number(d.OrderSN), d.ChangedAt.UTC(), d.Type, string(webhooks.Waiting), 0,
				now, 0, "", string(d.Body), now)
		}
		_, err := sqldb.Exec(s.read(ctx), insert+" INTO deliveries (endpoint_id, order_sn, changed_at, type, state, attempts, "+
			"next_at, status, error, body, created_at) VALUES "+sqldb.Rows(len(c), 11)+known, args...)
		return err
	})
}

// oldestDue reads the delivery of an endpoint that is due for the longest time, oldestWaiting the oldest that waits.
const (
	oldestDue = "SELECT * FROM (SELECT endpoint_id, next_at FROM deliveries WHERE endpoint_id = ? AND state = 'waiting' " +
		"AND next_at <= ? ORDER BY next_at LIMIT 1) AS t"
	oldestWaiting = "SELECT * FROM (SELECT endpoint_id, order_sn, attempts, next_at, error, created_at FROM %s " +
		"WHERE endpoint_id = ? AND state = 'waiting' ORDER BY id LIMIT 1) AS t"
)

// OldestDue implements webhooks.Queue.
func (s *Store) OldestDue(
	ctx context.Context, endpointIDs []string, now time.Time,
) (map[string]time.Time, error) {
	oldest := map[string]time.Time{}
	for part := range slices.Chunk(endpointIDs, streamsAtOnce) {
		var args []any
		for _, id := range part {
			args = append(args, number(id), now)
		}
		err := sqldb.Query(s.read(ctx), ofEach(oldestDue, len(part)), args, func(rows *sql.Rows) error {
			var id int64
			var at time.Time
			err := rows.Scan(&id, &at)
			oldest[text(id)] = at.UTC()
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return oldest, nil
}

// OldestWaiting implements webhooks.Queue.
func (s *Store) OldestWaiting(ctx context.Context, endpointIDs []string) (map[string]webhooks.Delivery, error) {
	oldest := map[string]webhooks.Delivery{}
	for part := range slices.Chunk(endpointIDs, streamsAtOnce) {
		var args []any
		for _, id := range part {
			args = append(args, number(id))
		}
		var rows []deliveryRow
		query := ofEach(fmt.Sprintf(oldestWaiting, s.deliveriesOfState()), len(part))
		if err := s.read(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
			return nil, err
		}
		for _, r := range rows {
			oldest[text(r.EndpointID)] = toDelivery(r)
		}
	}
	return oldest, nil
}

// ofEach is a query for each of n endpoints, as one statement.
func ofEach(query string, n int) string { return query + strings.Repeat(" UNION ALL "+query, n-1) }

// DueDeliveries implements webhooks.Queue.
func (s *Store) DueDeliveries(ctx context.Context, endpointID string, limit int) ([]webhooks.Delivery, error) {
	now, args := sqldb.NowIn(s.db, s.clock)
	return deliveriesOf(s.read(ctx).Where("endpoint_id = ? AND state = 'waiting' AND next_at <= "+now,
		append([]any{number(endpointID)}, args...)...).Order("next_at").Limit(limit))
}

// EndAttempts implements webhooks.Queue.
func (s *Store) EndAttempts(ctx context.Context, list []webhooks.Delivery) (err error) {
	delivered := map[int][]any{} // by status
	for _, d := range list {
		if d.State == webhooks.Delivered {
			delivered[d.Status] = append(delivered[d.Status], number(d.ID))
			continue
		}
		var content []byte
		next := d.NextAt
		if d.State == webhooks.Waiting {
			now, nerr := s.Now(ctx)
			if nerr != nil {
				err = errors.Join(err, nerr)
				continue
			}
			content, next = d.Body, now.Add(d.Pause).Truncate(time.Millisecond)
		}
		_, uerr := sqldb.Exec(s.read(ctx), "UPDATE deliveries SET state = ?, attempts = ?, next_at = ?, status = ?, error = ?, "+
			"body = ? WHERE id = ? AND state = 'waiting' AND attempts = ?", string(d.State), d.Attempts, next,
			d.Status, d.Error, string(content), number(d.ID), d.Attempts-1)
		err = errors.Join(err, uerr)
	}
	for status, ids := range delivered {
		_, uerr := sqldb.Exec(s.read(ctx), "UPDATE deliveries SET state = 'delivered', attempts = attempts + 1, status = ?, "+
			"error = '', body = '' WHERE id IN "+sqldb.List(len(ids))+" AND state <> 'delivered'", append([]any{status}, ids...)...)
		err = errors.Join(err, uerr)
	}
	return err
}

// ExpireDeliveries implements webhooks.Queue. As in SweepDeliveries, the last one is read first.
func (s *Store) ExpireDeliveries(ctx context.Context, endpointID string, before time.Time) error {
	var last sql.NullInt64
	err := sqldb.Query(s.read(ctx), "SELECT MAX(id) FROM (SELECT id, created_at FROM "+s.deliveriesOfState()+" WHERE endpoint_id = ? "+
		"AND state = 'waiting' ORDER BY id LIMIT ?) AS t WHERE created_at < ?", []any{number(endpointID), sweptAtOnce, before.UTC()},
		func(rows *sql.Rows) error { return rows.Scan(&last) })
	if err != nil || !last.Valid {
		return err
	}
	_, err = sqldb.Exec(s.read(ctx), "UPDATE deliveries SET state = 'failed', body = '', "+
		"error = CASE error WHEN '' THEN 'waited too long' ELSE error END "+
		"WHERE endpoint_id = ? AND state = 'waiting' AND id <= ? AND created_at < ?", number(endpointID), last.Int64, before.UTC())
	return err
}

const (
	sweptAtOnce = 2000 // deliveries
	sweeps      = 50   // statements of one call
)

// SweepDeliveries implements webhooks.Queue. The ids rise with the time, so the oldest are the first of the table. The
// last one to delete is read first: a DELETE by a subquery would read the whole table.
func (s *Store) SweepDeliveries(ctx context.Context, before time.Time) error {
	before = before.UTC()
	for range sweeps {
		var last sql.NullInt64
		err := sqldb.Query(s.read(ctx), "SELECT MAX(id) FROM (SELECT id, created_at FROM deliveries ORDER BY id LIMIT ?) AS t "+
			"WHERE created_at < ?", []any{sweptAtOnce, before}, func(rows *sql.Rows) error { return rows.Scan(&last) })
		if err != nil || !last.Valid {
			return err
		}
		n, err := sqldb.Exec(s.read(ctx), "DELETE FROM deliveries WHERE id <= ? AND created_at < ?", last.Int64, before)
		if err != nil || n < sweptAtOnce {
			return err
		}
	}
	return nil
}
