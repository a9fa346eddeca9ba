package inventory

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/stockgate"
)

// Of two callers who edit the same version, the second gets 412 and changes nothing.
func TestAStaleVersionIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	var product string
	require.NoError(t, s.db.Table("skus").Where("id = ?", sku).Pluck("product_id", &product).Error)
	for _, c := range []struct{ at, first, second, want string }{
		{"/v1/merchant/products/" + product, `{"name":"first"}`, `{"name":"second"}`, `"name":"first"`},
		{"/v1/merchant/activities/" + s.draft(sku, 5), `{"title":"first"}`, `{"title":"second"}`, `"title":"first"`},
	} {
		read := s.do("GET", c.at, "")
		require.Equal(t, `"1"`, read.header.Get("ETag"))
		require.Contains(t, string(read.body), `"version":1`)
		first := s.do("PATCH", c.at, c.first, "If-Match", `"1"`)
		require.Equal(t, 200, first.status, "%s", first.body)
		require.Equal(t, `"2"`, first.header.Get("ETag"))
		stale := s.do("PATCH", c.at, c.second, "If-Match", `"1"`)
		require.Equal(t, http.StatusPreconditionFailed, stale.status)
		require.Equal(t, "state_conflict", stale.code())
		require.Contains(t, string(stale.body), `"version":2`)
		require.Contains(t, string(stale.body), `"status":412`)
		require.Contains(t, string(s.do("GET", c.at, "").body), c.want)
		for _, malformed := range []string{"1", `"x"`, `""`, `"-1"`, `"01"`, `"1","2"`, `"99999999999999999999"`} {
			got := s.do("PATCH", c.at, c.second, "If-Match", malformed)
			require.Equal(t, "If-Match", got.field(), "%s: %s", malformed, got.body)
		}
		for n, condition := range []string{`W/"2"`, "*", ""} {
			header := []string{"If-Match", condition}
			if condition == "" {
				header = nil
			}
			got := s.do("PATCH", c.at, c.second, header...)
			require.Equal(t, 200, got.status, "%q: %s", condition, got.body)
			require.Equal(t, fmt.Sprintf("%q", fmt.Sprint(n+3)), got.header.Get("ETag"))
		}
	}
}

func TestCreatedObjectsHaveAnETag(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	got := s.do("POST", "/v1/merchant/products", `{"name":"Lamp",`+newSKUs+`}`)
	require.Equal(t, `"1"`, got.header.Get("ETag"))
	id := s.draft(s.product("EUR")[0], 5)
	published := s.do("POST", "/v1/merchant/activities/"+id+"/publish", "")
	require.Equal(t, `"2"`, published.header.Get("ETag"))
}

func TestAStaleVersionOfTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.withLimits(admission.Settings{})
	operator := s.mint("op", auth.Operator)
	put := func(version string, limit int) response {
		return s.as(operator, "PUT", "/v1/merchant/limits/path-total", fmt.Sprintf(`{"limit":%d}`, limit), "If-Match", version)
	}
	list := s.as(operator, "GET", "/v1/merchant/limits", "")
	require.Equal(t, `"0"`, list.header.Get("ETag"))
	first := put(`"0"`, 10)
	require.Equal(t, 200, first.status, "%s", first.body)
	require.Equal(t, `"1"`, first.header.Get("ETag"))
	stale := put(`"0"`, 11)
	require.Equal(t, []any{412, "state_conflict"}, []any{stale.status, stale.code()}, "%s", stale.body)
	require.Equal(t, `"1"`, s.as(operator, "GET", "/v1/merchant/limits/path-total", "").header.Get("ETag"))
	require.Equal(t, 200, put("*", 12).status)
	var recorded int64
	require.NoError(t, s.db.Table("changes").Where("object = 'limit'").Count(&recorded).Error)
	require.Equal(t, int64(2), recorded, "a stale change is no attempt")
}

