package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
)

type epochRow struct {
	ID      int64 `gorm:"primaryKey"`
	Epoch   string
	Since   *time.Time
	Cause   string
	DrawnAt time.Time
}

func (epochRow) TableName() string { return "epochs" }

func toEpoch(r epochRow) core.Epoch {
	e := core.Epoch{Number: r.ID, Value: r.Epoch, Cause: r.Cause, DrawnAt: r.DrawnAt.UTC()}
	if r.Since != nil {
		e.Since = r.Since.UTC()
	}
	return e
}

type importRow struct {
	EpochID    int64 `gorm:"primaryKey;autoIncrement:false"`
	ActivityID int64 `gorm:"primaryKey;autoIncrement:false"`
	Step       string
	Position   string
	Counts     string
	UpdatedAt  time.Time `gorm:"autoUpdateTime:false"`
}

func (importRow) TableName() string { return "imports" }

func toImport(r importRow) (core.Import, error) {
	i := core.Import{
		Epoch: r.EpochID, ActivityID: text(r.ActivityID), Step: core.ImportStep(r.Step), Position: r.Position,
		UpdatedAt: r.UpdatedAt.UTC(),
	}
	if err := json.Unmarshal([]byte(r.Counts), &i.Counts); err != nil {
		return i, fmt.Errorf("counts of the import of activity %s: %w", i.ActivityID, err)
	}
	return i, nil
}

func fromImport(i core.Import) (importRow, error) {
	counts, err := json.Marshal(i.Counts)
	return importRow{
		EpochID: i.Epoch, ActivityID: number(i.ActivityID), Step: string(i.Step), Position: i.Position,
		Counts: string(counts), UpdatedAt: i.UpdatedAt,
	}, err
}

type findingRow struct {
	EpochID    int64  `gorm:"primaryKey;autoIncrement:false"`
	ActivityID int64  `gorm:"primaryKey;autoIncrement:false"`
	Kind       string `gorm:"primaryKey"`
	Subject    string `gorm:"primaryKey"`
	Detail     string
	FoundAt    time.Time
}

func (findingRow) TableName() string { return "import_findings" }

func presentEpoch(tx *gorm.DB) (epochRow, error) {
	var list []epochRow
	err := tx.Order("id DESC").Limit(1).Find(&list).Error
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("the table epochs is empty: run `inventory migrate up`")
	}
	if err != nil {
		return epochRow{}, err
	}
	return list[0], nil
}

// PresentEpoch implements gates.Epochs.
func (s *Store) PresentEpoch(ctx context.Context) (core.Epoch, error) {
	row, err := presentEpoch(s.read(ctx))
	return toEpoch(row), err
}

// HasEpoch implements gates.Epochs.
func (s *Store) HasEpoch(ctx context.Context, value string) (bool, error) {
	var n int64
	err := s.read(ctx).Model(&epochRow{}).Where("epoch = ?", value).Count(&n).Error
	return n > 0, err
}

// DrawEpoch implements core.Store.
func (s *Store) DrawEpoch(
	ctx context.Context, since time.Time, cause, instead string, now time.Time,
) (core.Epoch, error) {
	var out core.Epoch
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		present, err := presentEpoch(sqldb.ForUpdate(tx))
		if err != nil {
			return err
		}
		if instead != "" && present.Epoch != instead {
			out = toEpoch(present)
			return nil
		}
		var unfinished int64
		err = tx.Model(&importRow{}).Where("epoch_id = ? AND step <> ?", present.ID, string(core.ImportDone)).
			Count(&unfinished).Error
		if err != nil {
			return err
		}
		from := since.UTC().Truncate(time.Millisecond)
		if unfinished > 0 && present.Since != nil && present.Since.Before(from) {
			from = present.Since.UTC()
		}
		row := epochRow{Epoch: strings.ToLower(rand.Text()), Since: &from, Cause: cause, DrawnAt: now}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		out = toEpoch(row)
		return plan(tx, row.ID, now)
	})
	return out, err
}

// plan inserts the imports of an epoch: one of all orders, and one of each activity. addForeign adds those of activities
// that the database has lost.
func plan(tx *gorm.DB, epoch int64, now time.Time) error {
	all := importRow{EpochID: epoch, Step: string(core.ImportEnded), Counts: "{}", UpdatedAt: now}
	if err := tx.Create(&all).Error; err != nil {
		return err
	}
	return tx.Exec("INSERT INTO imports (epoch_id, activity_id, step, position, counts, updated_at) "+
		"SELECT ?, id, ?, '', '{}', ? FROM activities", epoch, string(core.ImportDecisions), now).Error
}

// PendingImports implements gates.Epochs.
func (s *Store) PendingImports(ctx context.Context) (core.PendingImports, error) {
	return pendingImports(s.read(ctx))
}

func pendingImports(tx *gorm.DB) (core.PendingImports, error) {
	var list []int64
	err := tx.Model(&importRow{}).
		Where("epoch_id = (SELECT MAX(id) FROM epochs) AND step <> ?", string(core.ImportDone)).
		Pluck("activity_id", &list).Error
	pending := make(core.PendingImports, len(list))
	for _, id := range list {
		pending[text(id)] = true
	}
	return pending, err
}

