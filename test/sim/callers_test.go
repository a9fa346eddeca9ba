package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

// caller is a buyer, merchant or operator with a token and an HTTP client.
type caller struct {
	w      *world
	id     string
	r      *rand.Rand
	client *http.Client
	token  string
}

func (w *world) newCaller(id, who string, roles ...auth.Role) (*caller, error) {
	token, err := auth.Mint(settings.DevelopmentAuthSecret, auth.Identity{UserID: id, Roles: roles}, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	return &caller{
		w: w, id: id, r: rng(w.seed, "person "+id), token: token,
		client: &http.Client{Transport: &wire{w: w, who: who}, Timeout: 15 * time.Second},
	}, nil
}

// response is the outcome of a call; status 0 means that there was no response.
type response struct {
	status int
	code   string
	raw    []byte
}

// clear reports whether the outcome of the call is known.
func (a response) clear() bool {
	return a.status != 0 && a.status < 500 && a.status != http.StatusTooManyRequests
}

func (a response) into(dst any) error { return json.Unmarshal(a.raw, dst) }

func (b *caller) call(method, url, key string, body any) response {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, url, reader)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	if strings.HasPrefix(req.URL.Path, "/internal/") {
		auth.SignInternal(req, settings.DevelopmentInternalSecret)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	began := time.Now()
	res, err := b.client.Do(req)
	if err != nil {
		return response{}
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return response{}
	}
	a := response{status: res.StatusCode, raw: raw}
	if res.StatusCode >= 400 {
		var problem struct {
			Code string `json:"code"`
		}
		_ = json.Unmarshal(raw, &problem)
		a.code = problem.Code
	}
	if a.code == string(contract.CodeProviderBusy) {
		coverage.end("payment waits for its turn at the provider")
	}
	if a.status == http.StatusInternalServerError && !b.w.unreadableSince(began) {
		b.w.fail("%s %s: response 500: %s", method, url, raw) // an unavailable dependency is 503
	}
	return a
}

// insist calls until the outcome is known, at most so many times.
func (b *caller) insist(method, url, key string, body any, most int) response {
	var a response
	for range most {
		if a = b.call(method, url, key, body); a.clear() {
			return a
		}
		b.sleep(200*time.Millisecond, 2*time.Second)
	}
	return a
}

func (b *caller) sleep(least, most time.Duration) {
	time.Sleep(least + time.Duration(b.r.Int64N(int64(most-least)+1)))
}

// purchase is one order_sn and the results that its buyer read.
type purchase struct {
	orderSN, user string
	activity      *activity
	lines         []contract.Line
	accepted      time.Time // time of the first 202; zero if there was none
	posted        time.Time // time of the first attempt
	statuses      []string  // in the order in which they were read, each once
}

func (p *purchase) last() string {
	if len(p.statuses) == 0 {
		return ""
	}
	return p.statuses[len(p.statuses)-1]
}

// stageOf holds the stages of entries by the final status that their buyers read.
var stageOf = map[string]string{"paid": "p", "closed": "x", "failed": "f"}

var rank = map[string]int{"": 0, "queued": 1, "created": 2, "paid": 3, "closed": 3, "failed": 3}

// observe records a status and checks that it follows the earlier ones.
func (w *world) observe(p *purchase, status string) {
	w.mu.Lock()
	before := p.last()
	if before == status {
		w.mu.Unlock()
		return
	}
	if rank[status] < rank[before] && w.mayFall(p.orderSN, status) {
		w.mu.Unlock()
		w.history.note(p.user, "reads an earlier status", p.orderSN, status)
		return
	}
	p.statuses = append(p.statuses, status)
	w.mu.Unlock()
	w.history.note(p.user, "reads", p.orderSN, status)
	if w.mayTurn(p.orderSN, stageOf[before], stageOf[status]) {
		return
	}
	if rank[status] == 0 || rank[status] <= rank[before] || before == "created" && status == "failed" {
		w.concern(p.orderSN)
		w.fail("order_sn %s: status %q after %q", p.orderSN, status, before)
	}
}

// activity is one activity of the sale.
type activity struct {
	id    string
	skus  []string
	stock []int64 // units of each SKU at the start
	ends  time.Time
}

// openSale creates and publishes an activity with that stock.
func (w *world) openSale(stock []int64) (*activity, error) {
	w.opened++
	m, err := w.newCaller("merchant", "merchant", auth.Merchant)
	if err != nil {
		return nil, err
	}
	act := &activity{stock: stock}
	type sku struct {
		Name      string `json:"name"`
		ListPrice int64  `json:"list_price"`
		Currency  string `json:"currency"`
	}
	var wanted []sku
	for i := range stock {
		wanted = append(wanted, sku{fmt.Sprintf("sku %d", i), w.sale.price, "CNY"})
	}
	a := m.insist(http.MethodPost, "http://inventory/v1/merchant/products", "",
		map[string]any{"name": "thing", "skus": wanted}, 50)
	var product struct {
		SKUs []struct {
			ID string `json:"sku_id"`
		} `json:"skus"`
	}
	if err := a.into(&product); a.status != http.StatusCreated || err != nil {
		return nil, fmt.Errorf("product: %d %s", a.status, a.raw)
	}
	type item struct {
		SKU   string `json:"sku_id"`
		Price int64  `json:"price"`
		Stock int64  `json:"stock"`
	}
	var items []item
	for i, s := range product.SKUs {
		act.skus = append(act.skus, s.ID)
		items = append(items, item{s.ID, w.sale.price, stock[i]})
	}
	starts := time.Now().UTC().Add(w.sale.lead())
	act.ends = starts.Add(w.sale.window + time.Second)
	body := map[string]any{
		"title": "sale", "starts_at": starts, "ends_at": act.ends,
		"per_user_limit": w.sale.limit, "pay_within_s": int(w.sale.payWithin / time.Second), "items": items,
	}
	if r := w.sale.redisless; r.happens() {
		body["degraded_sale"] = map[string]any{"per_second": r.perSecond, "drop": r.drop, "reserve": r.reserve}
	}
	if w.sale.room.happens() {
		body["waiting_room"] = map[string]any{"admit_per_second": w.sale.room.rate}
	}
	if w.sale.challenge {
		body["captcha"], body["captcha_difficulty"] = contract.ChallengePow, 1
	}
	a = m.insist(http.MethodPost, "http://inventory/v1/merchant/activities", "", body, 50)
	var made struct {
		ID string `json:"activity_id"`
	}
	if err := a.into(&made); a.status != http.StatusCreated || err != nil {
		return nil, fmt.Errorf("activity: %d %s", a.status, a.raw)
	}
	a = m.insist(http.MethodPost, "http://inventory/v1/merchant/activities/"+made.ID+"/publish", "", nil, 50)
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("publish: %d %s", a.status, a.raw)
	}
	act.id = made.ID
	return act, nil
}

