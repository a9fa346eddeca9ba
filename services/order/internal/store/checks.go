package store

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

// checkRow lists orders of one deadline for the sweep for lost closings.
type checkRow struct {
	ID       int64 `gorm:"primaryKey"`
	CheckAt  time.Time
	OrderSNs []byte `gorm:"column:order_sns"` // 8 bytes each, big-endian
}

func (checkRow) TableName() string { return "close_checks" }

// orderSNs returns the order_sns.
func (r checkRow) orderSNs() []int64 {
	sns := make([]int64, 0, len(r.OrderSNs)/8)
	for b := r.OrderSNs; len(b) >= 8; b = b[8:] {
		sns = append(sns, int64(binary.BigEndian.Uint64(b))) // as it was written
	}
	return sns
}

// checksOf returns the rows for pending orders: one for each deadline, and at most contract.MaxItems orders in each.
func checksOf(rows []orderRow) []checkRow {
	byTime := map[int64][]byte{}
	for _, r := range rows {
		at := r.CloseCheckAt.UnixMilli()
		byTime[at] = binary.BigEndian.AppendUint64(byTime[at], uint64(r.OrderSN)) // positive
	}
	var checks []checkRow
	for at, sns := range byTime {
		for part := range slices.Chunk(sns, 8*contract.MaxItems) {
			checks = append(checks, checkRow{CheckAt: time.UnixMilli(at).UTC(), OrderSNs: part})
		}
	}
	slices.SortFunc(checks, func(a, b checkRow) int { return a.CheckAt.Compare(b.CheckAt) })
	return checks
}

const (
	checkPage = 64   // rows of close_checks in one statement
	checkMost = 1024 // rows of close_checks that one call reads
)

// OverdueOrders implements core.Store. It deletes the rows of close_checks of which no order is pending, and postpones
// those of which none is due. A row stays due while it has an order that is returned.
func (s *Store) OverdueOrders(ctx context.Context, before time.Time, limit int) ([]core.Order, error) {
	overdue, err := s.overdueOrders(ctx, before, limit)
	return overdue, refuseTransient(err)
}

func (s *Store) overdueOrders(ctx context.Context, before time.Time, limit int) ([]core.Order, error) {
	db := s.db.WithContext(ctx)
	var overdue []core.Order
	var last checkRow
	seen := map[string]bool{}
	for read := 0; read < checkMost && len(overdue) < limit; read += checkPage {
		find := db.Where("check_at <= ?", before)
		if last.ID > 0 {
			find = find.Where("check_at > ? OR (check_at = ? AND id > ?)", last.CheckAt, last.CheckAt, last.ID)
		}
		var checks []checkRow
		if err := find.Order("check_at, id").Limit(checkPage).Find(&checks).Error; err != nil {
			return nil, err
		}
		var done []int64
		for _, c := range checks {
			pending, err := pendingOf(db, c.orderSNs())
			if err != nil {
				return nil, err
			}
			if len(pending) == 0 {
				done = append(done, c.ID)
				continue
			}
			due := false
			next := pending[0].CloseCheckAt
			for _, r := range pending {
				if r.CloseCheckAt.Before(next) {
					next = r.CloseCheckAt
				}
				if r.CloseCheckAt.After(before) {
					continue
				}
				due = true
				if o, err := r.order(); err != nil {
					return nil, err
				} else if !seen[o.OrderSN] && len(overdue) < limit {
					seen[o.OrderSN] = true
					overdue = append(overdue, o)
				}
			}
			if !due {
				if err := db.Model(&checkRow{}).Where("id = ?", c.ID).Update("check_at", next).Error; err != nil {
					return nil, err
				}
			}
		}
		if len(done) > 0 {
			if err := db.Where("id IN ?", done).Delete(&checkRow{}).Error; err != nil {
				return nil, err
			}
		}
		if len(checks) < checkPage {
			break
		}
		last = checks[len(checks)-1]
	}
	return overdue, nil
}

// pendingOf returns the rows of the orders that are pending.
func pendingOf(db *gorm.DB, sns []int64) (rows []orderRow, err error) {
	err = db.Where("order_sn IN ? AND state = ?", sns, string(core.Pending)).Find(&rows).Error
	return rows, err
}
