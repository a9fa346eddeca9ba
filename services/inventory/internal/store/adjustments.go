package store

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

type adjustmentRow struct {
	ID         int64 `gorm:"primaryKey"`
	ActivityID int64
	SKUID      int64 `gorm:"column:sku_id"`
	Delta      int64
	Reason     string
	State      string
	Decision   string
	CreatedBy  string
	CreatedAt  time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt  time.Time `gorm:"autoUpdateTime:false"`

	ResumeAt      *time.Time
	ResumeAttempt int
}

func (adjustmentRow) TableName() string { return "adjustments" }

var adjustmentColumns = []string{
	"id", "activity_id", "sku_id", "delta", "reason", "state", "decision", "created_by", "created_at", "updated_at",
	"resume_at", "resume_attempt",
}

func toAdjustment(r adjustmentRow) *core.Adjustment {
	return &core.Adjustment{
		ID: text(r.ID), ActivityID: text(r.ActivityID), SKUID: text(r.SKUID), Delta: r.Delta, Reason: r.Reason,
		State: r.State, Decision: r.Decision, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(),
		UpdatedAt: r.UpdatedAt.UTC(), ResumeAt: utc(r.ResumeAt), ResumeAttempt: r.ResumeAttempt,
	}
}

func adjustmentOf(tx *gorm.DB, id int64) (*core.Adjustment, error) {
	var list []adjustmentRow
	if err := tx.Select(adjustmentColumns).Where("id = ?", id).Limit(1).Find(&list).Error; err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("adjustment %d does not exist", id)
	}
	return toAdjustment(list[0]), nil
}