// A creating call that is repeated with its key creates nothing more.
func TestIdempotencyKeyOfCreations(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	for _, c := range []struct{ path, body, other, object string }{
		{"/v1/merchant/products", `{"name":"Lamp",` + newSKUs + `}`, `{"name":"Shade",` + newSKUs + `}`, "products"},
		{"/v1/merchant/activities", activityBody(sku, 5), strings.Replace(activityBody(sku, 5), "Sale", "Other", 1), "activities"},
	} {
		count := func() (n int64) {
			require.NoError(t, s.db.Table(c.object).Count(&n).Error)
			return n
		}
		before := count()
		post := func(token, body, key string) response {
			return s.as(token, "POST", c.path, body, "Idempotency-Key", key)
		}
		first := post(s.token, c.body, "k")
		require.Equal(t, 201, first.status, "%s", first.body)
		again := post(s.token, strings.Replace(c.body, ",", " , ", 1), "k")
		require.Equal(t, 201, again.status, "%s", again.body)
		require.JSONEq(t, string(first.body), string(again.body))
		require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
		require.Equal(t, before+1, count())
		require.Equal(t, "idempotency_conflict", post(s.token, c.other, "k").code())
		require.Equal(t, 201, post(s.mint("merchant-2", auth.Merchant), c.body, "k").status, "keys are scoped by caller")
		require.Equal(t, "Idempotency-Key", post(s.token, c.body, strings.Repeat("k", 65)).field())

		// The same user for another merchant: the key is unknown there.
		elsewhere := post(s.mintFor("other", "merchant-1", auth.Merchant), c.body, "k")
		if c.object == "products" {
			require.Equal(t, 201, elsewhere.status, "%s", elsewhere.body)
			require.NotEqual(t, first.header.Get("Location"), elsewhere.header.Get("Location"))
		} else {
			require.Equal(t, "items[0].sku_id", elsewhere.field(), "the SKU belongs to the first merchant")
		}

		// The key of a refused call is not stored.
		refused := strings.NewReplacer(`"Lamp"`, `""`, `"Sale"`, `""`).Replace(c.body)
		require.Equal(t, 400, post(s.token, refused, "r").status)
		require.Equal(t, 201, post(s.token, c.body, "r").status)
	}
	// The refusal of an adjustment deletes its key by its id. It must not delete the key of a product with this id.
	id := s.draft(sku, 1)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	var keys, left int64
	require.NoError(t, s.db.Table("idempotency_keys").Count(&keys).Error)
	for n := range 4 {
		require.Equal(t, "insufficient_stock", s.do("POST", "/v1/merchant/activities/"+id+"/stock-adjustments",
			fmt.Sprintf(`{"sku_id":%q,"delta":-2,"reason":"r"}`, sku), "Idempotency-Key", fmt.Sprint("a", n)).code())
	}
	require.NoError(t, s.db.Table("idempotency_keys").Count(&left).Error)
	require.Equal(t, keys, left)
}

func TestActivitiesByState(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	body := func(starts, ends time.Duration) string {
		return fmt.Sprintf(`{"title":"Sale","starts_at":%q,"ends_at":%q,"items":[{"sku_id":%q,"price":50,"stock":5}]}`,
			time.Now().Add(starts).UTC().Format(time.RFC3339), time.Now().Add(ends).UTC().Format(time.RFC3339), sku)
	}
	want := map[string][]string{}
	for _, c := range []struct {
		state        string
		starts, ends time.Duration
		steps        []string
	}{
		{"draft", -time.Hour, -time.Minute, nil},
		{"draft", time.Hour, 2 * time.Hour, nil},
		{"scheduled", time.Hour, 2 * time.Hour, []string{"publish"}},
		{"open", -time.Hour, 2 * time.Hour, []string{"publish"}},
		{"paused", time.Hour, 2 * time.Hour, []string{"publish", "pause"}},
		{"paused", -time.Hour, 2 * time.Hour, []string{"publish", "pause"}},
		{"ended", -time.Hour, 2 * time.Hour, []string{"publish", "end"}},
		{"ended", -time.Hour, 2 * time.Hour, []string{"publish", "past"}},
		{"ended", -time.Hour, 2 * time.Hour, []string{"publish", "pause", "past"}},
	} {
		var made struct {
			ID string `json:"activity_id"`
		}
		s.do("POST", "/v1/merchant/activities", body(c.starts, c.ends)).into(t, &made)
		for _, step := range c.steps {
			if step == "past" {
				require.NoError(t, s.db.Exec("UPDATE activities SET ends_at = ? WHERE id = ?", time.Now().Add(-time.Second).UTC(), made.ID).Error)
				continue
			}
			require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+made.ID+"/"+step, "").status)
		}
		want[c.state] = append([]string{made.ID}, want[c.state]...)
	}
	for state, ids := range want {
		var list struct {
			Items []struct {
				ID    string `json:"activity_id"`
				State string `json:"state"`
			}
		}
		s.do("GET", "/v1/merchant/activities?state="+state, "").into(t, &list)
		var got []string
		for _, it := range list.Items {
			require.Equal(t, state, it.State)
			got = append(got, it.ID)
		}
		require.Equal(t, ids, got, state)
	}
	for _, bad := range []string{"", "published", "all"} {
		require.Equal(t, "state", s.do("GET", "/v1/merchant/activities?state="+bad, "").field(), bad)
	}
}

