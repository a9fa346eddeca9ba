package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

type profileRow struct {
	MerchantID string `gorm:"primaryKey"`
	Name       string
	TermsURL   string
	Delivery   string
	Version    int64
	UpdatedAt  time.Time `gorm:"autoUpdateTime:false"`
}

func (profileRow) TableName() string { return "profiles" }

var profileColumns = []string{"merchant_id", "name", "terms_url", "delivery", "version", "updated_at"}

func toProfile(r profileRow) merchants.Profile {
	updated := r.UpdatedAt.UTC()
	return merchants.Profile{
		MerchantID: r.MerchantID, Seller: core.Seller{Name: r.Name, TermsURL: r.TermsURL, Delivery: r.Delivery},
		Version: r.Version, UpdatedAt: &updated,
	}
}

// Profile implements merchants.Profiles.
func (s *Store) Profile(ctx context.Context, merchantID string) (merchants.Profile, error) {
	return profileOf(s.read(ctx), merchantID)
}

func profileOf(tx *gorm.DB, merchantID string) (merchants.Profile, error) {
	var list []profileRow
	err := tx.Select(profileColumns).Where("merchant_id = ?", merchantID).Limit(1).Find(&list).Error
	if err != nil || len(list) == 0 {
		return merchants.Profile{MerchantID: merchantID}, err
	}
	return toProfile(list[0]), nil
}

// ChangeProfile implements merchants.Profiles. The row of the merchant is the lock, as a profile may not exist yet.
func (s *Store) ChangeProfile(
	ctx context.Context, merchantID string, c core.Change, fn func(p *merchants.Profile) error,
) (p merchants.Profile, err error) {
	err = sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		if err := lockMerchant(tx, merchantID); err != nil {
			return err
		}
		// A locking read: the snapshot of the transaction may be older than the lock.
		if p, err = profileOf(sqldb.ForUpdate(tx), merchantID); err != nil {
			return err
		}
		known := p.Version > 0
		if err := fn(&p); err != nil {
			return err
		}
		row := profileRow{
			MerchantID: merchantID, Name: p.Seller.Name, TermsURL: p.Seller.TermsURL, Delivery: p.Seller.Delivery,
			Version: p.Version, UpdatedAt: c.At,
		}
		write := tx.Create(&row)
		if known {
			write = tx.Model(&profileRow{}).Where("merchant_id = ?", merchantID).Select(profileColumns[1:]).Updates(&row)
		}
		if write.Error != nil {
			return write.Error
		}
		p = toProfile(row)
		c.MerchantID = merchantID
		return record(tx, c)
	})
	return p, err
}

// addSellers sets the sellers of activities, by one query for all of them.
func addSellers(tx *gorm.DB, activities ...*core.Activity) error {
	var ids []string
	of := map[string][]*core.Activity{}
	for _, a := range activities {
		if of[a.MerchantID] == nil {
			ids = append(ids, a.MerchantID)
		}
		of[a.MerchantID] = append(of[a.MerchantID], a)
	}
	return chunked(ids, func(c []string) error {
		var list []profileRow
		err := tx.Select(profileColumns).Where("merchant_id IN ?", c).Find(&list).Error
		for _, r := range list {
			for _, a := range of[r.MerchantID] {
				seller := toProfile(r).Seller
				a.Seller = &seller
			}
		}
		return err
	})
}
