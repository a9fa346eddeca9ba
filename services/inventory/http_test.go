package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
)

const testSecret = "a secret for tokens of tests, long"

// shop is the service behind its HTTP API.
type shop struct {
	t     *testing.T
	svc   *Service
	db    *gorm.DB
	mini  *miniredis.Miniredis
	gate  *stockgate.Gate
	token string
}

func newShop(t *testing.T, changes ...func(*Config)) *shop {
	return newShopOn(t, dbtest.MariaDB(t, Migrations), changes...)
}

func newShopOn(t *testing.T, db *gorm.DB, changes ...func(*Config)) *shop {
	mini := miniredis.RunT(t)
	rdb := stockgate.Connect([]string{mini.Addr()}, 0, patient)
	t.Cleanup(func() { _ = rdb.Close() })
	tel := telemetry.Discard(t)
	b := inproc.New(inproc.Options{}, tel.Log)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	cfg := Config{Auth: settings.Auth{Lenient: true, HS256Secrets: []string{testSecret}}, Internal: settings.Internal{Secrets: []string{"x"}}}
	for _, change := range changes {
		change(&cfg)
	}
	svc, err := New(cfg, Deps{DB: db, Redis: rdb, Bus: b, Telemetry: tel})
	require.NoError(t, err)
	s := &shop{t: t, svc: svc, db: db, mini: mini, gate: stockgate.New(rdb, stockgate.Options{})}
	s.token = s.mint("merchant-1", auth.Merchant)
	return s
}

// mint returns a token of the default merchant.
func (s *shop) mint(user string, roles ...auth.Role) string {
	return s.mintFor(contract.DefaultMerchant, user, roles...)
}

func (s *shop) mintFor(merchant, user string, roles ...auth.Role) string {
	s.t.Helper()
	token, err := auth.Mint(testSecret, auth.Identity{UserID: user, Roles: roles, MerchantID: merchant}, time.Hour)
	require.NoError(s.t, err)
	return token
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (a response) code() string {
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(a.body, &p)
	return p.Code
}

func (a response) field() string {
	var p struct {
		Errors []contract.FieldError `json:"errors"`
	}
	_ = json.Unmarshal(a.body, &p)
	if len(p.Errors) == 0 {
		return ""
	}
	return p.Errors[0].Field
}

func (a response) into(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, v), "%s", a.body)
}

func (s *shop) as(token, method, path, body string, header ...string) response {
	s.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, reader)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.svc.Handler().ServeHTTP(w, r)
	return response{w.Code, w.Header(), w.Body.Bytes()}
}

func (s *shop) do(method, path, body string, header ...string) response {
	s.t.Helper()
	return s.as(s.token, method, path, body, header...)
}

func (s *shop) product(currency string) (skus []string) {
	s.t.Helper()
	got := s.do("POST", "/v1/merchant/products", fmt.Sprintf(`{"name":"Chair","skus":[{"name":"red","list_price":100,"currency":%q},{"name":"blue","list_price":100,"currency":%q}]}`, currency, currency))
	require.Equal(s.t, 201, got.status, "%s", got.body)
	var p struct {
		SKUs []struct {
			ID string `json:"sku_id"`
		} `json:"skus"`
	}
	got.into(s.t, &p)
	for _, k := range p.SKUs {
		skus = append(skus, k.ID)
	}
	return skus
}

func (s *shop) draft(sku string, stock int) string {
	s.t.Helper()
	got := s.do("POST", "/v1/merchant/activities", activityBody(sku, stock))
	require.Equal(s.t, 201, got.status, "%s", got.body)
	var a struct {
		ID    string `json:"activity_id"`
		State string `json:"state"`
	}
	got.into(s.t, &a)
	require.Equal(s.t, "draft", a.State)
	require.Equal(s.t, "/v1/merchant/activities/"+a.ID, got.header.Get("Location"))
	return a.ID
}

func activityBody(sku string, stock int) string {
	return fmt.Sprintf(`{"title":"Sale","starts_at":%q,"ends_at":%q,"items":[{"sku_id":%q,"price":50,"stock":%d}]}`,
		time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339), sku, stock)
}

