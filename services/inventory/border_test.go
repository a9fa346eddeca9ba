package inventory

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/apitest"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
)

var borderCalls = flag.Int("border.calls", quickCalls,
	"least calls of TestMerchantsAreSeparate, of which -short makes a third (-rapid.seed repeats a run)")

const (
	quickCalls    = 10_200
	callsPerWorld = 720 // three of each operation by each of four callers
	leastCalls    = 200 // of each operation: in quickCalls by any caller, in 100,000 by callers with the role for it
	quotaLive     = 2   // live activities of a merchant of a world
	quotaSKUs     = 8   // SKUs of a merchant of a world; few, so that calls meet the quota
	unknownID     = "4242424242"
)

// Whatever two merchants and an operator do, no merchant reads or changes what belongs to another, and each gets what
// is their own. A model beside the real store holds who owns what. The test draws callers, routes, objects and bodies.
func TestMerchantsAreSeparate(t *testing.T) {
	seed := flag.Lookup("rapid.seed").Value.String()
	if seed == "0" {
		seed = fmt.Sprint(rand.Uint64() >> 1)
	}
	t.Logf("seed %s: repeat with -rapid.seed=%s", seed, seed)
	worlds := max(1, (*borderCalls+callsPerWorld-1)/callsPerWorld)
	if testing.Short() {
		worlds = max(1, worlds/3)
	}
	orders := newLookups(t)
	s := newBorderShop(t, func(c *Config) { c.OrderURL = orders.url })
	s.withQuotas(quotaLive, quotaSKUs)
	s.svc.board.StreamFor = time.Millisecond
	b := &border{shop: s, orders: orders, ops: apitest.Operations(t, openAPI), texts: rowTexts(t, s.db), calls: map[string]map[string]int{}}
	require.Zero(t, callsPerWorld%(4*len(b.ops)), "each world makes the same number of calls by each caller to each operation")
	setFlag(t, "rapid.seed", seed)
	setFlag(t, "rapid.checks", checks(worlds))
	rapid.Check(t, b.play)
	b.report(t, worlds)
}

func setFlag(t *testing.T, name, value string) {
	before := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, value))
	t.Cleanup(func() { _ = flag.Set(name, before) })
}

// border is the service and the counts of calls by operation and caller.
type border struct {
	*shop
	orders *lookups
	ops    []apitest.Operation
	texts  map[string]string // SQL of a row as text, by table
	worlds int
	calls  map[string]map[string]int
}

// report prints the counts. It fails if an operation was called too rarely: each world calls each operation twelve
// times, nine times with the role for it, or three times if it is for operators only.
func (b *border) report(t *testing.T, worlds int) {
	for _, op := range b.ops {
		all, allowed := 0, 0
		for kind, of := range b.calls[op.ID] {
			all += of
			if kind == "operator" || kind == "merchant" && !borderCases[op.ID].operators {
				allowed += of
			}
		}
		t.Logf("%-20s %6d calls, %6d with the role for it, %v", op.ID, all, allowed, b.calls[op.ID])
		least := worlds * callsPerWorld / len(b.ops) // rapid may repeat an earlier failure besides
		require.GreaterOrEqual(t, all, least, op.ID)
		callers := map[bool]int{true: 1, false: 3}[borderCases[op.ID].operators] // with the role, of four
		require.GreaterOrEqual(t, allowed, least/4*callers, op.ID)
		if worlds*callsPerWorld >= quickCalls {
			require.GreaterOrEqual(t, all, leastCalls, op.ID)
		}
		if worlds*callsPerWorld >= 100_000 {
			require.GreaterOrEqual(t, allowed, leastCalls, op.ID)
		}
	}
}

// borderCall is an operation and its caller.
type borderCall struct {
	op  apitest.Operation
	who borderCaller
}

// borderWorld is one run of the model: new merchants and their callers.
type borderWorld struct {
	*border
	r       *rapid.T
	owners  []*owner
	callers []borderCaller
	began   time.Time         // by the time of the database
	orphan  string            // a dead letter without an activity
	rows    map[*owner]string // as last read
}

