package store

import (
	"cmp"
	"context"
	"slices"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// EndedHolds implements merchants.Reservations. It reads by the index of activity, state and time of change.
func (s *Store) EndedHolds(ctx context.Context, activityID string, least int64, limit int) ([]merchants.EndedHolds, error) {
	var list []merchants.EndedHolds
	err := s.read(ctx).Model(&reservationRow{}).
		Select("user_id, SUM(reason = ?) AS expired, SUM(reason = ?) AS cancelled", ledger.ReasonExpired, ledger.ReasonCancelled).
		Where("activity_id = ? AND state = ? AND reason IN ?", number(activityID), string(ledger.StateReleased),
			[]string{ledger.ReasonExpired, ledger.ReasonCancelled}).
		Group("user_id").Having("COUNT(*) >= ?", least).Order("COUNT(*) DESC, user_id").Limit(limit).Find(&list).Error
	return list, err
}

// PurchasesOf implements merchants.Reservations.
func (s *Store) PurchasesOf(ctx context.Context, activityID string, userIDs []string) (map[string]int64, error) {
	purchases := make(map[string]int64, len(userIDs))
	err := chunked(userIDs, func(c []string) error {
		var rows []struct {
			UserID string
			N      int64
		}
		err := s.read(ctx).Model(&reservationRow{}).Select("user_id, COUNT(*) AS n").
			Where("activity_id = ? AND user_id IN ? AND state IN ?", number(activityID), c, holdingStates).
			Group("user_id").Find(&rows).Error
		for _, r := range rows {
			purchases[r.UserID] = r.N
		}
		return err
	})
	return purchases, err
}

// HoldingReservations implements merchants.Reservations.
func (s *Store) HoldingReservations(
	ctx context.Context, activityID string, userIDs []string, p core.Page,
) ([]ledger.Row, error) {
	var list []reservationRow
	err := chunked(userIDs, func(c []string) error {
		q := s.read(ctx).Select(reservationColumns).
			Where("activity_id = ? AND user_id IN ? AND state IN ?", number(activityID), c, holdingStates)
		if p.Cursor != "" {
			q = q.Where("order_sn < ?", number(p.Cursor))
		}
		var part []reservationRow
		err := q.Order("order_sn DESC").Limit(p.Limit).Find(&part).Error
		list = append(list, part...)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b reservationRow) int { return cmp.Compare(b.OrderSN, a.OrderSN) })
	return toRows(list[:min(p.Limit, len(list))])
}
