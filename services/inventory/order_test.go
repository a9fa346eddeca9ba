package inventory

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

type orderPage struct {
	SN        string  `json:"order_sn"`
	Title     string  `json:"activity_title"`
	User      string  `json:"user_id"`
	State     string  `json:"state"`
	Reason    string  `json:"reason"`
	Order     *string `json:"order_state"`
	Why       string  `json:"close_reason"`
	Amount    *int64  `json:"amount"`
	Digits    *int64  `json:"currency_digits"`
	CreatedAt string  `json:"created_at"`
	Lines     []struct {
		SKU   string `json:"sku_id"`
		Qty   int64
		Name  string
		Price *int64 `json:"unit_price"`
	}
	Contact  *struct{ Name, Phone string }
	Payments []map[string]any
	Refunds  []map[string]any
	Changes  []struct {
		What, Actor, Role string
		Details           map[string]string
	}
}

// did returns the changes of a page, one in a line.
func (p orderPage) did() (list []string) {
	for _, c := range p.Changes {
		line := c.What
		if c.Actor != "" {
			line += " by " + c.Role + " " + c.Actor
		}
		if len(c.Details) > 0 {
			details, _ := json.Marshal(c.Details)
			line += " " + string(details)
		}
		list = append(list, line)
	}
	return list
}

// orderShop is a shop with a sale, and a fake of the order service.
type orderShop struct {
	*shop
	l           *lookups
	id, at, sku string
}

func newOrderShop(t *testing.T) *orderShop {
	l := newLookups(t)
	s, at, id, sku := selling(t, 20, func(c *Config) { c.OrderURL = l.url })
	return &orderShop{shop: s, l: l, id: id, at: at, sku: sku}
}

