package inventory

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

func (a response) state(t *testing.T) string {
	t.Helper()
	var v struct{ State string }
	a.into(t, &v)
	return v.State
}

func TestOnlyDraftsAreDeleted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	for state, steps := range map[string][]string{"open": {"publish"}, "paused": {"publish", "pause"}, "ended": {"publish", "end"}} {
		at := "/v1/merchant/activities/" + s.draft(sku, 5)
		for _, step := range steps {
			require.Equal(t, 200, s.do("POST", at+"/"+step, "").status)
		}
		got := s.do("DELETE", at, "")
		require.Equal(t, []any{409, "state_conflict", state}, []any{got.status, got.code(), got.state(t)}, "%s", got.body)
		require.Equal(t, 200, s.do("GET", at, "").status)
	}

	id := s.draft(sku, 5)
	at := "/v1/merchant/activities/" + id
	require.Equal(t, 200, s.do("PATCH", at, `{"title":"Better"}`).status)
	stale := s.do("DELETE", at, "", "If-Match", `"1"`)
	require.Equal(t, []any{412, "state_conflict"}, []any{stale.status, stale.code()})
	require.Contains(t, string(stale.body), `"version":2`)
	require.Equal(t, "If-Match", s.do("DELETE", at, "", "If-Match", "2").field())
	require.Equal(t, "not_found", s.as(s.mintFor("other", "merchant-1", auth.Merchant), "DELETE", at, "").code())
	require.Equal(t, "not_found", s.do("DELETE", "/v1/merchant/activities/x", "").code())

	got := s.do("DELETE", at, "", "If-Match", `"2"`)
	require.Equal(t, http.StatusNoContent, got.status, "%s", got.body)
	require.Empty(t, got.body)
	require.Equal(t, "not_found", s.do("DELETE", at, "").code())
	for _, call := range [][2]string{{"GET", ""}, {"POST", "/publish"}, {"POST", "/duplicate"}, {"GET", "/changes"}, {"GET", "/board"}, {"GET", "/stock"}} {
		require.Equal(t, "not_found", s.do(call[0], at+call[1], "").code(), "%v", call)
	}
	require.Equal(t, "not_found", s.do("PATCH", at, `{"title":"a"}`).code())
	require.NotContains(t, string(s.do("GET", "/v1/merchant/activities?limit=100", "").body), id)
	var last struct{ Who, Role, MerchantID, Detail string }
	require.NoError(t, s.db.Table("changes").Where("object_id = ? AND action = 'activity.delete'", id).Find(&last).Error)
	require.Equal(t, struct{ Who, Role, MerchantID, Detail string }{"merchant-1", "merchant", contract.DefaultMerchant, `"Better"`}, last)
}

// The retry of a creation whose draft was deleted meanwhile makes no second draft.
func TestTheKeyOfADeletedDraftCreatesNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	body := activityBody(s.product("EUR")[0], 5)
	create := func(body string) response {
		return s.do("POST", "/v1/merchant/activities", body, "Idempotency-Key", "k")
	}
	at := create(body).header.Get("Location")
	duplicate := func() response { return s.do("POST", at+"/duplicate", "", "Idempotency-Key", "k") }
	copied := duplicate().header.Get("Location")
	require.Equal(t, 204, s.do("DELETE", copied, "").status)
	require.Equal(t, "not_found", duplicate().code())
	require.Equal(t, 204, s.do("DELETE", at, "").status)
	require.Equal(t, []any{404, "not_found"}, []any{create(body).status, create(body).code()})
	require.Equal(t, "idempotency_conflict", create(strings.Replace(body, "Sale", "Other", 1)).code())
	var n int64
	require.NoError(t, s.db.Table("activities").Count(&n).Error)
	require.Zero(t, n)
}

// Of a publication and a deletion at once, exactly one is made.
func TestConcurrentDeletionAndPublication(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	for range 10 {
		id := s.draft(sku, 5)
		at := "/v1/merchant/activities/" + id
		all := atOnce(2, func(i int) response {
			if i == 0 {
				return s.do("DELETE", at, "")
			}
			return s.do("POST", at+"/publish", "")
		})
		deleted := all[0].status == 204
		var stocks int64
		require.NoError(t, s.db.Table("stocks").Where("activity_id = ?", id).Count(&stocks).Error)
		_, _, err := s.gate.UnitsLeft(t.Context(), id)
		if deleted {
			require.Equal(t, "not_found", all[1].code(), "%s", all[1].body)
			require.Zero(t, stocks)
			require.Error(t, err, "no gate")
			continue
		}
		require.Equal(t, "state_conflict", all[0].code(), "%s", all[0].body)
		require.Equal(t, 200, all[1].status, "%s", all[1].body)
		require.EqualValues(t, 1, stocks)
		require.NoError(t, err)
	}
}

