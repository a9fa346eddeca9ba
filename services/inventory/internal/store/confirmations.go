package store

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/gates"
)

type confirmationRow struct {
	ActivityID  int64 `gorm:"primaryKey;autoIncrement:false"`
	Master      string
	ConfirmedAt time.Time
	HeldSince   time.Time
}

func (confirmationRow) TableName() string { return "gate_confirmations" }

// unconfirmed is a time before all effects.
var unconfirmed = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// GateConfirmations implements gates.Confirmations.
func (s *Store) GateConfirmations(
	ctx context.Context, activityIDs []string,
) (map[string]gates.Confirmation, error) {
	found := make(map[string]gates.Confirmation, len(activityIDs))
	err := chunked(activityIDs, func(c []string) error {
		var list []confirmationRow
		err := s.read(ctx).Where("activity_id IN ?", numbers(c)).Find(&list).Error
		for _, r := range list {
			confirmed := gates.Confirmation{Master: r.Master, HeldSince: r.HeldSince.UTC()}
			if r.ConfirmedAt.After(unconfirmed) {
				confirmed.At = r.ConfirmedAt.UTC()
			}
			found[text(r.ActivityID)] = confirmed
		}
		return err
	})
	return found, err
}

// ConfirmGate implements gates.Confirmations.
func (s *Store) ConfirmGate(ctx context.Context, activityID string, c gates.Confirmation) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		row := confirmationRow{
			ActivityID: number(activityID), Master: c.Master, ConfirmedAt: c.At, HeldSince: c.HeldSince,
		}
		replaced := []string{"master", "confirmed_at", "held_since"}
		if c.At.IsZero() {
			row.ConfirmedAt, replaced = unconfirmed, []string{"master", "held_since"}
		}
		return tx.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "activity_id"}}, DoUpdates: clause.AssignmentColumns(replaced),
		}).Create(&row).Error
	})
}

// RenewConfirmations implements gates.Confirmations.
func (s *Store) RenewConfirmations(ctx context.Context, activityIDs []string, c gates.Confirmation) error {
	return chunked(activityIDs, func(chunk []string) error {
		return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
			return tx.Exec("UPDATE gate_confirmations SET confirmed_at = ? "+
				"WHERE activity_id IN ? AND master = ? AND confirmed_at < ? AND held_since <= ?",
				c.At, numbers(chunk), c.Master, c.At, c.HeldSince).Error
		})
	})
}

// LowerConfirmation implements gates.Confirmations.
func (s *Store) LowerConfirmation(ctx context.Context, activityID string, changed, now time.Time) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE gate_confirmations SET "+
			"confirmed_at = CASE WHEN confirmed_at > ? THEN ? ELSE confirmed_at END, "+
			"held_since = CASE WHEN held_since < ? THEN ? ELSE held_since END WHERE activity_id = ?",
			changed.UTC(), changed.UTC(), now.UTC(), now.UTC(), number(activityID)).Error
	})
}