// owner is a merchant in the model. Every text that is stored for a merchant contains the merchant's id.
type owner struct {
	merchant    string
	profile     int // its version
	products    []*modelProduct
	byRef       *modelProduct // with the ref SHARED; nil: none
	activities  []*modelActivity
	deadLetters []*modelDeadLetter
	webhooks    []*modelWebhook
}

type modelWebhook struct{ id, state string }

type modelProduct struct {
	id       string
	skus     []string
	archived bool
}

type modelActivity struct {
	id, state, sku string
	order          string            // the purchase that landed; "" without one
	keys           map[string]string // Idempotency-Keys that were used, with caller: their bodies
	reconciled     int               // how often an operator reconciled it
}

type modelDeadLetter struct {
	id       string
	rejected bool
}

type borderCaller struct {
	kind, user, merchant, token string
	operator, buyer             bool
}

func (c borderCaller) sees(o *owner) bool {
	return o != nil && (c.operator || !c.buyer && c.merchant == o.merchant)
}

// pick draws an element. Its index is what a failure prints.
func pick[T any](r *rapid.T, list []T, what string) T {
	return list[rapid.IntRange(0, len(list)-1).Draw(r, what)]
}

func (b *border) play(r *rapid.T) {
	b.worlds++
	m := &borderWorld{border: b, r: r}
	var err error
	m.began, err = b.svc.store.Now(b.t.Context())
	require.NoError(r, err)
	for i := range 3 {
		m.owners = append(m.owners, &owner{merchant: fmt.Sprintf("merchant-%d-%c", b.worlds, 'a'+i)})
	}
	// The same user works for both merchants. The operator has a merchant too.
	m.addCaller(borderCaller{kind: "merchant", user: "clerk", merchant: m.owners[0].merchant}, auth.Merchant)
	m.addCaller(borderCaller{kind: "merchant", user: "clerk", merchant: m.owners[1].merchant}, auth.Merchant)
	m.addCaller(borderCaller{kind: "operator", user: "op", merchant: m.owners[2].merchant, operator: true}, auth.Operator)
	m.addCaller(borderCaller{kind: "buyer", user: "clerk", buyer: true})
	for i := range m.owners {
		m.prepare(i)
	}
	for _, who := range m.callers[:len(m.owners)] {
		m.newWebhook(who)
	}
	m.orphan = m.addDeadLetter("", "without an activity")
	m.rows = m.readRows()
	var calls []borderCall
	for len(calls) < callsPerWorld {
		for _, op := range b.ops {
			for _, who := range m.callers {
				calls = append(calls, borderCall{op, who})
			}
		}
	}
	order := make([]int, len(calls))
	for i := range order {
		order[i] = i
	}
	for _, i := range rapid.Permutation(order).Draw(r, "order of calls") {
		m.step(calls[i].op, calls[i].who)
	}
}

func (m *borderWorld) addCaller(c borderCaller, roles ...auth.Role) {
	c.token = m.mintFor(c.merchant, c.user, roles...)
	m.callers = append(m.callers, c)
}

// prepare gives a merchant a published activity with a purchase, and a dead letter. The first merchant also gets a
// second one, and so has as many live ones as the quota allows, and a draft: few calls would meet the quota otherwise.
func (m *borderWorld) prepare(i int) {
	o, who := m.owners[i], m.callers[i]
	p := m.newProduct(who, 2)
	require.NotNil(m.r, p)
	a := m.newPublished(who, p.skus[0])
	if i == 0 {
		m.newPublished(who, p.skus[1])
		require.NotNil(m.r, m.newActivity(who, p.skus[1]))
	}
	line := contract.Line{SKUID: a.sku, Qty: 1}
	a.order = newSN()
	it := contract.Reservation{
		OrderSN: a.order, UserID: "buyer-" + o.merchant, ActivityID: a.id, Lines: []contract.Line{line}, ReservedAt: m.svc.deps.Now().UTC(),
	}
	m.orders.set(a.order, fmt.Sprintf(`"state":"paid","amount":1,"currency":"EUR",`+
		`"contact":{"name":"buyer","phone":"+15550100","address_lines":["street of %s"]}`, o.merchant))
	m.orders.show(a.order, fmt.Sprintf(`{"user_id":%q,"activity_id":%q,"state":"paid","amount":1,"currency":"EUR",`+
		`"contact":{"name":"buyer","phone":"+15550100","address_lines":["street of %s"]}}`, it.UserID, a.id, o.merchant))
	ctx := m.t.Context()
	verdicts, err := m.gate.Reserve(ctx, a.id,
		[]stockgate.Request{{OrderSN: a.order, UserID: it.UserID, Lines: it.Lines}})
	require.NoError(m.r, err)
	require.Equal(m.r, stockgate.Accepted, verdicts[0].Outcome)
	require.NoError(m.r, consumerOf(m.svc).Reservations(ctx, message(m.r, contract.TopicReservations, it)))
	o.deadLetters = append(o.deadLetters, &modelDeadLetter{id: m.addDeadLetter(a.id, o.merchant)})
}

