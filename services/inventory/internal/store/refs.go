package store

import (
	"slices"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/merchants"
)

// The unique keys of refs decide. What a merchant reads about a ref that is in use is found before a row is written:
// a write that meets the key runs its transaction again, which then finds the other object.

// orNull returns nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// valueOf returns "" for nil.
func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ownerOf returns the merchant of a SKU with this ref as its row has it.
func ownerOf(merchantID, ref string) *string {
	if ref == "" {
		return nil
	}
	return &merchantID
}

// written returns the error of a statement that sets a ref. If another row has the ref, the transaction runs again.
func written(res *gorm.DB) error {
	if sqldb.IsDuplicate(res.Error) {
		return sqldb.Race(res.Error)
	}
	return res.Error
}

// refuseKnownRefs refuses with state_conflict (ref) if another product of the merchant has the ref of this product, or
// one of its SKUs that of a SKU of this product.
func refuseKnownRefs(tx *gorm.DB, id int64, p merchants.Product) error {
	if p.Ref != "" {
		if err := refuseRef(tx.Model(&productRow{}).Where("id <> ?", id), p.MerchantID, "product", p.Ref); err != nil {
			return err
		}
	}
	var refs []string
	for _, k := range p.SKUs {
		if k.Ref != "" {
			refs = append(refs, k.Ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return refuseRef(tx.Model(&skuRow{}).Where("product_id <> ?", id), p.MerchantID, "SKU", refs...)
}

// refuseKnownActivityRef refuses with state_conflict (ref) if another activity of the merchant has the ref of this one.
func refuseKnownActivityRef(tx *gorm.DB, a activityRow) error {
	if a.Ref == nil {
		return nil
	}
	return refuseRef(tx.Model(&activityRow{}).Where("id <> ?", a.ID), a.MerchantID, "activity", *a.Ref)
}

// refuseRef refuses with state_conflict (ref) if a row of the query has one of these refs.
func refuseRef(others *gorm.DB, merchantID, what string, refs ...string) error {
	var known []string
	err := others.Where("merchant_id = ? AND ref IN ?", merchantID, refs).Limit(1).Pluck("ref", &known).Error
	if err != nil || len(known) == 0 {
		return err
	}
	return contract.Refuse(contract.CodeStateConflict, "another "+what+" of the merchant has the ref "+known[0]).
		With("ref", known[0])
}

// freeRefs removes the refs that a change gives up, so that another SKU of the same product may get them.
func freeRefs(tx *gorm.DB, before, after []merchants.SKU) error {
	var changed []int64
	for _, k := range before {
		i := slices.IndexFunc(after, func(now merchants.SKU) bool { return now.ID == k.ID })
		if k.Ref != "" && (i < 0 || after[i].Ref != k.Ref) {
			changed = append(changed, number(k.ID))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return tx.Exec("UPDATE skus SET merchant_id = NULL, ref = NULL WHERE id IN ?", changed).Error
}
