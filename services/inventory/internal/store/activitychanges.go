package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// CreateActivity implements merchants.Activities.
func (s *Store) CreateActivity(
	ctx context.Context, key *core.IdempotencyKey, a core.Activity, c core.Change, check func() error,
) (string, error) {
	var id string
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		var err error
		if id, err = begin(tx, key, createdActivity); err != nil || id != "" {
			return err
		}
		if err := check(); err != nil {
			return err
		}
		row := fromActivity(a)
		row.ID = s.drawID()
		if err := refuseKnownActivityRef(tx, row); err != nil {
			return err
		}
		if err := create(tx, &row); err != nil {
			return err
		}
		id = text(row.ID)
		if err := writeItems(tx, row.ID, a.Items); err != nil {
			return err
		}
		c.ObjectID, c.MerchantID = id, a.MerchantID
		if err := record(tx, c); err != nil {
			return err
		}
		return save(tx, key, createdActivity, id)
	})
	return id, err
}

func writeItems(tx *gorm.DB, activityID int64, items []core.Stock) error {
	rows := make([]stockRow, len(items))
	for i, it := range items {
		rows[i] = stockRow{
			ActivityID: activityID, SKUID: number(it.SKUID), Price: it.Price, Total: it.Total, Available: it.Available,
			Reserved: it.Reserved, Sold: it.Sold,
		}
	}
	return chunked(rows, func(c []stockRow) error { return tx.Create(&c).Error })
}

// DeleteActivity implements merchants.Activities. Nothing but its items refers to a draft.
func (s *Store) DeleteActivity(
	ctx context.Context, in core.Scope, id string, c core.Change, check func(a *core.Activity) error,
) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		a, err := lockActivity(tx, in, id)
		if err != nil {
			return err
		}
		if err := check(a); err != nil {
			return err
		}
		if err := tx.Where("activity_id = ?", number(id)).Delete(&stockRow{}).Error; err != nil {
			return err
		}
		if err := expectRows(tx.Where("id = ?", number(id)).Delete(&activityRow{}), 1); err != nil {
			return err
		}
		c.MerchantID, c.Detail = a.MerchantID, a.Title
		return record(tx, c)
	})
}

// TakeDecision implements restore.Tables.
func (s *Store) TakeDecision(ctx context.Context, gate core.GateConfig, c core.Change) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		_, err := changeActivity(tx, core.AllMerchants(), c.ObjectID, c, merchants.Growth{},
			func(a *core.Activity) (bool, error) { return a.TakeDecision(gate, c.At), nil })
		return err
	})
}

// ChangeActivity implements merchants.Activities. It rewrites items only if the activity was a draft, since then nothing
// refers to them.
func (s *Store) ChangeActivity(
	ctx context.Context, in core.Scope, id string, c core.Change, growth merchants.Growth,
	fn func(a *core.Activity) (bool, error),
) (*core.Activity, error) {
	var out *core.Activity
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) (err error) {
		out, err = changeActivity(tx, in, id, c, growth, func(a *core.Activity) (bool, error) {
			if err := refuseUntilTaken(tx, a); err != nil {
				return false, err
			}
			return fn(a)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// refuseUntilTaken refuses changes of a published activity until an import has taken over what only its gate has: it would
// undo a later change.
func refuseUntilTaken(tx *gorm.DB, a *core.Activity) error {
	if a.State == core.ActivityDraft {
		return nil
	}
	var n int64
	err := tx.Model(&importRow{}).
		Where("epoch_id = (SELECT MAX(id) FROM epochs) AND activity_id = ? AND step = ?", number(a.ID), string(core.ImportDecisions)).
		Count(&n).Error
	if err == nil && n > 0 {
		err = contract.Refuse(contract.CodeUnavailable, "earlier changes of this activity are being taken over after a restore").
			After(time.Second)
	}
	return err
}

func changeActivity(
	tx *gorm.DB, in core.Scope, id string, c core.Change, growth merchants.Growth, fn func(a *core.Activity) (bool, error),
) (*core.Activity, error) {
	a, err := lockActivity(tx, in, id)
	if err != nil {
		return nil, err
	}
	draft := a.State == core.ActivityDraft
	write, err := fn(a)
	if err != nil || !write {
		return a, err
	}
	if err := growActivities(tx, a.MerchantID, c.At, growth); err != nil {
		return nil, err
	}
	row := fromActivity(*a)
	if err := refuseKnownActivityRef(tx, row); err != nil {
		return nil, err
	}
	err = written(tx.Model(&activityRow{}).Where("id = ?", row.ID).Select(changedActivityColumns).Updates(&row))
	if err != nil {
		return nil, err
	}
	if draft {
		if err := tx.Where("activity_id = ?", row.ID).Delete(&stockRow{}).Error; err != nil {
			return nil, err
		}
		if err := writeItems(tx, row.ID, a.Items); err != nil {
			return nil, err
		}
	}
	if draft && a.State == core.ActivityPublished && a.Degraded != nil {
		if err := noteGates(tx, []redislessSaleRow{firstReading(row.ID, c.At)}); err != nil {
			return nil, err
		}
	}
	c.MerchantID = a.MerchantID
	return a, record(tx, c)
}

func lockActivity(tx *gorm.DB, in core.Scope, id string) (*core.Activity, error) {
	var list []activityRow
	err := within(sqldb.ForUpdate(tx), in).Select(activityColumns).Where("id = ?",
		number(id)).Limit(1).Find(&list).Error
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound()
	}
	items, err := itemsOf(tx, list[0].ID, false)
	if err != nil {
		return nil, err
	}
	a := toActivity(list[0], items)
	return a, addSellers(tx, a)
}