func TestASaleFromDraftToEnd(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	id := s.draft(sku, 10)
	at := "/v1/merchant/activities/" + id
	state := func(got response) string {
		require.Equal(t, 200, got.status, "%s", got.body)
		var a struct{ State string }
		got.into(t, &a)
		return a.State
	}
	for _, step := range []string{"/pause", "/resume", "/end"} {
		require.Equal(t, "state_conflict", s.do("POST", at+step, "").code())
	}
	require.Equal(t, "state_conflict", s.do("POST", at+"/stock-adjustments", fmt.Sprintf(`{"sku_id":%q,"delta":1,"reason":"r"}`, sku), "Idempotency-Key", "k").code())
	require.Equal(t, 200, s.do("PATCH", at, fmt.Sprintf(`{"title":"Better","per_user_limit":3,"items":[{"sku_id":%q,"price":60,"stock":20}]}`, sku)).status)
	for range 2 {
		require.Equal(t, "open", state(s.do("POST", at+"/publish", "")))
	}
	for range 2 {
		require.Equal(t, "paused", state(s.do("POST", at+"/pause", "{}")))
		_, gate, err := s.gate.UnitsLeft(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, stockgate.GatePaused, gate)
	}
	require.Equal(t, "state_conflict", s.do("POST", at+"/publish", "").code())
	for range 2 {
		require.Equal(t, "open", state(s.do("POST", at+"/resume", "")))
	}
	later := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	require.Equal(t, 200, s.do("PATCH", at, fmt.Sprintf(`{"title":"Best","ends_at":%q}`, later.Format(time.RFC3339))).status)
	sale, err := s.gate.Sale(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "Best", sale.Title)
	require.True(t, sale.EndsAt.Equal(later))
	for _, body := range []string{`{"per_user_limit":2}`, `{"starts_at":"2026-01-01T00:00:00Z"}`, `{"items":[]}`, `{"pay_within_s":9}`} {
		require.NotEqual(t, 200, s.do("PATCH", at, body).status)
	}
	require.Equal(t, "state_conflict", s.do("PATCH", at, fmt.Sprintf(`{"ends_at":%q}`, later.Add(-time.Minute).Format(time.RFC3339))).code())

	var view struct {
		SKUs []struct {
			Total int64
			MySQL struct{ Available int64 }
			Gate  struct{ Left int64 }
		}
	}
	s.do("GET", at+"/stock", "").into(t, &view)
	require.Equal(t, []int64{20, 20, 20}, []int64{view.SKUs[0].Total, view.SKUs[0].MySQL.Available, view.SKUs[0].Gate.Left})

	for range 2 {
		require.Equal(t, "ended", state(s.do("POST", at+"/end", "")))
	}
	for _, step := range []string{"/pause", "/resume", "/publish"} {
		require.Equal(t, "activity_ended", s.do("POST", at+step, "").code())
	}
	require.Equal(t, "activity_ended", s.do("PATCH", at, fmt.Sprintf(`{"ends_at":%q}`, later.Add(time.Hour).Format(time.RFC3339))).code())
	require.Equal(t, "activity_ended", s.do("POST", at+"/stock-adjustments", fmt.Sprintf(`{"sku_id":%q,"delta":1,"reason":"r"}`, sku), "Idempotency-Key", "k").code())
	var actions []string
	require.NoError(t, s.db.Table("changes").Where("object = 'activity' AND object_id = ? AND who = 'merchant-1'", id).Order("id").Pluck("action", &actions).Error)
	require.Equal(t, []string{"activity.create", "activity.patch", "activity.publish", "activity.pause", "activity.resume", "activity.patch", "activity.end"}, actions)
}

