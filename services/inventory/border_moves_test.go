package inventory

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/apitest"
)

// borderMoves holds a move for each operation: it calls the operation on drawn objects, compares the response with the
// model, and changes the model. It returns the owner whose rows the call may have changed; nil for none.
var borderMoves = map[string]func(m *borderWorld, op apitest.Operation, who borderCaller) *owner{
	"createProduct": func(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
		m.newProduct(who, rapid.IntRange(1, 2).Draw(m.r, "skus"))
		return m.ownerOf(who.merchant)
	},
	"listProducts": func(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
		archived := rapid.Bool().Draw(m.r, "archived")
		got, shown, newest, ok := m.list(who, fmt.Sprintf("/v1/merchant/products?limit=100&archived=%t", archived))
		if !ok {
			return nil
		}
		ids := map[string]string{}
		for _, o := range shown {
			for _, p := range o.products {
				if p.archived == archived {
					ids[p.id] = o.merchant
				}
			}
		}
		m.showsExactly(m.ok(got, 200).Items, func(v borderView) string { return v.ProductID }, ids, newest)
		return nil
	},
	"listCurrencies": func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
		if got := m.send(who, op.Method, op.Path, ""); !who.buyer { // send has checked the refusal of a buyer
			require.NotEmpty(m.r, m.ok(got, 200).Items)
		}
		return nil
	},
	"getProduct": func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
		o, p := m.anyProduct()
		if got := m.send(who, op.Method, "/v1/merchant/products/"+p.id, ""); m.served(got, op, who, o) {
			require.Equal(m.r, o.merchant, m.ok(got, 200).MerchantID)
		}
		return nil
	},
	"patchProduct":     (*borderWorld).patchProduct,
	"archiveProduct":   archive(true),
	"putProduct":       (*borderWorld).putProduct,
	"unarchiveProduct": archive(false),
	"createWebhook": func(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
		m.newWebhook(who)
		return m.ownerOf(who.merchant)
	},
	"listWebhooks":         listWebhooks,
	"getWebhook":           webhookMove("", "", ""),
	"patchWebhook":         webhookMove("", `{"state":"off"}`, "patch"),
	"deleteWebhook":        webhookMove("", "", "delete"),
	"replaceWebhookSecret": webhookMove("/secret", "", "secret"),
	"testWebhook":          webhookMove("/test", "", ""),
	"replayWebhook":        webhookMove("/replay", `{"since":"{now}"}`, "replay"),
	"listDeliveries":       webhookMove("/deliveries", "", ""),
	"getProfile":           (*borderWorld).profileMove,
	"putProfile":           (*borderWorld).profileMove,
	"createActivity":       createActivity,
	"listActivities":       listActivities,
	"getActivity":          getActivity,
	"patchActivity":        (*borderWorld).patchActivity,
	"deleteActivity":       (*borderWorld).deleteActivity,
	"duplicateActivity":    (*borderWorld).duplicateActivity,
	"publishActivity":      transition("publish"),
	"pauseActivity":        transition("pause"),
	"resumeActivity":       transition("resume"),
	"endActivity":          transition("end"),
	"adjustStock":          (*borderWorld).adjustStock,
	"getStock":             getStock,
	"listActivityOrders":   (*borderWorld).listOrders,
	"listOrders":           feedOfOrders,
	"getActivityOrder":     (*borderWorld).getOrder,
	"listChanges": ofActivity("changes", func(m *borderWorld, _ *owner, a *modelActivity, v borderView) {
		require.NotEmpty(m.r, v.Items)
		require.Equal(m.r, "activity.create", v.Items[len(v.Items)-1].What)
	}),
	"listAdjustments": ofActivity("adjustments", func(m *borderWorld, _ *owner, a *modelActivity, v borderView) {
		require.Len(m.r, v.Items, len(a.keys))
	}),
	"listReconciliations": ofActivity("reconciliations", func(m *borderWorld, _ *owner, a *modelActivity, v borderView) {
		require.Len(m.r, v.Items, a.reconciled)
	}),
	"getBoard": ofActivity("board", func(m *borderWorld, o *owner, a *modelActivity, v borderView) {
		require.Equal(m.r, a.id, v.ActivityID)
		require.Equal(m.r, a.phase(), v.State)
	}),
	"getAbuse":         ofActivity("abuse", func(*borderWorld, *owner, *modelActivity, borderView) {}),
	"listReview":       ofActivity("review", func(*borderWorld, *owner, *modelActivity, borderView) {}),
	"cancelReviewed":   (*borderWorld).cancelReviewed,
	"streamBoard":      (*borderWorld).streamBoard,
	"getOverview":      health,
	"getHealth":        health,
	"reconcile":        reconcileActivity,
	"listDeadLetters":  listDeadLetters,
	"replayDeadLetter": decideDeadLetter("replay"),
	"rejectDeadLetter": decideDeadLetter("reject"),
	"listRefunds":      refundMove,

	"listPaymentDifferences": refundMove,

	"retryRefund":      refundMove,
	"settleRefund":     refundMove,
	"listLimits":       limitMove,
	"getLimit":         limitMove,
	"putLimit":         limitMove,
	"patchLimit":       limitMove,
	"deleteLimit":      limitMove,
	"listLimitChanges": limitMove,
	"revertLimit":      limitMove,
	"tryLimit":         limitMove,
}