func (m *borderWorld) newPublished(who borderCaller, sku string) *modelActivity {
	a := m.newActivity(who, sku)
	require.NotNil(m.r, a)
	require.Equal(m.r, 200, m.send(who, "POST", "/v1/merchant/activities/"+a.id+"/publish", "").status)
	a.state = "published"
	return a
}

// addDeadLetter adds a dead letter that holds no units.
func (m *borderWorld) addDeadLetter(activity, text string) (id string) {
	sn := newSN()
	require.NoError(m.r, m.svc.core.AddDeadLetters(m.t.Context(), []contract.DeadLetter{{
		Where: contract.GroupInventoryOrderEvents, Topic: contract.TopicOrderEvents, OrderSN: sn, ActivityID: activity, Why: text,
		Item: []byte(`{"order_sn":"` + sn + `"}`), At: m.svc.deps.Now(),
	}}))
	require.NoError(m.r, m.db.Table("dead_letters").Where("order_sn = ?", sn).Pluck("id", &id).Error)
	return id
}

// step makes one call. It checks that only the rows of the owner of the called object change. Reading the
// rows takes longer than the call, so it does so for only some of the calls that are refused because of the role.
func (m *borderWorld) step(op apitest.Operation, who borderCaller) {
	if m.calls[op.ID] == nil {
		m.calls[op.ID] = map[string]int{}
	}
	m.calls[op.ID][who.kind]++
	noRole := who.buyer || borderCases[op.ID].operators && !who.operator
	if op.Method == http.MethodGet || noRole && rapid.IntRange(0, 15).Draw(m.r, "reads rows") != 15 {
		borderMoves[op.ID](m, op, who)
		return
	}
	before := m.rows
	touched := borderMoves[op.ID](m, op, who)
	m.rows = m.readRows()
	for _, o := range m.owners {
		if o != touched {
			require.Equal(m.r, before[o], m.rows[o], "%s by %s %s changed rows of %s", op.ID, who.kind, who.merchant, o.merchant)
		}
	}
}

