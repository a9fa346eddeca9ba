package store

import (
	"sync"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// Ids of products, SKUs, activities and adjustments leave the database: gates, orders, messages and pages keep them. A
// database that counts them would issue some of them again after a restore from a backup. So the process draws them:
// milliseconds since 2025 and 12 random bits. They have 15 digits, are exact in a double, and sort roughly in the order
// of their creation; those of one process sort exactly so.

const idBits = 12

var idsSince = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// drawnIDs draws ids. It is safe for concurrent use.
type drawnIDs struct {
	random func(n int64) int64 // at least 0 and less than n
	mu     sync.Mutex
	last   int64
}

func (d *drawnIDs) next(now time.Time) int64 {
	ms := max(1, now.Sub(idsSince).Milliseconds())
	d.mu.Lock()
	defer d.mu.Unlock()
	id := ms<<idBits | d.random(1<<idBits)
	if id <= d.last {
		id = d.last + 1
	}
	d.last = id
	return id
}

// drawID returns an id for a new row.
func (s *Store) drawID() int64 {
	return s.ids.next(time.Now()) //nolint:forbidigo // ids need no particular clock, only one that goes on
}

// create inserts a row with a drawn id. If another row has it, the transaction runs again and draws another.
func create(tx *gorm.DB, row any) error {
	err := tx.Create(row).Error
	if sqldb.IsDuplicate(err) {
		return sqldb.Race(err)
	}
	return err
}