// Text is stored as it is, script included; addresses other than of the web are refused.
func TestDescriptionAndImageOfAnActivity(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	with := func(fields string) string {
		return strings.Replace(activityBody(sku, 5), "{", "{"+fields+",", 1)
	}
	description := `<script>alert(\"1\")</script> 限时抢购`
	got := s.do("POST", "/v1/merchant/activities", with(`"description":"`+description+`","image_url":"https://example.test/a.png"`))
	require.Equal(t, 201, got.status, "%s", got.body)
	require.Contains(t, string(got.body), `"description":"`+description+`"`)
	require.Contains(t, string(got.body), `"image_url":"https://example.test/a.png"`)
	at := got.header.Get("Location")
	for _, bad := range []string{
		`"image_url":"javascript:alert(1)"`, `"image_url":"//example.test/a.png"`, `"image_url":"data:image/png;base64,AA"`,
		`"image_url":"/` + strings.Repeat("a", 500) + `"`, `"image_url":"a.png"`,
	} {
		require.Equal(t, "image_url", s.do("POST", "/v1/merchant/activities", with(bad)).field(), bad)
		require.Equal(t, "image_url", s.do("PATCH", at, "{"+bad+"}").field(), bad)
	}
	require.Equal(t, "description", s.do("PATCH", at, `{"description":"`+strings.Repeat("限", 5001)+`"}`).field())
	require.Equal(t, 200, s.do("PATCH", at, `{"description":"`+strings.Repeat("限", 5000)+`"}`).status)
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	require.Equal(t, 200, s.do("PATCH", at, `{"description":"new","image_url":"/assets/a.png"}`).status, "also of a published one")
	require.Contains(t, string(s.do("GET", at, "").body), `"description":"new"`)
	require.Contains(t, string(s.do("GET", at, "").body), `"image_url":"/assets/a.png"`)
}

// Buyers see the texts, pictures and list prices. A change of the product reaches them without a new version of the
// activity.
func TestTheSaleDocumentDescribesTheSale(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	got := s.do("POST", "/v1/merchant/products", `{"name":"Lamp","image_url":"/assets/lamp.png","skus":[{"name":"a","list_price":99,"currency":"EUR"}]}`)
	var p struct {
		ID   string `json:"product_id"`
		SKUs []struct {
			ID string `json:"sku_id"`
		} `json:"skus"`
	}
	got.into(t, &p)
	body := strings.Replace(activityBody(p.SKUs[0].ID, 5), "{", `{"description":"d","image_url":"/assets/sale.png","pay_within_s":77,`, 1)
	var a struct {
		ID string `json:"activity_id"`
	}
	s.do("POST", "/v1/merchant/activities", body).into(t, &a)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+a.ID+"/publish", "").status)
	sale, err := s.gate.Sale(t.Context(), a.ID)
	require.NoError(t, err)
	require.Equal(t, []any{"d", "/assets/sale.png", int64(77)}, []any{sale.Description, sale.ImageURL, sale.PayWithinS})
	require.Equal(t, []stockgate.SaleItem{{
		SKUID: p.SKUs[0].ID, Name: "a", ImageURL: "/assets/lamp.png", Price: 50, ListPrice: 99, Currency: "EUR", Total: 5,
	}}, sale.Items)
	require.Equal(t, 200, s.do("PATCH", "/v1/merchant/products/"+p.ID, `{"image_url":"/assets/new.png"}`).status)
	require.NoError(t, s.svc.controller().EnsureGates(t.Context()))
	sale, err = s.gate.Sale(t.Context(), a.ID)
	require.NoError(t, err)
	require.Equal(t, "/assets/new.png", sale.Items[0].ImageURL)
}