// readRows reads all rows that belong to the merchants according to the model, in one query.
func (m *borderWorld) readRows() map[*owner]string {
	owners := map[string]*owner{} // by kind and id of the object that a row belongs to
	var products, activities, paths, merchants, webhooks []string
	for _, o := range m.owners {
		merchants = append(merchants, o.merchant)
		owners["profile "+o.merchant] = o
		for _, created := range []string{"products", "activities"} {
			path := "/v1/merchant/" + created + "#" + o.merchant // as the keys of creations are stored
			paths, owners["path "+path] = append(paths, path), o
		}
		for _, p := range o.products {
			products = append(products, p.id)
			owners["product "+p.id] = o
		}
		for _, h := range o.webhooks {
			webhooks = append(webhooks, h.id)
			owners["webhook "+h.id] = o
		}
		for _, a := range o.activities {
			path := "/v1/merchant/activities/" + a.id + "/stock-adjustments"
			activities, paths = append(activities, a.id), append(paths, path)
			owners["activity "+a.id], owners["path "+path] = o, o
		}
	}
	var parts []string
	var values []any
	for _, q := range []struct {
		table, object, column, where string
		ids                          []string
	}{
		{"profiles", "profile", "merchant_id", "", merchants},
		{"changes", "profile", "merchant_id", "object = 'profile' AND ", merchants},
		{"products", "product", "id", "", products},
		{"skus", "product", "product_id", "", products},
		{"activities", "activity", "id", "", activities},
		{"stocks", "activity", "activity_id", "", activities},
		{"reservations", "activity", "activity_id", "", activities},
		{"allowances", "activity", "activity_id", "", activities},
		{"adjustments", "activity", "activity_id", "", activities},
		{"dead_letters", "activity", "activity_id", "", activities},
		{"idempotency_keys", "path", "path", "", paths},
		{"webhooks", "webhook", "id", "", webhooks},
		{"changes", "webhook", "object_id", "object = 'webhook' AND ", webhooks},
		{"changes", "product", "object_id", "object = 'product' AND ", products},
		{"changes", "activity", "object_id", "object = 'activity' AND ", activities},
	} {
		if len(q.ids) > 0 {
			parts = append(parts, fmt.Sprintf("SELECT CONCAT('%s ', %s) AS object, CONCAT('%s ', %s) AS line FROM %s WHERE %s%s IN ?",
				q.object, q.column, q.table, m.texts[q.table], q.table, q.where, q.column))
			values = append(values, q.ids)
		}
	}
	rows, err := m.db.Raw(strings.Join(parts, " UNION ALL ")+" ORDER BY line", values...).Rows()
	require.NoError(m.r, err)
	defer func() { _ = rows.Close() }()
	read := map[*owner]*strings.Builder{}
	for _, o := range m.owners {
		read[o] = &strings.Builder{}
	}
	for rows.Next() {
		var object, line string
		require.NoError(m.r, rows.Scan(&object, &line))
		require.Contains(m.r, owners, object)
		_, _ = fmt.Fprintln(read[owners[object]], line)
	}
	require.NoError(m.r, rows.Err())
	texts := map[*owner]string{}
	for o, text := range read {
		texts[o] = text.String()
	}
	return texts
}

// rowTexts returns an SQL expression for each table of a merchant's rows: the text of a row.
func rowTexts(t *testing.T, db *gorm.DB) map[string]string {
	texts := map[string]string{}
	for _, table := range []string{
		"profiles", "products", "skus", "activities", "stocks", "reservations", "allowances", "adjustments", "dead_letters",
		"idempotency_keys", "changes", "webhooks",
	} {
		rows, err := db.Table(table).Limit(0).Rows()
		require.NoError(t, err)
		columns, err := rows.Columns()
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		for i, c := range columns {
			columns[i] = "COALESCE(CAST(" + c + " AS CHAR), 'NULL')"
		}
		texts[table] = "CONCAT_WS('|', " + strings.Join(columns, ", ") + ")"
	}
	return texts
}

// send makes a call and checks that its response contains no text of a merchant whose objects the caller does not see.
func (m *borderWorld) send(who borderCaller, method, path, body string, header ...string) response {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	q := httptest.NewRequest(method, path, reader)
	q.Header.Set("Authorization", "Bearer "+who.token)
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	m.svc.Handler().ServeHTTP(w, q)
	got := response{w.Code, w.Header(), w.Body.Bytes()}
	for _, o := range m.owners {
		if !who.sees(o) && !strings.Contains(path, o.merchant) {
			require.NotContains(m.r, string(got.body), o.merchant, "%s %s as %s %s", method, path, who.kind, who.merchant)
		}
	}
	require.NotEqual(m.r, 500, got.status, "%s %s: %s", method, path, got.body)
	if who.buyer {
		require.Equal(m.r, "forbidden", got.code(), "%s %s: %s", method, path, got.body)
	}
	return got
}

// refused checks the code of a refusal.
func (m *borderWorld) refused(got response, code string) {
	require.Equal(m.r, code, got.code(), "%d %s", got.status, got.body)
}

// absent checks that a response is the same as for an object that does not exist.
func (m *borderWorld) absent(got response) {
	require.JSONEq(m.r, `{"type":"about:blank","title":"Not found","status":404,"code":"not_found","detail":"no such resource"}`, problemOf(got))
}