func TestInvalidRequestsNameTheField(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku, dollar := s.product("EUR"), s.product("USD")[0]
	activity := func(change string) string {
		all := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(activityBody(sku[0], 5)), &all))
		patch := map[string]any{}
		d := json.NewDecoder(strings.NewReader(change))
		d.UseNumber()
		require.NoError(t, d.Decode(&patch))
		for k, v := range patch {
			if v == nil {
				delete(all, k)
			} else {
				all[k] = v
			}
		}
		b, err := json.Marshal(all)
		require.NoError(t, err)
		return string(b)
	}
	item := func(sku, rest string) string {
		return fmt.Sprintf(`{"items":[{"sku_id":%q,%s}]}`, sku, rest)
	}
	long := strings.Repeat("x", 201)
	for _, c := range []struct{ path, body, field string }{
		{"products", `{"name":"","skus":[{"name":"a","list_price":1,"currency":"EUR"}]}`, "name"},
		{"products", `{"name":"` + long + `","skus":[{"name":"a","list_price":1,"currency":"EUR"}]}`, "name"},
		{"products", `{"name":"a","skus":[]}`, "skus"},
		{"products", `{"name":"a"}`, "skus"},
		{"products", `{"name":"a","image_url":"javascript:alert(1)","skus":[{"name":"a","list_price":1,"currency":"EUR"}]}`, "image_url"},
		{"products", `{"name":"a","skus":[{"name":"a","list_price":0,"currency":"EUR"}]}`, "skus[0].list_price"},
		{"products", `{"name":"a","skus":[{"name":"a","list_price":1.5,"currency":"EUR"}]}`, "skus[0].list_price"},
		{"products", `{"name":"a","skus":[{"name":"a","list_price":1,"currency":"eur"}]}`, "skus[0].currency"},
		{"products", `{"name":"a","skus":[{"name":"a","list_price":1,"currency":"EUX"}]}`, "skus[0].currency"},
		{"products", `{"name":"a","colour":"red","skus":[{"name":"a","list_price":1,"currency":"EUR"}]}`, "colour"},
		{"activities", activity(`{"title":""}`), "title"},
		{"activities", activity(`{"starts_at":null}`), "starts_at"},
		{"activities", activity(`{"starts_at":"tomorrow"}`), "starts_at"},
		{"activities", activity(`{"ends_at":"2001-01-01T00:00:00Z"}`), "ends_at"},
		{"activities", activity(`{"per_user_limit":0}`), "per_user_limit"},
		{"activities", activity(`{"pay_within_s":86401}`), "pay_within_s"},
		{"activities", activity(`{"captcha":true}`), "captcha"},
		{"activities", activity(`{"degraded_sale":true}`), "degraded_sale"},
		{"activities", activity(`{"items":[]}`), "items"},
		{"activities", activity(item("x", `"price":1,"stock":1`)), "items[0].sku_id"},
		{"activities", activity(item("4242", `"price":1,"stock":1`)), "items[0].sku_id"},
		{"activities", activity(item(sku[0], `"price":0,"stock":1`)), "items[0].price"},
		{"activities", activity(item(sku[0], `"price":100000000001,"stock":1`)), "items[0].price"},
		{"activities", activity(item(sku[0], `"price":1,"stock":100000001`)), "items[0].stock"},
		{"activities", activity(item(sku[0], `"price":1,"stock":-1`)), "items[0].stock"},
		{"activities", activity(item(sku[0], `"price":1,"stock":1000000000000000000000000000000`)), "items[0].stock"},
		{"activities", activity(fmt.Sprintf(`{"items":[{"sku_id":%q,"price":1,"stock":1},{"sku_id":%q,"price":1,"stock":1}]}`, sku[0], sku[0])), "items[1].sku_id"},
		{"activities", activity(fmt.Sprintf(`{"items":[{"sku_id":%q,"price":1,"stock":1},{"sku_id":%q,"price":1,"stock":1}]}`, sku[0], dollar)), "items[1].sku_id"},
		{"products", `{"name":" \t\n","skus":[{"name":"a","list_price":1,"currency":"EUR"}]}`, "name"},
		{"products", `{"name":"a","skus":[{"name":"\u00a0\u2003","list_price":1,"currency":"EUR"}]}`, "skus[0].name"},
		{"activities", activity(`{"title":"   "}`), "title"},
		{"activities", activity(`{"title":"\u3164"}`), "title"},
		{"activities", activity(`{"title":"Phone \u202eRUE 05"}`), "title"},
		{"activities", activity(`{"title":"\ud83d"}`), "title"},
		{"activities", activity(`{"title":"a\nb"}`), "title"},
		{"activities", activity(`{"description":"a\u0000b"}`), "description"},
		{"products", `{"name":"A\u2067B","skus":[{"name":"a","list_price":1,"currency":"EUR"}]}`, "name"},
		{"products", `{"name":"a","skus":[{"name":"\u200b","list_price":1,"currency":"EUR"}]}`, "skus[0].name"},
	} {
		got := s.do("POST", "/v1/merchant/"+c.path, c.body)
		require.Equal(t, 400, got.status, "%s -> %s", c.body, got.body)
		require.Equal(t, c.field, got.field(), "%s", c.body)
	}
	id := s.draft(sku[0], 5)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	for _, c := range []struct{ body, field string }{
		{`{"sku_id":"x","delta":1,"reason":"r"}`, "sku_id"},
		{fmt.Sprintf(`{"sku_id":%q,"delta":1,"reason":"r"}`, sku[1]), "sku_id"},
		{fmt.Sprintf(`{"sku_id":%q,"delta":0,"reason":"r"}`, sku[0]), "delta"},
		{fmt.Sprintf(`{"sku_id":%q,"delta":100000001,"reason":"r"}`, sku[0]), "delta"},
		{fmt.Sprintf(`{"sku_id":%q,"delta":99999999,"reason":"r"}`, sku[0]), "delta"},
		{fmt.Sprintf(`{"sku_id":%q,"delta":1}`, sku[0]), "reason"},
		{fmt.Sprintf(`{"sku_id":%q,"delta":1,"reason":" \u3000"}`, sku[0]), "reason"},
	} {
		got := s.do("POST", "/v1/merchant/activities/"+id+"/stock-adjustments", c.body, "Idempotency-Key", "k")
		require.Equal(t, 400, got.status, "%s -> %s", c.body, got.body)
		require.Equal(t, c.field, got.field(), "%s", c.body)
	}
	for _, c := range []struct{ path, field string }{
		{"products?limit=0", "limit"},
		{"products?limit=101", "limit"},
		{"products?limit=x", "limit"},
		{"products?cursor=!", "cursor"},
		{"activities?cursor=MA", "cursor"},
		{"activities/" + id + "/orders?user_id=a%20b", "user_id"},
		{"activities/" + id + "/orders?user_id=", "user_id"},
	} {
		got := s.do("GET", "/v1/merchant/"+c.path, "")
		require.Equal(t, 400, got.status, "%s -> %s", c.path, got.body)
		require.Equal(t, c.field, got.field(), "%s", c.path)
	}
	for _, path := range []string{"products/0", "products/x", "products/4242", "activities/-1", "activities/4242", "activities/4242/stock", "activities/4242/orders", "activities/99999999999999999999"} {
		require.Equal(t, 404, s.do("GET", "/v1/merchant/"+path, "").status, path)
	}
	require.Equal(t, 404, s.do("POST", "/v1/merchant/activities/4242/publish", "").status)
	require.Equal(t, 404, s.do("POST", "/v1/merchant/activities/4242/stock-adjustments", fmt.Sprintf(`{"sku_id":%q,"delta":1,"reason":"r"}`, sku[0]), "Idempotency-Key", "k").status)
	require.Equal(t, 405, s.do("DELETE", "/v1/merchant/products/4242", "").status)
	require.Equal(t, 415, s.do("POST", "/v1/merchant/products", "{}", "Content-Type", "text/plain").status)
	require.Equal(t, 413, s.do("POST", "/v1/merchant/products", `{"name":"`+strings.Repeat("x", 70<<10)+`"}`).status)
	require.Equal(t, "invalid_request", s.do("POST", "/v1/merchant/products", `{} {}`).code())
}

