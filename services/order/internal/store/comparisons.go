package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

// paidWithin is more than the time from the creation of an order to the end of its payments: a day and the grace.
const paidWithin = 48 * time.Hour

type comparisonRow struct {
	Provider   string `gorm:"primaryKey"`
	ComparedTo time.Time
	NextAt     time.Time
}

func (comparisonRow) TableName() string { return "payment_comparisons" }

type differenceRow struct {
	ID               int64 `gorm:"primaryKey"`
	Provider         string
	Kind             string
	PaymentID        string
	OrderSN          string `gorm:"column:order_sn"`
	Amount           int64
	Currency         string
	RecordedAmount   int64
	RecordedCurrency string
	At               time.Time
	FirstSeen        time.Time
	LastSeen         time.Time
}

func (differenceRow) TableName() string { return "payment_differences" }

// Comparison implements core.ComparisonStore.
func (s *Store) Comparison(ctx context.Context, provider string, now time.Time) (core.Comparison, error) {
	db, c := s.db.WithContext(ctx), comparisonRow{Provider: provider, ComparedTo: now, NextAt: now}
	err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&c).Error
	if err == nil {
		err = db.Where("provider = ?", provider).Take(&c).Error
	}
	return core.Comparison{Provider: provider, ComparedTo: c.ComparedTo.UTC(), NextAt: c.NextAt.UTC()}, refuseTransient(err)
}

// MoveComparison implements core.ComparisonStore.
func (s *Store) MoveComparison(ctx context.Context, from, to core.Comparison) (bool, error) {
	n, err := sqldb.Exec(s.db.WithContext(ctx), "UPDATE payment_comparisons SET compared_to = ?, next_at = ? "+
		"WHERE provider = ? AND compared_to = ? AND next_at = ?", to.ComparedTo, to.NextAt, from.Provider, from.ComparedTo,
		from.NextAt)
	return n == 1, refuseTransient(err)
}

// RecordedCharges implements core.ComparisonStore. An order_sn has the time of its order, and is indexed; the end of a
// payment is not. So one statement reads limit rows, whatever they are.
func (s *Store) RecordedCharges(
	ctx context.Context, w core.Window, after core.Payment, limit int,
) (page []core.Payment, next core.Payment, err error) {
	sn, pid := int64(0), int64(0)
	if oldest, err := id(ordersn.SN{Time: w.From.Add(-paidWithin)}.String()); err == nil {
		sn = oldest
	}
	if after.PaymentID != "" {
		if sn, err = id(after.OrderSN); err != nil {
			return nil, next, err
		}
		if pid, err = id(after.PaymentID); err != nil {
			return nil, next, err
		}
	}
	var rows []paymentRow
	err = s.db.WithContext(ctx).
		Where("(order_sn > ? OR (order_sn = ? AND payment_id > ?)) AND order_sn >= ?", sn, sn, pid, sn).
		Order("order_sn, payment_id").Limit(limit).Find(&rows).Error
	for _, r := range rows {
		p := r.payment()
		if p.Provider == w.Provider && p.State == core.PaymentSucceeded && w.Has(p.FinishedAt) {
			page = append(page, p)
		}
		if len(rows) == limit {
			next = p
		}
	}
	return page, next, refuseTransient(err)
}

// RecordedRefunds implements core.ComparisonStore. An attempt at a refund sets next_attempt_at to a time after its end.
func (s *Store) RecordedRefunds(
	ctx context.Context, w core.Window, after core.Refund, limit int,
) (page []core.Refund, next core.Refund, err error) {
	from, pid := w.From, int64(0)
	if after.PaymentID != "" {
		if pid, err = id(after.PaymentID); err != nil {
			return nil, next, err
		}
		from = after.NextAttemptAt
	}
	var rows []refundRow
	err = s.db.WithContext(ctx).
		Where("state = ? AND next_attempt_at >= ? AND (next_attempt_at > ? OR payment_id > ?)", string(core.RefundDone), from,
			from, pid).
		Order("next_attempt_at, payment_id").Limit(limit).Find(&rows).Error
	for _, row := range rows {
		r := row.refund()
		if r.Provider == w.Provider && w.Has(r.FinishedAt) {
			page = append(page, r)
		}
		if len(rows) == limit {
			next = r
		}
	}
	return page, next, refuseTransient(err)
}