// ok checks the status and decodes the response.
func (m *borderWorld) ok(got response, status int) (v borderView) {
	require.Equal(m.r, status, got.status, "%s", got.body)
	require.NoError(m.r, json.Unmarshal(got.body, &v), "%s", got.body)
	return v
}

// borderView has the fields of all responses that name objects or owners.
type borderView struct {
	ProductID    string `json:"product_id"`
	ActivityID   string `json:"activity_id"`
	DeadLetterID string `json:"dead_letter_id"`
	WebhookID    string `json:"webhook_id"`
	MerchantID   string `json:"merchant_id"`
	OrderSN      string `json:"order_sn"`
	State        string `json:"state"`
	What         string `json:"what"`
	CreatedBy    string `json:"created_by"`
	Name         string `json:"name"`
	Version      int    `json:"version"`
	Used         int64  `json:"used"`
	SKUs         []struct {
		ID string `json:"sku_id"`
	} `json:"skus"`
	Items   []borderView `json:"items"`
	Results []struct {
		OrderSN string `json:"order_sn"`
		Outcome string `json:"outcome"`
	} `json:"results"`
}

// recorded checks the last entry of the change log for an object.
func (m *borderWorld) recorded(who borderCaller, o *owner, object, id, action string) {
	var last struct{ Who, Action, MerchantID string }
	require.NoError(m.r, m.db.Table("changes").Where("object = ? AND object_id = ?", object, id).Order("id DESC").Limit(1).Find(&last).Error)
	require.Equal(m.r, struct{ Who, Action, MerchantID string }{who.user, action, o.merchant}, last)
}

// anyOwner draws the owner of the object to call; nil stands for an object that does not exist.
func (m *borderWorld) anyOwner() *owner {
	return pick(m.r, []*owner{m.owners[0], m.owners[1], m.owners[2], nil}, "owner")
}

func (m *borderWorld) anyProduct() (*owner, *modelProduct) {
	if o := m.anyOwner(); o != nil {
		return o, pick(m.r, o.products, "product")
	}
	return nil, &modelProduct{id: unknownID}
}

func (m *borderWorld) anyActivity() (*owner, *modelActivity) {
	if o := m.anyOwner(); o != nil {
		return o, pick(m.r, o.activities, "activity")
	}
	return nil, &modelActivity{id: unknownID, sku: unknownID}
}

// anySKU draws a SKU and its owner.
func (m *borderWorld) anySKU() (*owner, string) {
	o, p := m.anyProduct()
	if o == nil {
		return nil, unknownID
	}
	return o, pick(m.r, p.skus, "sku")
}

func (m *borderWorld) ownerOf(merchant string) *owner {
	for _, o := range m.owners {
		if o.merchant == merchant {
			return o
		}
	}
	return nil
}

// name returns the merchant of an object, for the texts of a call; "none" for an object that does not exist.
func (o *owner) name() string {
	if o == nil {
		return "none"
	}
	return o.merchant
}

func (o *owner) live() (n int64) {
	for _, a := range o.activities {
		if a.state == "published" || a.state == "paused" {
			n++
		}
	}
	return n
}

func (o *owner) countSKUs() (n int) {
	for _, p := range o.products {
		n += len(p.skus)
	}
	return n
}

// newProduct creates a product of n SKUs, if the caller may.
func (m *borderWorld) newProduct(who borderCaller, n int) *modelProduct {
	skus := make([]string, n)
	for i := range skus {
		skus[i] = fmt.Sprintf(`{"name":"sku of %s","list_price":1,"currency":"EUR"}`, who.merchant)
	}
	got := m.send(who, "POST", "/v1/merchant/products",
		fmt.Sprintf(`{"name":"product of %s","skus":[%s]}`, who.merchant, strings.Join(skus, ",")))
	o := m.ownerOf(who.merchant)
	switch {
	case o == nil:
		m.refused(got, "forbidden")
		return nil
	case o.countSKUs()+n > quotaSKUs:
		m.refused(got, "quota_exceeded")
		require.EqualValues(m.r, o.countSKUs(), m.ok(got, 409).Used)
		return nil
	}
	v := m.ok(got, 201)
	require.Equal(m.r, o.merchant, v.MerchantID)
	p := &modelProduct{id: v.ProductID}
	for _, k := range v.SKUs {
		p.skus = append(p.skus, k.ID)
	}
	o.products = append(o.products, p)
	m.recorded(who, o, "product", p.id, "product.create")
	return p
}