func TestRoles(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	id := s.draft(sku, 5)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	buyer, operator := s.mint("b"), s.mint("o", auth.Operator)
	for _, c := range []struct {
		method, path string
		operator     bool
	}{
		{"GET", "products", false},
		{"POST", "products", false},
		{"GET", "activities", false},
		{"POST", "activities/" + id + "/pause", false},
		{"GET", "activities/" + id + "/stock", false},
		{"GET", "activities/" + id + "/orders", false},
		{"POST", "activities/" + id + "/stock-adjustments", false},
		{"POST", "activities/" + id + "/reconciliations", true},
		{"GET", "dead-letters", true},
		{"POST", "dead-letters/1/replay", true},
		{"POST", "dead-letters/1/reject", true},
	} {
		path := "/v1/merchant/" + c.path
		require.Equal(t, 401, s.as("", c.method, path, "").status, path)
		require.Equal(t, 401, s.as("rubbish", c.method, path, "").status, path)
		require.Equal(t, 403, s.as(buyer, c.method, path, "").status, path)
		if c.operator {
			require.Equal(t, 403, s.do(c.method, path, "").status, path)
		}
		require.NotContains(t, []int{401, 403}, s.as(operator, c.method, path, "").status, path)
	}
	got := s.as(operator, "POST", "/v1/merchant/activities/"+id+"/reconciliations", "")
	require.Equal(t, 200, got.status)
	require.Contains(t, string(got.body), `"repairs":[]`)
}

