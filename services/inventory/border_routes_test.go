package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/apitest"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// openAPI describes all routes.
const openAPI = "api/openapi.yaml"

// borderCase adds to an operation what the OpenAPI file leaves out.
type borderCase struct {
	operators bool   // merchants get 403
	common    bool   // of no merchant: all see the same
	profile   bool   // of the merchant that merchant_id names, or the token
	status    int    // of an operator's call; 0 for 200
	query     string // that each call needs
	body      string // {sku} is a SKU of the activity's or caller's merchant
}

const newSKUs = `"skus":[{"name":"a","list_price":1,"currency":"EUR"}]`

// borderCases holds a case for each operation. An operation without one fails the tests.
var borderCases = map[string]borderCase{
	"createProduct":        {body: `{"name":"Lamp",` + newSKUs + `}`},
	"listProducts":         {},
	"listCurrencies":       {common: true},
	"getProduct":           {},
	"patchProduct":         {body: `{"name":"Shade"}`},
	"archiveProduct":       {},
	"putProduct":           {body: `{"name":"Lamp","skus":[{"ref":"a","name":"a","list_price":1,"currency":"EUR"}]}`},
	"unarchiveProduct":     {},
	"listOrders":           {query: "?changed_since=2026-01-01T00:00:00Z"},
	"createWebhook":        {body: webhookBody("one")},
	"listWebhooks":         {},
	"getWebhook":           {},
	"patchWebhook":         {body: `{"types":["order.paid"]}`},
	"deleteWebhook":        {status: 204},
	"replaceWebhookSecret": {},
	"testWebhook":          {},
	"replayWebhook":        {body: `{"since":"{now}"}`},
	"listDeliveries":       {},
	"getProfile":           {profile: true},
	"putProfile":           {profile: true, body: `{"name":"Acme","terms_url":"","delivery":""}`},
	"createActivity":       {body: activityBody("{sku}", 5)},
	"listActivities":       {},
	"getActivity":          {},
	"patchActivity":        {body: `{"title":"Sale","items":[{"sku_id":"{sku}","price":1,"stock":5}]}`},
	"deleteActivity":       {status: 204},
	"duplicateActivity":    {status: 201},
	"publishActivity":      {},
	"pauseActivity":        {},
	"resumeActivity":       {},
	"endActivity":          {},
	"adjustStock":          {body: `{"sku_id":"{sku}","delta":1,"reason":"r"}`},
	"getStock":             {},
	"listActivityOrders":   {},
	"getActivityOrder":     {},
	"listChanges":          {},
	"listAdjustments":      {},
	"getBoard":             {},
	"getAbuse":             {},
	"listReview":           {},
	"cancelReviewed":       {body: `{"order_sns":["424242"],"reason":"r"}`},
	"streamBoard":          {},
	"getOverview":          {operators: true},
	"getHealth":            {operators: true},
	"reconcile":            {operators: true},
	"listReconciliations":  {},
	"listDeadLetters":      {operators: true},
	"replayDeadLetter":     {operators: true},
	"rejectDeadLetter":     {operators: true},
	"listRefunds":          {operators: true},

	"listPaymentDifferences": {operators: true},

	"retryRefund":      {operators: true},
	"settleRefund":     {operators: true, body: `{"reference":"transfer 17","reason":"account closed"}`},
	"listLimits":       {operators: true},
	"getLimit":         {operators: true},
	"putLimit":         {operators: true, body: `{"limit":1000}`},
	"patchLimit":       {operators: true, body: `{"limit":1000}`},
	"deleteLimit":      {operators: true},
	"listLimitChanges": {operators: true},
	"revertLimit":      {operators: true},
	"tryLimit":         {operators: true, body: `{"key":""}`},
}

// onlyDrafts are the operations that need a draft; the others get a published activity.
var onlyDrafts = map[string]bool{"patchActivity": true, "deleteActivity": true, "publishActivity": true}

// limitName is the only rule of these tests, so that no call is refused because of its rate.
const limitName = "path-total"

// webhookBody is that of a new webhook at which nothing listens.
func webhookBody(merchant string) string {
	return `{"url":"https://127.0.0.1:1/` + merchant + `","types":["order.created","order.paid"]}`
}

func newBorderShop(t *testing.T, change ...func(*Config)) *shop {
	s := newShop(t, append(change, withWebhooks)...)
	s.svc.cfg.TestTimers = map[string]time.Duration{"inventory.reconcile_pause": time.Millisecond}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("version: 1\nrules:\n  - {name: "+limitName+", limit: 1000}\n"), 0o600))
	s.withLimits(admission.Settings{Rules: rules})
	s.svc.board.StreamFor = time.Millisecond
	return s
}

