package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// Waiting implements merchants.Overview.
func (s *Store) Waiting(ctx context.Context) (merchants.Waiting, error) {
	var w merchants.Waiting
	var err, modes, imports error
	w.DeadLetters, err = waits(s.read(ctx).Model(&deadLetterRow{}).Where("state = ?", core.DeadLetterOpen), "failed_at")
	modes = s.read(ctx).Model(&activityRow{}).Where("mode <> ?", string(contract.ModeGate)).
		Count(&w.RedislessSales.Count).Error
	w.Imports, imports = waits(s.read(ctx).Model(&importRow{}).Joins("JOIN epochs ON epochs.id = epoch_id").
		Where("epoch_id = (SELECT MAX(id) FROM epochs) AND step <> ?", string(core.ImportDone)), "drawn_at")
	return w, errors.Join(err, modes, imports)
}

// waits counts the rows that q selects, and returns the earliest time in a column.
func waits(q *gorm.DB, column string) (w merchants.Waits, err error) {
	if err = q.Session(&gorm.Session{}).Count(&w.Count).Error; err != nil || w.Count == 0 {
		return w, err
	}
	var first []time.Time
	if err = q.Session(&gorm.Session{}).Order(column).Limit(1).Pluck(column, &first).Error; len(first) > 0 {
		w.Since = first[0].UTC()
	}
	return w, err
}
