package store

import (
	"cmp"
	"context"
	"slices"

	"gorm.io/gorm"

	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// holdingStates are the states of reservations that hold units.
var holdingStates = []string{string(ledger.StateReserved), string(ledger.StateSold)}

// holderRow has the columns of a reservation that are needed to add up the units of its user.
type holderRow struct {
	OrderSN   int64
	UserID    string
	LineItems string
	State     string
}

func (r holderRow) units() (n int64, err error) {
	row, err := toRow(reservationRow{OrderSN: r.OrderSN, LineItems: r.LineItems})
	for _, l := range row.Lines {
		n += l.Qty
	}
	return n, err
}

func holderRows(tx *gorm.DB, activityID int64) *gorm.DB {
	return tx.Model(&reservationRow{}).Select("order_sn", "user_id", "line_items", "state").
		Where("activity_id = ? AND state IN ?", activityID, holdingStates)
}

// Holders implements reconcile.Rows. It reads one page of allowances and one of reservations, both by user. It returns
// the users up to the point that both pages cover completely.
func (s *Store) Holders(
	ctx context.Context, activityID, afterUser string, limit int,
) ([]reconcile.Holder, string, error) {
	id := number(activityID)
	var allowances []allowanceRow
	err := s.read(ctx).Select("activity_id", "user_id", "held").
		Where("activity_id = ? AND user_id > ?", id, afterUser).
		Order("user_id").Limit(limit).Find(&allowances).Error
	if err != nil {
		return nil, "", err
	}
	// More rows than one user can have, so that a page always covers at least one user completely.
	maxRows := 4 * max(limit, 1000)
	var rows []holderRow
	last := "" // last user of this page; "" if both pages reach the end
	query := holderRows(s.read(ctx), id).Where("user_id > ?", afterUser)
	if len(allowances) == limit {
		last = allowances[limit-1].UserID
		query = query.Where("user_id <= ?", last)
	}
	if err := query.Order("user_id, order_sn").Limit(maxRows).Find(&rows).Error; err != nil {
		return nil, "", err
	}
	if len(rows) == maxRows {
		// More rows of the last user may follow.
		cutUser := rows[maxRows-1].UserID
		rows = rows[:slices.IndexFunc(rows, func(r holderRow) bool { return r.UserID == cutUser })]
		if len(rows) > 0 && (last == "" || rows[len(rows)-1].UserID < last) {
			last = rows[len(rows)-1].UserID
		}
	}
	users := map[string]*reconcile.Holder{}
	of := func(user string) *reconcile.Holder {
		if users[user] == nil {
			users[user] = &reconcile.Holder{UserID: user}
		}
		return users[user]
	}
	for _, a := range allowances {
		if last == "" || a.UserID <= last {
			of(a.UserID).Allowance = a.Held
		}
	}
	for _, r := range rows {
		if last != "" && r.UserID > last {
			break
		}
		n, err := r.units()
		if err != nil {
			return nil, "", err
		}
		of(r.UserID).Held += n
	}
	page := make([]reconcile.Holder, 0, len(users))
	for _, h := range users {
		page = append(page, *h)
	}
	slices.SortFunc(page, func(a, b reconcile.Holder) int { return cmp.Compare(a.UserID, b.UserID) })
	return page, last, nil
}

// HeldByReservations implements reconcile.AllowanceTx.
func (l *ledgerTx) HeldByReservations(activityID string, userIDs []string) (map[string]int64, error) {
	held := make(map[string]int64, len(userIDs))
	err := chunked(userIDs, func(c []string) error {
		var rows []holderRow
		if err := holderRows(l.tx, number(activityID)).Where("user_id IN ?", c).Find(&rows).Error; err != nil {
			return err
		}
		for _, r := range rows {
			n, err := r.units()
			if err != nil {
				return err
			}
			held[r.UserID] += n
		}
		return nil
	})
	return held, err
}

// SetAllowance implements reconcile.AllowanceTx.
func (l *ledgerTx) SetAllowance(b ledger.Buyer, held int64) error {
	known, err := l.Allowances(b.ActivityID, []string{b.UserID})
	if err != nil {
		return err
	}
	if _, ok := known[b.UserID]; !ok {
		l.hasAllowance[b] = true
		return l.tx.Create(&allowanceRow{ActivityID: number(b.ActivityID), UserID: b.UserID, Held: held}).Error
	}
	return l.tx.Exec("UPDATE allowances SET held = ? WHERE activity_id = ? AND user_id = ?", held,
		number(b.ActivityID), b.UserID).Error
}