func (s *orderShop) buy(user string) contract.Reservation {
	s.t.Helper()
	r := contract.Reservation{
		OrderSN: newSN(), UserID: user, ActivityID: s.id, Lines: []contract.Line{{SKUID: s.sku, Qty: 1}},
		ReservedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
	require.NoError(s.t, s.svc.core.Land(s.t.Context(), []contract.Reservation{r}, nil))
	return r
}

func (s *orderShop) follow(r contract.Reservation, kinds ...contract.OrderEventType) {
	s.t.Helper()
	for _, kind := range kinds {
		require.NoError(s.t, consumerOf(s.svc).OrderEvents(s.t.Context(), message(s.t, contract.TopicOrderEvents, event(r, kind))))
	}
}

// ordered makes the order service have an order of a purchase. members begins with a comma, if there are any.
func (s *orderShop) ordered(r contract.Reservation, members string) {
	s.l.show(r.OrderSN, fmt.Sprintf(`{"user_id":%q,"activity_id":%q,"activity_title":"Sale as bought",`+
		`"lines":[{"sku_id":%q,"qty":1,"price":9900,"name":"Phone as bought"}],"amount":9900,"currency":"EUR",`+
		`"created_at":"2026-11-21T10:00:01Z","expires_at":"2026-11-21T10:15:01Z"%s}`, r.UserID, s.id, s.sku, members))
}

func (s *orderShop) page(token, sn string) (p orderPage) {
	s.t.Helper()
	got := s.as(token, "GET", s.at+"/orders/"+sn, "")
	require.Equal(s.t, 200, got.status, "%s", got.body)
	require.Equal(s.t, "no-store", got.header.Get("Cache-Control"))
	got.into(s.t, &p)
	require.NotNil(s.t, p.Payments)
	require.NotNil(s.t, p.Refunds)
	return p
}

func TestAnOrderOfAnActivity(t *testing.T) {
	t.Parallel()
	s := newOrderShop(t)
	r := s.buy("u1")
	s.follow(r, contract.OrderCreated, contract.OrderPaid) // the event of the refund is in flight
	s.ordered(r, `,"state":"refunded","paid_at":"2026-11-21T10:01:00Z","refunded_at":"2026-11-21T10:05:00Z","paid_by":"50",`+
		`"contact":{"name":"Li Lei","phone":"+8613812345678","address_lines":["1 Renmin Road"]},"payments":[`+
		`{"payment_id":"49","provider":"sandbox","state":"failed","amount":9900,"currency":"EUR","created_at":"2026-11-21T10:00:30Z","finished_at":"2026-11-21T10:00:40Z"},`+
		`{"payment_id":"50","provider":"sandbox","state":"succeeded","amount":9900,"currency":"EUR","paid_amount":9900,"paid_currency":"EUR","created_at":"2026-11-21T10:00:50Z","finished_at":"2026-11-21T10:01:00Z"},`+
		`{"payment_id":"51","provider":"sandbox","state":"failed","amount":9900,"currency":"EUR","paid_amount":1999,"paid_currency":"KWD","created_at":"2026-11-21T10:00:51Z"},`+
		`{"payment_id":"52","provider":"sandbox","state":"failed","amount":9900,"currency":"EUR","paid_amount":7,"paid_currency":"???","created_at":"2026-11-21T10:00:52Z"}],`+
		`"refunds":[{"refund_id":"50","order_sn":"`+r.OrderSN+`","provider":"sandbox","amount":9900,"currency":"EUR","state":"refunded","reason":"review","attempts":2,`+
		`"last_error":"account closed","created_at":"2026-11-21T10:05:00Z","refunded_at":"2026-11-21T10:09:00Z","settled":{"by":"op","reference":"t1","reason":"bank"}}],`+
		`"decisions":[{"refund_id":"50","action":"retry","by":"op","at":"2026-11-21T10:07:00Z"},`+
		`{"refund_id":"50","action":"settle","by":"op","at":"2026-11-21T10:09:00Z","reference":"t1","reason":"bank"}]`)

	p := s.page(s.token, r.OrderSN)
	require.Equal(t, []any{r.OrderSN, "Sale as bought", "u1", "sold", "", "refunded"},
		[]any{p.SN, p.Title, p.User, p.State, p.Reason, *p.Order})
	require.Equal(t, []any{int64(9900), int64(2), "2026-11-21T10:00:01Z"}, []any{*p.Amount, *p.Digits, p.CreatedAt})
	require.Len(t, p.Lines, 1)
	require.Equal(t, []any{s.sku, int64(1), "Phone as bought", int64(9900)},
		[]any{p.Lines[0].SKU, p.Lines[0].Qty, p.Lines[0].Name, *p.Lines[0].Price})
	require.Equal(t, "Li Lei", p.Contact.Name)
	require.Equal(t, []map[string]any{
		{"payment_id": "49", "provider": "sandbox", "state": "failed", "amount": 9900.0, "currency": "EUR", "currency_digits": 2.0, "created_at": "2026-11-21T10:00:30Z", "finished_at": "2026-11-21T10:00:40Z"},
		{"payment_id": "50", "provider": "sandbox", "state": "succeeded", "amount": 9900.0, "currency": "EUR", "currency_digits": 2.0, "paid_amount": 9900.0, "paid_currency": "EUR", "paid_currency_digits": 2.0, "created_at": "2026-11-21T10:00:50Z", "finished_at": "2026-11-21T10:01:00Z"},
		{"payment_id": "51", "provider": "sandbox", "state": "failed", "amount": 9900.0, "currency": "EUR", "currency_digits": 2.0, "paid_amount": 1999.0, "paid_currency": "KWD", "paid_currency_digits": 3.0, "created_at": "2026-11-21T10:00:51Z"},
		{"payment_id": "52", "provider": "sandbox", "state": "failed", "amount": 9900.0, "currency": "EUR", "currency_digits": 2.0, "paid_amount": 7.0, "paid_currency": "???", "created_at": "2026-11-21T10:00:52Z"},
	}, p.Payments)
	require.Equal(t, []map[string]any{{
		"refund_id": "50", "provider": "sandbox", "state": "refunded", "reason": "review", "amount": 9900.0, "currency": "EUR", "currency_digits": 2.0,
		"created_at": "2026-11-21T10:05:00Z", "refunded_at": "2026-11-21T10:09:00Z",
		"settled": map[string]any{"by": "op", "reference": "t1", "reason": "bank"},
	}}, p.Refunds, "attempts and errors are for operators")
	require.ElementsMatch(t, []string{
		"order.reserve by buyer u1", "order.create", `order.pay {"payment_id":"50"}`, `order.refund {"reason":"review","refund_id":"50"}`,
		`refund.retry by operator op {"refund_id":"50"}`, `refund.settle by operator op {"reason":"bank","reference":"t1","refund_id":"50"}`,
	}, p.did())

	for name, token := range map[string]string{
		"operator": s.mint("op", auth.Operator), "operator and merchant": s.mint("both", auth.Merchant, auth.Operator),
	} {
		p := s.page(token, r.OrderSN)
		require.Equal(t, []any{2.0, "account closed"}, []any{p.Refunds[0]["attempts"], p.Refunds[0]["last_error"]}, name)
		require.Equal(t, []string{"L***", "***5678"}, []string{p.Contact.Name, p.Contact.Phone}, name)
		require.NotContains(t, string(s.as(token, "GET", s.at+"/orders/"+r.OrderSN, "").body), "Renmin", name)
	}
}

// What a reservation has without an order is shown: it is not created yet, its purchase was rejected, or the order
// service lost it.
func TestAnOrderThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newOrderShop(t)
	early := s.buy("u1")
	p := s.page(s.token, early.OrderSN)
	require.Equal(t, "reserved", p.State)
	require.Nil(t, p.Order)
	require.Nil(t, p.Amount)
	require.Nil(t, p.Contact)
	require.Empty(t, p.CreatedAt)
	require.NotEmpty(t, p.Title, "the present one")
	require.Equal(t, []any{int64(1), true}, []any{p.Lines[0].Qty, p.Lines[0].Name != ""})
	require.Nil(t, p.Lines[0].Price)
	require.Equal(t, []string{"order.reserve by buyer u1"}, p.did())
	body := string(s.do("GET", s.at+"/orders/"+early.OrderSN, "").body)
	for _, member := range []string{`"order_state":null`, `"amount":null`, `"currency":null`, `"contact":null`, `"payments":[]`} {
		require.Contains(t, body, member)
	}

	// The database of the order service was restored to a time before the order.
	lost := s.buy("u2")
	s.follow(lost, contract.OrderCreated, contract.OrderPaid)
	p = s.page(s.token, lost.OrderSN)
	require.Equal(t, "sold", p.State)
	require.Nil(t, p.Order)
	require.NotEmpty(t, p.CreatedAt, "as the ledger has it")
	require.Equal(t, []string{"order.reserve by buyer u2", "order.create"}, p.did())

	// A rejected dead letter ends a purchase without an order.
	refused := s.buy("u3")
	require.NoError(t, s.svc.core.AddDeadLetters(t.Context(), []contract.DeadLetter{{
		Where: contract.GroupInventoryReservations, Topic: contract.TopicReservations, OrderSN: "4711", ActivityID: s.id, Why: "w",
		Item: []byte(fmt.Sprintf(`{"order_sn":"4711","user_id":"u4","activity_id":%q,"lines":[{"sku_id":%q,"qty":1}]}`, s.id, s.sku)), At: time.Now(),
	}}))
	var letter string
	require.NoError(t, s.db.Table("dead_letters").Where("order_sn = 4711").Pluck("id", &letter).Error)
	require.Equal(t, 404, s.do("GET", s.at+"/orders/4711", "").status, "not landed")
	require.Equal(t, 200, s.as(s.mint("op", auth.Operator), "POST", "/v1/merchant/dead-letters/"+letter+"/reject", "").status)
	p = s.page(s.token, "4711")
	require.Equal(t, []string{"rejected", "system"}, []string{p.State, p.Reason})
	require.ElementsMatch(t, []string{"order.reserve by buyer u4", `order.reject {"reason":"system"}`, "dead_letter.reject by operator op"}, p.did())
	require.Equal(t, []string{"order.reserve by buyer u3"}, s.page(s.token, refused.OrderSN).did())
	// That dead letter lacked the buyer. An order that was created from it all the same is shown.
	require.NoError(t, s.db.Exec("UPDATE reservations SET user_id = '' WHERE order_sn = 4711").Error)
	s.ordered(contract.Reservation{OrderSN: "4711", UserID: "u4"}, `,"state":"closed","close_reason":"rejected"`)
	p = s.page(s.token, "4711")
	require.Equal(t, []string{"rejected", "closed"}, []string{p.State, *p.Order})
}

