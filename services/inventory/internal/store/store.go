// Package store keeps products, activities, the ledger, adjustments and dead letters in MySQL, MariaDB or SQLite.
//
// All transactions take locks in this order: the row of the activity or product (only to change it, or to rebuild the
// activity's gate), the row of its merchant (only if a quota applies), the activity's stock rows by (activity, SKU),
// then all other rows. A transaction that changes a row's state or units, an allowance, a live stock or an adjustment's
// decision holds the locks on the activity's stock rows.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
)

// chunkSize bounds the values of one IN (...) and the rows of one INSERT.
const chunkSize = 500

// Store implements the ports of the tables, of all packages that use them.
type Store struct {
	db    *gorm.DB
	clock func() time.Time // nil: the database's
	ids   drawnIDs
}

// Option changes a default of a Store.
type Option func(*Store)

// WithClock replaces the clock of the database, for tests and for SQLite, which is part of the process. nil stands for
// the clock of the database.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.clock = now } }

// WithRandom replaces the source of random numbers for ids: random(n) is at least 0 and less than n, and is called by one
// goroutine at a time. nil stands for math/rand.
func WithRandom(random func(n int64) int64) Option {
	return func(s *Store) {
		if random != nil {
			s.ids.random = random
		}
	}
}

// New returns a Store on an open database.
func New(db *gorm.DB, opts ...Option) *Store {
	s := &Store{db: db, ids: drawnIDs{random: rand.Int64N}}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Now implements core.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return sqldb.Now(s.read(ctx), s.clock) }

// errGuard reports that a guarded UPDATE did not match the rows that the decision was based on. The locks should
// prevent this. The transaction is rolled back and run again.
var errGuard = errors.New("guarded update did not match")

// number returns an id as the value of its column. Callers validate ids on input; an invalid id becomes 0, which no
// row has.
func number(id string) int64 {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// numberArgs returns numbers as arguments of a statement.
func numberArgs(ids []string) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = number(id)
	}
	return args
}

func numbers(ids []string) []int64 {
	ns := make([]int64, len(ids))
	for i, id := range ids {
		ns[i] = number(id)
	}
	return ns
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

func (s *Store) read(ctx context.Context) *gorm.DB { return s.db.WithContext(ctx) }

// chunked calls fn for consecutive chunks of at most chunkSize elements.
func chunked[T any](all []T, fn func([]T) error) error {
	for len(all) > 0 {
		n := min(chunkSize, len(all))
		if err := fn(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// expectRows checks that a statement changed n rows. Any other number counts as a lost race, after which the
// transaction is run again.
func expectRows(res *gorm.DB, n int) error { return expectChanged(n)(res.RowsAffected, res.Error) }

// expectChanged returns expectRows for the results of sqldb.Exec.
func expectChanged(n int) func(changed int64, err error) error {
	return func(changed int64, err error) error {
		if err == nil && changed != int64(n) {
			err = sqldb.Race(fmt.Errorf("%w: %d rows changed, expected %d", errGuard, changed, n))
		}
		return err
	}
}

// within adds the owner's condition to a query of a table that has the column merchant_id.
func within(q *gorm.DB, in core.Scope) *gorm.DB {
	if merchant, limited := in.Limit(); limited {
		return q.Where("merchant_id = ?", merchant)
	}
	return q
}

// ofActivities adds the owner's condition to a query of a table that has the column activity_id.
func ofActivities(q *gorm.DB, in core.Scope) *gorm.DB {
	if merchant, limited := in.Limit(); limited {
		return q.Where("activity_id IN (SELECT id FROM activities WHERE merchant_id = ?)", merchant)
	}
	return q
}

type changeRow struct {
	ID         int64 `gorm:"primaryKey"`
	At         time.Time
	Who        string
	Role       string
	Action     string
	Object     string
	ObjectID   int64
	MerchantID string
	Detail     string
}

func (changeRow) TableName() string { return "changes" }

// record inserts a row into the change log.
func record(tx *gorm.DB, c core.Change) error {
	detail := ""
	if c.Detail != nil {
		b, err := json.Marshal(c.Detail)
		if err != nil {
			return fmt.Errorf("marshal detail of change: %w", err)
		}
		detail = string(b)
	}
	return tx.Create(&changeRow{
		At: c.At, Who: c.Who, Role: c.Role, Action: c.Action, Object: c.Object,
		ObjectID: number(c.ObjectID), MerchantID: c.MerchantID, Detail: detail,
	}).Error
}

// Record implements merchants.History. It is for changes that are made outside of the database.
func (s *Store) Record(ctx context.Context, c core.Change) error { return record(s.read(ctx), c) }

// SweepKeys deletes Idempotency-Keys that are older than 24 h.
func (s *Store) SweepKeys(ctx context.Context) error {
	_, err := idempotency.Sweep(ctx, s.db)
	return err
}

func notFound() *contract.Refusal { return contract.Refuse(contract.CodeNotFound, "no such resource") }
