package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// Now implements core.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	t, err := now(s.db.WithContext(ctx), s.clock)
	return t, refuseTransient(err)
}

// now returns the time of clock, or of the database if clock is nil, in the precision of the tables.
func now(db *gorm.DB, clock func() time.Time) (t time.Time, err error) {
	if clock != nil {
		return clock().UTC().Truncate(time.Millisecond), nil
	}
	if !sqldb.IsSQLite(db) {
		err = db.Raw("SELECT UTC_TIMESTAMP(3)").Scan(&t).Error
		return t.UTC(), err
	}
	var text string
	if err = db.Raw("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')").Scan(&text).Error; err != nil {
		return t, err
	}
	return time.Parse(time.RFC3339Nano, text)
}