func TestAnOrderThatClosed(t *testing.T) {
	t.Parallel()
	s := newOrderShop(t)
	for reason, want := range map[string]string{
		"expired": `order.close {"reason":"expired"}`, "rejected": `order.close {"reason":"rejected"}`,
		"cancelled": `order.close by buyer u1 {"reason":"cancelled"}`,
	} {
		r := s.buy("u1")
		s.follow(r, contract.OrderCreated, contract.OrderClosed)
		s.ordered(r, `,"state":"closed","close_reason":"`+reason+`","closed_at":"2026-11-21T10:15:02Z"`)
		p := s.page(s.token, r.OrderSN)
		require.Equal(t, []string{"closed", reason}, []string{*p.Order, p.Why})
		require.ElementsMatch(t, []string{"order.reserve by buyer u1", "order.create", want}, p.did())
	}
}

// An order that a merchant cancelled shows who did so and why; another order of the same sale does not.
func TestAnOrderThatAMerchantCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.reviewed()
	reason := fmt.Sprintf(`quotes "%s" in its text`, v.expired)
	_, err := w.merchants.CancelOrders(w.ctx, seller("m"), v.a.ID, []string{v.pending, v.missing}, reason)
	require.NoError(t, err)
	whats := func(sn string) (list []string) {
		list = []string{}
		changes, err := w.merchants.History.ChangesOfOrder(w.ctx, core.OfMerchant(contract.DefaultMerchant), v.a.ID, sn, 9)
		require.NoError(t, err)
		for _, c := range changes {
			list = append(list, c.Action+" "+c.Who+" "+c.Role)
		}
		return list
	}
	cancelled := []string{merchants.ActionCancelOrders + " m " + core.RoleMerchant}
	require.Equal(t, cancelled, whats(v.pending))
	require.Equal(t, cancelled, whats(v.missing))
	require.Empty(t, whats(v.paid))
	require.Empty(t, whats(v.expired), "the text of a reason names no order")
	foreign, err := w.merchants.History.ChangesOfOrder(w.ctx, core.OfMerchant("another"), v.a.ID, v.pending, 9)
	require.NoError(t, err)
	require.Empty(t, foreign)

	page, err := w.merchants.Order(w.ctx, core.OfMerchant(contract.DefaultMerchant), v.a.ID, v.missing)
	require.NoError(t, err)
	require.Equal(t, ledger.StateReleased, page.State)
	last := page.Changes[len(page.Changes)-1]
	require.Contains(t, []string{"order.release", merchants.ActionCancelOrders}, last.What)
	var did []string
	for _, c := range page.Changes {
		did = append(did, c.What)
		if c.What == merchants.ActionCancelOrders {
			require.Equal(t, map[string]string{"reason": reason}, c.Details)
		}
	}
	require.ElementsMatch(t, []string{"order.reserve", merchants.ActionCancelOrders, "order.release"}, did)
}