// runMerchant adjusts stock, pauses, resumes and ends an activity while it runs.
func (w *world) runMerchant(n int) {
	act := w.activities[n]
	skus := act.skus
	m, err := w.newCaller("merchant"+strconv.Itoa(2+n), "merchant", auth.Merchant)
	if err != nil {
		w.fail("merchant: %v", err)
		return
	}
	base := "http://inventory/v1/merchant/activities/" + act.id
	paused := false
	actions := m.r.IntN(7)
	if w.sale.pauses {
		actions = 4
	}
	if w.sale.adjusts || w.sale.edits {
		actions = 8
	}
	for n := range actions {
		m.sleep(0, w.sale.window/3)
		if w.plan.ended() {
			break
		}
		what := m.r.IntN(10)
		if w.sale.pauses {
			what = 7
		}
		if w.sale.adjusts {
			what %= 7
		}
		if w.sale.edits {
			m.insist(http.MethodPatch, base, "", map[string]any{"title": "title " + strconv.Itoa(n)}, 1+m.r.IntN(20))
			continue
		}
		switch what {
		case 0, 1, 2, 3:
			m.insist(http.MethodPost, base+"/stock-adjustments", "adjust-"+strconv.Itoa(n), map[string]any{
				"sku_id": skus[m.r.IntN(len(skus))], "delta": 1 + m.r.IntN(4), "reason": m.id + " more " + strconv.Itoa(n),
			}, 1+m.r.IntN(20))
		case 4, 5, 6:
			m.insist(http.MethodPost, base+"/stock-adjustments", "adjust-"+strconv.Itoa(n), map[string]any{
				"sku_id": skus[m.r.IntN(len(skus))], "delta": -1 - m.r.IntN(4), "reason": m.id + " less " + strconv.Itoa(n),
			}, 1+m.r.IntN(20))
		case 7, 8:
			verb := "/pause"
			if paused {
				verb = "/resume"
			}
			paused = !paused
			w.noteDecision(act, verb, m.insist(http.MethodPost, base+verb, "", nil, 1+m.r.IntN(20)))
		case 9:
			w.noteDecision(act, "/end", m.insist(http.MethodPost, base+"/end", "", nil, 1+m.r.IntN(20)))
		}
	}
}

// decision is the state that a merchant gave an activity, and its version then.
type decision struct {
	state   string
	version int64
}

// noteDecision notes a decision that the merchant has read to be made.
func (w *world) noteDecision(act *activity, verb string, a response) {
	var made struct{ Version int64 }
	if a.status != http.StatusOK || a.into(&made) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if made.Version > w.decided[act.id].version {
		state := map[string]string{"/pause": "paused", "/resume": "published", "/end": "ended"}[verb]
		w.decided[act.id] = decision{state, made.Version}
	}
}