func TestIdempotencyKeyOfAdjustments(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	id := s.draft(sku, 5)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	at := "/v1/merchant/activities/" + id + "/stock-adjustments"
	body := func(n int) string { return fmt.Sprintf(`{"sku_id":%q,"delta":%d,"reason":"r"}`, sku, n) }
	left := func() int64 {
		l, _, err := s.gate.UnitsLeft(t.Context(), id)
		require.NoError(t, err)
		return l[sku]
	}
	require.Equal(t, "Idempotency-Key", s.do("POST", at, body(1)).field())
	require.Equal(t, "Idempotency-Key", s.do("POST", at, body(1), "Idempotency-Key", strings.Repeat("k", 65)).field())
	first := s.do("POST", at, body(5), "Idempotency-Key", "a")
	require.Equal(t, 200, first.status, "%s", first.body)
	again := s.do("POST", at, body(5), "Idempotency-Key", "a")
	require.JSONEq(t, string(first.body), string(again.body))
	require.Equal(t, int64(10), left())
	require.Equal(t, "idempotency_conflict", s.do("POST", at, body(6), "Idempotency-Key", "a").code())
	// Keys are scoped by caller.
	require.Equal(t, 200, s.as(s.mint("merchant-2", auth.Merchant), "POST", at, body(6), "Idempotency-Key", "a").status)
	require.Equal(t, int64(16), left())
	// The key of a refused call is not stored.
	require.Equal(t, "insufficient_stock", s.do("POST", at, body(-17), "Idempotency-Key", "b").code())
	require.Equal(t, 200, s.do("POST", at, body(1), "Idempotency-Key", "c").status)
	require.Equal(t, 200, s.do("POST", at, body(-17), "Idempotency-Key", "b").status)
	require.Equal(t, int64(0), left())
	require.Equal(t, 409, s.do("POST", at, body(-1), "Idempotency-Key", "d").status)
	require.Equal(t, 200, s.do("POST", at, body(3), "Idempotency-Key", "d").status) // and may come with another body
	require.Equal(t, int64(3), left())
}

