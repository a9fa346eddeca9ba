package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
)

type deadLetterRow struct {
	ID          int64 `gorm:"primaryKey"`
	Fingerprint string
	Origin      string
	Topic       string
	OrderSN     *int64 `gorm:"column:order_sn"`
	ActivityID  *int64
	MerchantID  *string `gorm:"->"` // owner of the activity, by deadLetterColumns
	Why         string
	Item        []byte
	FailedAt    time.Time
	Traceparent string
	State       string
	Rejecting   bool
	Occurrences int64
	DecidedBy   string
	DecidedAt   *time.Time
}

func (deadLetterRow) TableName() string { return "dead_letters" }

var deadLetterColumns = []string{
	"id", "fingerprint", "origin", "topic", "order_sn", "activity_id", "why", "item", "failed_at", "traceparent",
	"state", "rejecting", "occurrences", "decided_by", "decided_at",
	"(SELECT merchant_id FROM activities WHERE activities.id = dead_letters.activity_id) AS merchant_id",
}

func toDeadLetter(r deadLetterRow) *core.DeadLetter {
	d := &core.DeadLetter{
		ID: text(r.ID), Where: r.Origin, Topic: r.Topic, Why: r.Why, Item: r.Item, FailedAt: r.FailedAt.UTC(),
		Traceparent: r.Traceparent, State: r.State, Rejecting: r.Rejecting, Occurrences: r.Occurrences,
		DecidedBy: r.DecidedBy, DecidedAt: utc(r.DecidedAt),
	}
	if r.OrderSN != nil {
		d.OrderSN = text(*r.OrderSN)
	}
	if r.ActivityID != nil {
		d.ActivityID = text(*r.ActivityID)
	}
	if r.MerchantID != nil {
		d.MerchantID = *r.MerchantID
	}
	return d
}

// fingerprint returns a hash that identifies a dead letter by its origin, topic and item. White space and the order of
// the item's fields do not change it. Neither does the traceparent, which differs with each delivery of a sampled
// item.
func fingerprint(d contract.DeadLetter) string {
	var item any = json.RawMessage(d.Item)
	var fields map[string]json.RawMessage
	if json.Unmarshal(d.Item, &fields) == nil && fields != nil {
		delete(fields, "traceparent")
		item = fields
	}
	raw, err := json.Marshal(item)
	if err != nil { // the item is not JSON
		raw = d.Item
	}
	h := sha256.New()
	for _, field := range [][]byte{[]byte(d.Where), []byte(d.Topic), raw} {
		h.Write(field)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// addDeadLetters stores dead letters. For one that exists it increments the count of occurrences. If that one was
// replayed, the replay has failed, and it becomes open again. A rejected one stays rejected, since its purchase has
// ended.
func addDeadLetters(tx *gorm.DB, deadLetters []contract.DeadLetter) error {
	for _, d := range deadLetters {
		f := fingerprint(d)
		res := tx.Exec("UPDATE dead_letters SET occurrences = occurrences + 1, why = ?, failed_at = ?, "+
			"state = CASE WHEN state = 'replayed' THEN 'open' ELSE state END WHERE fingerprint = ?",
			clip(d.Why, 500), d.At.UTC(), f)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected > 0 {
			continue
		}
		item := d.Item
		if item == nil {
			item = []byte{}
		}
		row := deadLetterRow{
			Fingerprint: f, Origin: clip(d.Where, 100), Topic: clip(d.Topic, 100), OrderSN: idOrNull(d.OrderSN),
			ActivityID: idOrNull(d.ActivityID), Why: clip(d.Why, 500), Item: item, FailedAt: d.At.UTC(),
			Traceparent: clip(d.Traceparent, 64), State: core.DeadLetterOpen, Occurrences: 1,
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
	}
	return nil
}

func idOrNull(id string) *int64 {
	if !contract.ValidID(id) {
		return nil
	}
	n := number(id)
	return &n
}

// clip returns at most so many runes of s, with invalid UTF-8 replaced.
func clip(s string, runes int) string {
	s = strings.ToValidUTF8(s, "?")
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes])
}

// AddDeadLetters implements core.DeadLetters.
func (s *Store) AddDeadLetters(ctx context.Context, deadLetters []contract.DeadLetter) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		return addDeadLetters(tx, deadLetters)
	}, sqldb.RetryDuplicates())
}

// DeadLetters implements core.DeadLetters.
func (s *Store) DeadLetters(
	ctx context.Context, in core.Scope, state string, p core.Page,
) ([]core.DeadLetter, error) {
	q := ofActivities(s.read(ctx), in).Select(deadLetterColumns)
	if state != "" {
		q = q.Where("state = ?", state)
	}
	if p.Cursor != "" {
		q = q.Where("id < ?", number(p.Cursor))
	}
	var list []deadLetterRow
	if err := q.Order("id DESC").Limit(p.Limit).Find(&list).Error; err != nil {
		return nil, err
	}
	deadLetters := make([]core.DeadLetter, len(list))
	for i, r := range list {
		deadLetters[i] = *toDeadLetter(r)
	}
	return deadLetters, nil
}

// DeadLetter implements core.DeadLetters.
func (s *Store) DeadLetter(ctx context.Context, in core.Scope, id string) (*core.DeadLetter, error) {
	var list []deadLetterRow
	err := ofActivities(s.read(ctx), in).Select(deadLetterColumns).Where("id = ?",
		number(id)).Limit(1).Find(&list).Error
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return toDeadLetter(list[0]), nil
}

// BeginRejection implements core.DeadLetters.
func (s *Store) BeginRejection(ctx context.Context, id string) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE dead_letters SET rejecting = TRUE, state = ? WHERE id = ? AND state <> ?",
			core.DeadLetterOpen, number(id), core.DeadLetterRejected).Error
	})
}

// DecideDeadLetter implements core.DeadLetters. The change is recorded only if the dead letter is changed.
func (s *Store) DecideDeadLetter(
	ctx context.Context, d core.DeadLetter, state string, c core.Change,
) (*core.DeadLetter, error) {
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		res := tx.Exec("UPDATE dead_letters SET state = ?, decided_by = ?, decided_at = ? "+
			"WHERE id = ? AND occurrences = ? AND state <> ? AND rejecting IN (FALSE, ?)",
			state, c.Who, c.At, number(d.ID), d.Occurrences, core.DeadLetterRejected,
			state == core.DeadLetterRejected)
		if res.Error != nil || res.RowsAffected == 0 {
			return res.Error
		}
		return record(tx, c)
	})
	if err != nil {
		return nil, err
	}
	return s.DeadLetter(ctx, core.AllMerchants(), d.ID)
}

// OpenDeadLetters implements reconcile.Rows.
func (s *Store) OpenDeadLetters(ctx context.Context, orderSNs []string) (map[string]bool, error) {
	open := map[string]bool{}
	err := chunked(orderSNs, func(c []string) error {
		var list []int64
		err := s.read(ctx).Model(&deadLetterRow{}).
			Where("order_sn IN ? AND state = ?", numbers(c), core.DeadLetterOpen).
			Distinct().Pluck("order_sn", &list).Error
		for _, n := range list {
			open[text(n)] = true
		}
		return err
	})
	return open, err
}

// CountOpenDeadLetters returns the number of open dead letters.
func (s *Store) CountOpenDeadLetters(ctx context.Context) (int64, error) {
	var n int64
	err := s.read(ctx).Model(&deadLetterRow{}).Where("state = ?", core.DeadLetterOpen).Count(&n).Error
	return n, err
}