// served checks the refusal of a call whose caller does not have the role for the operation, or does not see the object
// of o. It reports whether the call is neither.
func (m *borderWorld) served(got response, op apitest.Operation, who borderCaller, o *owner) bool {
	switch {
	case who.buyer || borderCases[op.ID].operators && !who.operator:
		m.refused(got, "forbidden")
	case !who.sees(o):
		m.absent(got)
	default:
		return true
	}
	return false
}

func (m *borderWorld) patchProduct(op apitest.Operation, who borderCaller) *owner {
	o, p := m.anyProduct()
	body := fmt.Sprintf(`{"name":"changed product of %s"}`, o.name())
	adds := rapid.Bool().Draw(m.r, "adds a SKU")
	if adds {
		body = fmt.Sprintf(`{"skus":[{"name":"sku of %s","list_price":1,"currency":"EUR"}]}`, o.name())
	}
	got := m.send(who, op.Method, "/v1/merchant/products/"+p.id, body)
	switch {
	case !m.served(got, op, who, o):
		return nil
	case adds && o.countSKUs()+1 > quotaSKUs:
		m.refused(got, "quota_exceeded")
		return nil
	}
	v := m.ok(got, 200)
	require.Equal(m.r, o.merchant, v.MerchantID)
	if adds {
		p.skus = append(p.skus, v.SKUs[len(v.SKUs)-1].ID)
	}
	require.Len(m.r, v.SKUs, len(p.skus))
	m.recorded(who, o, "product", p.id, "product.patch")
	return o
}

// putProduct puts the product of the caller's merchant that has a ref which other merchants use, too.
func (m *borderWorld) putProduct(op apitest.Operation, who borderCaller) *owner {
	name := pick(m.r, []string{"product of ", "other product of "}, "name") + who.merchant
	got := m.send(who, op.Method, "/v1/merchant/products/by-ref/SHARED",
		fmt.Sprintf(`{"name":%q,"skus":[{"ref":"SHARED","name":"sku of %s","list_price":1,"currency":"EUR"}]}`, name, who.merchant))
	o := m.ownerOf(who.merchant)
	switch {
	case o == nil:
		m.refused(got, "forbidden")
		return nil
	case o.byRef == nil && o.countSKUs()+1 > quotaSKUs:
		m.refused(got, "quota_exceeded")
		return nil
	}
	if o.byRef == nil {
		v := m.ok(got, 201)
		o.byRef = &modelProduct{id: v.ProductID, skus: []string{v.SKUs[0].ID}}
		o.products = append(o.products, o.byRef)
		m.recorded(who, o, "product", v.ProductID, "product.create")
		return o
	}
	v := m.ok(got, 200)
	require.Equal(m.r, []string{o.byRef.id, o.merchant, name}, []string{v.ProductID, v.MerchantID, v.Name})
	require.Len(m.r, v.SKUs, len(o.byRef.skus))
	return o
}

