package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/sweep"
)

type reservationRow struct {
	OrderSN          int64 `gorm:"column:order_sn;primaryKey;autoIncrement:false"`
	ActivityID       int64
	UserID           string
	LineItems        string
	State            string
	Reason           string
	ReservedAt       time.Time
	LandedAt         time.Time
	OrderCreatedAt   *time.Time
	ExpiresAt        *time.Time
	ChangedAt        time.Time
	RepublishAt      *time.Time
	RepublishAttempt int
	Traceparent      string
}

func (reservationRow) TableName() string { return "reservations" }

// selectReservations and insertReservations run beneath gorm: every purchase needs them several times.
var (
	selectReservations = "SELECT " + strings.Join(reservationColumns, ", ") + " FROM reservations "
	insertReservations = "INSERT INTO reservations (" + strings.Join(reservationColumns, ", ") + ") VALUES "
)

var reservationColumns = []string{
	"order_sn", "activity_id", "user_id", "line_items", "state", "reason", "reserved_at", "landed_at",
	"order_created_at", "expires_at", "changed_at", "republish_at", "republish_attempt", "traceparent",
}

// values returns the values of the row's columns.
func (r *reservationRow) values() []any {
	return []any{
		r.OrderSN, r.ActivityID, r.UserID, r.LineItems, r.State, r.Reason, r.ReservedAt, r.LandedAt,
		r.OrderCreatedAt, r.ExpiresAt, r.ChangedAt, r.RepublishAt, r.RepublishAttempt, r.Traceparent,
	}
}

// scan reads the columns of a row.
func (r *reservationRow) scan(rows *sql.Rows) error {
	return rows.Scan(
		&r.OrderSN, &r.ActivityID, &r.UserID, &r.LineItems, &r.State, &r.Reason, &r.ReservedAt, &r.LandedAt,
		&r.OrderCreatedAt, &r.ExpiresAt, &r.ChangedAt, &r.RepublishAt, &r.RepublishAttempt, &r.Traceparent,
	)
}

func toRow(r reservationRow) (ledger.Row, error) {
	row := ledger.Row{
		OrderSN: text(r.OrderSN), ActivityID: text(r.ActivityID), UserID: r.UserID,
		State: ledger.State(r.State), Reason: r.Reason, ReservedAt: r.ReservedAt.UTC(),
		LandedAt: r.LandedAt.UTC(), OrderCreatedAt: utc(r.OrderCreatedAt), ExpiresAt: utc(r.ExpiresAt),
		ChangedAt: r.ChangedAt.UTC(), RepublishAt: utc(r.RepublishAt), RepublishAttempt: r.RepublishAttempt,
		Traceparent: r.Traceparent,
	}
	if err := json.Unmarshal([]byte(r.LineItems), &row.Lines); err != nil {
		return row, fmt.Errorf("%w: lines of reservation %d: %w", core.ErrBrokenRow, r.OrderSN, err)
	}
	return row, nil
}

func fromRow(r ledger.Row) (reservationRow, error) {
	lines := r.Lines
	if lines == nil {
		lines = []contract.Line{}
	}
	b, err := json.Marshal(lines)
	return reservationRow{
		OrderSN: number(r.OrderSN), ActivityID: number(r.ActivityID), UserID: r.UserID,
		LineItems: string(b), State: string(r.State), Reason: r.Reason, ReservedAt: r.ReservedAt, LandedAt: r.LandedAt,
		OrderCreatedAt: r.OrderCreatedAt, ExpiresAt: r.ExpiresAt, ChangedAt: r.ChangedAt, RepublishAt: r.RepublishAt,
		RepublishAttempt: r.RepublishAttempt, Traceparent: r.Traceparent,
	}, err
}