// problemOf returns a problem document without its trace id.
func problemOf(got response) string {
	fields := map[string]any{}
	if json.Unmarshal(got.body, &fields) != nil {
		return string(got.body)
	}
	delete(fields, "trace_id")
	text, _ := json.Marshal(fields)
	return string(text)
}

// objects are some of one merchant. Only a published activity has an order.
type objects struct{ product, sku, activity, order, deadLetter, webhook string }

// objectsOf creates objects of the merchant of a token.
func (s *shop) objectsOf(token string, publish bool) (b objects) {
	s.t.Helper()
	before := s.token
	defer func() { s.token = before }()
	s.token = token
	b.sku = s.product("EUR")[0]
	b.activity = s.draft(b.sku, 5)
	require.NoError(s.t, s.db.Table("skus").Where("id = ?", b.sku).Pluck("product_id", &b.product).Error)
	if publish {
		require.Equal(s.t, 200, s.do("POST", "/v1/merchant/activities/"+b.activity+"/publish", "").status)
		b.order = newSN()
		require.NoError(s.t, s.svc.core.Land(s.t.Context(), []contract.Reservation{{
			OrderSN: b.order, UserID: "buyer", ActivityID: b.activity, Lines: []contract.Line{{SKUID: b.sku, Qty: 1}},
			ReservedAt: s.svc.deps.Now(),
		}}, nil))
	}
	require.NoError(s.t, s.db.Exec("DELETE FROM webhooks WHERE url LIKE ? AND merchant_id = ?", "%/x", s.merchantOf(b.activity)).Error) // the quota would end
	var hook struct {
		ID string `json:"webhook_id"`
	}
	s.do("POST", "/v1/merchant/webhooks", webhookBody("x")).into(s.t, &hook)
	b.webhook = hook.ID
	sn := newSN()
	require.NoError(s.t, s.svc.core.AddDeadLetters(s.t.Context(), []contract.DeadLetter{{
		Where: contract.GroupInventoryOrderEvents, Topic: contract.TopicOrderEvents, OrderSN: sn, ActivityID: b.activity,
		Why: "w", Item: []byte(`{"order_sn":"` + sn + `"}`), At: s.svc.deps.Now(),
	}}))
	require.NoError(s.t, s.db.Table("dead_letters").Where("order_sn = ?", sn).Pluck("id", &b.deadLetter).Error)
	return b
}

// merchantOf returns the owner of an activity.
func (s *shop) merchantOf(activity string) (merchant string) {
	s.t.Helper()
	require.NoError(s.t, s.db.Table("activities").Where("id = ?", activity).Pluck("merchant_id", &merchant).Error)
	return merchant
}

// call calls an operation on these objects.
func (s *shop) call(token string, op apitest.Operation, b objects, query string) response {
	s.t.Helper()
	path := strings.NewReplacer("{product_id}", b.product, "{activity_id}", b.activity, "{dead_letter_id}", b.deadLetter,
		"{order_sn}", b.order, "{limit_name}", limitName, "{refund_id}", refundID, "{ref}", "LAMP", "{webhook_id}", b.webhook).Replace(op.Path)
	if needed := borderCases[op.ID].query; needed != "" {
		query = needed + strings.Replace(query, "?", "&", 1)
	}
	body := strings.NewReplacer("{sku}", b.sku, "{now}", s.svc.deps.Now().Add(-time.Minute).Format(time.RFC3339)).
		Replace(borderCases[op.ID].body)
	return s.as(token, op.Method, path+query, body, "Idempotency-Key", "k")
}

func TestEachOperationHasABorderCase(t *testing.T) {
	t.Parallel()
	var ids, described []string
	for _, op := range apitest.Operations(t, openAPI) {
		ids = append(ids, op.ID)
		described = append(described, op.Method+" "+op.Path)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(borderCases)), ids, "borderCases and %s", openAPI)
	require.ElementsMatch(t, slices.Collect(maps.Keys(borderMoves)), ids, "borderMoves and %s", openAPI)

	s := newShop(t)
	routes, ok := s.svc.Handler().(chi.Routes)
	require.True(t, ok)
	var served []string
	require.NoError(t, chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+route)
		return nil
	}))
	require.ElementsMatch(t, described, served, "routes and %s", openAPI)
}

