package inventory

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shownIDs returns the ids of a list, and its cursor.
func (s *shop) shownIDs(path string) (ids []string, next string) {
	s.t.Helper()
	got := s.do("GET", path, "")
	require.Equal(s.t, 200, got.status, "%s: %s", path, got.body)
	var list struct {
		Items []struct {
			Activity string `json:"activity_id"`
			Product  string `json:"product_id"`
		}
		Next string `json:"next_cursor"`
	}
	got.into(s.t, &list)
	for _, it := range list.Items {
		ids = append(ids, it.Activity+it.Product)
	}
	return ids, list.Next
}

func TestActivitiesAreSearchedAndSorted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	now := time.Now().UTC().Truncate(time.Second)
	create := func(title string, starts time.Duration) string {
		at := now.Add(starts)
		got := s.do("POST", "/v1/merchant/activities", fmt.Sprintf(`{"title":%q,"starts_at":%q,"ends_at":%q,"items":[{"sku_id":%q,"price":50,"stock":5}]}`,
			title, at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339), sku))
		require.Equal(t, 201, got.status, "%s", got.body)
		return strings.TrimPrefix(got.header.Get("Location"), "/v1/merchant/activities/")
	}
	late, early, same := create("Tea 50%", 3*time.Hour), create("Coffee", time.Hour), create("Green tea", time.Hour)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+same+"/publish", "").status)
	const path = "/v1/merchant/activities?"
	for query, want := range map[string][]string{
		"":                               {same, early, late},
		"sort=created":                   {same, early, late},
		"sort=start":                     {late, same, early},
		"q=TEA":                          {same, late},
		"q=tea&sort=start":               {late, same},
		"q=%25":                          {late},
		"q=tea&state=scheduled":          {same},
		"q=_":                            nil,
		"q=" + strings.Repeat("x", 100):  nil,
		"q=tea&sort=start&state=draft":   {late},
		"q=tea&merchant_id=default":      {same, late},
		"q=" + url.QueryEscape(" tea "):  nil,
		"q=" + url.QueryEscape("' OR 1"): nil,
	} {
		ids, _ := s.shownIDs(path + query)
		require.Equal(t, want, ids, query)
	}
	for query, field := range map[string]string{
		"q=": "q", "q=%20": "q", "q=%00": "q", "q=%ff": "q", "q=" + strings.Repeat("限", 101): "q", "q=a&q=b": "q", "sort=": "sort", "sort=title": "sort", "sort=start&sort=created": "sort",
	} {
		got := s.do("GET", path+query, "")
		require.Equal(t, []any{400, field}, []any{got.status, got.field()}, "%s: %s", query, got.body)
	}

	// A cursor belongs to its sort.
	cursors := map[string]string{}
	for sort, want := range map[string][]string{"created": {same, early, late}, "start": {late, same, early}} {
		var all []string
		for cursor := ""; ; {
			ids, next := s.shownIDs(path + "limit=1&sort=" + sort + cursor)
			all = append(all, ids...)
			if next == "" {
				break
			}
			cursors[sort], cursor = next, "&cursor="+next
		}
		require.Equal(t, want, all, sort)
	}
	for _, query := range []string{"sort=start&cursor=" + cursors["created"], "sort=created&cursor=" + cursors["start"], "cursor=" + cursors["start"]} {
		require.Equal(t, "cursor", s.do("GET", path+query, "").field(), query)
	}
	for _, malformed := range []string{"start", "start 1 2 3", "start x 1", "start 1e9 1", "start 0 1", "start 99999999999999 1", "start 1700000000000 0", "other 1700000000000 1"} {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(malformed))
		require.Equal(t, "cursor", s.do("GET", path+"sort=start&cursor="+cursor, "").field(), malformed)
	}
	require.Equal(t, "cursor", s.do("GET", path+"sort=start&cursor=", "").field())
	require.Equal(t, "cursor", s.do("GET", path+"sort=start&cursor=!", "").field())
}

func TestProductsAreSearchedAndFiltered(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	create := func(name, sku string) string {
		got := s.do("POST", "/v1/merchant/products", fmt.Sprintf(`{"name":%q,"skus":[{"name":%q,"list_price":1,"currency":"EUR"}]}`, name, sku))
		require.Equal(t, 201, got.status, "%s", got.body)
		return strings.TrimPrefix(got.header.Get("Location"), "/v1/merchant/products/")
	}
	lamp, chair, old := create("Desk lamp", "Brass"), create("Chair", "lamp black"), create("Old lamp", "Steel")
	require.Equal(t, 200, s.do("POST", "/v1/merchant/products/"+old+"/archive", "").status)
	const path = "/v1/merchant/products?"
	for query, want := range map[string][]string{
		"":                      {chair, lamp},
		"archived=false":        {chair, lamp},
		"archived=true":         {old},
		"q=LAMP":                {chair, lamp},
		"q=brass":               {lamp},
		"q=lamp&archived=true":  {old},
		"q=brass&archived=true": nil,
	} {
		ids, _ := s.shownIDs(path + query)
		require.Equal(t, want, ids, query)
	}
	for query, field := range map[string]string{
		"q=": "q", "q=" + strings.Repeat("x", 101): "q", "archived=": "archived", "archived=1": "archived", "archived=TRUE": "archived", "archived=yes": "archived", "archived=true&archived=false": "archived",
	} {
		got := s.do("GET", path+query, "")
		require.Equal(t, []any{400, field}, []any{got.status, got.field()}, "%s: %s", query, got.body)
	}
	first, next := s.shownIDs(path + "q=lamp&limit=1")
	second, last := s.shownIDs(path + "q=lamp&limit=1&cursor=" + next)
	require.Equal(t, []string{chair, lamp}, append(first, second...))
	require.Empty(t, last)
}