// archive is the move of archive or unarchive.
func archive(archived bool) func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	action := map[bool]string{true: "archive", false: "unarchive"}[archived]
	return func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
		o, p := m.anyProduct()
		got := m.send(who, op.Method, "/v1/merchant/products/"+p.id+"/"+action, "")
		if !m.served(got, op, who, o) {
			return nil
		}
		require.Equal(m.r, o.merchant, m.ok(got, 200).MerchantID)
		if p.archived != archived {
			m.recorded(who, o, "product", p.id, "product."+action)
		}
		p.archived = archived
		return o
	}
}

func (m *borderWorld) deleteActivity(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id, "")
	switch {
	case !m.served(got, op, who, o):
		return nil
	case a.state != "draft":
		m.refused(got, "state_conflict")
		require.Equal(m.r, a.phase(), m.ok(got, 409).State)
		return nil
	}
	require.Equal(m.r, 204, got.status, "%s", got.body)
	o.activities = slices.DeleteFunc(o.activities, func(other *modelActivity) bool { return other == a })
	m.recorded(who, o, "activity", a.id, "activity.delete")
	return o
}

func (m *borderWorld) duplicateActivity(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/duplicate", "")
	switch {
	case !m.served(got, op, who, o):
		return nil
	case o.archived(a.sku):
		m.archivedSKU(got)
		return nil
	}
	v := m.ok(got, 201)
	require.Equal(m.r, []string{o.merchant, "draft"}, []string{v.MerchantID, v.State})
	copied := &modelActivity{id: v.ActivityID, state: "draft", sku: a.sku, keys: map[string]string{}}
	o.activities = append(o.activities, copied)
	m.recorded(who, o, "activity", copied.id, "activity.create")
	return o
}

// profileMove reads or replaces the profile of a drawn merchant, or of that of the token.
func (m *borderWorld) profileMove(op apitest.Operation, who borderCaller) *owner {
	o, path := m.ownerOf(who.merchant), op.Path
	named := rapid.Bool().Draw(m.r, "names a merchant")
	if named {
		o = pick(m.r, m.owners, "merchant")
		path += "?merchant_id=" + o.merchant
	}
	body := ""
	if op.Method == http.MethodPut {
		body = fmt.Sprintf(`{"name":"name of %s","terms_url":"","delivery":"by %s"}`, who.merchant, who.merchant)
		if named {
			body = strings.ReplaceAll(body, who.merchant, o.merchant)
		}
	}
	got := m.send(who, op.Method, path, body)
	switch {
	case who.buyer:
		return nil
	case !who.sees(o):
		m.refused(got, "forbidden")
		return nil
	}
	if body != "" {
		o.profile++
	}
	v := m.ok(got, 200)
	require.Equal(m.r, []any{o.merchant, o.profile}, []any{v.MerchantID, v.Version})
	require.Equal(m.r, o.profile > 0, v.Name == "name of "+o.merchant)
	if body == "" {
		return nil
	}
	var last struct{ Who, Action string }
	require.NoError(m.r, m.db.Table("changes").Where("object = 'profile' AND merchant_id = ?", o.merchant).Order("id DESC").
		Limit(1).Find(&last).Error)
	require.Equal(m.r, struct{ Who, Action string }{who.user, "profile.put"}, last)
	return o
}

func createActivity(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
	_, sku := m.anySKU()
	m.newActivity(who, sku)
	return m.ownerOf(who.merchant)
}

