package store

import (
	"context"
	"time"

	"flashsale.internal/pkg/sqldb"
)

// Now implements core.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	t, err := sqldb.Now(s.db.WithContext(ctx), s.clock)
	return t, refuseTransient(err)
}
