package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
)

// productOf returns the address of the product of a SKU.
func (s *shop) productOf(sku string) string {
	s.t.Helper()
	var id string
	require.NoError(s.t, s.db.Table("skus").Where("id = ?", sku).Pluck("product_id", &id).Error)
	return "/v1/merchant/products/" + id
}

func TestAProductIsArchivedAndUnarchived(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	at := s.productOf(s.product("EUR")[0])
	recorded := func() (actions []string) {
		require.NoError(t, s.db.Table("changes").Where("object = 'product'").Order("id").Pluck("action", &actions).Error)
		return actions
	}
	require.Contains(t, string(s.do("GET", at, "").body), `"archived":false`)
	for range 2 { // may be repeated
		got := s.do("POST", at+"/archive", "")
		require.Equal(t, 200, got.status, "%s", got.body)
		require.Contains(t, string(got.body), `"archived":true`)
		require.Equal(t, `"2"`, got.header.Get("ETag"))
	}
	require.Equal(t, []string{"product.create", "product.archive"}, recorded())
	require.Equal(t, 412, s.do("PATCH", at, `{"name":"Stool"}`, "If-Match", `"1"`).status, "its version rose")
	require.Contains(t, string(s.do("PATCH", at, `{"name":"Stool"}`).body), `"archived":true`, "it can be changed")
	for range 2 {
		got := s.do("POST", at+"/unarchive", "{}")
		require.Equal(t, 200, got.status, "%s", got.body)
		require.Contains(t, string(got.body), `"archived":false`)
		require.Equal(t, `"4"`, got.header.Get("ETag"))
	}
	require.Equal(t, []string{"product.create", "product.archive", "product.patch", "product.unarchive"}, recorded())

	for _, action := range []string{"/archive", "/unarchive"} {
		require.Equal(t, "not_found", s.as(s.mintFor("other", "merchant-1", auth.Merchant), "POST", at+action, "").code())
		require.Equal(t, "not_found", s.do("POST", "/v1/merchant/products/4242"+action, "").code())
		require.Equal(t, "name", s.do("POST", at+action, `{"name":"Stool"}`).field())
	}
	require.Equal(t, 400, s.do("POST", "/v1/merchant/products", `{"name":"a","archived":true,`+newSKUs+`}`).status)
	require.Equal(t, "archived", s.do("PATCH", at, `{"archived":true}`).field())
}

// SKUs of an archived product are in no further sale. Published sales go on.
func TestArchivedSKUsAreNotOffered(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	kept, archived := s.product("EUR")[0], s.product("EUR")[0]
	at := func(id string) string { return "/v1/merchant/activities/" + id }
	running, paused, draft := s.draft(archived, 5), s.draft(archived, 5), s.draft(archived, 5)
	again := activityBody(archived, 9) // it has the time of now
	keyed := s.do("POST", "/v1/merchant/activities", again, "Idempotency-Key", "k")
	copied := s.do("POST", at(running)+"/duplicate", "", "Idempotency-Key", "k")
	for _, id := range []string{running, paused} {
		require.Equal(t, 200, s.do("POST", at(id)+"/publish", "").status)
	}
	require.Equal(t, 200, s.do("POST", at(paused)+"/pause", "").status)
	require.Equal(t, 200, s.do("POST", s.productOf(archived)+"/archive", "").status)

	two := func(first, second string) string {
		return fmt.Sprintf(`"items":[{"sku_id":%q,"price":1,"stock":1},{"sku_id":%q,"price":1,"stock":1}]`, first, second)
	}
	body, _, _ := strings.Cut(activityBody(kept, 5), `"items"`)
	refused := func(got response, field string) {
		t.Helper()
		require.Equal(t, []any{400, "invalid_request", field}, []any{got.status, got.code(), got.field()}, "%s", got.body)
	}
	refused(s.do("POST", "/v1/merchant/activities", activityBody(archived, 5)), "items[0].sku_id")
	refused(s.do("POST", "/v1/merchant/activities", body+two(kept, archived)+"}"), "items[1].sku_id")
	refused(s.do("POST", "/v1/merchant/activities", body+two(archived, kept)+"}"), "items[0].sku_id")
	refused(s.do("PATCH", at(draft), "{"+two(kept, archived)+"}"), "items[1].sku_id")
	refused(s.do("POST", at(draft)+"/publish", ""), "items[0].sku_id")
	for _, id := range []string{running, paused, draft} {
		refused(s.do("POST", at(id)+"/duplicate", ""), "items[0].sku_id")
	}
	operator := s.mintFor("", "op", auth.Operator)
	refused(s.as(operator, "POST", at(draft)+"/publish", ""), "items[0].sku_id")
	// The calls that were made before return what they made.
	require.Equal(t, string(keyed.body), string(s.do("POST", "/v1/merchant/activities", again, "Idempotency-Key", "k").body))
	require.Equal(t, string(copied.body), string(s.do("POST", at(running)+"/duplicate", "", "Idempotency-Key", "k").body))

	require.Equal(t, 200, s.do("PATCH", at(draft), `{"title":"Better"}`).status, "a change that leaves the items")
	require.Equal(t, 200, s.do("POST", at(running)+"/publish", "").status, "it was published before")
	require.Equal(t, 200, s.do("PATCH", at(running), `{"title":"Better"}`).status)
	require.Equal(t, 200, s.do("POST", at(running)+"/stock-adjustments", fmt.Sprintf(`{"sku_id":%q,"delta":1,"reason":"r"}`, archived), "Idempotency-Key", "k").status)
	require.Equal(t, 200, s.do("POST", at(paused)+"/resume", "").status)
	left, _, err := s.gate.UnitsLeft(t.Context(), running)
	require.NoError(t, err)
	require.EqualValues(t, 6, left[archived])

	// A draft is published once its archived SKU is replaced, or offered again.
	require.Equal(t, 200, s.do("PATCH", at(draft), fmt.Sprintf(`{"items":[{"sku_id":%q,"price":1,"stock":1}]}`, kept)).status)
	require.Equal(t, 200, s.do("POST", at(draft)+"/publish", "").status)
	require.Equal(t, 200, s.do("POST", s.productOf(archived)+"/unarchive", "").status)
	require.Equal(t, 201, s.do("POST", at(running)+"/duplicate", "").status)
	require.Equal(t, 201, s.do("POST", "/v1/merchant/activities", activityBody(archived, 5)).status)
}

// Archived SKUs count for the quota, so that they can be offered again at any time.
func TestArchivedSKUsCountForTheQuota(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.withQuotas(100, 2)
	at := s.productOf(s.product("EUR")[0])
	require.Equal(t, 200, s.do("POST", at+"/archive", "").status)
	require.Equal(t, "quota_exceeded", s.do("POST", "/v1/merchant/products", `{"name":"Lamp",`+newSKUs+`}`).code())
	require.Equal(t, 200, s.do("POST", at+"/unarchive", "").status)
}
