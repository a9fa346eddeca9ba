package store

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
)

type confirmationRow struct {
	ActivityID  int64 `gorm:"primaryKey;autoIncrement:false"`
	Master      string
	ConfirmedAt time.Time
}

func (confirmationRow) TableName() string { return "gate_confirmations" }

// GateConfirmations implements core.Store.
func (s *Store) GateConfirmations(
	ctx context.Context, activityIDs []string,
) (map[string]core.GateConfirmation, error) {
	found := make(map[string]core.GateConfirmation, len(activityIDs))
	err := chunked(activityIDs, func(c []string) error {
		var list []confirmationRow
		err := s.read(ctx).Where("activity_id IN ?", numbers(c)).Find(&list).Error
		for _, r := range list {
			found[text(r.ActivityID)] = core.GateConfirmation{Master: r.Master, At: r.ConfirmedAt.UTC()}
		}
		return err
	})
	return found, err
}

// ConfirmGate implements core.Store.
func (s *Store) ConfirmGate(ctx context.Context, activityID string, c core.GateConfirmation) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		row := confirmationRow{ActivityID: number(activityID), Master: c.Master, ConfirmedAt: c.At}
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error
	})
}

// RenewConfirmations implements core.Store.
func (s *Store) RenewConfirmations(ctx context.Context, activityIDs []string, c core.GateConfirmation) error {
	return chunked(activityIDs, func(chunk []string) error {
		return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
			return tx.Exec("UPDATE gate_confirmations SET confirmed_at = ? "+
				"WHERE activity_id IN ? AND master = ? AND confirmed_at < ?", c.At, numbers(chunk), c.Master, c.At).Error
		})
	})
}