func listActivities(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
	got, shown, newest, ok := m.list(who, "/v1/merchant/activities?limit=100")
	if !ok {
		return nil
	}
	ids := map[string]string{}
	for _, o := range shown {
		for _, a := range o.activities {
			ids[a.id] = o.merchant
		}
	}
	m.showsExactly(m.ok(got, 200).Items, func(v borderView) string { return v.ActivityID }, ids, newest)
	return nil
}

func getActivity(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	if got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id, ""); m.served(got, op, who, o) {
		v := m.ok(got, 200)
		require.Equal(m.r, o.merchant, v.MerchantID)
		require.Equal(m.r, a.phase(), v.State)
	}
	return nil
}

func (a *modelActivity) phase() string {
	if a.state == "published" {
		return "open"
	}
	return a.state
}

func (m *borderWorld) patchActivity(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	path := "/v1/merchant/activities/" + a.id
	if rapid.Bool().Draw(m.r, "title only") {
		got := m.send(who, op.Method, path, fmt.Sprintf(`{"title":"changed sale of %s"}`, o.name()))
		if !m.served(got, op, who, o) {
			return nil
		}
		require.Equal(m.r, o.merchant, m.ok(got, 200).MerchantID)
		m.recorded(who, o, "activity", a.id, "activity.patch")
		return o
	}
	seller, sku := m.anySKU()
	got := m.send(who, op.Method, path, fmt.Sprintf(`{"items":[{"sku_id":%q,"price":1,"stock":100}]}`, sku))
	switch {
	case !m.served(got, op, who, o):
		return nil
	case seller != o:
		m.unknownSKU(got)
		return nil
	case o.archived(sku):
		m.archivedSKU(got)
		return nil
	case a.state != "draft":
		m.refused(got, "state_conflict")
		return nil
	}
	m.ok(got, 200)
	a.sku = sku
	m.recorded(who, o, "activity", a.id, "activity.patch")
	return o
}

// transition is the move of publish, pause, resume or end.
func transition(action string) func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	return func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
		o, a := m.anyActivity()
		got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/"+action, "")
		if !m.served(got, op, who, o) {
			return nil
		}
		refusal := map[string]string{
			"draft pause": "state_conflict", "draft resume": "state_conflict", "draft end": "state_conflict",
			"paused publish": "state_conflict", "ended publish": "activity_ended", "ended pause": "activity_ended",
			"ended resume": "activity_ended",
		}[a.state+" "+action]
		if a.state == "draft" && action == "publish" && o.archived(a.sku) {
			m.archivedSKU(got)
			return nil
		}
		if a.state == "draft" && action == "publish" && o.live() >= quotaLive {
			m.refused(got, "quota_exceeded")
			require.Equal(m.r, o.live(), m.ok(got, 409).Used)
			return nil
		}
		if refusal != "" {
			m.refused(got, refusal)
			return nil
		}
		before := a.state
		a.state = map[string]string{"publish": "published", "pause": "paused", "resume": "published", "end": "ended"}[action]
		v := m.ok(got, 200)
		require.Equal(m.r, o.merchant, v.MerchantID)
		require.Equal(m.r, a.phase(), v.State)
		if a.state != before {
			m.recorded(who, o, "activity", a.id, "activity."+action)
		}
		return o
	}
}