func TestADuplicateKeepsTheRulesOfItsSource(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	skus := s.product("EUR")
	const rules = `"description":"d","image_url":"/assets/a.png","per_user_limit":3,"pay_within_s":77,"reorder_limit":0,` +
		`"waiting_room":{"admit_per_second":50},"captcha":"pow","captcha_difficulty":7,` +
		`"degraded_sale":{"per_second":9,"drop":1,"reserve":2}`
	body := strings.Replace(activityBody(skus[0], 5), "{", "{"+rules+",", 1)
	body = strings.Replace(body, `"items":[`, fmt.Sprintf(`"items":[{"sku_id":%q,"price":70,"stock":9},`, skus[1]), 1)
	created := s.do("POST", "/v1/merchant/activities", body)
	require.Equal(t, 201, created.status, "%s", created.body)
	at := created.header.Get("Location")

	fields := func(got response) map[string]any {
		v := map[string]any{}
		got.into(t, &v)
		for _, own := range []string{"activity_id", "state", "version", "created_at", "updated_at", "ended_at"} {
			delete(v, own)
		}
		return v
	}
	want := fields(created)
	for _, step := range []string{"", "publish", "pause", "resume", "end"} {
		if step != "" {
			require.Equal(t, 200, s.do("POST", at+"/"+step, "").status, step)
		}
		got := s.do("POST", at+"/duplicate", "")
		require.Equal(t, 201, got.status, "%s: %s", step, got.body)
		require.Equal(t, want, fields(got), step)
		require.Equal(t, "draft", got.state(t))
		require.Equal(t, `"1"`, got.header.Get("ETag"))
		location := got.header.Get("Location")
		require.NotEqual(t, at, location)
		require.Equal(t, got.body, s.do("GET", location, "").body)
		id := strings.TrimPrefix(location, "/v1/merchant/activities/")
		changes := string(s.do("GET", location+"/changes", "").body)
		require.Contains(t, changes, `"what":"activity.create"`)
		require.Contains(t, changes, fmt.Sprintf(`"duplicate_of":%q`, strings.TrimPrefix(at, "/v1/merchant/activities/")))
		require.Equal(t, 204, s.do("DELETE", location, "").status, id)
	}

	// The copy of an ended sale has its own time, gate and degraded sale.
	location := s.do("POST", at+"/duplicate", "{}").header.Get("Location")
	require.Equal(t, 200, s.do("POST", location+"/publish", "").status)
	audit, err := s.gate.Audit(t.Context(), strings.TrimPrefix(location, "/v1/merchant/activities/"))
	require.NoError(t, err)
	require.EqualValues(t, 50, audit.RoomRate)
	require.Equal(t, contract.Challenge{Kind: contract.ChallengePow, Difficulty: 7}, audit.Challenge)
	var noted int64
	require.NoError(t, s.db.Table("redisless_sales").Where("activity_id = ?", strings.TrimPrefix(location, "/v1/merchant/activities/")).Count(&noted).Error)
	require.EqualValues(t, 1, noted, "its gate is read, so that it goes on without Redis")
}

func TestRefusalsOfADuplicate(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	skus := s.product("EUR")
	at := "/v1/merchant/activities/" + s.draft(skus[0], 5)
	count := func() (n int64) {
		require.NoError(t, s.db.Table("activities").Count(&n).Error)
		return n
	}
	before := count()
	require.Equal(t, "not_found", s.as(s.mintFor("other", "merchant-1", auth.Merchant), "POST", at+"/duplicate", "", "Idempotency-Key", "k").code())
	require.Equal(t, "not_found", s.do("POST", "/v1/merchant/activities/4242/duplicate", "").code())
	require.Equal(t, "title", s.do("POST", at+"/duplicate", `{"title":"Copy"}`).field())
	require.Equal(t, "Idempotency-Key", s.do("POST", at+"/duplicate", "", "Idempotency-Key", strings.Repeat("k", 65)).field())
	require.Equal(t, before, count())

	first := s.do("POST", at+"/duplicate", "", "Idempotency-Key", "k")
	require.Equal(t, 201, first.status, "%s", first.body)
	require.Equal(t, 200, s.do("PATCH", at, `{"title":"Better"}`).status)
	again := s.do("POST", at+"/duplicate", "{}", "Idempotency-Key", "k")
	require.Equal(t, string(first.body), string(again.body), "the same call")
	require.Equal(t, before+1, count())
	other := "/v1/merchant/activities/" + s.draft(skus[0], 5)
	require.NotEqual(t, string(first.body), string(s.do("POST", other+"/duplicate", "", "Idempotency-Key", "k").body), "keys are scoped by path")

	// An operator who acts for no merchant makes a draft of the sale's merchant.
	var made struct {
		MerchantID string `json:"merchant_id"`
	}
	got := s.as(s.mintFor("", "op", auth.Operator), "POST", at+"/duplicate", "")
	require.Equal(t, 201, got.status, "%s", got.body)
	got.into(t, &made)
	require.Equal(t, contract.DefaultMerchant, made.MerchantID)
}