// An order is shown to those who see its activity, and under its own activity only.
func TestOrdersOfOthersAreNotShown(t *testing.T) {
	t.Parallel()
	s := newOrderShop(t)
	r := s.buy("u1")
	s.ordered(r, `,"state":"pending"`)
	second := s.draft(s.sku, 5)
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+second+"/publish", "").status)
	other := s.mintFor("another", "clerk", auth.Merchant)
	for path, want := range map[string]string{
		s.at + "/orders/" + r.OrderSN:                                 "",
		"/v1/merchant/activities/" + second + "/orders/" + r.OrderSN:  "not_found",
		"/v1/merchant/activities/424242/orders/" + r.OrderSN:          "not_found",
		"/v1/merchant/activities/x/orders/" + r.OrderSN:               "not_found",
		s.at + "/orders/424242":                                       "not_found",
		s.at + "/orders/x":                                            "not_found",
		s.at + "/orders/0":                                            "not_found",
		s.at + "/orders/99999999999999999999":                         "not_found",
		"/v1/merchant/activities/" + s.id + "/orders/%27" + r.OrderSN: "not_found",
	} {
		if want == "" {
			require.Equal(t, 200, s.do("GET", path, "").status)
			require.Equal(t, 200, s.as(s.mint("op", auth.Operator), "GET", path, "").status)
		} else {
			require.Equal(t, want, s.do("GET", path, "").code(), path)
			require.Equal(t, want, s.as(s.mint("op", auth.Operator), "GET", path, "").code(), path)
		}
	}
	at := s.at + "/orders/" + r.OrderSN
	require.Equal(t, problemOf(s.as(other, "GET", s.at+"/orders/424242", "")), problemOf(s.as(other, "GET", at, "")))
	require.Equal(t, "not_found", s.as(other, "GET", at, "").code())
	require.Equal(t, "forbidden", s.as(s.mint("u1"), "GET", at, "").code(), "its buyer")
	require.Equal(t, "unauthenticated", s.as("", "GET", at, "").code())
	require.Equal(t, "method_not_allowed", s.do("DELETE", at, "").code())

	// Another purchase got this order_sn at the order service: its buyer is not shown.
	for _, order := range []string{
		`{"user_id":"u1","activity_id":"` + second + `","state":"paid","contact":{"name":"Secret","phone":"+15550100"}}`,
		`{"user_id":"u2","activity_id":"` + s.id + `","state":"paid","contact":{"name":"Secret","phone":"+15550100"}}`,
	} {
		s.l.show(r.OrderSN, order)
		got := s.do("GET", at, "")
		require.Equal(t, 200, got.status)
		require.NotContains(t, string(got.body), "Secret")
		require.Contains(t, string(got.body), `"order_state":null`)
	}
}

