// Package outbox stores messages in the transaction that causes them and publishes them afterwards, at least once. It
// is for changes by HTTP requests. Consumers of messages publish before they acknowledge and need no outbox.
//
// The table is part of each service's own migrations; schema.sql holds it for MySQL and for SQLite.
package outbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
)

// Schema is the documented table, for tests and for copying into migrations.
//
//go:embed schema.sql
var Schema string

// Row is one item to be published.
type Row struct {
	Topic     string
	Item      json.RawMessage // one item of the topic, with its traceparent inside
	OrderSN   string          // key of the message, only for searching; may be empty
	DeliverAt time.Time       // zero: immediately
}

// maxItemBytes leaves room for the envelope of a message with a single item.
const maxItemBytes = contract.MaxBytes - 64

// record is a row of the table.
type record struct {
	ID           int64 `gorm:"primaryKey"`
	Topic        string
	MsgKey       string
	Item         string
	DeliverAt    *time.Time
	CreatedAt    time.Time
	ClaimedUntil time.Time
	ClaimedBy    string
}

func (record) TableName() string { return "outbox" }

// unclaimed is a time before any clock, so that a relay whose clock is behind claims new rows immediately.
var unclaimed = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	columns = 6   // of a row that Add writes
	addRows = 200 // rows of one statement
)

// Add writes rows in the caller's transaction. After the commit, call Relay.Wake.
func Add(tx *gorm.DB, rows ...Row) error {
	if len(rows) == 0 {
		return nil
	}
	if !sqldb.InsideTx(tx) {
		return errors.New("outbox: Add outside of a transaction")
	}
	now := tx.NowFunc()
	values := make([]any, 0, columns*len(rows))
	for _, r := range rows {
		switch {
		case r.Topic == "":
			return errors.New("outbox: row without a topic")
		case !json.Valid(r.Item):
			return fmt.Errorf("outbox: item for %s is not JSON", r.Topic)
		case len(r.Item) > maxItemBytes:
			return fmt.Errorf("outbox: item for %s: %d bytes: %w", r.Topic, len(r.Item), contract.ErrTooLarge)
		}
		var deliverAt *time.Time
		if !r.DeliverAt.IsZero() {
			if time.Until(r.DeliverAt) > bus.MaxDelay {
				return fmt.Errorf("outbox: item for %s: %w", r.Topic, bus.ErrTooFar)
			}
			at := r.DeliverAt.UTC().Truncate(time.Millisecond)
			deliverAt = &at
		}
		values = append(values, r.Topic, r.OrderSN, string(r.Item), deliverAt, now, unclaimed)
	}
	for part := range slices.Chunk(values, columns*addRows) {
		_, err := sqldb.Exec(tx, "INSERT INTO outbox (topic, msg_key, item, deliver_at, created_at, claimed_until) VALUES "+
			sqldb.Rows(len(part)/columns, columns), part...)
		if err != nil {
			return fmt.Errorf("outbox: add: %w", err)
		}
	}
	return nil
}

// Append writes items of one topic in the caller's transaction, for immediate delivery. It returns an error for an
// invalid item, which a consumer could only refuse.
func Append[T contract.Item](tx *gorm.DB, topic string, items ...T) error {
	rows := make([]Row, len(items))
	for i, item := range items {
		if err := item.Validate(); err != nil {
			return fmt.Errorf("outbox: item %d for %s: %w", i, topic, err)
		}
		raw, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("outbox: item %d for %s: %w", i, topic, err)
		}
		rows[i] = Row{Topic: topic, Item: raw, OrderSN: contract.KeyOf(item)}
	}
	return Add(tx, rows...)
}

// Backlog returns the number of unpublished rows and the creation time of the oldest (zero time: none).
func Backlog(ctx context.Context, db *gorm.DB) (rows int64, oldest time.Time, err error) {
	db = db.WithContext(ctx)
	if err = db.Model(&record{}).Count(&rows).Error; err != nil || rows == 0 {
		return rows, time.Time{}, err
	}
	var first []record
	err = db.Select("id", "created_at").Order("id").Limit(1).Find(&first).Error
	if len(first) > 0 {
		oldest = first[0].CreatedAt
	}
	return rows, oldest, err
}
