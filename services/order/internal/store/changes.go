package store

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// changeRow is an order that was written while MoveTables copies.
type changeRow struct {
	OrderSN int64 `gorm:"column:order_sn;primaryKey;autoIncrement:false"`
}

func (changeRow) TableName() string { return "order_changes" }

// recordChanges records, in the transaction that writes these orders, that they must be copied again. It does nothing
// unless MoveTables is copying.
func recordChanges(tx *gorm.DB, l *layout, groups []group) error {
	if !l.records() {
		return nil
	}
	var rows []changeRow
	for _, g := range groups {
		for _, sn := range g.sns {
			rows = append(rows, changeRow{sn})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error
}