func TestAnOrderWithoutTheOrderService(t *testing.T) {
	t.Parallel()
	s := newOrderShop(t)
	r := s.buy("u1")
	s.ordered(r, `,"state":"pending","paying_until":"2026-11-21T10:17:00Z"`)
	at := s.at + "/orders/" + r.OrderSN
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusUnauthorized} { // 404: 0.1.0
		s.l.respond(status)
		got := s.do("GET", at, "")
		require.Equal(t, []any{503, "unavailable"}, []any{got.status, got.code()}, "%d: %s", status, got.body)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.Equal(t, "not_found", s.do("GET", s.at+"/orders/424242", "").code())
	}
	s.l.respond(0)
	require.Eventually(t, func() bool { // the breaker may be open
		return s.do("GET", at, "").status == 200
	}, 30*time.Second, 50*time.Millisecond)
	require.Contains(t, string(s.do("GET", at, "").body), `"paying_until":"2026-11-21T10:17:00Z"`)
	s.mini.Close()
	require.Equal(t, 200, s.do("GET", at, "").status, "it needs no Redis")
}

// An order of a sale that is paused, ended or redisless is shown as any other.
func TestAnOrderOfASaleInEachState(t *testing.T) {
	t.Parallel()
	s := newOrderShop(t)
	r := s.buy("u1")
	s.ordered(r, `,"state":"pending"`)
	for _, action := range []string{"pause", "resume", "end"} {
		require.Equal(t, 200, s.do("POST", s.at+"/"+action, "").status)
		require.Equal(t, "pending", *s.page(s.token, r.OrderSN).Order, action)
	}

	w := newWorld(t)
	sale := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	one := sale.purchase("a", 1)
	require.Equal(t, []string{"fresh reserved"}, sale.reserve(one))
	page, err := w.merchants.Order(w.ctx, core.OfMerchant(contract.DefaultMerchant), sale.id, one.OrderSN)
	require.NoError(t, err)
	require.Equal(t, ledger.StateReserved, page.State)
	require.Nil(t, page.Order)
}

// After a restore an order that the import may bring back is not missing. Then its page has what the order service has.
func TestAnOrderAfterARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	b := w.backup()
	r := w.buy(a, "u1")
	w.land(r)
	w.order(r, "pending")
	w.follow(event(r, contract.OrderCreated))
	w.restore(b)
	w.newEpoch()
	in := core.OfMerchant(contract.DefaultMerchant)
	_, err := w.merchants.Order(w.ctx, in, a.ID, r.OrderSN)
	require.Equal(t, contract.CodeGateUnavailable, contract.CodeOf(err))
	w.imports()
	page, err := w.merchants.Order(w.ctx, in, a.ID, r.OrderSN)
	require.NoError(t, err)
	require.Equal(t, "pending", page.Order.State)
	_, err = w.merchants.Order(w.ctx, in, a.ID, "424242")
	require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
}