func (m *borderWorld) adjustStock(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	key := pick(m.r, []string{"k1", "k2", "k3"}, "key")
	sku := a.sku
	if rapid.IntRange(0, 3).Draw(m.r, "another SKU") == 0 {
		sku = unknownID
	}
	body := fmt.Sprintf(`{"sku_id":%q,"delta":%d,"reason":"reason of %s"}`, sku, rapid.IntRange(1, 2).Draw(m.r, "delta"),
		o.name())
	got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/stock-adjustments", body, "Idempotency-Key", key)
	if !m.served(got, op, who, o) {
		return nil
	}
	known := a.keys[who.user+" "+key]
	switch {
	case known != "" && known != body:
		m.refused(got, "idempotency_conflict")
		return nil
	case known != "":
		require.Equal(m.r, who.user, m.ok(got, 200).CreatedBy)
		return o
	case a.state == "draft":
		m.refused(got, "state_conflict")
		return nil
	case a.state == "ended":
		m.refused(got, "activity_ended")
		return nil
	case sku != a.sku:
		m.refused(got, "invalid_request")
		return nil
	}
	require.Equal(m.r, who.user, m.ok(got, 200).CreatedBy)
	a.keys[who.user+" "+key] = body
	m.recorded(who, o, "activity", a.id, "stock.adjust")
	return o
}

func getStock(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	if got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/stock", ""); m.served(got, op, who, o) {
		require.Equal(m.r, a.sku, m.ok(got, 200).SKUs[0].ID)
	}
	return nil
}

func (m *borderWorld) listOrders(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	path := "/v1/merchant/activities/" + a.id + "/orders"
	if o != nil && rapid.Bool().Draw(m.r, "of a user") {
		path += "?user_id=buyer-" + o.merchant
	}
	accept := pick(m.r, []string{"application/json", "text/csv"}, "accept")
	got := m.send(who, op.Method, path, "", "Accept", accept)
	if !m.served(got, op, who, o) {
		return nil
	}
	require.Equal(m.r, 200, got.status, "%s", got.body)
	want := []string{}
	if a.order != "" {
		want = append(want, a.order)
	}
	sns := []string{}
	if accept == "text/csv" {
		for _, line := range strings.Split(strings.TrimSpace(string(got.body)), "\n")[1:] {
			sn, _, _ := strings.Cut(line, ",")
			sns = append(sns, strings.TrimPrefix(sn, "'")) // an order_sn has more digits than a spreadsheet keeps
		}
	} else {
		for _, it := range m.ok(got, 200).Items {
			sns = append(sns, it.OrderSN)
		}
	}
	require.Equal(m.r, want, sns)
	require.Equal(m.r, a.order != "" && !who.operator, strings.Contains(string(got.body), "street of "+o.merchant),
		"only merchants see addresses: %s", got.body)
	return nil
}

// feedOfOrders reads the orders of the shown merchants, from the beginning of this world on.
func feedOfOrders(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
	got, shown, newest, ok := m.list(who, "/v1/merchant/orders?limit=1000&changed_since="+m.began.Format(time.RFC3339Nano))
	if !ok {
		return nil
	}
	ids := map[string]string{}
	for _, o := range shown {
		for _, a := range o.activities {
			if a.order != "" {
				ids[a.order] = o.merchant
			}
		}
	}
	m.showsExactly(m.ok(got, 200).Items, func(v borderView) string { return v.OrderSN }, ids, newest)
	return nil
}

// getOrder reads an order of this activity, or one of another, which does not exist for the caller.
func (m *borderWorld) getOrder(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	_, other := m.anyActivity()
	sn := pick(m.r, []string{unknownID, a.order, other.order}, "order")
	if sn == "" {
		sn = unknownID
	}
	got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/orders/"+sn, "")
	if !m.served(got, op, who, o) {
		return nil
	}
	if sn != a.order {
		m.absent(got)
		return nil
	}
	require.Equal(m.r, 200, got.status, "%s", got.body)
	require.Equal(m.r, !who.operator, strings.Contains(string(got.body), "street of "+o.merchant),
		"only merchants see addresses: %s", got.body)
	return nil
}