// BeginAdjustment implements merchants.Activities. With the Idempotency-Key it stores only the adjustment's id. For a repeated
// call it returns the adjustment in its present state.
func (s *Store) BeginAdjustment(
	ctx context.Context, in core.Scope, k core.IdempotencyKey, a core.Adjustment, c core.Change,
	check func(*core.Activity) error,
) (*core.Adjustment, error) {
	// Before the transaction, which has to begin with the key. An activity never changes its owner.
	var owned []int
	err := within(s.read(ctx).Model(&activityRow{}), in).Select("1").Where("id = ?", number(a.ActivityID)).
		Find(&owned).Error
	if err != nil {
		return nil, err
	}
	if len(owned) == 0 {
		return nil, notFound()
	}
	key := idempotencyKey(k)
	var out *core.Adjustment
	err = sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		known, err := idempotency.Begin(tx, key)
		if err != nil {
			return err
		}
		if known != nil {
			out, err = adjustmentOf(tx, number(string(known.Body)))
			return err
		}
		items, err := itemsOf(tx, number(a.ActivityID), false)
		if err != nil {
			return err
		}
		act, err := activityOf(within(tx, in), number(a.ActivityID), items)
		if err != nil {
			return err
		}
		if act == nil {
			return notFound()
		}
		if err := check(act); err != nil {
			return err
		}
		row := adjustmentRow{
			ID: s.drawID(), ActivityID: number(a.ActivityID), SKUID: number(a.SKUID), Delta: a.Delta, Reason: a.Reason, State: a.State,
			CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		}
		if err := create(tx, &row); err != nil {
			return err
		}
		out = toAdjustment(row)
		c.MerchantID = act.MerchantID
		if err := record(tx, c); err != nil {
			return err
		}
		return idempotency.Save(tx, key, http.StatusOK, []byte(out.ID))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// DecideAdjustment implements gates.Adjustments. It decides under the locks of the activity's stock; a decision never
// changes. The orders of an import that is planned meanwhile get their units after it.
func (s *Store) DecideAdjustment(
	ctx context.Context, id string, refuse bool, now time.Time,
) (*core.Adjustment, error) {
	var out *core.Adjustment
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		before, err := adjustmentOf(tx, number(id))
		if err != nil {
			return err
		}
		items, err := itemsOf(tx, number(before.ActivityID), true)
		if err != nil {
			return err
		}
		if out, err = adjustmentOf(tx, number(id)); err != nil || out.Decision != "" {
			return err
		}
		if out.Delta < 0 {
			pending, err := pendingImports(tx)
			if err != nil {
				return err
			}
			if pending.Include(out.ActivityID) {
				return core.ErrImporting
			}
			// Units are held back then, and the gate lacks what was sold.
			a, err := activityOf(tx, number(out.ActivityID), nil)
			if err != nil {
				return err
			}
			if a != nil && !a.UsesGate() && !refuse {
				return fmt.Errorf("%w: the sale goes on without its gate", core.ErrGateUnavailable)
			}
		}
		act := core.Activity{Items: items}
		it := act.Item(out.SKUID)
		out.Decision = core.DecisionTaken
		if refuse || it == nil || it.Available+out.Delta < 0 || it.Total+out.Delta > contract.MaxStock {
			out.Decision = core.DecisionRefused
		} else {
			delta := ledger.StockDelta{Available: out.Delta}
			if err := changeStock(tx, number(out.ActivityID), number(out.SKUID), delta); err != nil {
				return err
			}
		}
		return expectRows(tx.Exec("UPDATE adjustments SET decision = ?, updated_at = ? WHERE id = ? AND decision = ''",
			out.Decision, now, number(id)), 1)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// FinishAdjustment implements gates.Adjustments.
func (s *Store) FinishAdjustment(ctx context.Context, id string, now time.Time) (*core.Adjustment, error) {
	var out *core.Adjustment
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		var err error
		if out, err = adjustmentOf(tx, number(id)); err != nil || out.State != core.AdjustmentIntent {
			return err
		}
		switch out.Decision {
		case core.DecisionTaken:
			out.State = core.AdjustmentApplied
		case core.DecisionRefused:
			out.State = core.AdjustmentRefused
			// The Idempotency-Key of a refused call is not kept.
			err = tx.Exec("DELETE FROM idempotency_keys WHERE caller = ? AND method = ? AND body = ?", out.CreatedBy,
				http.MethodPost, []byte(id)).Error
		default:
			err = fmt.Errorf("finish adjustment %s: it is not decided", id)
		}
		if err != nil {
			return err
		}
		return tx.Exec("UPDATE adjustments SET state = ?, updated_at = ? WHERE id = ? AND state = ?", out.State, now,
			number(id), core.AdjustmentIntent).Error
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ActivitiesToResume implements sweep.AdjustmentsStore.
func (s *Store) ActivitiesToResume(ctx context.Context, before, due time.Time) ([]string, error) {
	var list []int64
	err := toResume(s.read(ctx), before, due).Distinct().Order("activity_id").Pluck("activity_id", &list).Error
	ids := make([]string, len(list))
	for i, id := range list {
		ids[i] = text(id)
	}
	return ids, err
}

// AdjustmentsToResume implements sweep.AdjustmentsStore.
func (s *Store) AdjustmentsToResume(
	ctx context.Context, activityID string, before, due time.Time, limit int,
) ([]core.Adjustment, error) {
	var list []adjustmentRow
	err := toResume(s.read(ctx), before, due).Select(adjustmentColumns).Where("activity_id = ?", number(activityID)).
		Order("updated_at, id").Limit(limit).Find(&list).Error
	return toAdjustments(list), err
}

func toResume(tx *gorm.DB, before, due time.Time) *gorm.DB {
	return tx.Model(&adjustmentRow{}).Where("state = ? AND updated_at <= ? AND (resume_at IS NULL OR resume_at <= ?)",
		core.AdjustmentIntent, before, due)
}

// PostponeAdjustments implements sweep.AdjustmentsStore.
func (s *Store) PostponeAdjustments(ctx context.Context, list []core.Adjustment) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		for _, a := range list {
			err := tx.Exec("UPDATE adjustments SET resume_at = ?, resume_attempt = ? WHERE id = ? AND state = ?",
				a.ResumeAt, a.ResumeAttempt, number(a.ID), core.AdjustmentIntent).Error
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// DecidedAdjustments implements gates.Adjustments.
func (s *Store) DecidedAdjustments(ctx context.Context, activityID string) ([]core.Adjustment, error) {
	var list []adjustmentRow
	err := decidedOf(s.read(ctx), number(activityID)).Select(adjustmentColumns).Find(&list).Error
	return toAdjustments(list), err
}

// CountAdjustments implements reconcile.Adjustments.
func (s *Store) CountAdjustments(ctx context.Context, activityID string) (all, open int64, err error) {
	var n struct{ Total, Unfinished int64 }
	err = s.read(ctx).Model(&adjustmentRow{}).
		Select("COUNT(*) AS total, COALESCE(SUM(CASE WHEN state = ? THEN 1 ELSE 0 END), 0) AS unfinished",
			core.AdjustmentIntent).
		Where("activity_id = ?", number(activityID)).Find(&n).Error
	return n.Total, n.Unfinished, err
}

func decidedOf(tx *gorm.DB, activityID int64) *gorm.DB {
	return tx.Model(&adjustmentRow{}).Where("activity_id = ? AND decision <> ''", activityID).Order("id")
}

func toAdjustments(list []adjustmentRow) []core.Adjustment {
	out := make([]core.Adjustment, len(list))
	for i, r := range list {
		out[i] = *toAdjustment(r)
	}
	return out
}
