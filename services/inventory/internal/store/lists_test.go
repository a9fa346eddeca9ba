package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/store"
)

var wholePage = core.Page{Limit: 99}

// addActivity adds a draft of m1 with these items.
func addActivity(t *testing.T, s *store.Store, title string, starts time.Time, items ...core.Stock) string {
	now := time.Now().UTC().Truncate(time.Millisecond)
	id, err := s.CreateActivity(t.Context(), nil, core.Activity{
		MerchantID: "m1", Title: title, State: core.ActivityDraft, StartsAt: starts, EndsAt: starts.Add(time.Hour), PerUserLimit: 1,
		PayWithinS: 9, Currency: "EUR", Version: 1, CreatedAt: now, UpdatedAt: now, Items: items,
	}, core.Change{At: now, Who: "m"}, allowed)
	require.NoError(t, err)
	return id
}

func addProduct(t *testing.T, s *store.Store, name string, skus ...string) *merchants.Product {
	now := time.Now().UTC().Truncate(time.Millisecond)
	p := merchants.Product{MerchantID: "m1", Name: name, CreatedAt: now, UpdatedAt: now}
	for _, sku := range skus {
		p.SKUs = append(p.SKUs, merchants.SKU{Name: sku, ListPrice: 1, Currency: "EUR"})
	}
	made, err := s.CreateProduct(t.Context(), nil, p, core.Change{At: now, Who: "m"}, merchants.Growth{})
	require.NoError(t, err)
	return made
}

// titles are those of the search; searches has those that contain each text.
var titles = []string{"50% off", "50 off", "a_b", "aXb", "Äpfel", "ПРОДАЖА", "限时抢购", "😀 sale", "🎉 sale", "[x]*?^-]", `back\slash`}