// runBuyer makes one to three purchases of one buyer, in any of the activities.
func (w *world) runBuyer(n int) {
	b, err := w.newCaller("u"+strconv.Itoa(n), "buyer")
	if err != nil {
		w.fail("buyer: %v", err)
		return
	}
	b.joinEarly()
	time.Sleep(time.Until(w.selling.Add(time.Second)))
	for range 1 + b.r.IntN(3) {
		b.sleep(0, w.sale.window*2/3)
		b.buy(w.activities[b.r.IntN(len(w.activities))], 0)
	}
}

// buy makes one purchase and follows it to its end. qty 0 means a random quantity.
func (b *caller) buy(act *activity, qty int64) {
	w, skus := b.w, act.skus
	base := "http://seckill/v1/activities/" + act.id
	entry, entered := b.enter(act)
	if !entered {
		return
	}
	a := b.insist(http.MethodPost, base+"/paths", "", entry, 12)
	if a.status != http.StatusCreated {
		return
	}
	w.watchPath(act, b.id, entry.RoomTicket)
	var path struct {
		Path    string `json:"path"`
		OrderSN string `json:"order_sn"`
	}
	if err := a.into(&path); err != nil {
		w.fail("path: %v", err)
		return
	}
	lines := []contract.Line{{SKUID: skus[b.r.IntN(len(skus))], Qty: 1 + b.r.Int64N(w.sale.limit)}}
	if qty > 0 {
		lines[0].Qty = qty
	} else if len(skus) > 1 && b.r.IntN(4) == 0 {
		lines = []contract.Line{{SKUID: skus[0], Qty: 1}, {SKUID: skus[1], Qty: 1}}
	}
	type wire struct {
		SKU string `json:"sku_id"`
		Qty int64  `json:"qty"`
	}
	var body []wire
	for _, l := range lines {
		body = append(body, wire{l.SKUID, l.Qty})
	}
	p := &purchase{orderSN: path.OrderSN, user: b.id, activity: act, lines: lines}
	w.mu.Lock()
	other := w.purchases[p.orderSN]
	w.purchases[p.orderSN] = p
	w.mu.Unlock()
	if other != nil {
		w.concern(p.orderSN)
		w.fail("order_sn %s was issued to %s and to %s", p.orderSN, other.user, p.user)
	}
	post := func() response {
		w.notePosted(p)
		if at := w.sale.together; at > 0 {
			time.Sleep(time.Until(time.Now().Truncate(at).Add(at)))
		}
		a := b.call(http.MethodPost, base+"/paths/"+path.Path+"/reservations", "", map[string]any{"lines": body})
		if a.status == http.StatusAccepted {
			var got struct {
				OrderSN string `json:"order_sn"`
				Status  string `json:"status"`
			}
			if err := a.into(&got); err != nil || got.OrderSN != p.orderSN {
				w.concern(p.orderSN)
				w.fail("order_sn %s: response %s", p.orderSN, a.raw)
			}
			w.mu.Lock()
			if p.accepted.IsZero() {
				p.accepted = time.Now()
			}
			w.mu.Unlock()
			w.watchAccepted(p)
			w.watchRedisless(p)
			w.observe(p, got.Status)
		}
		return a
	}
	for range 1 + b.r.IntN(25) {
		if a = post(); a.clear() {
			break
		}
		b.sleep(200*time.Millisecond, 1500*time.Millisecond)
	}
	switch {
	case a.status == http.StatusAccepted:
	case a.code == string(contract.CodePathExpired): // the buyer has reserved since the path was issued
		return
	case a.clear() && a.status != http.StatusConflict:
		w.concern(p.orderSN)
		w.fail("order_sn %s: response to the purchase: %d %s", p.orderSN, a.status, a.raw)
		return
	default:
		return // refused, or without a response
	}
	b.follow(base, p, func() { post() })
}

// reservation reads the result. known is false without a response.
func (b *caller) reservation(base string, p *purchase) (status string, found, known bool) {
	a := b.call(http.MethodGet, base+"/reservations/"+p.orderSN, "", nil)
	switch a.status {
	case http.StatusOK:
		var got struct {
			Status string `json:"status"`
		}
		if err := a.into(&got); err != nil {
			b.w.fail("result of %s: %s", p.orderSN, a.raw)
		}
		return got.Status, true, true
	case http.StatusNotFound:
		return "", false, true
	}
	return "", false, false
}