// Imports implements restore.Epochs.
func (s *Store) Imports(ctx context.Context, epoch int64) ([]core.Import, error) {
	var list []importRow
	if err := s.read(ctx).Where("epoch_id = ?", epoch).Order("activity_id").Find(&list).Error; err != nil {
		return nil, err
	}
	imports := make([]core.Import, len(list))
	for i, r := range list {
		var err error
		if imports[i], err = toImport(r); err != nil {
			return nil, err
		}
	}
	return imports, nil
}

// MoveImport implements restore.Epochs.
func (s *Store) MoveImport(ctx context.Context, from, to core.Import) (moved bool, err error) {
	row, err := fromImport(to)
	if err != nil {
		return false, err
	}
	err = sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		res := tx.Exec("UPDATE imports SET step = ?, position = ?, counts = ?, updated_at = ? "+
			"WHERE epoch_id = ? AND activity_id = ? AND step = ? AND position = ?",
			row.Step, row.Position, row.Counts, row.UpdatedAt, row.EpochID, row.ActivityID, string(from.Step), from.Position)
		moved = res.RowsAffected > 0
		return res.Error
	})
	return moved, err
}

// AddImport implements gates.Epochs.
func (s *Store) AddImport(ctx context.Context, i core.Import) error {
	row, err := fromImport(i)
	if err != nil {
		return err
	}
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error
	})
}

// RestartImport implements gates.Epochs.
func (s *Store) RestartImport(ctx context.Context, i core.Import) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE imports SET step = ?, position = '', updated_at = ? "+
			"WHERE epoch_id = ? AND activity_id = ? AND step = ?",
			string(i.Step), i.UpdatedAt, i.Epoch, number(i.ActivityID), string(core.ImportDone)).Error
	})
}

// AddFindings implements restore.Epochs.
func (s *Store) AddFindings(ctx context.Context, list []core.Finding) error {
	rows := make([]findingRow, len(list))
	for i, f := range list {
		rows[i] = findingRow{
			EpochID: f.Epoch, ActivityID: number(f.ActivityID), Kind: f.Kind, Subject: f.Subject, Detail: f.Detail, FoundAt: f.At,
		}
	}
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		return chunked(rows, func(c []findingRow) error {
			return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&c).Error
		})
	})
}

// Findings returns what the imports of an epoch found, for an operator.
func (s *Store) Findings(ctx context.Context, epoch int64, limit int) ([]core.Finding, error) {
	var rows []findingRow
	err := s.read(ctx).Where("epoch_id = ?", epoch).Order("kind, activity_id, subject").Limit(limit).Find(&rows).Error
	list := make([]core.Finding, len(rows))
	for i, r := range rows {
		list[i] = core.Finding{
			Epoch: r.EpochID, ActivityID: text(r.ActivityID), Kind: r.Kind, Subject: r.Subject, Detail: r.Detail,
			At: r.FoundAt.UTC(),
		}
	}
	return list, err
}

// KnownAdjustments implements restore.Epochs and reconcile.Adjustments.
func (s *Store) KnownAdjustments(ctx context.Context, ids []string) (map[string]bool, error) {
	known := make(map[string]bool, len(ids))
	err := chunked(ids, func(c []string) error {
		var list []int64
		err := s.read(ctx).Model(&adjustmentRow{}).Where("id IN ?", numbers(c)).Pluck("id", &list).Error
		for _, id := range list {
			known[text(id)] = true
		}
		return err
	})
	return known, err
}

// StartOfOldest implements core.Store.
func (s *Store) StartOfOldest(ctx context.Context, now time.Time) (time.Time, error) {
	due, err := s.GateActivities(ctx, now)
	oldest := now
	for _, a := range due {
		if a.StartsAt.Before(oldest) {
			oldest = a.StartsAt
		}
	}
	return oldest, err
}

// ActivityDrafts implements gates.Epochs.
func (s *Store) ActivityDrafts(ctx context.Context, ids []string) (map[string]bool, error) {
	drafts := make(map[string]bool, len(ids))
	err := chunked(ids, func(c []string) error {
		var list []activityRow
		err := s.read(ctx).Select("id", "state").Where("id IN ?", numbers(c)).Find(&list).Error
		for _, r := range list {
			drafts[text(r.ID)] = core.ActivityState(r.State) == core.ActivityDraft
		}
		return err
	})
	return drafts, err
}

// LeftAhead implements reconcile.Imports.
func (s *Store) LeftAhead(
	ctx context.Context, activityID string, orderSNs []string, since time.Time,
) (map[string]bool, error) {
	ahead := map[string]bool{}
	err := chunked(orderSNs, func(c []string) error {
		var list []string
		err := s.read(ctx).Model(&findingRow{}).
			Where("epoch_id = (SELECT MAX(id) FROM epochs) AND activity_id = ? AND kind = ? AND subject IN ? AND found_at >= ?",
				number(activityID), core.FindingAhead, c, since.UTC()).
			Pluck("subject", &list).Error
		for _, sn := range list {
			ahead[sn] = true
		}
		return err
	})
	return ahead, err
}
