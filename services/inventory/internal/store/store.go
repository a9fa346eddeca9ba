// Package store keeps the inventory's truth in MySQL, MariaDB or SQLite.
//
// Locks are always taken in this order: the activity's row (only by those who change or rebuild an activity), its stock
// rows by (activity, SKU), then everything else. Whoever changes an activity's ledger, allowances, adjustments or stock
// holds the locks on its stock rows.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
)

// inList bounds the members of one IN (...) and the rows of one INSERT.
const inList = 500

// Store implements core.Store.
type Store struct{ db *gorm.DB }

var _ core.Store = (*Store)(nil)

// New makes a Store on an open database.
func New(db *gorm.DB) *Store { return &Store{db: db} }

// errGuard is a guarded UPDATE that did not find what it was decided upon. Under the locks that cannot be: the transaction
// is rolled back and decided again.
var errGuard = errors.New("a guarded update found other figures")

// number is the column of an id. Ids are checked where they come in; 0 is nobody's id.
func number(id string) int64 {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
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

func chunked[T any](all []T, fn func([]T) error) error {
	for len(all) > 0 {
		n := min(inList, len(all))
		if err := fn(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// exactly turns a result that did not touch n rows into a lost race.
func exactly(res *gorm.DB, n int) error {
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected != int64(n) {
		return sqldb.Race(fmt.Errorf("%w: %d rows instead of %d", errGuard, res.RowsAffected, n))
	}
	return nil
}

type changeRow struct {
	ID       int64 `gorm:"primaryKey"`
	At       time.Time
	Who      string
	Action   string
	Object   string
	ObjectID int64
	Detail   string
}

func (changeRow) TableName() string { return "changes" }

func record(tx *gorm.DB, c core.Change) error {
	detail := ""
	if c.Detail != nil {
		b, err := json.Marshal(c.Detail)
		if err != nil {
			return fmt.Errorf("detail of a change: %w", err)
		}
		detail = string(b)
	}
	return tx.Create(&changeRow{
		At: c.At, Who: c.Who, Action: c.Action, Object: c.Object, ObjectID: number(c.ObjectID), Detail: detail,
	}).Error
}

// Record keeps a change that touched no table of ours.
func (s *Store) Record(ctx context.Context, c core.Change) error { return record(s.read(ctx), c) }

// SweepKeys forgets Idempotency-Keys of more than 24 h ago.
func (s *Store) SweepKeys(ctx context.Context) error {
	_, err := idempotency.Sweep(ctx, s.db)
	return err
}

func notFound() *contract.Refusal { return contract.Refuse(contract.CodeNotFound, "no such resource") }