// follow polls the result, acts on it, and sometimes acts after the end too.
func (b *caller) follow(base string, p *purchase, post func()) {
	w := b.w
	acted, hasty := false, b.r.IntN(4) == 0
	behaviour := b.r.IntN(14)
	if w.sale.behaviour > 0 && b.r.IntN(2) == 0 {
		behaviour = w.sale.behaviour
	}
	for polls := 0; polls < 400; polls++ {
		b.sleep(300*time.Millisecond, 1500*time.Millisecond)
		status, found, known := b.reservation(base, p)
		if known && !found && !w.mayBeMissing(p.orderSN) {
			w.concern(p.orderSN)
			w.fail("order_sn %s: not found after 202", p.orderSN)
			return
		}
		if !found {
			if w.plan.ended() && known && w.isLost(p.orderSN) && polls > 60 {
				return
			}
			continue
		}
		w.observe(p, status)
		if b.r.IntN(10) == 0 && rank[status] < 3 {
			post() // a reload of the page
		}
		if !acted && (status == "created" || hasty && status == "queued" && b.hasOrder(p)) {
			acted = true
			b.act(p, behaviour)
		}
		if rank[status] == 3 {
			if b.r.IntN(3) == 0 {
				post()
			}
			if behaviour%3 == 0 {
				b.act(p, behaviour) // too late
			}
			return
		}
	}
}

// hasOrder reports whether the order service has the order. It may have it before the gate is updated.
func (b *caller) hasOrder(p *purchase) bool {
	return b.call(http.MethodGet, "http://order/v1/orders/"+p.orderSN, "", nil).status == http.StatusOK
}

const (
	payCancelled  = 9  // starts a payment, cancels, and pays nevertheless
	beginAndLeave = 10 // starts a payment and does not finish it
	payAfterLoss  = 12 // starts a payment, cancels, order's database loses that, and pays
)

// act pays, cancels or does neither, in one of the ways of buyers and providers.
func (b *caller) act(p *purchase, behaviour int) {
	order := "http://order/v1/orders/" + p.orderSN
	pay := func(key string) string {
		a := b.insist(http.MethodPost, order+"/payments", p.orderSN+key, map[string]any{"provider": b.w.providerName()}, 10)
		var got struct {
			ID  string `json:"payment_id"`
			URL string `json:"pay_url"`
		}
		if a.status != http.StatusCreated || a.into(&got) != nil {
			return ""
		}
		if b.w.sale.provider.happens() {
			b.w.checkout.open(got.ID, got.URL)
		}
		return got.ID
	}
	play := func(payment, outcome string, amount int64) {
		if payment == "" {
			return
		}
		body := map[string]any{"outcome": outcome}
		if amount != 0 {
			body["amount"] = amount
		}
		lost := outcome == "succeeded" && b.w.sale.compares && b.r.IntN(3) == 0
		if b.w.sale.provider.happens() {
			b.w.checkout.play(b, payment, outcome, amount, lost)
			return
		}
		if lost {
			b.w.loseSuccess(payment, amount)
			return
		}
		a := b.insist(http.MethodPost, "http://order/v1/payments/"+payment+"/sandbox", "", body, 10)
		if a.status == http.StatusAccepted && outcome == "succeeded" {
			b.w.mu.Lock()
			b.w.played[payment] = amount
			b.w.mu.Unlock()
		}
	}
	switch behaviour {
	case 0, 1, 2, 3: // at once
		play(pay("a"), "succeeded", 0)
	case 4: // at the last moment, or later
		id := pay("a")
		time.Sleep(b.w.sale.payWithin - time.Second + time.Duration(b.r.IntN(5000))*time.Millisecond)
		play(id, "succeeded", 0)
	case 5: // twice
		one, two := pay("a"), pay("b")
		play(one, "succeeded", 0)
		play(two, "succeeded", 0)
	case 6: // a wrong amount, then the right one
		play(pay("a"), "succeeded", b.w.sale.price/2)
		if b.r.IntN(2) == 0 {
			play(pay("b"), "succeeded", 0)
		}
	case 7: // the first attempt fails
		id := pay("a")
		play(id, "failed", 0)
		if b.r.IntN(2) == 0 {
			play(id, "succeeded", 0)
		}
	case 8: // cancelled
		b.insist(http.MethodPost, order+"/cancel", "", nil, 10)
		if b.r.IntN(2) == 0 {
			play(pay("a"), "succeeded", 0)
		}
	case payCancelled:
		id := pay("a")
		b.insist(http.MethodPost, order+"/cancel", "", nil, 10)
		play(id, "succeeded", 0)
	case beginAndLeave:
		pay("a")
	case payAfterLoss:
		id := pay("a")
		a := b.insist(http.MethodPost, order+"/cancel", "", nil, 10)
		if id != "" && a.status == http.StatusOK && b.w.loseClosing(p.orderSN) {
			play(id, "succeeded", 0)
		}
	}
}

func (p *plan) ended() bool { return !time.Now().Before(p.end()) }

func short(raw []byte) string { return strings.TrimSpace(string(raw)) }