var searches = map[string][]string{
	"50% o": {"50% off"}, "%": {"50% off"}, "_": {"a_b"}, "axB": {"aXb"}, "OFF": {"50% off", "50 off"}, "äPF": {"Äpfel"},
	"apfel": nil, "продажа": {"ПРОДАЖА"}, "抢": {"限时抢购"}, "😀": {"😀 sale"}, "Sale": {"😀 sale", "🎉 sale"}, "[X]": {"[x]*?^-]"},
	"*?^-]": {"[x]*?^-]"}, "*": {"[x]*?^-]"}, "?": {"[x]*?^-]"}, "]": {"[x]*?^-]"}, "^": {"[x]*?^-]"}, "x]*": {"[x]*?^-]"},
	`\`: {`back\slash`}, "'": nil, "[ab]": nil, "a-z": nil, "a?b": nil,
}

func TestASearchHasNoCaseAndNoWildcards(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		now := time.Now().UTC()
		for _, title := range titles {
			addActivity(t, s, title, now)
			addProduct(t, s, title, "k")
			addProduct(t, s, "q", title, title)
		}
		for part, want := range searches {
			activities, err := s.Activities(t.Context(), core.OfMerchant("m1"), merchants.ActivityFilter{Title: part}, now, wholePage)
			require.NoError(t, err)
			var found []string
			for _, a := range activities {
				found = append(found, a.Title)
			}
			require.ElementsMatch(t, want, found, "activities with %q", part)
			products, err := s.Products(t.Context(), core.OfMerchant("m1"), merchants.ProductFilter{Name: part}, wholePage)
			require.NoError(t, err)
			require.Len(t, products, 2*len(want), "by their own names, and by those of their SKUs: %q", part)
		}
		// A part and a phase.
		for phase, n := range map[string]int{"draft": 1, "open": 1, "ended": 0} {
			title := map[string]string{"draft": "axb", "open": "t", "ended": "t"}[phase]
			list, err := s.Activities(t.Context(), core.OfMerchant("m1"), merchants.ActivityFilter{Phase: phase, Title: title}, now, wholePage)
			require.NoError(t, err)
			require.Len(t, list, n, phase)
		}
		for _, in := range []core.Scope{core.OfMerchant("m2"), {}} {
			list, err := s.Activities(t.Context(), in, merchants.ActivityFilter{Title: "off"}, now, wholePage)
			require.NoError(t, err)
			require.Empty(t, list)
			products, err := s.Products(t.Context(), in, merchants.ProductFilter{Name: "off"}, wholePage)
			require.NoError(t, err)
			require.Empty(t, products)
		}
		require.NotEmpty(t, a.ID)
	})
}

func TestActivitiesByStart(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		at := a.StartsAt.Add(time.Hour)
		var ids []string
		for _, ms := range []int64{0, 2, 1, 1, 1, 0, 3} {
			ids = append(ids, addActivity(t, s, "t", at.Add(time.Duration(ms)*time.Millisecond)))
		}
		want := []string{ids[6], ids[1], ids[4], ids[3], ids[2], ids[5], ids[0], a.ID}
		for limit := 1; limit <= len(want)+1; limit++ {
			var got []string
			f, p := merchants.ActivityFilter{ByStart: true}, core.Page{Limit: limit}
			for {
				list, err := s.Activities(t.Context(), core.OfMerchant("m1"), f, at, p)
				require.NoError(t, err)
				if len(list) == 0 {
					break
				}
				for _, a := range list {
					got = append(got, a.ID)
				}
				last := list[len(list)-1]
				f.From, p.Cursor = last.StartsAt, last.ID
			}
			require.Equal(t, want, got, "pages of %d", limit)
		}
	})
}

func TestADraftIsDeletedWithItsItems(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity) {
		ctx, now := t.Context(), time.Now().UTC().Truncate(time.Millisecond)
		item := core.Stock{SKUID: a.Items[0].SKUID, Price: 1, Total: 7, Available: 7}
		id := addActivity(t, s, "t", now, item)
		other := addActivity(t, s, "other", now, item)
		change := core.Change{At: now, Who: "m", Action: "activity.delete", Object: "activity", ObjectID: id}
		kept := errors.New("kept")
		require.ErrorIs(t, s.DeleteActivity(ctx, core.OfMerchant("m1"), id, change, func(a *core.Activity) error {
			require.EqualValues(t, 7, a.Items[0].Total)
			return kept
		}), kept)
		draft, err := s.AnyActivity(ctx, id)
		require.NoError(t, err)
		require.Len(t, draft.Items, 1)
		remove := func(in core.Scope) error {
			return s.DeleteActivity(ctx, in, id, change, func(*core.Activity) error { return nil })
		}
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(remove(core.OfMerchant("m2"))))
		require.NoError(t, remove(core.OfMerchant("m1")))
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(remove(core.AllMerchants())))
		draft, err = s.AnyActivity(ctx, id)
		require.NoError(t, err)
		require.Nil(t, draft)
		var stocks int64
		require.NoError(t, db.Table("stocks").Where("activity_id = ?", id).Count(&stocks).Error)
		require.Zero(t, stocks)
		var changes []struct{ Action, MerchantID, Detail string }
		require.NoError(t, db.Table("changes").Where("object_id = ?", id).Order("id").Find(&changes).Error)
		require.Equal(t, struct{ Action, MerchantID, Detail string }{"activity.delete", "m1", `"t"`}, changes[len(changes)-1])
		left, err := s.AnyActivity(ctx, other)
		require.NoError(t, err)
		require.Len(t, left.Items, 1, "another draft of the same SKU")
	})
}

func TestArchivedProducts(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity) {
		ctx, now, in := t.Context(), time.Now().UTC().Truncate(time.Millisecond), core.OfMerchant("m1")
		p := addProduct(t, s, "Lamp", "red", "blue")
		require.False(t, p.Archived)
		listed := func(archived bool) (names []string) {
			list, err := s.Products(ctx, in, merchants.ProductFilter{Archived: archived}, wholePage)
			require.NoError(t, err)
			for _, p := range list {
				require.Equal(t, archived, p.Archived)
				names = append(names, p.Name)
			}
			return names
		}
		require.Equal(t, []string{"Lamp", "p"}, listed(false))
		require.Empty(t, listed(true))
		change := func(archived, write bool) *merchants.Product {
			got, err := s.ChangeProduct(ctx, in, p.ID, core.Change{At: now, Who: "m", Object: "product", ObjectID: p.ID}, merchants.Growth{}, func(p *merchants.Product) (bool, error) {
				p.Archived = archived
				return write, nil
			})
			require.NoError(t, err)
			return got
		}
		recorded := func() (n int64) {
			require.NoError(t, db.Table("changes").Where("object = 'product' AND object_id = ?", p.ID).Count(&n).Error)
			return n
		}
		before := recorded()
		require.Len(t, change(false, false).SKUs, 2)
		require.Equal(t, before, recorded(), "a change that writes nothing")
		require.True(t, change(true, true).Archived)
		require.Equal(t, before+1, recorded())
		require.Equal(t, []string{"p"}, listed(false))
		require.Equal(t, []string{"Lamp"}, listed(true))
		got, err := s.Product(ctx, in, p.ID)
		require.NoError(t, err)
		require.True(t, got.Archived)
		skus, err := s.SKUs(ctx, in, []string{p.SKUs[0].ID, a.Items[0].SKUID})
		require.NoError(t, err)
		require.True(t, skus[p.SKUs[0].ID].Archived)
		require.False(t, skus[a.Items[0].SKUID].Archived)
		sale, err := s.AnyActivity(ctx, addActivity(t, s, "t", now,
			core.Stock{SKUID: p.SKUs[1].ID, Price: 1, Total: 1, Available: 1}, core.Stock{SKUID: a.Items[0].SKUID, Price: 1, Total: 1, Available: 1}))
		require.NoError(t, err)
		require.True(t, sale.Item(p.SKUs[1].ID).Archived)
		require.False(t, sale.Item(a.Items[0].SKUID).Archived)
	})
}

// A product that a process of 0.1.0 writes, without the column, is not archived.
func TestAProductOfAnEarlierVersionIsNotArchived(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, _ *core.Activity) {
		require.NoError(t, db.Exec("INSERT INTO products (id, merchant_id, name, description, image_url, version, created_at, updated_at) "+
			"SELECT 42, merchant_id, 'Lamp', '', '', 1, created_at, updated_at FROM products").Error)
		p, err := s.Product(t.Context(), core.OfMerchant("m1"), "42")
		require.NoError(t, err)
		require.False(t, p.Archived)
	})
}
