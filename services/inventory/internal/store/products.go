package store

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

type productRow struct {
	ID          int64 `gorm:"primaryKey"`
	MerchantID  string
	Name        string
	Description string
	ImageURL    string
	Ref         *string
	Archived    bool
	Version     int64
	CreatedAt   time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt   time.Time `gorm:"autoUpdateTime:false"`
}

func (productRow) TableName() string { return "products" }

var productColumns = []string{
	"id", "merchant_id", "name", "description", "image_url", "ref", "archived", "version", "created_at", "updated_at",
}

type skuRow struct {
	ID         int64 `gorm:"primaryKey"`
	ProductID  int64
	MerchantID *string // of the product; nil without a ref
	Ref        *string
	Name       string
	ListPrice  int64
	Currency   string
	CreatedAt  time.Time `gorm:"autoCreateTime:false"`
}

func (skuRow) TableName() string { return "skus" }

var skuColumns = []string{"id", "product_id", "ref", "name", "list_price", "currency", "created_at"}

func toSKU(r skuRow) merchants.SKU {
	return merchants.SKU{
		ID: text(r.ID), ProductID: text(r.ProductID), Ref: valueOf(r.Ref), Name: r.Name, ListPrice: r.ListPrice,
		Currency: r.Currency,
	}
}

func toProduct(r productRow, skus []merchants.SKU) *merchants.Product {
	return &merchants.Product{
		ID: text(r.ID), MerchantID: r.MerchantID, Ref: valueOf(r.Ref), Name: r.Name, Description: r.Description,
		ImageURL: r.ImageURL, Archived: r.Archived, Version: r.Version, SKUs: skus, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

// SKUs implements merchants.Products.
func (s *Store) SKUs(ctx context.Context, in core.Scope, ids []string) (map[string]merchants.SKU, error) {
	found := make(map[string]merchants.SKU, len(ids))
	err := chunked(ids, func(c []string) error {
		var list []skuRow
		err := skusWithin(s.read(ctx), in).Select(skuColumns).Where("id IN ?", numbers(c)).Find(&list).Error
		if err != nil {
			return err
		}
		about, err := aboutSKUs(s.read(ctx), numbers(c))
		for _, r := range list {
			sku := toSKU(r)
			sku.Archived = about[r.ID].Archived
			found[sku.ID] = sku
		}
		return err
	})
	return found, err
}

// skusWithin adds the owner's condition to a query of SKUs. A SKU belongs to the merchant of its product.
func skusWithin(q *gorm.DB, in core.Scope) *gorm.DB {
	if merchant, limited := in.Limit(); limited {
		return q.Where("product_id IN (SELECT id FROM products WHERE merchant_id = ?)", merchant)
	}
	return q
}

// CreateProduct implements merchants.Products.
func (s *Store) CreateProduct(
	ctx context.Context, key *core.IdempotencyKey, p merchants.Product, c core.Change, growth merchants.Growth,
) (*merchants.Product, error) {
	var out *merchants.Product
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		known, err := begin(tx, key, createdProduct)
		if err != nil {
			return err
		}
		if known != "" {
			if out, err = productOf(tx, core.OfMerchant(p.MerchantID), number(known), false); err == nil && out == nil {
				err = notFound()
			}
			return err
		}
		if err := growSKUs(tx, p.MerchantID, growth); err != nil {
			return err
		}
		row := productRow{
			ID: s.drawID(), MerchantID: p.MerchantID, Ref: orNull(p.Ref), Name: p.Name, Description: p.Description,
			ImageURL: p.ImageURL, Version: p.Version, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
		}
		if err := refuseKnownRefs(tx, row.ID, p); err != nil {
			return err
		}
		if err := create(tx, &row); err != nil {
			return err
		}
		skus, err := s.addSKUs(tx, row, p.SKUs)
		if err != nil {
			return err
		}
		out = toProduct(row, skus)
		c.ObjectID, c.MerchantID = out.ID, out.MerchantID
		if err := record(tx, c); err != nil {
			return err
		}
		return save(tx, key, createdProduct, out.ID)
	})
	return out, err
}

// addSKUs adds SKUs to a product, at the time of its last change.
func (s *Store) addSKUs(tx *gorm.DB, p productRow, skus []merchants.SKU) ([]merchants.SKU, error) {
	out := make([]merchants.SKU, len(skus))
	for i, k := range skus {
		row := skuRow{
			ID: s.drawID(), ProductID: p.ID, MerchantID: ownerOf(p.MerchantID, k.Ref), Ref: orNull(k.Ref), Name: k.Name,
			ListPrice: k.ListPrice, Currency: k.Currency, CreatedAt: p.UpdatedAt,
		}
		if err := create(tx, &row); err != nil {
			return nil, err
		}
		out[i] = toSKU(row)
	}
	return out, nil
}