// For a merchant, objects of another merchant do not exist, in each operation of the OpenAPI file.
func TestEachOperationKeepsToItsMerchant(t *testing.T) {
	t.Parallel()
	s := newBorderShop(t, func(c *Config) { c.OrderURL = newLookups(t).url })
	// One user works for both merchants.
	one, two := s.mintFor("one", "clerk", auth.Merchant), s.mintFor("two", "clerk", auth.Merchant)
	buyer, operator := s.mintFor("", "clerk"), s.mintFor("", "op", auth.Operator)
	for _, op := range apitest.Operations(t, openAPI) {
		t.Run(op.ID, func(t *testing.T) {
			c := borderCases[op.ID]
			mine, theirs := s.objectsOf(one, !onlyDrafts[op.ID]), s.objectsOf(two, !onlyDrafts[op.ID])
			require.Equal(t, "unauthenticated", s.call("", op, mine, "").code())
			require.Equal(t, "forbidden", s.call(buyer, op, mine, "").code())
			ofObject := strings.Contains(op.Path, "{product_id}") || strings.Contains(op.Path, "{activity_id}") ||
				strings.Contains(op.Path, "{webhook_id}")
			switch {
			case c.operators:
				require.Equal(t, "forbidden", s.call(one, op, mine, "").code())
				require.Equal(t, "forbidden", s.call(one, op, theirs, "").code())
				got := s.call(operator, op, theirs, "")
				require.Equal(t, cmp.Or(c.status, 200), got.status, "%s", got.body)
			case ofObject:
				none := objects{product: "424242", sku: theirs.sku, activity: "424242", order: "424242", webhook: "424242"}
				got := s.call(one, op, theirs, "")
				require.Equal(t, 404, got.status, "%s", got.body)
				require.Equal(t, problemOf(s.call(one, op, none, "")), problemOf(got))
				require.Equal(t, problemOf(s.call(operator, op, none, "")), problemOf(got))
				require.Equal(t, cmp.Or(c.status, 200), s.call(one, op, mine, "").status)
				require.Equal(t, cmp.Or(c.status, 200), s.call(operator, op, theirs, "").status)
			case c.profile:
				s.keepsToItsProfile(op, one, operator)
			case c.common:
				require.Equal(t, s.call(operator, op, theirs, "").body, s.call(one, op, mine, "").body)
			case op.Method == http.MethodGet:
				s.listsOnlyItsOwn(op, mine, theirs, one, operator)
			default:
				var made struct {
					MerchantID string `json:"merchant_id"`
				}
				got := s.call(one, op, mine, "?merchant_id=two")
				got.into(t, &made)
				require.Equal(t, 201, got.status, "%s", got.body)
				require.Equal(t, "one", made.MerchantID, "the parameter means nothing")
			}
		})
	}
}

// keepsToItsProfile checks which profile a call is about: that of the token, or for operators that of any merchant.
func (s *shop) keepsToItsProfile(op apitest.Operation, merchant, operator string) {
	s.t.Helper()
	of := func(token, query string) string {
		s.t.Helper()
		var p struct {
			Merchant string `json:"merchant_id"`
		}
		got := s.call(token, op, objects{}, query)
		require.Equal(s.t, 200, got.status, "%s", got.body)
		got.into(s.t, &p)
		return p.Merchant
	}
	require.Equal(s.t, "one", of(merchant, ""))
	require.Equal(s.t, "one", of(merchant, "?merchant_id=one"))
	require.Equal(s.t, "two", of(operator, "?merchant_id=two"))
	require.Equal(s.t, "three", of(s.mintFor("three", "op", auth.Operator), ""))
	require.Equal(s.t, "default", of(operator, ""), "the merchant of a token without one in these tests")
	for _, other := range []string{"two", "unknown"} {
		require.Equal(s.t, "forbidden", s.call(merchant, op, objects{}, "?merchant_id="+other).code(), "%q", other)
	}
	for _, malformed := range []string{"", "a%20b", strings.Repeat("x", 65)} {
		for _, token := range []string{merchant, operator} {
			require.Equal(s.t, "merchant_id", s.call(token, op, objects{}, "?merchant_id="+malformed).field(), "%q", malformed)
		}
	}
}

