package store

import (
	"fmt"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// lockMerchant locks the row of a merchant until the end of the transaction; it inserts a missing row. So of two
// transactions that add objects of one merchant, the second counts after the commit of the first.
func lockMerchant(tx *gorm.DB, merchantID string) error {
	known := " ON DUPLICATE KEY UPDATE merchant_id = merchant_id" // locks the row
	if sqldb.IsSQLite(tx) {
		known = " ON CONFLICT DO NOTHING" // the transaction is the only writer
	}
	if err := tx.Exec("INSERT INTO merchants (merchant_id) VALUES (?)"+known, merchantID).Error; err != nil {
		return fmt.Errorf("lock merchant: %w", err)
	}
	return nil
}

// growSKUs checks the quota of SKUs under the lock of the merchant.
func growSKUs(tx *gorm.DB, merchantID string, growth merchants.Growth) error {
	return grow(tx, merchantID, growth, skusWithin(tx.Model(&skuRow{}), core.OfMerchant(merchantID)))
}

// growActivities checks the quota of activities under the lock of the merchant. Only those count that are published or
// paused and have not ended.
func growActivities(tx *gorm.DB, merchantID string, now time.Time, growth merchants.Growth) error {
	live := within(tx.Model(&activityRow{}), core.OfMerchant(merchantID)).Where("state IN ? AND ends_at > ?",
		[]string{string(core.ActivityPublished), string(core.ActivityPaused)}, now)
	return grow(tx, merchantID, growth, live)
}

func grow(tx *gorm.DB, merchantID string, growth merchants.Growth, counted *gorm.DB) error {
	if !growth.Adds() {
		return nil
	}
	if err := lockMerchant(tx, merchantID); err != nil {
		return err
	}
	var used int64
	if err := counted.Count(&used).Error; err != nil {
		return err
	}
	return growth.Check(used)
}