// cancelReviewed cancels an order of another activity, which does not exist for the caller and stays as it is.
func (m *borderWorld) cancelReviewed(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	_, other := m.anyActivity()
	sn := unknownID
	if other.id != a.id && other.order != "" {
		sn = other.order
	}
	states := func() (all []string) {
		require.NoError(m.r, m.db.Table("reservations").Order("order_sn").Pluck("state", &all).Error)
		return all
	}
	before := states()
	got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/review/cancel", fmt.Sprintf(`{"order_sns":[%q],"reason":"r"}`, sn))
	if m.served(got, op, who, o) {
		results := m.ok(got, 200).Results
		require.Len(m.r, results, 1)
		require.Equal(m.r, []string{sn, "not_found"}, []string{results[0].OrderSN, results[0].Outcome})
	}
	require.Equal(m.r, before, states())
	return nil
}

// ofActivity is the move of a route that shows something of an activity.
func ofActivity(
	what string, shows func(m *borderWorld, o *owner, a *modelActivity, v borderView),
) func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	return func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
		o, a := m.anyActivity()
		got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/"+what+map[bool]string{true: "?limit=100"}[what != "board"], "")
		if m.served(got, op, who, o) {
			shows(m, o, a, m.ok(got, 200))
		}
		return nil
	}
}

func (m *borderWorld) streamBoard(op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/board/events", "")
	if m.served(got, op, who, o) {
		require.Equal(m.r, 200, got.status, "%s", got.body)
		require.Contains(m.r, string(got.body), `event: board`)
		require.Contains(m.r, string(got.body), `"activity_id":"`+a.id+`"`)
	}
	return nil
}

func health(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	got := m.send(who, op.Method, op.Path, "")
	if !who.operator {
		m.refused(got, "forbidden")
		return nil
	}
	require.Equal(m.r, 200, got.status, "%s", got.body)
	return nil
}

func reconcileActivity(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	o, a := m.anyActivity()
	got := m.send(who, op.Method, "/v1/merchant/activities/"+a.id+"/reconciliations", "")
	if !m.served(got, op, who, o) {
		return nil
	}
	require.Equal(m.r, 200, got.status, "%s", got.body)
	if a.state != "draft" {
		m.recorded(who, o, "activity", a.id, "activity.reconcile")
	}
	a.reconciled++
	return o
}

func listDeadLetters(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
	path := "/v1/merchant/dead-letters?limit=100&state=all"
	if !who.operator {
		m.refused(m.send(who, "GET", path, ""), "forbidden")
		return nil
	}
	got, shown, newest, ok := m.list(who, path)
	if !ok {
		return nil
	}
	ids := map[string]string{}
	for _, o := range shown {
		for _, l := range o.deadLetters {
			ids[l.id] = o.merchant
		}
	}
	if newest {
		ids[m.orphan] = ""
	}
	m.showsExactly(m.ok(got, 200).Items, func(v borderView) string { return v.DeadLetterID }, ids, newest)
	return nil
}

// decideDeadLetter is the move of replay or reject.
func decideDeadLetter(action string) func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	return func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
		o, l := m.anyOwner(), &modelDeadLetter{id: unknownID}
		if o != nil {
			l = pick(m.r, o.deadLetters, "dead letter")
		}
		got := m.send(who, op.Method, "/v1/merchant/dead-letters/"+l.id+"/"+action, "")
		switch {
		case !m.served(got, op, who, o):
			return nil
		case l.rejected && action == "replay":
			m.refused(got, "state_conflict")
			return nil
		}
		require.Equal(m.r, o.merchant, m.ok(got, 200).MerchantID)
		if !l.rejected {
			m.recorded(who, o, "dead_letter", l.id, "dead_letter."+action)
		}
		l.rejected = l.rejected || action == "reject"
		return o
	}
}

// newWebhook creates a webhook, if the caller may.
func (m *borderWorld) newWebhook(who borderCaller) {
	got := m.send(who, "POST", "/v1/merchant/webhooks", webhookBody(who.merchant))
	o := m.ownerOf(who.merchant)
	switch {
	case o == nil:
		m.refused(got, "forbidden")
		return
	case len(o.webhooks) >= 5:
		m.refused(got, "quota_exceeded")
		require.EqualValues(m.r, len(o.webhooks), m.ok(got, 409).Used)
		return
	}
	v := m.ok(got, 201)
	require.Equal(m.r, o.merchant, v.MerchantID)
	o.webhooks = append(o.webhooks, &modelWebhook{v.WebhookID, "active"})
	m.recorded(who, o, "webhook", v.WebhookID, "webhook.create")
}

