package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/store"
)

func TestARefIsUniqueForItsMerchant(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity) {
		ctx, now := t.Context(), time.Now().UTC().Truncate(time.Millisecond)
		change := core.Change{At: now, Who: "m"}
		create := func(merchant, ref string, skus ...string) (*merchants.Product, error) {
			p := merchants.Product{MerchantID: merchant, Ref: ref, Name: "p", CreatedAt: now, UpdatedAt: now}
			for _, k := range skus {
				p.SKUs = append(p.SKUs, merchants.SKU{Ref: k, Name: "k", ListPrice: 1, Currency: "EUR"})
			}
			return s.CreateProduct(ctx, nil, p, change, merchants.Growth{})
		}
		taken := func(err error) {
			t.Helper()
			require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err), "%v", err)
		}
		require.Equal(t, "K", a.Items[0].Ref)
		_, err := create("m1", "P", "L")
		taken(err)
		_, err = create("m1", "", "L", "K")
		taken(err)
		for _, free := range [][3]string{{"m1", "p", "k"}, {"m2", "P", "K"}, {"m1", "", ""}, {"m1", "", ""}} {
			made, err := create(free[0], free[1], free[2])
			require.NoError(t, err)
			read, err := s.Product(ctx, core.OfMerchant(free[0]), made.ID)
			require.NoError(t, err)
			require.Equal(t, []string{free[1], free[2]}, []string{read.Ref, read.SKUs[0].Ref})
		}
		// The unique keys decide, whatever a transaction has read before.
		for _, statement := range []string{
			"UPDATE products SET ref = 'P' WHERE merchant_id = 'm1' AND ref = 'p'",
			"UPDATE skus SET ref = 'K' WHERE merchant_id = 'm1' AND ref = 'k'",
		} {
			require.True(t, sqldb.IsDuplicate(db.Exec(statement).Error), statement)
		}
		id := addActivity(t, s, "first", now)
		other := addActivity(t, s, "second", now)
		set := func(id, ref string) error {
			_, err := s.ChangeActivity(ctx, core.OfMerchant("m1"), id, change, merchants.Growth{}, func(a *core.Activity) (bool, error) {
				a.Ref = ref
				return true, nil
			})
			return err
		}
		require.NoError(t, set(id, "A"))
		taken(set(other, "A"))
		require.NoError(t, set(other, "a"))
		require.NoError(t, set(id, ""))
		require.NoError(t, set(other, "A"))
		require.True(t, sqldb.IsDuplicate(db.Exec("UPDATE activities SET ref = 'A' WHERE id = ?", id).Error))
	})
}

// SKUs of a product exchange their refs in one change, and give them up for those of another product.
func TestRefsMoveBetweenSKUs(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, _ *core.Activity) {
		ctx, now, in := t.Context(), time.Now().UTC().Truncate(time.Millisecond), core.OfMerchant("m1")
		p := addProduct(t, s, "Lamp", "red", "blue")
		set := func(refs ...string) {
			t.Helper()
			_, err := s.ChangeProduct(ctx, in, p.ID, core.Change{At: now, Who: "m"}, merchants.Growth{}, func(p *merchants.Product) (bool, error) {
				for i, ref := range refs {
					p.SKUs[i].Ref = ref
				}
				return true, nil
			})
			require.NoError(t, err)
			read, err := s.Product(ctx, in, p.ID)
			require.NoError(t, err)
			for i, want := range refs {
				require.Equal(t, want, read.SKUs[i].Ref)
			}
		}
		set("A", "B")
		set("B", "A")
		set("", "B")
		set("B", "")
	})
}

// Rows that a process of 0.1.0 writes, without the columns, have no ref, and its changes keep the refs of others.
func TestRowsOfAnEarlierVersionHaveNoRef(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity) {
		for i := range 2 {
			require.NoError(t, db.Exec("INSERT INTO products (id, merchant_id, name, description, image_url, version, created_at, updated_at) "+
				"SELECT ?, merchant_id, 'Lamp', '', '', 1, created_at, updated_at FROM products WHERE ref = 'P'", 42+i).Error)
			require.NoError(t, db.Exec("INSERT INTO skus (id, product_id, name, list_price, currency, created_at) "+
				"SELECT ?, ?, name, list_price, currency, created_at FROM skus WHERE ref = 'K'", 52+i, 42+i).Error)
		}
		p, err := s.Product(t.Context(), core.OfMerchant("m1"), "43")
		require.NoError(t, err)
		require.Equal(t, []string{"", ""}, []string{p.Ref, p.SKUs[0].Ref})
		require.NoError(t, db.Exec("UPDATE skus SET name = 'x', list_price = 2 WHERE id = ?", a.Items[0].SKUID).Error)
		skus, err := s.SKUs(t.Context(), core.OfMerchant("m1"), []string{a.Items[0].SKUID})
		require.NoError(t, err)
		require.Equal(t, "K", skus[a.Items[0].SKUID].Ref)
	})
}
