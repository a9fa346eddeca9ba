package inventory

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

type refProduct struct {
	ID      string `json:"product_id"`
	Ref     string `json:"ref"`
	Name    string `json:"name"`
	Version int64  `json:"version"`
	SKUs    []struct {
		ID       string `json:"sku_id"`
		Ref      string `json:"ref"`
		Name     string `json:"name"`
		Price    int64  `json:"list_price"`
		Currency string `json:"currency"`
	} `json:"skus"`
}

// put puts a product by its ref, whose SKUs are ref:name:price.
func (s *shop) put(token, ref, name string, skus ...string) (response, refProduct) {
	s.t.Helper()
	var list []string
	for _, k := range skus {
		part := strings.Split(k, ":")
		list = append(list, fmt.Sprintf(`{"ref":%q,"name":%q,"list_price":%s,"currency":"EUR"}`, part[0], part[1], part[2]))
	}
	got := s.as(token, "PUT", "/v1/merchant/products/by-ref/"+ref, fmt.Sprintf(`{"name":%q,"skus":[%s]}`, name, strings.Join(list, ",")))
	var p refProduct
	if got.status < 300 {
		got.into(s.t, &p)
	}
	return got, p
}

func TestAProductIsPutByItsRef(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	one, two := s.mintFor("one", "clerk", auth.Merchant), s.mintFor("two", "clerk", auth.Merchant)
	got, made := s.put(one, "LAMP", "Lamp", "L-1:red:100", "L-2:blue:200")
	require.Equal(t, 201, got.status, "%s", got.body)
	require.Equal(t, "/v1/merchant/products/"+made.ID, got.header.Get("Location"))
	require.Equal(t, "LAMP", made.Ref)
	recorded := func() (n int64) {
		require.NoError(t, s.db.Table("changes").Where("object_id = ?", made.ID).Count(&n).Error)
		return n
	}

	// The same again writes nothing, in whatever order.
	for _, skus := range [][]string{{"L-1:red:100", "L-2:blue:200"}, {"L-2:blue:200", "L-1:red:100"}, {"L-2:blue:200"}} {
		got, same := s.put(one, "LAMP", "Lamp", skus...)
		require.Equal(t, 200, got.status, "%s", got.body)
		require.Equal(t, made, same)
		require.Equal(t, `"1"`, got.header.Get("ETag"))
	}
	require.EqualValues(t, 1, recorded())

	// A change keeps the ids, adds SKUs, and leaves those that the body lacks.
	got, changed := s.put(one, "LAMP", "Desk lamp", "L-3:green:300", "L-1:red:150")
	require.Equal(t, 200, got.status, "%s", got.body)
	require.Equal(t, made.ID, changed.ID)
	require.EqualValues(t, 2, changed.Version)
	require.Len(t, changed.SKUs, 3)
	require.Equal(t, made.SKUs[0].ID, changed.SKUs[0].ID)
	require.EqualValues(t, 150, changed.SKUs[0].Price)
	require.Equal(t, made.SKUs[1], changed.SKUs[1])
	require.Equal(t, "L-3", changed.SKUs[2].Ref)
	require.EqualValues(t, 2, recorded())
	var read refProduct
	s.as(one, "GET", "/v1/merchant/products/"+made.ID, "").into(t, &read)
	require.Equal(t, changed, read)

	// A ref is unique for its merchant, and has a case.
	got, other := s.put(two, "LAMP", "Lamp", "L-1:red:100")
	require.Equal(t, 201, got.status, "%s", got.body)
	require.NotEqual(t, made.ID, other.ID)
	got, _ = s.put(one, "lamp", "Lamp", "l-1:red:100")
	require.Equal(t, 201, got.status, "%s", got.body)
	got, _ = s.put(one, "CHAIR", "Chair", "L-1:red:100")
	require.Equal(t, []any{409, "state_conflict"}, []any{got.status, got.code()}, "%s", got.body)
	require.Contains(t, string(got.body), `"ref":"L-1"`)
	taken := s.as(one, "POST", "/v1/merchant/products", `{"ref":"LAMP","name":"x",`+newSKUs+`}`)
	require.Equal(t, []any{409, "state_conflict"}, []any{taken.status, taken.code()}, "%s", taken.body)

	for body, field := range map[string]string{
		`{"name":"Lamp",` + newSKUs + `}`:                                                                                                     "skus[0].ref",
		`{"ref":"CHAIR","name":"Lamp","skus":[]}`:                                                                                             "ref",
		`{"name":"","skus":[{"ref":"a","name":"a","list_price":1}]}`:                                                                          "name",
		`{"name":"L","skus":[{"ref":"L-1","name":"a","list_price":1,"currency":"USD"}]}`:                                                      "skus[0].currency",
		`{"name":"L","skus":[{"ref":"-","name":"a","list_price":1,"currency":"EUR"}]}`:                                                        "skus[0].ref",
		`{"name":"L","skus":[{"ref":"a","name":"a","list_price":1,"currency":"EUR"},{"ref":"a","name":"b","list_price":1,"currency":"EUR"}]}`: "skus[1].ref",
	} {
		got := s.as(one, "PUT", "/v1/merchant/products/by-ref/LAMP", body)
		require.Equal(t, []any{400, field}, []any{got.status, got.field()}, "%s: %s", body, got.body)
	}
	for _, ref := range []string{"-a", ".a", "a%20b", "a%2Fb", "%C3%A4", strings.Repeat("x", 65)} {
		got, _ := s.put(one, ref, "Lamp", "X:red:100")
		require.Contains(t, []int{400, 404}, got.status, ref)
	}
}