func toRows(list []reservationRow) ([]ledger.Row, error) {
	rows := make([]ledger.Row, len(list))
	for i, r := range list {
		var err error
		if rows[i], err = toRow(r); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// utc returns t in UTC, and nil for nil.
func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// Reservations implements core.Store.
func (s *Store) Reservations(ctx context.Context, orderSNs []string) (map[string]ledger.Row, error) {
	return rowsBySN(s.read(ctx), orderSNs)
}

// ReadableReservations implements sweep.JournalStore and restore.Tables.
func (s *Store) ReadableReservations(
	ctx context.Context, orderSNs []string,
) (rows map[string]ledger.Row, broken []ledger.Row, err error) {
	return readableBySN(s.read(ctx), orderSNs)
}

func readableBySN(tx *gorm.DB, orderSNs []string) (rows map[string]ledger.Row, broken []ledger.Row, err error) {
	rows = make(map[string]ledger.Row, len(orderSNs))
	err = eachBySN(tx, orderSNs, func(row ledger.Row, err error) error {
		if err != nil {
			broken = append(broken, row)
		} else {
			rows[row.OrderSN] = row
		}
		return nil
	})
	return rows, broken, err
}

func rowsBySN(tx *gorm.DB, orderSNs []string) (map[string]ledger.Row, error) {
	found := make(map[string]ledger.Row, len(orderSNs))
	err := eachBySN(tx, orderSNs, func(row ledger.Row, err error) error {
		found[row.OrderSN] = row
		return err
	})
	return found, err
}

// eachBySN calls fn with each row of these order_sns, and with core.ErrBrokenRow if its lines cannot be parsed.
func eachBySN(tx *gorm.DB, orderSNs []string, fn func(ledger.Row, error) error) error {
	return chunked(orderSNs, func(c []string) error {
		return sqldb.Query(tx, selectReservations+"WHERE order_sn IN "+sqldb.List(len(c)), numberArgs(c), func(rows *sql.Rows) error {
			var r reservationRow
			if err := r.scan(rows); err != nil {
				return err
			}
			return fn(toRow(r))
		})
	})
}

// ReservationsOfActivity implements redisless.Rows.
func (s *Store) ReservationsOfActivity(
	ctx context.Context, in core.Scope, activityID string, f core.ReservationFilter, p core.Page,
) ([]ledger.Row, error) {
	q := ofActivities(s.read(ctx), in).Select(reservationColumns).Where("activity_id = ?", number(activityID))
	if f.UserID != "" {
		q = q.Where("user_id = ?", f.UserID)
	}
	if f.OrderSN != "" {
		q = q.Where("order_sn = ?", number(f.OrderSN))
	}
	q = inFilterState(q, f.State)
	if p.Cursor != "" {
		q = q.Where("order_sn < ?", number(p.Cursor))
	}
	var list []reservationRow
	if err := q.Order("order_sn DESC").Limit(p.Limit).Find(&list).Error; err != nil {
		return nil, err
	}
	return toRows(list)
}

// inFilterState adds the condition of core.ReservationFilter.State.
func inFilterState(q *gorm.DB, state string) *gorm.DB {
	const ended = "state = 'released' AND order_created_at IS NOT NULL AND reason "
	switch state {
	case "":
		return q
	case "pending":
		return q.Where("state = ? AND order_created_at IS NOT NULL", string(ledger.StateReserved))
	case "paid":
		return q.Where("state = ?", string(ledger.StateSold))
	case "closed":
		return q.Where(ended+"<> ?", ledger.ReasonRefunded)
	case "refunded":
		return q.Where(ended+"= ?", ledger.ReasonRefunded)
	}
	return q.Where("state = ?", state)
}

// CountReservations implements merchants.Reservations.
func (s *Store) CountReservations(
	ctx context.Context, in core.Scope, activityID string,
) (n merchants.ReservationCounts, err error) {
	var list []struct {
		State string
		N     int64
	}
	err = ofActivities(s.read(ctx).Model(&reservationRow{}), in).Select("state, COUNT(*) AS n").
		Where("activity_id = ?", number(activityID)).Group("state").Find(&list).Error
	for _, r := range list {
		switch ledger.State(r.State) {
		case ledger.StateReserved:
			n.Reserved = r.N
		case ledger.StateSold:
			n.Sold = r.N
		case ledger.StateReleased:
			n.Released = r.N
		case ledger.StateRejected:
			n.Rejected = r.N
		}
	}
	return n, err
}

// ChangedReservations implements gates.Rows.
func (s *Store) ChangedReservations(
	ctx context.Context, activityID string, states []ledger.State, since time.Time, afterSN string, limit int,
) (rows, broken []ledger.Row, next string, err error) {
	q := s.read(ctx).Select(reservationColumns).
		Where("activity_id = ? AND order_sn > ? AND state IN ?", number(activityID), number(afterSN), states)
	if !since.IsZero() {
		q = q.Where("changed_at >= ?", since.UTC())
	}
	var list []reservationRow
	if err := q.Order("order_sn").Limit(limit).Find(&list).Error; err != nil {
		return nil, nil, "", err
	}
	if len(list) == limit {
		next = text(list[limit-1].OrderSN)
	}
	rows, broken = splitBroken(list)
	return rows, broken, next, nil
}

// ReservationsToRepublish implements sweep.OrdersStore. While some are due early, it also reads those of the activity that
// are due within the longest pause.
func (s *Store) ReservationsToRepublish(
	ctx context.Context, activityID string, due sweep.Due, limit int,
) (rows, broken []ledger.Row, err error) {
	latest := due.Now
	q := s.read(ctx).Select(reservationColumns).Where("activity_id = ?", number(activityID))
	if last := len(due.Early) - 1; last >= 0 {
		if at := slices.MaxFunc(due.Early, time.Time.Compare); at.After(latest) { // for the index
			latest = at
		}
		early := s.db.Where("republish_attempt >= ? AND republish_at <= ?", last, due.Early[last])
		for n, at := range due.Early[:last] {
			early = early.Or("republish_attempt = ? AND republish_at <= ?", n, at)
		}
		landed := s.db.Where("landed_at > ?", due.LandedAfter).Or("landed_at <= ?", due.GivenUp)
		q = q.Where(s.db.Where("republish_at <= ?", due.Now).Or(s.db.Where(landed).Where(early)))
	}
	var list []reservationRow
	err = q.Where("republish_at <= ?", latest).Order("republish_at").Limit(limit).Find(&list).Error
	rows, broken = splitBroken(list)
	return rows, broken, err
}

// splitBroken separates the rows whose lines cannot be parsed from the others.
func splitBroken(list []reservationRow) (rows, broken []ledger.Row) {
	for _, r := range list {
		if row, err := toRow(r); err != nil {
			broken = append(broken, row)
		} else {
			rows = append(rows, row)
		}
	}
	return rows, broken
}

// OverdueReservations implements sweep.OverdueStore. It reads in the order of the index by activity, state and time of
// change.
func (s *Store) OverdueReservations(
	ctx context.Context, activityID string, since time.Time, after *core.ReservationPlace, limit int,
) (rows, broken []ledger.Row, next *core.ReservationPlace, err error) {
	q := s.read(ctx).Select(reservationColumns).
		Where("activity_id = ? AND state = ? AND changed_at <= ? AND order_created_at IS NOT NULL", number(activityID),
			string(ledger.StateReserved), since.UTC())
	if after != nil {
		at := after.ChangedAt.UTC()
		q = q.Where("changed_at >= ? AND (changed_at > ? OR order_sn > ?)", at, at, number(after.OrderSN))
	}
	var list []reservationRow
	if err := q.Order("changed_at, order_sn").Limit(limit).Find(&list).Error; err != nil {
		return nil, nil, nil, err
	}
	if len(list) == limit {
		last := list[limit-1]
		next = &core.ReservationPlace{ChangedAt: last.ChangedAt.UTC(), OrderSN: text(last.OrderSN)}
	}
	rows, broken = splitBroken(list)
	return rows, broken, next, nil
}

// ScheduleRepublish implements sweep.OrdersStore.
func (s *Store) ScheduleRepublish(ctx context.Context, rows []ledger.Row) error {
	type plan struct {
		at      int64
		attempt int
	}
	groups := map[plan][]int64{}
	for _, r := range rows {
		if r.RepublishAt != nil {
			p := plan{r.RepublishAt.UnixMilli(), r.RepublishAttempt}
			groups[p] = append(groups[p], number(r.OrderSN))
		}
	}
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		for p, sns := range groups {
			err := tx.Exec("UPDATE reservations SET republish_at = ?, republish_attempt = ? "+
				"WHERE order_sn IN ? AND republish_at IS NOT NULL",
				time.UnixMilli(p.at).UTC(), p.attempt, sns).Error
			if err != nil {
				return err
			}
		}
		return nil
	})
}