// RecordDifference implements core.ComparisonStore.
func (s *Store) RecordDifference(ctx context.Context, d core.Difference) error {
	return refuseTransient(s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "provider"}, {Name: "kind"}, {Name: "payment_id"}},
		DoUpdates: clause.AssignmentColumns([]string{
			"order_sn", "amount", "currency", "recorded_amount", "recorded_currency", "at", "last_seen",
		}),
	}).Create(&differenceRow{
		Provider: d.Provider, Kind: string(d.Kind), PaymentID: clip(d.PaymentID, 64), OrderSN: d.OrderSN, Amount: d.Amount,
		Currency: clip(d.Currency, 16), RecordedAmount: d.RecordedAmount, RecordedCurrency: d.RecordedCurrency, At: d.At,
		FirstSeen: d.FirstSeen, LastSeen: d.LastSeen,
	}).Error)
}

// clip shortens a text of a provider to the length of its column.
func clip(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// ForgetDifferences implements core.ComparisonStore.
func (s *Store) ForgetDifferences(ctx context.Context, provider string, seenBefore, since, old time.Time) error {
	return refuseTransient(s.db.WithContext(ctx).
		Where("provider = ? AND last_seen < ? AND kind NOT IN ?", provider, seenBefore, core.MissingKinds).
		Where("(at >= ? OR last_seen < ?)", since, old).Delete(&differenceRow{}).Error)
}

// MissingDifferences implements core.ComparisonStore.
func (s *Store) MissingDifferences(
	ctx context.Context, provider string, seenBefore time.Time, limit int,
) ([]core.Difference, error) {
	return differences(s.db.WithContext(ctx).
		Where("provider = ? AND last_seen < ? AND kind IN ?", provider, seenBefore, core.MissingKinds), limit)
}

// ForgetMissing implements core.ComparisonStore.
func (s *Store) ForgetMissing(ctx context.Context, difference string, seenBefore time.Time) error {
	n, err := id(difference)
	if err != nil {
		return err
	}
	return refuseTransient(s.db.WithContext(ctx).Where("id = ? AND last_seen < ?", n, seenBefore).Delete(&differenceRow{}).Error)
}

// Differences implements core.ComparisonStore.
func (s *Store) Differences(ctx context.Context, after string, limit int) ([]core.Difference, error) {
	find := s.db.WithContext(ctx)
	if after != "" {
		n, err := id(after)
		if err != nil {
			return nil, err
		}
		find = find.Where("id > ?", n)
	}
	return differences(find, limit)
}

func differences(find *gorm.DB, limit int) ([]core.Difference, error) {
	var rows []differenceRow
	err := find.Order("id").Limit(limit).Find(&rows).Error
	list := make([]core.Difference, len(rows))
	for i, r := range rows {
		list[i] = core.Difference{
			ID: strconv.FormatInt(r.ID, 10), Provider: r.Provider, Kind: core.DifferenceKind(r.Kind), PaymentID: r.PaymentID,
			OrderSN: r.OrderSN, Amount: r.Amount, Currency: r.Currency, RecordedAmount: r.RecordedAmount,
			RecordedCurrency: r.RecordedCurrency, At: r.At.UTC(), FirstSeen: r.FirstSeen.UTC(), LastSeen: r.LastSeen.UTC(),
		}
	}
	return list, refuseTransient(err)
}

// Compared is the state of the comparisons with a provider.
type Compared struct {
	To          time.Time // start of the last completed one
	Differences int64     // that are open
}

// Compared returns the state of the comparisons with each provider that was compared.
func (s *Store) Compared(ctx context.Context) (map[string]Compared, error) {
	all := map[string]Compared{}
	err := sqldb.Query(s.db.WithContext(ctx), "SELECT c.provider, c.compared_to, "+
		"(SELECT COUNT(*) FROM payment_differences d WHERE d.provider = c.provider) FROM payment_comparisons c", nil,
		func(rows *sql.Rows) error {
			var provider string
			var c Compared
			err := rows.Scan(&provider, &c.To, &c.Differences)
			all[provider] = c
			return err
		})
	return all, refuseTransient(err)
}
