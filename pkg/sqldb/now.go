package sqldb

import (
	"time"

	"gorm.io/gorm"
)

// NowColumn is the expression of Now for a statement that reads rows anyway: the time at which that statement begins.
// SQLite has no such function.
const NowColumn = "UTC_TIMESTAMP(3)"

// NowIn returns the time of Now for a statement that writes it or compares with it: an expression, and its arguments.
// For the clock of the database it is the time at which that statement begins.
func NowIn(db *gorm.DB, clock func() time.Time) (expression string, args []any) {
	if now, known := KnownNow(db, clock); known {
		return "?", []any{now}
	}
	return NowColumn, nil
}

// KnownNow returns the time of Now if that needs no statement: if clock replaces that of the database, and for SQLite.
func KnownNow(db *gorm.DB, clock func() time.Time) (now time.Time, known bool) {
	if clock == nil && IsSQLite(db) {
		clock = time.Now
	}
	if clock == nil {
		return now, false
	}
	return clock().UTC().Truncate(time.Millisecond), true
}

// Now returns the time of the database in UTC, in whole milliseconds, which is the precision of the tables. Claims,
// deadlines and sweeps over rows are decided by it: all processes share it, whatever their own clocks show. SQLite is
// part of the process and has its clock. A clock other than nil replaces that of the database, for tests.
func Now(db *gorm.DB, clock func() time.Time) (t time.Time, err error) {
	if now, known := KnownNow(db, clock); known {
		return now, nil
	}
	err = db.Raw("SELECT " + NowColumn).Scan(&t).Error
	return t.UTC(), err
}
