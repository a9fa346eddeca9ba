package inventory

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/stockgate"
)

const profileURL = "/v1/merchant/profile"

func profileBody(name, terms, delivery string) string {
	return fmt.Sprintf(`{"name":%q,"terms_url":%q,"delivery":%q}`, name, terms, delivery)
}

type profileView struct {
	MerchantID string `json:"merchant_id"`
	Name       string `json:"name"`
	TermsURL   string `json:"terms_url"`
	Delivery   string `json:"delivery"`
	Version    int64  `json:"version"`
	UpdatedAt  string `json:"updated_at"`
}

func TestAProfileIsReplacedWhole(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	read := func() (p profileView, tag string) {
		got := s.do("GET", profileURL, "")
		require.Equal(t, 200, got.status, "%s", got.body)
		got.into(t, &p)
		return p, got.header.Get("ETag")
	}
	none, tag := read()
	require.Equal(t, profileView{MerchantID: "default"}, none, "without a stored profile all texts are empty")
	require.Equal(t, `"0"`, tag)

	first := s.do("PUT", profileURL, profileBody("Acme", "https://acme.example/terms", "Ships within 3 days\nto the EU"), "If-Match", `"0"`)
	require.Equal(t, 200, first.status, "%s", first.body)
	require.Equal(t, `"1"`, first.header.Get("ETag"))
	p, tag := read()
	require.NotEmpty(t, p.UpdatedAt)
	p.UpdatedAt = ""
	require.Equal(t, profileView{"default", "Acme", "https://acme.example/terms", "Ships within 3 days\nto the EU", 1, ""}, p)
	require.Equal(t, `"1"`, tag)

	stale := s.do("PUT", profileURL, profileBody("Other", "", ""), "If-Match", `"0"`)
	require.Equal(t, []any{412, "state_conflict"}, []any{stale.status, stale.code()})
	require.Contains(t, string(stale.body), `"version":1`)
	require.Equal(t, 200, s.do("PUT", profileURL, profileBody("Acme Ltd", "", "")).status)
	p, tag = read()
	require.Equal(t, []string{"Acme Ltd", "", "", `"2"`}, []string{p.Name, p.TermsURL, p.Delivery, tag})

	var changes []struct{ Who, Action, MerchantID, Detail string }
	require.NoError(t, s.db.Table("changes").Where("object = 'profile'").Order("id").Find(&changes).Error)
	require.Len(t, changes, 2, "a refused change is not recorded")
	require.Equal(t, []string{"merchant-1", "profile.put", "default"}, []string{changes[0].Who, changes[0].Action, changes[0].MerchantID})
	require.JSONEq(t, profileBody("Acme Ltd", "", ""), changes[1].Detail)
}

func TestInvalidProfilesNameTheField(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, c := range []struct{ body, field string }{
		{profileBody("", "", ""), "name"},
		{profileBody(" ", "", ""), "name"},
		{profileBody(strings.Repeat("x", 101), "", ""), "name"},
		{profileBody("a\nb", "", ""), "name"},
		{profileBody("a\u202eb", "", ""), "name"},
		{profileBody("a", "http://a.example", ""), "terms_url"},
		{profileBody("a", "HTTPS://a.example", ""), "terms_url"},
		{profileBody("a", "javascript:alert(1)", ""), "terms_url"},
		{profileBody("a", "/terms", ""), "terms_url"},
		{profileBody("a", "//a.example/terms", ""), "terms_url"},
		{profileBody("a", "https://", ""), "terms_url"},
		{profileBody("a", "https://:443/", ""), "terms_url"},
		{profileBody("a", "https://shop.example@evil.example/", ""), "terms_url"},
		{profileBody("a", "https://a.example/a b", ""), "terms_url"},
		{profileBody("a", "https://a.example/\u202e", ""), "terms_url"},
		{profileBody("a", "https://a.example/"+strings.Repeat("x", 483), ""), "terms_url"},
		{profileBody("a", "", strings.Repeat("x", 501)), "delivery"},
		{profileBody("a", "", "a\r\nb"), "delivery"},
		{profileBody("a", "", "\n"), "delivery"},
		{`{"name":"a","delivery":""}`, "terms_url"},
		{`{"name":"a","terms_url":""}`, "delivery"},
		{`{"name":"a","terms_url":null,"delivery":""}`, "terms_url"},
		{`{"name":"a","terms_url":"","delivery":"","version":1}`, "version"},
	} {
		got := s.do("PUT", profileURL, c.body)
		require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", c.body, got.body)
		require.Equal(t, c.field, got.field(), "%s: %s", c.body, got.body)
	}
	require.Equal(t, `"0"`, s.do("GET", profileURL, "").header.Get("ETag"))
	longest := profileBody(strings.Repeat("长", 100), "https://a.example/"+strings.Repeat("x", 482), strings.Repeat("长", 500))
	got := s.do("PUT", profileURL, longest)
	require.Equal(t, 200, got.status, "%s", got.body)
}

