package sqldb

import (
	"sync/atomic"

	"gorm.io/gorm"
)

// A transaction earns earnedEach for repeats, of which up to mostSaved are kept, and a repeat takes one. So of many transactions
// that get into each other's way not each one runs maxAttempts times: in the long run all of them together are at most half as
// much work again, and a database with too much to do is not given five times as much. Few that do need no budget.
const (
	repeat     = 2 // of the unit of budget
	earnedEach = 1
	mostSaved  = 200 * repeat
)

// budget is what all transactions of this process on one database may be repeated.
type budget struct{ spent atomic.Int64 }

// earn is for a transaction that runs for the first time.
func (b *budget) earn() {
	for {
		spent := b.spent.Load()
		if spent <= 0 || b.spent.CompareAndSwap(spent, max(0, spent-earnedEach)) {
			return
		}
	}
}

// take is whether a transaction may be repeated.
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

// RepeatsLeft is how many transactions of this process InTx may repeat at present: 0 says that so many lose races against each other
// that the losers are told at once.
func RepeatsLeft(db *gorm.DB) int64 {
	return (mostSaved - extensionOf(db).repeats.spent.Load()) / repeat
}