// A duplicate offers the total units, whatever was sold, added or withdrawn.
func TestADuplicateOffersTheTotalUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 5, 3)
	r := w.buy(a, "u")
	w.land(r)
	w.follow(event(r, contract.OrderCreated), event(r, contract.OrderPaid))
	adjust := func(item int, delta int64) {
		t.Helper()
		_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
			ActivityID: a.ID, SKUID: a.Items[item].SKUID, Delta: delta, Reason: "r",
			Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/p", Value: fmt.Sprint(item, delta)},
		})
		require.NoError(t, err)
	}
	duplicate := func() (stock []int64, err error) {
		copied, err := w.merchants.DuplicateActivity(w.ctx, seller("m"), a.ID, nil)
		if err != nil {
			return nil, err
		}
		require.Equal(t, []any{core.ActivityDraft, contract.ModeGate, (*time.Time)(nil)}, []any{copied.State, copied.Mode, copied.EndedAt})
		for _, it := range copied.Items {
			require.Equal(t, []int64{it.Total, 0, 0}, []int64{it.Available, it.Reserved, it.Sold})
			stock = append(stock, it.Total)
		}
		return stock, nil
	}
	got, err := duplicate()
	require.NoError(t, err)
	require.Equal(t, []int64{5, 3}, got)
	adjust(0, 20)
	adjust(1, -3)
	got, err = duplicate()
	require.NoError(t, err)
	require.Equal(t, []int64{25}, got, "all units of the second SKU were withdrawn")
	require.Equal(t, core.ActivityTotals{Units: 25, Left: 24, Sold: 1, Revenue: 100}, w.totals(a))

	w.follow(event(r, contract.OrderRefunded))
	require.Equal(t, core.ActivityTotals{Units: 25, Left: 25}, w.totals(a), "a refunded order is no revenue")
	adjust(0, -25)
	_, err = duplicate()
	require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err))
}

func (w *world) totals(a *core.Activity) core.ActivityTotals {
	w.t.Helper()
	now, err := w.merchants.Activity(w.ctx, core.AllMerchants(), a.ID)
	require.NoError(w.t, err)
	return now.Totals()
}

// A redisless sale is duplicated too. Its copy begins at the gate.
func TestADuplicateOfARedislessSale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 5, Drop: 1, Reserve: 2}, 0)
	copied, err := w.merchants.DuplicateActivity(w.ctx, seller("m"), s.id, nil)
	require.NoError(t, err)
	require.Equal(t, contract.ModeGate, copied.Mode)
	require.Zero(t, copied.Outage)
	require.Nil(t, copied.GateLacksSince)
	require.Equal(t, &core.DegradedSale{PerSecond: 5, Drop: 1, Reserve: 2}, copied.Degraded)
}

func TestTotalsOfTheListOfActivities(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	skus := s.product("EUR")
	draft := s.draft(skus[0], 7)
	id := s.draft(skus[1], 10)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	require.NoError(t, s.db.Exec("UPDATE stocks SET available = 4, reserved = 3, sold = 3 WHERE activity_id = ?", id).Error)
	var list struct {
		Items []struct {
			ID     string `json:"activity_id"`
			Totals json.RawMessage
		}
	}
	s.do("GET", "/v1/merchant/activities", "").into(t, &list)
	require.Len(t, list.Items, 2)
	require.Equal(t, []string{id, draft}, []string{list.Items[0].ID, list.Items[1].ID})
	require.JSONEq(t, `{"units":10,"left":4,"sold":3,"revenue":150}`, string(list.Items[0].Totals))
	require.JSONEq(t, `{"units":7,"left":7,"sold":0,"revenue":0}`, string(list.Items[1].Totals))
}