// listsOnlyItsOwn checks a list of products or activities.
func (s *shop) listsOnlyItsOwn(op apitest.Operation, mine, theirs objects, merchant, operator string) {
	s.t.Helper()
	type object struct {
		Product  string `json:"product_id"`
		Activity string `json:"activity_id"`
		Webhook  string `json:"webhook_id"`
		Merchant string `json:"merchant_id"`
	}
	shown := func(token, query string) (owners map[string]string) {
		s.t.Helper()
		var list struct{ Items []object }
		got := s.call(token, op, mine, "?limit=100"+query)
		require.Equal(s.t, 200, got.status, "%s", got.body)
		got.into(s.t, &list)
		owners = map[string]string{}
		for _, it := range list.Items {
			owners[it.Product+it.Activity+it.Webhook] = it.Merchant // an order has its activity
		}
		return owners
	}
	my, their := mine.product, theirs.product
	switch {
	case strings.Contains(op.Path, "webhooks"):
		my, their = mine.webhook, theirs.webhook
	case !strings.Contains(op.Path, "products"):
		my, their = mine.activity, theirs.activity
	}
	own := shown(merchant, "")
	require.Equal(s.t, "one", own[my])
	require.NotContains(s.t, own, their)
	require.Equal(s.t, own, shown(merchant, "&merchant_id=one"))
	require.Equal(s.t, own, shown(operator, "&merchant_id=one"))
	require.Equal(s.t, "two", shown(operator, "")[their])
	require.Equal(s.t, "one", shown(operator, "")[my])
	require.Empty(s.t, shown(operator, "&merchant_id=unknown"))
	for _, other := range []string{"two", "unknown"} {
		require.Equal(s.t, "forbidden", s.call(merchant, op, mine, "?merchant_id="+other).code(), "%q", other)
	}
	for _, malformed := range []string{"", "a%20b", strings.Repeat("x", 65)} {
		for _, token := range []string{merchant, operator} {
			require.Equal(s.t, "merchant_id", s.call(token, op, mine, "?merchant_id="+malformed).field(), "%q", malformed)
		}
	}
}

// A caller who acts for no merchant owns nothing: an operator sees all but creates nothing, any other caller sees
// nothing.
func TestACallerWithoutAMerchantOwnsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.draft(1, 5)
	product := merchants.Product{Name: "Thing", SKUs: []merchants.SKU{{Name: "a", ListPrice: 1, Currency: "EUR"}}}
	for _, by := range []core.Caller{operator("op"), {UserID: "clerk"}} {
		_, err := w.merchants.CreateProduct(w.ctx, by, product, nil)
		require.Equal(t, contract.CodeForbidden, contract.CodeOf(err))
		_, err = w.merchants.CreateActivity(w.ctx, by, merchants.ActivityDraftRequest{Title: "Sale"})
		require.Equal(t, contract.CodeForbidden, contract.CodeOf(err))
		list, err := w.merchants.Activities(w.ctx, by.Scope(), merchants.ActivityFilter{}, core.Page{Limit: 9})
		require.NoError(t, err)
		require.Equal(t, by.Operator, len(list) == 1)
	}
	_, err := w.merchants.Activity(w.ctx, core.Scope{}, a.ID)
	require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
}

// A SKU of another merchant does not exist for an activity, also if an operator names it.
func TestAnActivitySellsOnlySKUsOfItsMerchant(t *testing.T) {
	t.Parallel()
	s := newBorderShop(t)
	one, two := s.mintFor("one", "clerk", auth.Merchant), s.mintFor("two", "clerk", auth.Merchant)
	operatorOfTwo := s.mintFor("two", "op", auth.Operator)
	mine, theirs := s.objectsOf(one, false), s.objectsOf(two, false)
	patch := func(token, sku string) response {
		return s.as(token, "PATCH", "/v1/merchant/activities/"+mine.activity, fmt.Sprintf(`{"items":[{"sku_id":%q,"price":1,"stock":1}]}`, sku))
	}
	unknown := problemOf(patch(one, "424242"))
	for _, token := range []string{one, operatorOfTwo} {
		require.Equal(t, unknown, problemOf(patch(token, theirs.sku)))
		require.Equal(t, 200, patch(token, mine.sku).status)
	}
	got := s.as(one, "POST", "/v1/merchant/activities", activityBody(theirs.sku, 5))
	require.Equal(t, "items[0].sku_id", got.field())
	require.Equal(t, problemOf(s.as(one, "POST", "/v1/merchant/activities", activityBody("424242", 5))), problemOf(got))
	require.Equal(t, "items[0].sku_id", s.as(operatorOfTwo, "POST", "/v1/merchant/activities", activityBody(mine.sku, 5)).field())
}

// A known Idempotency-Key of the same user returns nothing to another merchant.
func TestAnIdempotencyKeyBelongsToItsMerchant(t *testing.T) {
	t.Parallel()
	s := newBorderShop(t)
	one, two := s.mintFor("one", "clerk", auth.Merchant), s.mintFor("two", "clerk", auth.Merchant)
	mine := s.objectsOf(one, true)
	adjust := func(token, body string) response {
		return s.as(token, "POST", "/v1/merchant/activities/"+mine.activity+"/stock-adjustments", body, "Idempotency-Key", "k")
	}
	body := fmt.Sprintf(`{"sku_id":%q,"delta":1,"reason":"r"}`, mine.sku)
	first := adjust(one, body)
	require.Equal(t, 200, first.status, "%s", first.body)
	require.Equal(t, "not_found", adjust(two, body).code())
	require.Equal(t, "not_found", adjust(two, strings.Replace(body, `"r"`, `"other"`, 1)).code(), "no conflict is shown either")
	require.Equal(t, string(first.body), string(adjust(one, body).body))
}
