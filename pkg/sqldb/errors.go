package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
)

// ErrCommitUnknown is in the chain of an error after which the transaction may or may not have been committed.
var ErrCommitUnknown = errors.New("outcome of the commit is unknown")

// errRace marks errors after which InTx runs the transaction again.
var errRace = errors.New("lost a race against another transaction")

// Race marks err, returned by the transaction function, as a lost race: a duplicate key that another transaction
// inserted meanwhile, or a guarded UPDATE that changed nothing. InTx rolls back and repeats the function. After the
// last attempt the error counts as transient.
func Race(err error) error { return &raceError{err} }

type raceError struct{ err error }

func (e *raceError) Error() string   { return errRace.Error() + ": " + e.err.Error() }
func (e *raceError) Unwrap() []error { return []error{errRace, e.err} }

type sqliteError interface {
	error
	Code() int // extended result code
}

// MySQL and MariaDB error numbers.
const (
	myTooManyConnections = 1040
	myNull               = 1048
	myDuplicate          = 1062
	myNoTable            = 1146
	myLockWait           = 1205
	myDeadlock           = 1213
	myFKChild            = 1216
	myFKParent           = 1217
	myOutOfRange         = 1264
	myTruncated          = 1265
	myWrongValue         = 1292
	myWrongValueForField = 1366
	myDivisionByZero     = 1365
	myNoDefault          = 1364
	myDataTooLong        = 1406
	myFKParent2          = 1451
	myFKChild2           = 1452
	myDuplicateNamed     = 1586
	myValueOutOfRange    = 1690
	myCheck              = 3819
	mariaCheck           = 4025
	myInvalidJSON        = 3140
)

// SQLite result codes (the low byte of the extended ones).
const (
	liteError            = 1
	liteBusy             = 5
	liteLocked           = 6
	liteTooBig           = 18
	liteConstraint       = 19
	liteMismatch         = 20
	liteUniqueConstraint = 19 | 8<<8
	litePrimaryKey       = 19 | 6<<8
	liteRowID            = 19 | 10<<8
)

// IsDuplicate reports whether err is the violation of a unique or primary key.
func IsDuplicate(err error) bool {
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return true
	}
	if my := (*mysqldriver.MySQLError)(nil); errors.As(err, &my) {
		return my.Number == myDuplicate || my.Number == myDuplicateNamed
	}
	if lite := sqliteError(nil); errors.As(err, &lite) {
		switch lite.Code() {
		case liteUniqueConstraint, litePrimaryKey, liteRowID:
			return true
		}
	}
	return false
}

// IsMissingTable reports whether err is that of a statement on a table that does not exist.
func IsMissingTable(err error) bool {
	if my := (*mysqldriver.MySQLError)(nil); errors.As(err, &my) {
		return my.Number == myNoTable
	}
	// SQLite has no code of its own for it.
	lite := sqliteError(nil)
	return errors.As(err, &lite) && lite.Code() == liteError && strings.Contains(lite.Error(), "no such table")
}

// IsTransient reports whether the same work may succeed later without a change. All errors are transient (lost
// connections, time-outs, cancelled contexts, deadlocks, a read-only or overloaded server, a missing table before the
// migration, an unknown commit outcome, unknown errors) except
//   - a contract.Refusal, unless its code permits a retry (rate_limited, those of status 503, internal);
//   - violated constraints, and values that the columns do not accept;
//   - a missing row (gorm.ErrRecordNotFound, sql.ErrNoRows), and misuse of gorm.
//
// nil is not transient.
func IsTransient(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, errRace) || errors.Is(err, ErrCommitUnknown) {
		return true
	}
	if r := (*contract.Refusal)(nil); errors.As(err, &r) {
		switch r.Code {
		case contract.CodeRateLimited, contract.CodeOverloaded, contract.CodeGateUnavailable, contract.CodeJournalFull,
			contract.CodeProviderBusy, contract.CodeUnavailable, contract.CodeInternal:
			return true
		}
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	if my := (*mysqldriver.MySQLError)(nil); errors.As(err, &my) {
		switch my.Number {
		case myNull, myDuplicate, myDuplicateNamed, myFKChild, myFKParent, myFKChild2, myFKParent2, myOutOfRange,
			myTruncated, myWrongValue, myWrongValueForField, myDivisionByZero, myNoDefault, myDataTooLong,
			myValueOutOfRange, myCheck, mariaCheck, myInvalidJSON:
			return false
		}
		return true
	}
	if lite := sqliteError(nil); errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case liteConstraint, liteMismatch, liteTooBig:
			return false
		}
		return true
	}
	for _, permanent := range []error{
		gorm.ErrRecordNotFound, sql.ErrNoRows, gorm.ErrDuplicatedKey, gorm.ErrForeignKeyViolated,
		gorm.ErrCheckConstraintViolated, gorm.ErrInvalidData, gorm.ErrInvalidField, gorm.ErrInvalidValue,
		gorm.ErrInvalidValueOfLength, gorm.ErrMissingWhereClause, gorm.ErrPrimaryKeyRequired,
		gorm.ErrModelValueRequired,
		gorm.ErrModelAccessibleFieldsRequired, gorm.ErrSubQueryRequired, gorm.ErrUnsupportedRelation,
		gorm.ErrUnsupportedDriver, gorm.ErrNotImplemented, gorm.ErrEmptySlice,
	} {
		if errors.Is(err, permanent) {
			return false
		}
	}
	return true
}

// retryable reports whether InTx itself may repeat the transaction: it was rolled back because of another transaction.
func retryable(err error) bool {
	if errors.Is(err, errRace) {
		return true
	}
	if my := (*mysqldriver.MySQLError)(nil); errors.As(err, &my) {
		return my.Number == myDeadlock || my.Number == myLockWait
	}
	if lite := sqliteError(nil); errors.As(err, &lite) {
		return lite.Code()&0xff == liteBusy || lite.Code()&0xff == liteLocked
	}
	return false
}
