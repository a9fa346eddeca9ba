package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// maxAttempts bounds the attempts of InTx for one transaction. A lock wait takes up to Options.LockWait in each
// attempt; the caller's context can end it earlier.
const maxAttempts = 5

// TxOption is an option of InTx.
type TxOption func(*txOptions)

type txOptions struct{ duplicates, unknownCommit, single bool }

// RetryDuplicates declares that a duplicate key is always a lost race: the next run of the function will find the row
// of the other transaction.
func RetryDuplicates() TxOption { return func(o *txOptions) { o.duplicates = true } }

// RetryUnknownCommit declares that the function may run again after its commit: it then finds its own rows and changes
// nothing.
func RetryUnknownCommit() TxOption { return func(o *txOptions) { o.unknownCommit = true } }

// Single declares that the function makes one statement. MySQL and MariaDB commit it by itself, which saves the round
// trips of BEGIN and COMMIT.
func Single() TxOption { return func(o *txOptions) { o.single = true } }

// InTx runs fn in one READ COMMITTED transaction (SQLite: one immediate transaction at a time in this process) and
// commits unless fn fails or panics. It runs fn up to 5 times with growing pauses: after a deadlock, a lock wait
// time-out, a busy SQLite, an error marked with Race, and the errors that the options declare. So fn must keep no
// state from an earlier run. All transactions of a database share a budget for repeats (RepeatsLeft); without budget
// the error is returned as transient. Within a transaction InTx only calls fn: the outer InTx decides.
//
// If the connection breaks during the commit, its outcome is unknown: the error has ErrCommitUnknown in its chain, is
// transient, and is not retried here unless RetryUnknownCommit allows it. Consumers get their message redelivered and
// find the completed work.
func InTx(ctx context.Context, db *gorm.DB, fn func(tx *gorm.DB) error, opts ...TxOption) error {
	var o txOptions
	for _, opt := range opts {
		opt(&o)
	}
	if InsideTx(db) {
		return fn(db.WithContext(ctx))
	}
	pause := &backoff.ExponentialBackOff{
		InitialInterval: 5 * time.Millisecond, Multiplier: 3, MaxInterval: 500 * time.Millisecond,
		RandomizationFactor: 0.5,
	}
	pause.Reset()
	repeats := &extensionOf(db).repeats
	repeats.earn()
	for attempt := 1; ; attempt++ {
		err := once(ctx, db, fn, o.single)
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
			return fmt.Errorf("transaction failed after %d attempts: %w", attempt, err)
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

// InsideTx reports whether db is a transaction.
func InsideTx(db *gorm.DB) bool {
	committer, ok := db.Statement.ConnPool.(gorm.TxCommitter)
	return ok && committer != nil
}

// ForUpdate makes the next SELECT lock the rows it reads. SQLite needs no locks: its transaction is the only writer.
func ForUpdate(tx *gorm.DB) *gorm.DB {
	if IsSQLite(tx) {
		return tx
	}
	return tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
}

func once(ctx context.Context, db *gorm.DB, fn func(tx *gorm.DB) error, single bool) (err error) {
	if single && !IsSQLite(db) {
		return onceSingle(db.WithContext(ctx), fn)
	}
	if writer := extensionOf(db).writer; writer != nil {
		select {
		case writer <- struct{}{}:
			defer func() { <-writer }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// The session has the isolation level (see mysqlConnector): setting it here would cost a round trip.
	tx := db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return fmt.Errorf("begin: %w", tx.Error)
	}
	done := false
	defer func() {
		if !done { // fn failed or panics
			// If the rollback fails, the connection is closed, and the server rolls back.
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
		// The context ended before database/sql sent the commit, so it has rolled back.
		return fmt.Errorf("commit: %w", errors.Join(ctx.Err(), err))
	case retryable(err):
		tx.Rollback()
		return fmt.Errorf("commit: %w", err)
	default:
		return fmt.Errorf("commit: %w: %w", ErrCommitUnknown, err)
	}
}

// onceSingle runs a function of one statement, whose outcome is unknown if the connection breaks or the context ends
// before its response.
func onceSingle(db *gorm.DB, fn func(db *gorm.DB) error) error {
	err := fn(db)
	if errors.Is(err, mysqldriver.ErrInvalidConn) || err != nil && db.Statement.Context.Err() != nil {
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return err
}