// newActivity creates an activity that sells a SKU, if the caller may.
func (m *borderWorld) newActivity(who borderCaller, sku string) *modelActivity {
	got := m.send(who, "POST", "/v1/merchant/activities", strings.Replace(activityBody(sku, 100), `"Sale"`, `"sale of `+who.merchant+`"`, 1))
	o := m.ownerOf(who.merchant)
	switch {
	case o == nil:
		m.refused(got, "forbidden")
		return nil
	case !o.has(sku):
		m.unknownSKU(got)
		return nil
	case o.archived(sku):
		m.archivedSKU(got)
		return nil
	}
	v := m.ok(got, 201)
	require.Equal(m.r, o.merchant, v.MerchantID)
	a := &modelActivity{id: v.ActivityID, state: "draft", sku: sku, keys: map[string]string{}}
	o.activities = append(o.activities, a)
	m.recorded(who, o, "activity", a.id, "activity.create")
	return a
}

func (o *owner) has(sku string) bool {
	return slices.ContainsFunc(o.products, func(p *modelProduct) bool { return slices.Contains(p.skus, sku) })
}

// archived reports whether the product of a SKU is archived.
func (o *owner) archived(sku string) bool {
	return slices.ContainsFunc(o.products, func(p *modelProduct) bool { return p.archived && slices.Contains(p.skus, sku) })
}

// archivedSKU checks the refusal of a SKU whose product is archived.
func (m *borderWorld) archivedSKU(got response) {
	m.refused(got, "invalid_request")
	require.Equal(m.r, "items[0].sku_id", got.field())
}

// unknownSKU checks that a response is the same as for a SKU that does not exist.
func (m *borderWorld) unknownSKU(got response) {
	require.JSONEq(m.r, `{"type":"about:blank","title":"The request is not valid","status":400,"code":"invalid_request",`+
		`"detail":"items[0].sku_id: no such SKU","errors":[{"field":"items[0].sku_id","message":"no such SKU"}]}`, problemOf(got))
}

// list calls a list with a drawn merchant_id, if any. It returns the owners whose objects it must show, ok = false if
// the call was refused as it must be. newest reports that the list shows objects of other worlds too.
func (m *borderWorld) list(who borderCaller, path string) (got response, shown []*owner, newest, ok bool) {
	filter := pick(m.r, []string{"none", "first", "second", "malformed"}, "merchant_id")
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	named := map[string]string{"first": m.owners[0].merchant, "second": m.owners[1].merchant, "malformed": "a:b"}[filter]
	if filter != "none" {
		path += separator + "merchant_id=" + named
	}
	got = m.send(who, "GET", path, "")
	switch {
	case who.buyer:
		return got, nil, false, false
	case filter == "none" && who.operator:
		return got, m.owners, true, true
	case filter == "none":
		return got, []*owner{m.ownerOf(who.merchant)}, false, true
	case filter == "malformed":
		m.refused(got, "invalid_request")
		return got, nil, false, false
	case !who.operator && named != who.merchant:
		m.refused(got, "forbidden")
		return got, nil, false, false
	}
	return got, []*owner{m.ownerOf(named)}, false, true
}

// showsExactly checks a list against the model: ids maps each object that must be in it to its merchant.
func (m *borderWorld) showsExactly(items []borderView, id func(borderView) string, ids map[string]string, newest bool) {
	found := map[string]string{}
	for _, it := range items {
		found[id(it)] = it.MerchantID
	}
	if newest { // the page goes on with objects of other worlds
		for k := range found {
			if _, ok := ids[k]; !ok {
				delete(found, k)
			}
		}
	}
	require.Less(m.r, len(ids), 100, "one page")
	require.Equal(m.r, ids, found, "%v", slices.Sorted(maps.Keys(ids)))
}
