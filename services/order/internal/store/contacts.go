package store

import (
	"context"
	"time"

	"gorm.io/gorm/clause"

	"flashsale.internal/services/order/internal/core"
)

type contactRow struct {
	OrderSN    int64 `gorm:"column:order_sn;primaryKey;autoIncrement:false"`
	UserID     string
	ActivityID int64
	KeyID      string
	Sealed     []byte
	KeptFrom   time.Time
}

func (contactRow) TableName() string { return "contacts" }

func (r contactRow) contact() core.SealedContact {
	return core.SealedContact{
		OrderSN: text(r.OrderSN), UserID: r.UserID, ActivityID: text(r.ActivityID), KeyID: r.KeyID, Sealed: r.Sealed,
		KeptFrom: r.KeptFrom.UTC(),
	}
}

func contactsOf(rows []contactRow) []core.SealedContact {
	all := make([]core.SealedContact, len(rows))
	for i, r := range rows {
		all[i] = r.contact()
	}
	return all
}

func (t *tx) PutContact(c core.SealedContact) error {
	sn, err := id(c.OrderSN)
	if err != nil {
		return err
	}
	activity, err := id(c.ActivityID)
	if err != nil {
		return err
	}
	return t.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&contactRow{
		OrderSN: sn, UserID: c.UserID, ActivityID: activity, KeyID: c.KeyID, Sealed: c.Sealed, KeptFrom: c.KeptFrom,
	}).Error
}

// Contacts implements core.Store.
func (s *Store) Contacts(ctx context.Context, orderSNs []string) (map[string]core.SealedContact, error) {
	sns, err := ids(orderSNs)
	if err != nil {
		return nil, err
	}
	var rows []contactRow
	if err := s.db.WithContext(ctx).Where("order_sn IN ?", sns).Find(&rows).Error; err != nil {
		return nil, refuseTransient(err)
	}
	found := make(map[string]core.SealedContact, len(rows))
	for _, r := range rows {
		found[text(r.OrderSN)] = r.contact()
	}
	return found, nil
}

// DueContacts implements core.ContactStore.
func (s *Store) DueContacts(ctx context.Context, before time.Time, limit int) ([]core.SealedContact, error) {
	var rows []contactRow
	err := s.db.WithContext(ctx).Select("order_sn", "activity_id", "kept_from").Where("kept_from <= ?", before).
		Order("kept_from").Limit(limit).Find(&rows).Error
	return contactsOf(rows), refuseTransient(err)
}

// KeepContacts implements core.ContactStore.
func (s *Store) KeepContacts(ctx context.Context, orderSNs []string, from time.Time) error {
	sns, err := ids(orderSNs)
	if err != nil {
		return err
	}
	return refuseTransient(s.db.WithContext(ctx).Model(&contactRow{}).
		Where("order_sn IN ? AND kept_from < ?", sns, from).Update("kept_from", from).Error)
}

// DeleteDueContacts implements core.ContactStore.
func (s *Store) DeleteDueContacts(ctx context.Context, orderSNs []string, before time.Time) (int, error) {
	sns, err := ids(orderSNs)
	if err != nil {
		return 0, err
	}
	res := s.db.WithContext(ctx).Where("order_sn IN ? AND kept_from <= ?", sns, before).Delete(&contactRow{})
	return int(res.RowsAffected), refuseTransient(res.Error)
}

// ForgetContacts implements core.ContactStore.
func (s *Store) ForgetContacts(ctx context.Context, userID string, limit int) (int, bool, error) {
	var sns []int64
	err := s.db.WithContext(ctx).Model(&contactRow{}).Where("user_id = ?", userID).Order("order_sn").Limit(limit).
		Pluck("order_sn", &sns).Error
	if err != nil || len(sns) == 0 {
		return 0, false, refuseTransient(err)
	}
	res := s.db.WithContext(ctx).Where("order_sn IN ? AND user_id = ?", sns, userID).Delete(&contactRow{})
	return int(res.RowsAffected), true, refuseTransient(res.Error)
}

// ContactKeys implements core.ContactStore. It finds each key by one step in the index.
func (s *Store) ContactKeys(ctx context.Context) ([]string, error) {
	var all []string
	for last := ""; ; {
		var next []string
		err := s.db.WithContext(ctx).Model(&contactRow{}).Where("key_id > ?", last).Order("key_id").Limit(1).
			Pluck("key_id", &next).Error
		if err != nil || len(next) == 0 {
			return all, refuseTransient(err)
		}
		last = next[0]
		all = append(all, last)
	}
}

// ContactsUnder implements core.ContactStore.
func (s *Store) ContactsUnder(ctx context.Context, keyID, after string, limit int) ([]core.SealedContact, error) {
	sn, err := id(after)
	if err != nil {
		return nil, err
	}
	var rows []contactRow
	err = s.db.WithContext(ctx).Where("key_id = ? AND order_sn > ?", keyID, sn).Order("order_sn").Limit(limit).
		Find(&rows).Error
	return contactsOf(rows), refuseTransient(err)
}

// CountUnder implements core.ContactStore.
func (s *Store) CountUnder(ctx context.Context, keyID string) (int64, error) {
	var n int64
	err := s.db.WithContext(ctx).Model(&contactRow{}).Where("key_id = ?", keyID).Count(&n).Error
	return n, refuseTransient(err)
}

// ReplaceContact implements core.ContactStore.
func (s *Store) ReplaceContact(
	ctx context.Context, old core.SealedContact, keyID string, sealed []byte,
) (bool, error) {
	sn, err := id(old.OrderSN)
	if err != nil {
		return false, err
	}
	res := s.db.WithContext(ctx).Model(&contactRow{}).
		Where("order_sn = ? AND key_id = ? AND sealed = ?", sn, old.KeyID, old.Sealed).
		Updates(map[string]any{"key_id": keyID, "sealed": sealed})
	return res.RowsAffected == 1, refuseTransient(res.Error)
}

// OrderStates implements core.Store.
func (s *Store) OrderStates(ctx context.Context, orderSNs []string) (map[string]core.Order, error) {
	sns, err := ids(orderSNs)
	if err != nil {
		return nil, err
	}
	orders, err := readOrders(s.db.WithContext(ctx), sns)
	if err != nil {
		return nil, refuseTransient(err)
	}
	found := make(map[string]core.Order, len(orders))
	for _, o := range orders {
		found[o.OrderSN] = o
	}
	return found, nil
}

var _ core.ContactStore = (*Store)(nil)