// Of several callers who store the first profile at once, one succeeds.
func TestOneFirstProfileIsStored(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	statuses := make([]int, 8)
	var callers sync.WaitGroup
	for i := range statuses {
		callers.Go(func() {
			statuses[i] = s.do("PUT", profileURL, profileBody(fmt.Sprint("name ", i), "", ""), "If-Match", `"0"`).status
		})
	}
	callers.Wait()
	counts := map[int]int{}
	for _, status := range statuses {
		counts[status]++
	}
	require.Equal(t, 1, counts[200], "%v", counts)
	require.Equal(t, `"1"`, s.do("GET", profileURL, "").header.Get("ETag"))
}

// Each sale of the merchant shows a changed profile after the next round of the gate controller, without a new version
// of the activity. Sales of others do not.
func TestAProfileReachesTheSalesOfItsMerchant(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	open, draft := s.draft(sku, 5), s.draft(sku, 5)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+open+"/publish", "").status)
	other := s.objectsOf(s.mintFor("two", "clerk", auth.Merchant), true)
	sellerOf := func(id string) *stockgate.SaleSeller {
		sale, err := s.gate.Sale(t.Context(), id)
		require.NoError(t, err)
		return sale.Seller
	}
	version := s.do("GET", "/v1/merchant/activities/"+open, "").header.Get("ETag")
	require.Nil(t, sellerOf(open))
	require.Equal(t, 200, s.do("PUT", profileURL, profileBody("Acme", "https://acme.example/terms", "")).status)
	require.NoError(t, s.svc.controller().EnsureGates(t.Context()))
	acme := &stockgate.SaleSeller{Name: "Acme", TermsURL: "https://acme.example/terms"}
	require.Equal(t, acme, sellerOf(open))
	require.Nil(t, sellerOf(other.activity))
	require.Equal(t, version, s.do("GET", "/v1/merchant/activities/"+open, "").header.Get("ETag"))

	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+draft+"/publish", "").status)
	require.Equal(t, acme, sellerOf(draft), "a publication shows it at once")
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+open+"/pause", "").status)
	require.Equal(t, acme, sellerOf(open), "each later change keeps it")
	require.Equal(t, 200, s.do("PUT", profileURL, profileBody("Acme Ltd", "", "Ships to the EU")).status)
	require.NoError(t, s.svc.controller().EnsureGates(t.Context()))
	changed := &stockgate.SaleSeller{Name: "Acme Ltd", Delivery: "Ships to the EU"}
	require.Equal(t, changed, sellerOf(open), "also in a paused sale")

	// A process of 0.1.0 that changes the sale writes its document without the seller.
	sale, err := s.gate.Sale(t.Context(), open)
	require.NoError(t, err)
	sale.Seller = nil
	require.NoError(t, s.gate.PutSale(t.Context(), sale))
	require.NoError(t, s.svc.controller().EnsureGates(t.Context()))
	require.Equal(t, changed, sellerOf(open))
}
