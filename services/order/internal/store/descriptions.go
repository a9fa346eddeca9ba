package store

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

type descriptionRow struct {
	ActivityID int64     `gorm:"primaryKey;autoIncrement:false"`
	AsOf       time.Time `gorm:"primaryKey"`
	Title      string
	EndsAt     time.Time
	SKUs       string `gorm:"column:skus"` // JSON
}

func (descriptionRow) TableName() string { return "descriptions" }

func newDescriptionRow(a contract.ActivityInfo) (descriptionRow, error) {
	activity, err := id(a.ActivityID)
	if err != nil {
		return descriptionRow{}, err
	}
	if a.SKUs == nil {
		a.SKUs = []contract.SKUName{}
	}
	skus, err := json.Marshal(a.SKUs)
	return descriptionRow{ActivityID: activity, AsOf: a.AsOf, Title: a.Title, EndsAt: a.EndsAt, SKUs: string(skus)}, err
}

func (r descriptionRow) info() contract.ActivityInfo {
	a := contract.ActivityInfo{
		ActivityID: text(r.ActivityID), Title: r.Title, EndsAt: r.EndsAt.UTC(), AsOf: r.AsOf.UTC(),
	}
	if json.Unmarshal([]byte(r.SKUs), &a.SKUs) != nil {
		a.SKUs = nil // the names are optional
	}
	return a
}

// latest selects the latest descriptions of activities.
func latest(db *gorm.DB, activities []int64) *gorm.DB {
	return db.Where("activity_id IN ? AND as_of = (SELECT MAX(d.as_of) FROM descriptions d "+
		"WHERE d.activity_id = descriptions.activity_id)", activities)
}

// Descriptions implements core.Store.
func (s *Store) Descriptions(
	ctx context.Context, keys []core.DescriptionKey,
) (map[core.DescriptionKey]contract.ActivityInfo, error) {
	db := s.db.WithContext(ctx)
	found := make(map[core.DescriptionKey]contract.ActivityInfo, len(keys))
	var newest []int64
	exact := db.Where("1 = 0")
	for _, k := range keys {
		activity, err := id(k.ActivityID)
		if err != nil {
			return nil, err
		}
		if k.AsOf == 0 {
			newest = append(newest, activity)
		} else {
			exact = exact.Or("activity_id = ? AND as_of = ?", activity, time.UnixMilli(k.AsOf).UTC())
		}
	}
	var rows []descriptionRow
	if len(newest) < len(keys) {
		if err := exact.Find(&rows).Error; err != nil {
			return nil, refuseTransient(err)
		}
		for _, r := range rows {
			found[core.DescriptionKey{ActivityID: text(r.ActivityID), AsOf: r.AsOf.UnixMilli()}] = r.info()
		}
	}
	if len(newest) > 0 {
		if err := latest(db, newest).Find(&rows).Error; err != nil {
			return nil, refuseTransient(err)
		}
		for _, r := range rows {
			found[core.DescriptionKey{ActivityID: text(r.ActivityID)}] = r.info()
		}
	}
	return found, nil
}

// ActivityEnds implements core.ContactStore.
func (s *Store) ActivityEnds(ctx context.Context, activityIDs []string) (map[string]time.Time, error) {
	numbers, err := ids(activityIDs)
	if err != nil {
		return nil, err
	}
	var rows []descriptionRow
	err = latest(s.db.WithContext(ctx).Select("activity_id", "ends_at"), numbers).Find(&rows).Error
	ends := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		ends[text(r.ActivityID)] = r.EndsAt.UTC()
	}
	return ends, refuseTransient(err)
}

func (t *tx) LockDescription(activityID string) (contract.ActivityInfo, bool, error) {
	activity, err := id(activityID)
	if err != nil {
		return contract.ActivityInfo{}, false, err
	}
	return first(sqldb.ForUpdate(t.db).Where("activity_id = ?", activity).Order("as_of DESC"))
}

func (t *tx) EqualDescription(a contract.ActivityInfo) (contract.ActivityInfo, bool, error) {
	r, err := newDescriptionRow(a)
	if err != nil {
		return contract.ActivityInfo{}, false, err
	}
	return first(t.db.Where("activity_id = ? AND title = ? AND ends_at = ? AND skus = ?",
		r.ActivityID, r.Title, r.EndsAt, r.SKUs).Order("as_of"))
}

// first returns the first description that a query finds.
func first(query *gorm.DB) (contract.ActivityInfo, bool, error) {
	var rows []descriptionRow
	if err := query.Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return contract.ActivityInfo{}, false, err
	}
	return rows[0].info(), true, nil
}

func (t *tx) InsertDescription(a contract.ActivityInfo) (inserted bool, err error) {
	r, err := newDescriptionRow(a)
	if err != nil {
		return false, err
	}
	done := t.db.Clauses(clause.OnConflict{DoNothing: true}).Create(&r)
	return done.RowsAffected > 0, done.Error
}
