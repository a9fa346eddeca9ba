package sqldb

import (
	"sync/atomic"

	"gorm.io/gorm"
)

// A transaction adds earnedEach to the budget, up to mostSaved, and a repeat takes the cost repeat. So when many
// transactions conflict, not each of them runs maxAttempts times. In the long run repeats add at most half of the
// work, and an overloaded database does not get five times the load. A few conflicting transactions never exhaust the
// budget.
const (
	repeat     = 2 // cost of one repeat
	earnedEach = 1
	mostSaved  = 200 * repeat
)

// budget bounds the repeats of all transactions of this process on one database.
type budget struct{ spent atomic.Int64 }

// earn adds the share of a transaction that runs for the first time.
func (b *budget) earn() {
	for {
		spent := b.spent.Load()
		if spent <= 0 || b.spent.CompareAndSwap(spent, max(0, spent-earnedEach)) {
			return
		}
	}
}

// take reports whether a transaction may be repeated, and takes the cost if so.
func (b *budget) take() bool {
	for {
		spent := b.spent.Load()
		if spent+repeat > mostSaved {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+repeat) {
			return true
		}
	}
}

// RepeatsLeft returns the number of repeats that the budget currently allows. At 0, so many transactions conflict
// that InTx returns the error after the first attempt.
func RepeatsLeft(db *gorm.DB) int64 {
	return (mostSaved - extensionOf(db).repeats.spent.Load()) / repeat
}