func TestListsPageByPage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var want []string
	for range 7 {
		want = append([]string{s.draft(s.product("EUR")[0], 1)}, want...)
	}
	for _, limit := range []int{1, 3, 7, 100} {
		var got []string
		cursor := ""
		for {
			a := s.do("GET", fmt.Sprintf("/v1/merchant/activities?limit=%d%s", limit, cursor), "")
			var page struct {
				Items []struct {
					ID string `json:"activity_id"`
				}
				Next string `json:"next_cursor"`
			}
			a.into(t, &page)
			for _, it := range page.Items {
				got = append(got, it.ID)
			}
			if page.Next == "" {
				break
			}
			cursor = "&cursor=" + page.Next
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
	require.Contains(t, string(s.do("GET", "/v1/merchant/products?limit=2", "").body), "next_cursor")
	require.JSONEq(t, `{"items":[]}`, string(s.as(s.mint("o", auth.Operator), "GET", "/v1/merchant/dead-letters", "").body))
}

func TestProductsChange(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")
	got := s.do("GET", "/v1/merchant/products", "")
	var list struct {
		Items []struct {
			ID string `json:"product_id"`
		}
	}
	got.into(t, &list)
	at := "/v1/merchant/products/" + list.Items[0].ID
	got = s.do("PATCH", at, fmt.Sprintf(`{"name":"Stool","description":"d","image_url":"https://example.test/a.png","skus":[{"sku_id":%q,"name":"green"},{"name":"black","list_price":7,"currency":"EUR"}]}`, sku[0]))
	require.Equal(t, 200, got.status, "%s", got.body)
	require.JSONEq(t, string(got.body), string(s.do("GET", at, "").body))
	require.Contains(t, string(got.body), `"green"`)
	require.Contains(t, string(got.body), `"black"`)
	require.Equal(t, "skus[0].currency", s.do("PATCH", at, fmt.Sprintf(`{"skus":[{"sku_id":%q,"currency":"USD"}]}`, sku[0])).field())
	require.Equal(t, "skus[0].sku_id", s.do("PATCH", at, `{"skus":[{"sku_id":"4242","name":"x"}]}`).field())
	require.Equal(t, 404, s.do("PATCH", "/v1/merchant/products/4242", `{"name":"x"}`).status)
}

func TestOrdersOfAnActivity(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	id := s.draft(sku, 50)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	var items []contract.Reservation
	for i, user := range []string{"-1+1", "anna", "bert"} {
		items = append(items, contract.Reservation{OrderSN: fmt.Sprint(1000 + i), UserID: user, ActivityID: id, Lines: []contract.Line{{SKUID: sku, Qty: 1}}, ReservedAt: time.Now()})
	}
	items[0].UserID = "-1.1"
	require.NoError(t, s.svc.core.Land(t.Context(), items, nil))
	at := "/v1/merchant/activities/" + id + "/orders"
	got := s.do("GET", at, "", "Accept", "text/csv")
	require.Equal(t, 200, got.status)
	require.Contains(t, got.header.Get("Content-Type"), "text/csv")
	require.Equal(t, []string{"Accept"}, got.header.Values("Vary"))
	rows := s.sheet(got)
	require.Len(t, rows, 4)
	require.Equal(t, []string{"1002", "bert", sku + "x1", "red x1", "reserved"}, rows[1][:5])
	require.Equal(t, "'-1.1", rows[3][1], "a spreadsheet must not compute it")
	var list struct {
		Items []struct {
			SN   string `json:"order_sn"`
			User string `json:"user_id"`
		}
		Next string `json:"next_cursor"`
	}
	s.do("GET", at+"?limit=2", "").into(t, &list)
	require.Len(t, list.Items, 2)
	s.do("GET", at+"?cursor="+list.Next, "").into(t, &list)
	require.Equal(t, "-1.1", list.Items[0].User)
	s.do("GET", at+"?user_id=anna", "").into(t, &list)
	require.Len(t, list.Items, 1)
	require.Equal(t, "1001", list.Items[0].SN)
}

// Without Redis a decision stays valid, the response reports that the gate lacks it, and no call waits for long.
func TestUnreachableGate(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	id := s.draft(sku, 5)
	at := "/v1/merchant/activities/" + id
	s.mini.SetError("LOADING Redis is loading the dataset in memory")
	for _, call := range []string{"/publish", "/pause"} {
		got := s.do("POST", at+call, "")
		require.Equal(t, []any{503, "gate_unavailable"}, []any{got.status, got.code()})
		require.NotEmpty(t, got.header.Get("Retry-After"))
	}
	read := s.do("GET", at+"/stock", "")
	require.Equal(t, "gate_unavailable", read.code())
	require.NotContains(t, string(read.body), "the change is kept", "nothing was changed")
	body := fmt.Sprintf(`{"sku_id":%q,"delta":2,"reason":"r"}`, sku)
	require.Equal(t, "gate_unavailable", s.do("POST", at+"/stock-adjustments", body, "Idempotency-Key", "k").code())
	require.Contains(t, string(s.do("GET", at, "").body), `"state":"paused"`)
	// The refusal of a saved change has its version, so that the call can be repeated.
	var saved struct{ Version int64 }
	version := s.do("GET", at, "").header.Get("ETag")
	patch := s.do("PATCH", at, `{"title":"Other"}`, "If-Match", version)
	require.Equal(t, "gate_unavailable", patch.code())
	patch.into(t, &saved)
	s.mini.SetError("")
	require.Equal(t, 412, s.do("PATCH", at, `{"title":"Other"}`, "If-Match", version).status)
	again := s.do("PATCH", at, `{"title":"Other"}`, "If-Match", fmt.Sprintf("%q", fmt.Sprint(saved.Version)))
	require.Equal(t, 200, again.status, "%s", again.body)
	require.Equal(t, 200, s.do("POST", at+"/stock-adjustments", body, "Idempotency-Key", "k").status)
	left, state, err := s.gate.UnitsLeft(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []any{int64(7), stockgate.GatePaused}, []any{left[sku], state})
}

func TestUnreachableDatabase(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open("root@tcp(127.0.0.1:1)/nowhere", sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	s := newShopOn(t, db)
	for _, path := range []string{"/v1/merchant/products", "/v1/merchant/activities/1", "/v1/merchant/activities/1/stock"} {
		got := s.do("GET", path, "")
		require.Equal(t, []any{503, "unavailable"}, []any{got.status, got.code()}, path)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.NotContains(t, string(got.body), "refused")
	}
	require.Equal(t, 503, s.do("POST", "/v1/merchant/products", `{"name":"a","skus":[{"name":"a","list_price":1,"currency":"EUR"}]}`).status)
	require.NoError(t, s.svc.Ready())
}

func TestAmountsHaveTheDigitsOfTheirCurrency(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for code, digits := range map[string]int{"HUF": 2, "JPY": 0, "KWD": 3} {
		sku := s.product(code)[0]
		want := fmt.Sprintf(`"currency":%q,"currency_digits":%d`, code, digits)
		require.Contains(t, string(s.do("GET", "/v1/merchant/activities/"+s.draft(sku, 5), "").body), want)
		require.Contains(t, string(s.do("GET", "/v1/merchant/products", "").body), want)
		require.Contains(t, string(s.do("GET", "/v1/merchant/currencies", "").body), "{"+want+"}")
	}
}