func listWebhooks(m *borderWorld, _ apitest.Operation, who borderCaller) *owner {
	got, shown, newest, ok := m.list(who, "/v1/merchant/webhooks?limit=100")
	if !ok {
		return nil
	}
	ids := map[string]string{}
	for _, o := range shown {
		for _, h := range o.webhooks {
			ids[h.id] = o.merchant
		}
	}
	m.showsExactly(m.ok(got, 200).Items, func(v borderView) string { return v.WebhookID }, ids, newest)
	return nil
}

// webhookMove is the move of a route of one webhook, which records an action, "" for none.
func webhookMove(route, body, action string) func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	return func(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
		o, h := m.anyOwner(), &modelWebhook{id: unknownID}
		if o != nil && len(o.webhooks) == 0 {
			o = nil
		}
		if o != nil {
			h = pick(m.r, o.webhooks, "webhook")
		}
		sent := strings.ReplaceAll(body, "{now}", m.began.Format(time.RFC3339))
		got := m.send(who, op.Method, "/v1/merchant/webhooks/"+h.id+route, sent)
		switch {
		case !m.served(got, op, who, o):
			return nil
		case action == "delete":
			require.Equal(m.r, 204, got.status, "%s", got.body)
			o.webhooks = slices.DeleteFunc(o.webhooks, func(of *modelWebhook) bool { return of == h })
			m.recorded(who, o, "webhook", h.id, "webhook.delete")
			return o
		case action == "replay" && h.state != "active":
			m.refused(got, "state_conflict")
			return nil
		case action == "patch":
			h.state = "off"
		}
		if v := m.ok(got, 200); op.ID != "testWebhook" && op.ID != "listDeliveries" {
			require.Equal(m.r, []string{h.id, o.merchant, h.state}, []string{v.WebhookID, v.MerchantID, v.State})
		}
		if action != "" {
			m.recorded(who, o, "webhook", h.id, "webhook."+action)
		}
		return o
	}
}

// refundMove calls a route of the refunds, which belong to the order service and are for operators only.
func refundMove(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	id := pick(m.r, []string{refundID, unknownID}, "refund")
	got := m.send(who, op.Method, strings.Replace(op.Path, "{refund_id}", id, 1), borderCases[op.ID].body)
	switch {
	case !who.operator:
		m.refused(got, "forbidden")
	case strings.Contains(op.Path, "{refund_id}") && id != refundID:
		m.refused(got, "not_found")
	default:
		require.Equal(m.r, 200, got.status, "%s", got.body)
	}
	return nil
}

// limitMove calls a route of the limits, which belong to no merchant.
func limitMove(m *borderWorld, op apitest.Operation, who borderCaller) *owner {
	name := pick(m.r, []string{limitName, "no-such-limit"}, "limit")
	call := func() response {
		return m.send(who, op.Method, strings.Replace(op.Path, "{limit_name}", name, 1), borderCases[op.ID].body)
	}
	got := call()
	// A call to the Redis of the limits has 50 ms; after 503 it may be repeated.
	for range 20 {
		if got.status != http.StatusServiceUnavailable {
			break
		}
		got = call()
	}
	if !who.operator {
		m.refused(got, "forbidden")
		return nil
	}
	switch {
	case op.ID != "listLimits" && name != limitName, op.ID == "tryLimit" && got.status != 200: // it may be deleted
		m.refused(got, "not_found")
	default:
		require.Equal(m.r, 200, got.status, "%s", got.body)
		require.True(m.r, json.Valid(got.body))
	}
	return nil
}