// ProductByRef implements merchants.Products.
func (s *Store) ProductByRef(ctx context.Context, in core.Scope, ref string) (*merchants.Product, error) {
	var ids []int64
	err := within(s.read(ctx).Model(&productRow{}), in).Where("ref = ?", ref).Limit(1).Pluck("id", &ids).Error
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return productOf(s.read(ctx), in, ids[0], false)
}

// Product implements merchants.Products.
func (s *Store) Product(ctx context.Context, in core.Scope, id string) (*merchants.Product, error) {
	return productOf(s.read(ctx), in, number(id), false)
}

func productOf(db *gorm.DB, in core.Scope, id int64, lock bool) (*merchants.Product, error) {
	q := db
	if lock {
		q = sqldb.ForUpdate(db)
	}
	var list []productRow
	err := within(q, in).Select(productColumns).Where("id = ?", id).Limit(1).Find(&list).Error
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var skus []skuRow
	if err := db.Select(skuColumns).Where("product_id = ?", id).Order("product_id, id").Find(&skus).Error; err != nil {
		return nil, err
	}
	p := toProduct(list[0], nil)
	for _, k := range skus {
		p.SKUs = append(p.SKUs, toSKU(k))
	}
	return p, nil
}

// Products implements merchants.Products.
func (s *Store) Products(
	ctx context.Context, in core.Scope, f merchants.ProductFilter, p core.Page,
) ([]merchants.Product, error) {
	q := within(s.read(ctx), in).Select(productColumns).Where("archived = ?", f.Archived)
	if f.Name != "" {
		product, value := contains(q, "products.name", f.Name)
		sku, _ := contains(q, "skus.name", f.Name)
		q = q.Where("("+product+" OR EXISTS (SELECT 1 FROM skus WHERE skus.product_id = products.id AND "+sku+"))", value, value)
	}
	if p.Cursor != "" {
		q = q.Where("id < ?", number(p.Cursor))
	}
	var list []productRow
	if err := q.Order("id DESC").Limit(p.Limit).Find(&list).Error; err != nil {
		return nil, err
	}
	ids := make([]int64, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	skus := map[int64][]merchants.SKU{}
	err := chunked(ids, func(c []int64) error {
		var rows []skuRow
		err := s.read(ctx).Select(skuColumns).Where("product_id IN ?", c).Order("product_id, id").Find(&rows).Error
		for _, r := range rows {
			skus[r.ProductID] = append(skus[r.ProductID], toSKU(r))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	products := make([]merchants.Product, len(list))
	for i, r := range list {
		products[i] = *toProduct(r, skus[r.ID])
	}
	return products, nil
}

// ChangeProduct implements merchants.Products.
func (s *Store) ChangeProduct(
	ctx context.Context, in core.Scope, id string, c core.Change, growth merchants.Growth,
	fn func(p *merchants.Product) (bool, error),
) (*merchants.Product, error) {
	var out *merchants.Product
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		p, err := productOf(tx, in, number(id), true)
		if err != nil {
			return err
		}
		if p == nil {
			return notFound()
		}
		out = p
		before := slices.Clone(p.SKUs)
		if write, err := fn(p); err != nil || !write {
			return err
		}
		if err := growSKUs(tx, p.MerchantID, growth); err != nil {
			return err
		}
		err = refuseKnownRefs(tx, number(id), *p)
		if err != nil {
			return err
		}
		err = written(tx.Exec("UPDATE products SET ref = ?, name = ?, description = ?, image_url = ?, archived = ?, "+
			"version = ?, updated_at = ? WHERE id = ?",
			orNull(p.Ref), p.Name, p.Description, p.ImageURL, p.Archived, p.Version, p.UpdatedAt, number(id)))
		if err != nil {
			return err
		}
		if err := freeRefs(tx, before, p.SKUs); err != nil {
			return err
		}
		for i := range p.SKUs {
			k := &p.SKUs[i]
			if k.ID != "" {
				err := written(tx.Exec("UPDATE skus SET merchant_id = ?, ref = ?, name = ?, list_price = ? WHERE id = ?",
					ownerOf(p.MerchantID, k.Ref), orNull(k.Ref), k.Name, k.ListPrice, number(k.ID)))
				if err != nil {
					return err
				}
				continue
			}
			row := productRow{ID: number(id), MerchantID: p.MerchantID, UpdatedAt: p.UpdatedAt}
			added, err := s.addSKUs(tx, row, []merchants.SKU{*k})
			if err != nil {
				return err
			}
			*k = added[0]
		}
		c.MerchantID = p.MerchantID
		return record(tx, c)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