func TestRefsChangeAndAreRemoved(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	one := s.mintFor("one", "clerk", auth.Merchant)
	_, p := s.put(one, "LAMP", "Lamp", "L-1:red:100", "L-2:blue:200")
	_, _ = s.put(one, "CHAIR", "Chair", "C-1:oak:100")
	patch := func(body string) response { return s.as(one, "PATCH", "/v1/merchant/products/"+p.ID, body) }
	swap := fmt.Sprintf(`{"skus":[{"sku_id":%q,"ref":"L-2"},{"sku_id":%q,"ref":"L-1"}]}`, p.SKUs[0].ID, p.SKUs[1].ID)
	got := patch(swap)
	require.Equal(t, 200, got.status, "%s", got.body)
	var after refProduct
	got.into(t, &after)
	require.Equal(t, []string{"L-2", "L-1"}, []string{after.SKUs[0].Ref, after.SKUs[1].Ref})
	require.Equal(t, "state_conflict", patch(`{"ref":"CHAIR"}`).code())
	require.Equal(t, "state_conflict", patch(fmt.Sprintf(`{"skus":[{"sku_id":%q,"ref":"C-1"}]}`, p.SKUs[0].ID)).code())
	require.Equal(t, "ref", patch(`{"ref":"a b"}`).field())
	got = patch(fmt.Sprintf(`{"ref":"","skus":[{"sku_id":%q,"ref":""}]}`, p.SKUs[0].ID))
	require.Equal(t, 200, got.status, "%s", got.body)
	require.NotContains(t, string(got.body), `"ref":""`)
	got, made := s.put(one, "LAMP", "Other", "L-2:x:1")
	require.Equal(t, 201, got.status, "the refs are free: %s", got.body)
	require.NotEqual(t, p.ID, made.ID)
}

func TestTheRefOfASale(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.token = s.mintFor("one", "clerk", auth.Merchant)
	_, p := s.put(s.token, "LAMP", "Lamp", "L-1:red:100")
	create := func(ref string) response {
		body := activityBody(p.SKUs[0].ID, 5)
		return s.do("POST", "/v1/merchant/activities", `{"ref":"`+ref+`",`+strings.TrimPrefix(body, "{"))
	}
	got := create("AUTUMN")
	require.Equal(t, 201, got.status, "%s", got.body)
	var a struct {
		ID    string `json:"activity_id"`
		Ref   string `json:"ref"`
		Items []struct {
			Ref string `json:"ref"`
		} `json:"items"`
	}
	got.into(t, &a)
	require.Equal(t, "AUTUMN", a.Ref)
	require.Equal(t, "L-1", a.Items[0].Ref)
	require.Equal(t, "state_conflict", create("AUTUMN").code())
	require.Equal(t, "ref", create("a b").field())
	path := "/v1/merchant/activities/" + a.ID
	require.Equal(t, 200, s.do("POST", path+"/publish", "").status)
	other := s.do("POST", path+"/duplicate", "", "Idempotency-Key", "k")
	require.Equal(t, 201, other.status, "%s", other.body)
	require.NotContains(t, string(other.body), "AUTUMN")
	require.Equal(t, "state_conflict", s.do("PATCH", other.header.Get("Location"), `{"ref":"AUTUMN"}`).code())
	require.Equal(t, 200, s.do("PATCH", path, `{"ref":"FALL"}`).status, "also while it is published")
	require.Equal(t, 200, s.do("PATCH", other.header.Get("Location"), `{"ref":"AUTUMN"}`).status)

	// The list of its orders, one order and the export have the refs.
	sn := newSN()
	require.NoError(t, s.svc.core.Land(t.Context(), []contract.Reservation{{
		OrderSN: sn, UserID: "buyer", ActivityID: a.ID, Lines: []contract.Line{{SKUID: p.SKUs[0].ID, Qty: 1}}, ReservedAt: time.Now(),
	}}, nil))
	require.Contains(t, string(s.do("GET", path+"/orders", "").body), `"sku_ref":"L-1"`)
	export := string(s.do("GET", path+"/orders?format=csv", "").body)
	require.Contains(t, export, ",activity_ref,sku_refs\n")
	require.Contains(t, export, ",FALL,L-1x1\n")
}

// Calls that create the same product at the same time make one product.
func TestConcurrentPutsMakeOneProduct(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	one := s.mintFor("one", "clerk", auth.Merchant)
	var wg sync.WaitGroup
	statuses := make([]int, 8)
	for i := range statuses {
		wg.Go(func() {
			got, _ := s.put(one, "LAMP", "Lamp", "L-1:red:100")
			statuses[i] = got.status
		})
	}
	wg.Wait()
	var n int64
	require.NoError(t, s.db.Table("products").Where("merchant_id = 'one'").Count(&n).Error)
	require.EqualValues(t, 1, n)
	created := 0
	for _, status := range statuses {
		require.Contains(t, []int{200, 201}, status)
		if status == 201 {
			created++
		}
	}
	require.Equal(t, 1, created)
}
