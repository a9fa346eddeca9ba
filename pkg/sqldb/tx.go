package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// maxAttempts bounds how often InTx runs one transaction. A lock wait alone takes up to Options.LockWait each time; the
// caller's context ends it earlier.
const maxAttempts = 5

// TxOption changes how InTx treats one transaction.
type TxOption func(*txOptions)

type txOptions struct{ duplicates, unknownCommit bool }

// RetryDuplicates declares that a duplicate key can only be a lost race: the next run of the function will see the other
// transaction's row and act on it.
func RetryDuplicates() TxOption { return func(o *txOptions) { o.duplicates = true } }

// RetryUnknownCommit declares that the function may run again after it already took place: it finds its own rows and
// changes nothing.
func RetryUnknownCommit() TxOption { return func(o *txOptions) { o.unknownCommit = true } }

// InTx runs fn in one READ COMMITTED transaction (SQLite: one immediate transaction at a time in this process) and
// commits unless fn fails or panics. It runs fn again, up to 5 times with growing pauses, after a deadlock, a lock wait
// time-out, a busy SQLite, an error marked with Race, and what the options declare; so fn must keep nothing from an
// earlier run. All transactions of a database share a budget for that (RepeatsLeft); what it does not allow is a transient
// error. Inside of a transaction InTx only calls fn: the outer one decides.
//
// When the connection breaks during the commit, nobody knows whether it took place: the error has ErrCommitUnknown in
// its chain, is transient, and is never retried here unless RetryUnknownCommit allows it. Consumers get their message
// again and find what is done already.
func InTx(ctx context.Context, db *gorm.DB, fn func(tx *gorm.DB) error, opts ...TxOption) error {
	var o txOptions
	for _, opt := range opts {
		opt(&o)
	}
	if InsideTx(db) {
		return fn(db.WithContext(ctx))
	}
	pause := &backoff.ExponentialBackOff{
		InitialInterval: 5 * time.Millisecond, Multiplier: 3, MaxInterval: 500 * time.Millisecond, RandomizationFactor: 0.5,
	}
	pause.Reset()
	repeats := &extensionOf(db).repeats
	repeats.earn()
	for attempt := 1; ; attempt++ {
		err := once(ctx, db, fn)
		again := err != nil && (retryable(err) && !errors.Is(err, ErrCommitUnknown) ||
			o.duplicates && IsDuplicate(err) ||
			o.unknownCommit && errors.Is(err, ErrCommitUnknown))
		if !again {
			return err
		}
		if attempt == maxAttempts || !repeats.take() {
			if o.duplicates && IsDuplicate(err) {
				err = Race(err)
			}
			return fmt.Errorf("transaction given up after %d attempts: %w", attempt, err)
		}
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// InsideTx tells whether db is a transaction already.
func InsideTx(db *gorm.DB) bool {
	committer, ok := db.Statement.ConnPool.(gorm.TxCommitter)
	return ok && committer != nil
}

// ForUpdate makes the next SELECT lock the rows it reads. SQLite needs no such thing: its transaction is the only writer.
func ForUpdate(tx *gorm.DB) *gorm.DB {
	if IsSQLite(tx) {
		return tx
	}
	return tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
}

func once(ctx context.Context, db *gorm.DB, fn func(tx *gorm.DB) error) (err error) {
	if writer := extensionOf(db).writer; writer != nil {
		select {
		case writer <- struct{}{}:
			defer func() { <-writer }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// The level is that of the session (see mysqlConnector): asking for it here again would cost a round trip.
	tx := db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return fmt.Errorf("begin: %w", tx.Error)
	}
	done := false
	defer func() {
		if !done { // fn failed or panics
			// The connection is dropped when it cannot even roll back; the server then does it.
			if back := tx.Rollback().Error; back != nil && !errors.Is(back, sql.ErrTxDone) && err != nil {
				err = fmt.Errorf("%w (roll back: %w)", err, back)
			}
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	done = true
	switch err := tx.Commit().Error; {
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, sql.ErrTxDone)):
		// database/sql found the context done before it sent the commit, and rolled back.
		return fmt.Errorf("commit: %w", errors.Join(ctx.Err(), err))
	case retryable(err):
		tx.Rollback()
		return fmt.Errorf("commit: %w", err)
	default:
		return fmt.Errorf("commit: %w: %w", ErrCommitUnknown, err)
	}
}
