package store

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
)

type activityRow struct {
	ActivityID int64 `gorm:"primaryKey;autoIncrement:false"`
	Title      string
	EndsAt     time.Time
	SKUs       string `gorm:"column:skus"` // JSON
	AsOf       time.Time
}

func (activityRow) TableName() string { return "activities" }

func findActivities(db *gorm.DB, activityIDs []string) (map[string]contract.ActivityInfo, error) {
	numbers, err := ids(activityIDs)
	if err != nil {
		return nil, err
	}
	var rows []activityRow
	if err := db.Where("activity_id IN ?", numbers).Find(&rows).Error; err != nil {
		return nil, err
	}
	found := make(map[string]contract.ActivityInfo, len(rows))
	for _, r := range rows {
		a := contract.ActivityInfo{
			ActivityID: text(r.ActivityID), Title: r.Title, EndsAt: r.EndsAt.UTC(), AsOf: r.AsOf.UTC(),
		}
		if json.Unmarshal([]byte(r.SKUs), &a.SKUs) != nil {
			a.SKUs = nil // the names are optional; the next description replaces the row
		}
		found[a.ActivityID] = a
	}
	return found, nil
}

// Activities implements core.Store.
func (s *Store) Activities(ctx context.Context, activityIDs []string) (map[string]contract.ActivityInfo, error) {
	found, err := findActivities(s.db.WithContext(ctx), activityIDs)
	return found, refuseTransient(err)
}

// ActivityEnds implements core.ContactStore.
func (s *Store) ActivityEnds(ctx context.Context, activityIDs []string) (map[string]time.Time, error) {
	numbers, err := ids(activityIDs)
	if err != nil {
		return nil, err
	}
	var rows []activityRow
	err = s.db.WithContext(ctx).Select("activity_id", "ends_at").Where("activity_id IN ?", numbers).Find(&rows).Error
	ends := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		ends[text(r.ActivityID)] = r.EndsAt.UTC()
	}
	return ends, refuseTransient(err)
}

func (t *tx) LockActivity(activityID string) (contract.ActivityInfo, bool, error) {
	found, err := findActivities(sqldb.ForUpdate(t.db), []string{activityID})
	a, ok := found[activityID]
	return a, ok, err
}

func (t *tx) PutActivity(a contract.ActivityInfo, update bool) error {
	activity, err := id(a.ActivityID)
	if err != nil {
		return err
	}
	if a.SKUs == nil {
		a.SKUs = []contract.SKUName{}
	}
	skus, err := json.Marshal(a.SKUs)
	if err != nil {
		return err
	}
	row := activityRow{ActivityID: activity, Title: a.Title, EndsAt: a.EndsAt, SKUs: string(skus), AsOf: a.AsOf}
	if !update {
		return t.db.Create(&row).Error
	}
	return t.db.Model(&activityRow{}).Where("activity_id = ?", activity).Updates(map[string]any{
		"title": row.Title, "ends_at": row.EndsAt, "skus": row.SKUs, "as_of": row.AsOf,
	}).Error
}
