package order_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/seal"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/payment"
	"flashsale.internal/services/order/internal/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// running is a whole service on a database and an in-process bus, called over HTTP.
type running struct {
	t           *testing.T
	db          *gorm.DB
	public      string
	internal    string
	bus         *inproc.Bus
	client      *http.Client
	events      *collected[contract.OrderEvent]
	deadLetters *collected[contract.DeadLetter]
	sn          atomic.Int64
}

type change func(*order.Config, *order.Deps)

func run(t *testing.T, db *gorm.DB, changes ...change) *running {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	broker := inproc.New(inproc.Options{RetryMin: 20 * time.Millisecond, RetryMax: 100 * time.Millisecond}, log)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url, err := order.CallbackURL(l.Addr().String())
	require.NoError(t, err)
	transport := &http.Transport{}
	cfg := order.Config{
		Auth:     settings.Auth{Lenient: true, HS256Secrets: []string{settings.DevelopmentAuthSecret}},
		Internal: settings.Internal{Secrets: []string{settings.DevelopmentInternalSecret}},
		Payments: order.Payments{Payments: settings.Payments{Providers: []string{settings.Sandbox}}, SandboxCallbackURL: url},
		Timers:   settings.Timers{TestTimers: map[string]time.Duration{"order.refund_every": 50 * time.Millisecond}},
	}
	deps := order.Deps{DB: db, Bus: broker, Telemetry: telemetry.Discard(t), Transport: transport}
	for _, c := range changes {
		c(&cfg, &deps)
	}
	svc, err := order.New(cfg, deps)
	require.NoError(t, err)
	require.NoError(t, svc.Ready())

	public := &httptest.Server{Listener: l, Config: &http.Server{Handler: svc.Handler(), ReadHeaderTimeout: time.Minute}}
	public.Start()
	internal := httptest.NewServer(svc.InternalHandler())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- lifecycle.Run(ctx, log, 10*time.Second, svc.Components()...) }()
	r := &running{
		t: t, db: db, public: public.URL, internal: internal.URL, bus: broker, client: &http.Client{Transport: transport, Timeout: 20 * time.Second},
		events:      collect[contract.OrderEvent](t, broker, contract.TopicOrderEvents),
		deadLetters: collect[contract.DeadLetter](t, broker, contract.TopicDeadLetters),
	}
	t.Cleanup(func() {
		public.Close()
		internal.Close()
		cancel()
		require.NoError(t, <-ended)
		closing, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		require.NoError(t, broker.Close(closing))
		transport.CloseIdleConnections()
	})
	return r
}

type collected[T contract.Item] struct {
	mu    sync.Mutex
	items []T
}

func collect[T contract.Item](t *testing.T, b *inproc.Bus, topic string) *collected[T] {
	t.Helper()
	c := &collected[T]{}
	require.NoError(t, b.Subscribe(bus.Subscription{Topic: topic, Group: "test-" + topic}, func(_ context.Context, d bus.Delivery) error {
		good, _ := contract.Decode[T](d.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.items = append(c.items, good...)
		return nil
	}))
	return c
}

func (c *collected[T]) all() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]T(nil), c.items...)
}

func eventually(t *testing.T, ok func() bool, msg string) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, 20*time.Millisecond, msg)
}

func (r *running) deduction(user string) contract.Deduction {
	n := r.sn.Add(1)
	return contract.Deduction{
		OrderSN: ordersn.SN{Time: time.Now(), Worker: 1, Sequence: int(n & 63), Gene: ordersn.Gene(user)}.String(),
		UserID:  user, ActivityID: "7", Currency: "EUR", PayWithinS: 600,
		Lines: []contract.PricedLine{{SKUID: "11", Qty: 2, Price: 350}},
	}
}

// created lands an order through the bus and waits for it.
func (r *running) created(user string, edit ...func(*contract.Deduction)) contract.Deduction {
	r.t.Helper()
	d := r.deduction(user)
	for _, e := range edit {
		e(&d)
	}
	r.publish(d)
	eventually(r.t, func() bool { return r.call("GET", "/v1/orders/"+d.OrderSN, user, "").status == 200 }, "the order is there")
	return d
}

func (r *running) publish(items ...contract.Deduction) {
	r.t.Helper()
	bodies, err := contract.Encode(items)
	require.NoError(r.t, err)
	for _, b := range bodies {
		require.NoError(r.t, r.bus.Publish(r.t.Context(), bus.Message{Topic: contract.TopicDeductions, Body: b}))
	}
}

type response struct {
	status int
	header http.Header
	body   map[string]any
	raw    string
	closed bool // the server closes the connection
}

func (a response) code() string { c, _ := a.body["code"].(string); return c }

func (r *running) do(req *http.Request) response {
	r.t.Helper()
	res, err := r.client.Do(req)
	require.NoError(r.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	a := response{status: res.StatusCode, header: res.Header, raw: string(raw), closed: res.Close}
	if len(raw) > 0 {
		require.NoError(r.t, json.Unmarshal(raw, &a.body), string(raw))
	}
	if res.StatusCode >= 400 {
		require.Equal(r.t, "application/problem+json", res.Header.Get("Content-Type"))
		require.NotEmpty(r.t, a.code())
		if res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusTooManyRequests {
			require.NotEmpty(r.t, res.Header.Get("Retry-After"))
		}
	}
	return a
}

func (r *running) call(method, path, user, body string, headers ...string) response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.public+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if user != "" {
		token, err := auth.Mint(settings.DevelopmentAuthSecret, auth.Identity{UserID: user}, time.Minute)
		require.NoError(r.t, err)
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return r.do(req)
}

func (r *running) callInternal(path, secret, body string) response {
	r.t.Helper()
	return r.internalCall(http.MethodPost, path, secret, body)
}

func (r *running) internalCall(method, path, secret, body string) response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.internal+path, strings.NewReader(body))
	require.NoError(r.t, err)
	auth.SignInternal(req, secret)
	req.Header.Set("Content-Type", "application/json")
	return r.do(req)
}

func (r *running) pay(d contract.Deduction, key string) (paymentID string) {
	r.t.Helper()
	a := r.call("POST", "/v1/orders/"+d.OrderSN+"/payments", d.UserID, paySandbox, "Idempotency-Key", key)
	require.Equal(r.t, 201, a.status, a.raw)
	require.Equal(r.t, "started", a.body["state"])
	id := a.body["payment_id"].(string)
	require.Equal(r.t, "/v1/payments/"+id+"/sandbox", a.body["pay_url"])
	return id
}

func (r *running) order(d contract.Deduction) map[string]any {
	r.t.Helper()
	a := r.call("GET", "/v1/orders/"+d.OrderSN, d.UserID, "")
	require.Equal(r.t, 200, a.status, a.raw)
	return a.body
}

// callback sends a signed callback as a provider does.
func (r *running) callback(secret string, at time.Time, body string) response {
	r.t.Helper()
	return r.call("POST", "/v1/payments/callbacks/sandbox", "", body, payment.Header,
		payment.Sign(secret, []byte(body), at))
}

func (r *running) event(paymentID, eventID string, amount int64) string {
	return fmt.Sprintf(`{"event_id":%q,"payment_id":%q,"outcome":"succeeded","amount":%d,"currency":"EUR","fee":7}`, eventID, paymentID, amount)
}

// Bodies of requests to start a payment and to choose its outcome.
const (
	paySandbox = `{"provider":"sandbox"}`
	succeeded  = `{"outcome":"succeeded"}`
)

func TestFromDeductionToPaid(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	d := r.created("u1")
	o := r.order(d)
	require.Equal(t, "pending", o["state"])
	require.EqualValues(t, 700, o["amount"])
	require.Equal(t, []any{map[string]any{"sku_id": "11", "qty": float64(2), "unit_price": float64(350)}},
		o["lines"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$`, o["expires_at"])
	require.NotContains(t, o, "paid_at")
	require.NotContains(t, o, "refunds")

	id := r.pay(d, "k1")
	require.Equal(t, id, r.pay(d, "k1"))
	second := r.pay(d, "k2")
	for range 2 {
		require.Equal(t, 202, r.call("POST", "/v1/payments/"+id+"/sandbox", "u1", succeeded).status)
	}
	require.Equal(t, "paid", r.order(d)["state"])
	eventually(t, func() bool { return len(r.events.all()) == 2 }, "created by the consumer, paid by the outbox")
	var types []contract.OrderEventType
	for _, e := range r.events.all() {
		types = append(types, e.Type)
	}
	require.ElementsMatch(t, []contract.OrderEventType{contract.OrderCreated, contract.OrderPaid}, types,
		"in any order")

	// A second success is refunded, and the order shows the refund.
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+second+"/sandbox", "u1", succeeded).status)
	eventually(t, func() bool {
		refunds, _ := r.order(d)["refunds"].([]any)
		return len(refunds) == 1 && refunds[0].(map[string]any)["state"] == "refunded"
	}, "the refund is done")
	refund := r.order(d)["refunds"].([]any)[0].(map[string]any)
	require.Equal(t, "second", refund["reason"])
	require.EqualValues(t, 700, refund["amount"])
	require.Equal(t, second, refund["payment_id"])
	require.NotEmpty(t, refund["refunded_at"])
	require.Equal(t, "paid", r.order(d)["state"])

	a := r.call("POST", "/v1/orders/"+d.OrderSN+"/cancel", "u1", "")
	require.Equal(t, 409, a.status)
	require.Equal(t, "state_conflict", a.code())
}

// Processes whose clocks are 5 min ahead and behind: orders are created by the time of the database. Such a process
// leaves deadlines, payments and the outbox to the others, and closes the connection so that a caller reaches them.
func TestAProcessWithAWrongClockLeavesDecisionsToTheOthers(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			db := ordertest.MariaDB(t)
			wrong := run(t, db, func(_ *order.Config, d *order.Deps) {
				d.Now = func() time.Time { return time.Now().Add(offset) }
			})
			before := time.Now().Truncate(time.Millisecond)
			d := wrong.created("u1")
			at, err := time.Parse(time.RFC3339Nano, wrong.order(d)["created_at"].(string))
			require.NoError(t, err)
			require.False(t, at.Before(before))
			require.False(t, at.After(time.Now()))

			pay := func(r *running) response {
				return r.call("POST", "/v1/orders/"+d.OrderSN+"/payments", "u1", paySandbox, "Idempotency-Key", "k")
			}
			closing := fmt.Sprintf(`{"order_sns":[%q],"reason":"expired"}`, d.OrderSN)
			for _, got := range []response{
				pay(wrong), wrong.callInternal("/internal/v1/orders:close", settings.DevelopmentInternalSecret, closing),
			} {
				require.Equal(t, 503, got.status, got.raw)
				require.Equal(t, "unavailable", got.code())
				require.True(t, got.closed, "over this connection a retry would reach the same process")
			}

			right := run(t, db)
			got := pay(right)
			require.Equal(t, 201, got.status, got.raw)
			require.Equal(t, 202, wrong.call("POST", got.body["pay_url"].(string), "u1", succeeded).status)
			eventually(t, func() bool { return right.order(d)["state"] == "paid" }, "paid")
			paid := func(r *running) bool {
				return slices.ContainsFunc(r.events.all(), func(e contract.OrderEvent) bool { return e.Type == contract.OrderPaid })
			}
			eventually(t, func() bool { return paid(right) }, "published")
			require.False(t, paid(wrong), "the relay of the other process published it")
		})
	}
}

func TestCancellingAndListing(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	var mine []contract.Deduction
	for range 3 {
		mine = append(mine, r.created("u1"))
	}
	r.created("u2")
	for range 2 {
		a := r.call("POST", "/v1/orders/"+mine[0].OrderSN+"/cancel", "u1", "")
		require.Equal(t, 200, a.status, a.raw)
		require.Equal(t, "closed", a.body["state"])
		require.Equal(t, "cancelled", a.body["close_reason"])
		require.NotEmpty(t, a.body["closed_at"])
	}
	first := r.call("GET", "/v1/orders?limit=2", "u1", "")
	require.Equal(t, 200, first.status)
	require.Equal(t, "no-store", first.header.Get("Cache-Control"))
	require.Len(t, first.body["items"], 2)
	require.Equal(t, mine[2].OrderSN, first.body["items"].([]any)[0].(map[string]any)["order_sn"])
	rest := r.call("GET", "/v1/orders?limit=2&cursor="+first.body["next_cursor"].(string), "u1", "")
	require.Len(t, rest.body["items"], 1)
	require.NotContains(t, rest.body, "next_cursor")
	closed := r.call("GET", "/v1/orders?state=closed", "u1", "")
	require.Len(t, closed.body["items"], 1)
	require.Equal(t, "[]", compact(t, r.call("GET", "/v1/orders", "nobody", "").body["items"]))
}

func compact(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

func TestInvalidRequestsOfBuyers(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	d := r.created("u1")
	id := r.pay(d, "used")
	sn, pay := "/v1/orders/"+d.OrderSN, "/v1/orders/"+d.OrderSN+"/payments"
	key := []string{"Idempotency-Key", "k"}
	for name, tt := range map[string]struct {
		method, path, user, body string
		headers                  []string
		status                   int
		code                     string
	}{
		"no token":               {"GET", sn, "", "", nil, 401, "unauthenticated"},
		"no token to pay":        {"POST", pay, "", paySandbox, key, 401, "unauthenticated"},
		"another's order":        {"GET", sn, "u2", "", nil, 404, "not_found"},
		"another's cancel":       {"POST", sn + "/cancel", "u2", "", nil, 404, "not_found"},
		"another's payment":      {"POST", "/v1/payments/" + id + "/sandbox", "u2", succeeded, nil, 404, "not_found"},
		"another's key":          {"POST", pay, "u2", paySandbox, []string{"Idempotency-Key", "used"}, 404, "not_found"},
		"no such order":          {"GET", "/v1/orders/12345", "u1", "", nil, 404, "not_found"},
		"malformed order":        {"GET", "/v1/orders/0x12", "u1", "", nil, 404, "not_found"},
		"order out of range":     {"GET", "/v1/orders/9223372036854775808", "u1", "", nil, 404, "not_found"},
		"malformed to pay":       {"POST", "/v1/orders/-1/payments", "u1", paySandbox, key, 404, "not_found"},
		"malformed to cancel":    {"POST", "/v1/orders/01/cancel", "u1", "", nil, 404, "not_found"},
		"malformed payment":      {"POST", "/v1/payments/x/sandbox", "u1", succeeded, nil, 404, "not_found"},
		"limit 0":                {"GET", "/v1/orders?limit=0", "u1", "", nil, 400, "invalid_request"},
		"limit 101":              {"GET", "/v1/orders?limit=101", "u1", "", nil, 400, "invalid_request"},
		"limit no number":        {"GET", "/v1/orders?limit=x", "u1", "", nil, 400, "invalid_request"},
		"cursor":                 {"GET", "/v1/orders?cursor=x", "u1", "", nil, 400, "invalid_request"},
		"state":                  {"GET", "/v1/orders?state=lost", "u1", "", nil, 400, "invalid_request"},
		"empty state":            {"GET", "/v1/orders?state=", "u1", "", nil, 400, "invalid_request"},
		"no key":                 {"POST", pay, "u1", paySandbox, nil, 400, "invalid_request"},
		"long key":               {"POST", pay, "u1", paySandbox, []string{"Idempotency-Key", strings.Repeat("k", 65)}, 400, "invalid_request"},
		"unknown provider":       {"POST", pay, "u1", `{"provider":"gold"}`, key, 400, "invalid_request"},
		"no provider":            {"POST", pay, "u1", `{}`, key, 400, "invalid_request"},
		"unknown field":          {"POST", pay, "u1", `{"provider":"sandbox","amount":1}`, key, 400, "invalid_request"},
		"two values":             {"POST", pay, "u1", `{"provider":"sandbox"}{}`, key, 400, "invalid_request"},
		"no JSON":                {"POST", pay, "u1", `provider=sandbox`, key, 400, "invalid_request"},
		"another type":           {"POST", pay, "u1", paySandbox, append([]string{"Content-Type", "text/plain"}, key...), 415, "unsupported_media_type"},
		"too large":              {"POST", pay, "u1", `{"provider":"` + strings.Repeat("x", 65<<10) + `"}`, key, 413, "body_too_large"},
		"cancel with a field":    {"POST", sn + "/cancel", "u1", `{"why":"no"}`, nil, 400, "invalid_request"},
		"sandbox outcome":        {"POST", "/v1/payments/" + id + "/sandbox", "u1", `{"outcome":"maybe"}`, nil, 400, "invalid_request"},
		"sandbox amount 0":       {"POST", "/v1/payments/" + id + "/sandbox", "u1", `{"outcome":"succeeded","amount":0}`, nil, 400, "invalid_request"},
		"sandbox amount 1.5":     {"POST", "/v1/payments/" + id + "/sandbox", "u1", `{"outcome":"succeeded","amount":1.5}`, nil, 400, "invalid_request"},
		"sandbox amount 10^30":   {"POST", "/v1/payments/" + id + "/sandbox", "u1", `{"outcome":"succeeded","amount":1000000000000000000000000000000}`, nil, 400, "invalid_request"},
		"method":                 {"DELETE", sn, "u1", "", nil, 405, "method_not_allowed"},
		"nothing here":           {"GET", "/v1/nothing", "u1", "", nil, 404, "not_found"},
		"internal on the public": {"POST", "/internal/v1/orders:close", "u1", `{"order_sns":["1"],"reason":"expired"}`, nil, 404, "not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.call(tt.method, tt.path, tt.user, tt.body, tt.headers...)
			require.Equal(t, tt.status, a.status, a.raw)
			require.Equal(t, tt.code, a.code())
		})
	}
	require.Equal(t, "pending", r.order(d)["state"])
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	d := r.created("u1")
	id := r.pay(d, "k1")
	good, secret, now := r.event(id, "e1", 700), order.DevelopmentSandboxSecret, time.Now()
	unsigned := r.call("POST", "/v1/payments/callbacks/sandbox", "", good)
	require.Equal(t, 401, unsigned.status)
	require.Equal(t, "unauthenticated", unsigned.code())
	buyer := r.call("POST", "/v1/payments/callbacks/sandbox", "u1", good)
	require.Equal(t, 401, buyer.status, "a buyer's token is no signature")
	require.Equal(t, 401, r.callback("another secret", now, good).status)
	require.Equal(t, 401, r.callback(secret, now.Add(-6*time.Minute), good).status)
	require.Equal(t, 401, r.callback(secret, now.Add(6*time.Minute), good).status)
	changed := r.call("POST", "/v1/payments/callbacks/sandbox", "", strings.Replace(good, `"amount":700`, `"amount":701`, 1),
		payment.Header, payment.Sign(secret, []byte(good), now))
	require.Equal(t, 401, changed.status)
	require.Equal(t, 404, r.call("POST", "/v1/payments/callbacks/gold", "", good, payment.Header, payment.Sign(secret, []byte(good), now)).status)
	for _, bad := range []string{
		`{`, good + good, `[]`, strings.Replace(good, `"e1"`, `""`, 1), strings.Replace(good, `"e1"`, `"`+strings.Repeat("e", 65)+`"`, 1),
		strings.Replace(good, id, "x", 1), strings.Replace(good, "succeeded", "", 1), strings.Replace(good, `"succeeded"`, `7`, 1), strings.Replace(good, `"amount":700`, `"amount":-1`, 1),
		strings.Replace(good, `"amount":700`, `"amount":7.5`, 1), strings.Replace(good, `"amount":700`, `"amount":0`, 1), strings.Replace(good, `"amount":700,`, "", 1), strings.Replace(good, "EUR", "EURO", 1), strings.Replace(good, "EUR", "E1R", 1),
	} {
		a := r.callback(secret, now, bad)
		require.Equal(t, 400, a.status, bad)
	}
	require.Equal(t, 413, r.callback(secret, now, strings.Repeat(" ", 65<<10)).status)
	require.Equal(t, "pending", r.order(d)["state"])

	require.Equal(t, 202, r.callback(secret, now, r.event("4711", "e0", 700)).status)
	require.Equal(t, 202, r.callback(secret, now, r.event("4711", "e0", 700)).status)

	wrong := r.pay(d, "k2")
	require.Equal(t, 204, r.callback(secret, now, r.event(wrong, "e2", 699)).status)
	require.Equal(t, "pending", r.order(d)["state"])

	for _, unused := range []string{`{"event_id":"e9","outcome":"payout.created"}`, strings.Replace(good, "succeeded", "authorized", 1)} {
		require.Equal(t, 204, r.callback(secret, now, unused).status, "other types change nothing")
		require.Equal(t, "pending", r.order(d)["state"])
	}

	// A provider that writes codes in small letters means the same, also in a repeated event.
	for _, event := range []string{strings.Replace(good, "EUR", "eur", 1), good, strings.Replace(good, "succeeded", "SUCCEEDED", 1)} {
		require.Equal(t, 204, r.callback(secret, now, event).status, event)
	}
	require.Equal(t, "paid", r.order(d)["state"])
	a := r.callback(secret, now, r.event(id, "e2", 700))
	require.Equal(t, 409, a.status, "e2 was another event")
	eventually(t, func() bool {
		refunds := r.order(d)["refunds"].([]any)
		return len(refunds) == 1 && refunds[0].(map[string]any)["state"] == "refunded"
	}, "the wrong amount is refunded")
	require.EqualValues(t, 699, r.order(d)["refunds"].([]any)[0].(map[string]any)["amount"])
}

func TestTheSandboxWorksOnlyIfEnabled(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	off := run(t, db, func(c *order.Config, _ *order.Deps) { c.Payments.Providers = nil })
	d := off.created("u1")
	require.Equal(t, 400, off.call("POST", "/v1/orders/"+d.OrderSN+"/payments", "u1", paySandbox, "Idempotency-Key", "k").status)
	require.Equal(t, 404, off.call("POST", "/v1/payments/1/sandbox", "u1", succeeded).status)
	require.Equal(t, 404, off.callback(order.DevelopmentSandboxSecret, time.Now(), off.event("1", "e", 1)).status)

	dead := run(t, ordertest.MariaDB(t), func(c *order.Config, _ *order.Deps) {
		c.Payments.SandboxCallbackURL = "http://127.0.0.1:1/v1/payments/callbacks/sandbox"
	})
	d = dead.created("u1")
	id := dead.pay(d, "k")
	a := dead.call("POST", "/v1/payments/"+id+"/sandbox", "u1", succeeded)
	require.Equal(t, 503, a.status, a.raw)
	require.Equal(t, "unavailable", a.code())
}

func TestInternalCalls(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	secret := settings.DevelopmentInternalSecret
	paid, pending := r.created("u1"), r.created("u2")
	id := r.pay(paid, "k")
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+id+"/sandbox", "u1", succeeded).status)

	token, err := auth.Mint(settings.DevelopmentAuthSecret,
		auth.Identity{UserID: "u1", Roles: []auth.Role{auth.Operator}}, time.Minute)
	require.NoError(t, err)
	for _, wrong := range []string{"", "x", token} {
		require.Equal(t, 401, r.callInternal("/internal/v1/orders:close", wrong, `{"order_sns":["1"],"reason":"expired"}`).status)
	}
	for _, body := range []string{
		`{}`, `{"order_sns":[],"reason":"expired"}`, `{"order_sns":["1"],"reason":"bored"}`, `{"order_sns":["x"],"reason":"expired"}`,
		`{"order_sns":["1"],"reason":"expired","why":1}`, `{"order_sns":[1],"reason":"expired"}`,
		`{"order_sns":["` + strings.Repeat(`1","`, 256) + `1"],"reason":"expired"}`,
	} {
		require.Equal(t, 400, r.callInternal("/internal/v1/orders:close", secret, body).status, body)
	}
	require.Equal(t, 400, r.callInternal("/internal/v1/orders:refund", secret, `{"order_sns":["1"],"reason":"No Stock"}`).status)

	closeThree := fmt.Sprintf(`{"order_sns":[%q,%q,"77"],"reason":"expired"}`, paid.OrderSN, pending.OrderSN)
	for range 2 {
		a := r.callInternal("/internal/v1/orders:close", secret, closeThree)
		require.Equal(t, 200, a.status, a.raw)
		results := a.body["results"].([]any)
		require.Equal(t, map[string]any{"order_sn": paid.OrderSN, "outcome": "paid"}, results[0])
		require.Equal(t, "not_due", results[1].(map[string]any)["outcome"])
		require.Equal(t, r.order(pending)["expires_at"], results[1].(map[string]any)["at"])
		require.Equal(t, map[string]any{"order_sn": "77", "outcome": "unknown"}, results[2])
	}
	a := r.callInternal("/internal/v1/orders:close", secret, fmt.Sprintf(`{"order_sns":[%q],"reason":"rejected"}`, pending.OrderSN))
	require.Equal(t, map[string]any{"order_sn": pending.OrderSN, "outcome": "closed", "reason": "rejected"},
		a.body["results"].([]any)[0])
	require.Equal(t, "rejected", r.order(pending)["close_reason"])
	a = r.callInternal("/internal/v1/orders:refund", secret, fmt.Sprintf(`{"order_sns":[%q,%q,"99"],"reason":"no_stock"}`, paid.OrderSN, pending.OrderSN))
	require.Equal(t, `[{"order_sn":"`+paid.OrderSN+`","outcome":"refunded"},{"order_sn":"`+pending.OrderSN+`","outcome":"not_paid"},{"order_sn":"99","outcome":"unknown"}]`,
		sorted(t, a.body["results"]))
	eventually(t, func() bool {
		return r.order(paid)["refunds"].([]any)[0].(map[string]any)["state"] == "refunded"
	}, "the refund is done")
	require.Equal(t, "refunded", r.order(paid)["state"])
	eventually(t, func() bool {
		steps := map[contract.OrderEventType]int{}
		for _, e := range r.events.all() {
			steps[e.Type]++
		}
		return steps[contract.OrderRefunded] == 1 && steps[contract.OrderPaid] == 1
	}, "each transition is published that no response to inventory has")
}

func TestRefundsThatWaitForAnOperator(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	const refunds, secret = "/internal/v1/refunds", settings.DevelopmentInternalSecret
	d := r.created("u1")
	id := r.pay(d, "k")
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+id+"/sandbox", "u1", `{"outcome":"succeeded"}`).status)
	eventually(t, func() bool { return r.order(d)["state"] == "paid" }, "paid")
	// The sandbox refuses a refund whose id it has with another amount.
	box := store.NewSandboxBook(r.db, nil)
	_, err := box.RecordRefund(t.Context(), id, 1, "EUR")
	require.NoError(t, err)
	body := fmt.Sprintf(`{"order_sns":[%q],"reason":"no_stock"}`, d.OrderSN)
	require.Equal(t, 200, r.callInternal("/internal/v1/orders:refund", secret, body).status)
	list := func(query string) response { return r.internalCall("GET", refunds+query, secret, "") }
	eventually(t, func() bool { return len(list("").body["items"].([]any)) == 1 }, "it waits")
	item := list("?limit=1").body["items"].([]any)[0].(map[string]any)
	require.Equal(t, id, item["refund_id"])
	require.Equal(t, "refund_failed", item["state"])
	require.Contains(t, item["last_error"], "another amount")

	for _, wrong := range []string{"?limit=0", "?cursor=x"} {
		require.Equal(t, 400, list(wrong).status, wrong)
	}
	require.Equal(t, 401, r.internalCall("GET", refunds, "x", "").status)
	for path, status := range map[string]int{"/x:retry": 404, "/42:retry": 404, "/" + id + ":undo": 404} {
		require.Equal(t, status, r.callInternal(refunds+path, secret, `{"by":"op"}`).status, path)
	}
	for _, body := range []string{`{}`, `{"by":"op"}`, `{"by":"op","reference":" ","reason":"r"}`, `{"by":"","reference":"t","reason":"r"}`, `{"by":"op","reference":"t","reason":"r","amount":1}`} {
		require.Equal(t, 400, r.callInternal(refunds+"/"+id+":settle", secret, body).status, body)
	}

	a := r.callInternal(refunds+"/"+id+":retry", secret, `{"by":"op"}`)
	require.Equal(t, 200, a.status, a.raw)
	require.Equal(t, "refund_pending", a.body["state"])
	eventually(t, func() bool { return len(list("").body["items"].([]any)) == 1 }, "refused again")
	for range 2 {
		a = r.callInternal(refunds+"/"+id+":settle", secret, `{"by":"op","reference":"t1","reason":"closed account"}`)
		require.Equal(t, 200, a.status, a.raw)
		require.Equal(t, "refunded", a.body["state"])
		require.Equal(t, map[string]any{"by": "op", "reference": "t1", "reason": "closed account"}, a.body["settled"])
	}
	require.Empty(t, list("").body["items"])
	require.Equal(t, "refunded", r.order(d)["refunds"].([]any)[0].(map[string]any)["state"], "the buyer reads it")
}

func sorted(t *testing.T, v any) string {
	t.Helper()
	return compact(t, v) // json.Marshal sorts the keys of maps
}

func TestPoisonedMessagesOverTheBus(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	require.NoError(t,
		r.bus.Publish(t.Context(), bus.Message{Topic: contract.TopicDeductions, Body: []byte("poison")}))
	d := r.created("u1")
	eventually(t, func() bool { return len(r.deadLetters.all()) == 1 }, "the poison became a dead letter")
	require.Equal(t, []byte("poison"), r.deadLetters.all()[0].Item)
	require.Equal(t, "pending", r.order(d)["state"])
}

// flaky fails every second publish.
type flaky struct {
	bus.Bus
	n atomic.Int64
}

func (f *flaky) Publish(ctx context.Context, m bus.Message) error {
	if f.n.Add(1)%2 == 1 {
		return errors.New("outcome unknown")
	}
	return f.Bus.Publish(ctx, m)
}

func TestABrokerThatLosesConfirmations(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t), func(_ *order.Config, d *order.Deps) { d.Bus = &flaky{Bus: d.Bus} })
	d := r.created("u1")
	id := r.pay(d, "k")
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+id+"/sandbox", "u1", succeeded).status)
	eventually(t, func() bool {
		steps := map[contract.OrderEventType]bool{}
		for _, e := range r.events.all() {
			steps[e.Type] = true
		}
		return steps[contract.OrderCreated] && steps[contract.OrderPaid]
	}, "both transitions are published in the end")
}

// The database is unreachable at the start: calls get 503 and messages are redelivered until it is reachable.
func TestStartWithoutADatabase(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDBDSN(t)
	direct, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	require.NoError(t, sqldb.Migrate(t.Context(), direct, order.Migrations, slog.New(slog.DiscardHandler)))
	require.NoError(t, sqldb.Close(direct))

	server := regexp.MustCompile(`tcp\(([^)]*)\)`).FindStringSubmatch(dsn)[1]
	proxy := newProxy(t, server)
	db, err := sqldb.Open(strings.Replace(dsn, server, proxy.addr, 1),
		sqldb.Options{DialTimeout: 10 * time.Second, IOTimeout: 20 * time.Second, LockWait: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	r := run(t, db)
	d := r.deduction("u1")
	r.publish(d)
	a := r.call("GET", "/v1/orders/"+d.OrderSN, "u1", "")
	require.Equal(t, 503, a.status, a.raw)
	require.Equal(t, "unavailable", a.code())
	require.NotContains(t, a.raw, "127.0.0.1")
	body := r.event("1", "e", 1)
	require.Equal(t, 503, r.callback(order.DevelopmentSandboxSecret, time.Now(), body).status)

	proxy.open()
	eventually(t, func() bool { return r.call("GET", "/v1/orders/"+d.OrderSN, "u1", "").status == 200 }, "the message was handled")
	require.Equal(t, 202, r.callback(order.DevelopmentSandboxSecret, time.Now(), body).status)
	eventually(t, func() bool { return len(r.events.all()) >= 1 }, "and its event was published")
}

// proxy forwards TCP connections to a server. Until open is called it closes them.
type proxy struct {
	addr, to string
	isOpen   atomic.Bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String(), to: to}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if !p.isOpen.Load() {
				_ = in.Close()
				continue
			}
			out, err := (&net.Dialer{Timeout: 10 * time.Second}).Dial("tcp", p.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, in, out)
			mu.Unlock()
			for _, direction := range [][2]net.Conn{{in, out}, {out, in}} {
				wg.Go(func() {
					_, _ = io.Copy(direction[0], direction[1])
					_ = direction[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *proxy) open() { p.isOpen.Store(true) }

func TestEveryOperationOfTheAPIIsRouted(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	for file, base := range map[string]string{"api/openapi.yaml": r.public, "api/internalapi/openapi.yaml": r.internal} {
		spec, err := os.ReadFile(file)
		require.NoError(t, err)
		path, found := "", 0
		for line := range strings.SplitSeq(string(spec), "\n") {
			if m := regexp.MustCompile(`^  (/\S+):$`).FindStringSubmatch(line); m != nil {
				path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(m[1], "1")
			}
			m := regexp.MustCompile(`^    (get|post|put|patch|delete):$`).FindStringSubmatch(line)
			if m == nil {
				continue
			}
			found++
			req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(m[1]), base+path, bytes.NewReader(nil))
			require.NoError(t, err)
			a := r.do(req)
			require.NotEqual(t, 405, a.status, "%s %s", m[1], path)
			require.NotContains(t, a.raw, "There is nothing here", "%s %s", m[1], path)
		}
		require.NotZero(t, found)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	load := func(environ map[string]string) error {
		var c struct {
			settings.App
			order.Config
		}
		if err := settings.Load(&c, environ); err != nil {
			return err
		}
		return c.Check()
	}
	long := strings.Repeat("abcdefgh", 5)
	key := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	contactKey := key("a-key-for-contacts-in-production")
	production := map[string]string{
		"APP_ENV": "production", "AUTH_HS256_SECRET": long, "INTERNAL_SECRET": long + "i", "CONTACT_KEYS": contactKey,
	}
	with := func(base map[string]string, pairs ...string) map[string]string {
		m := map[string]string{}
		for k, v := range base {
			m[k] = v
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	require.NoError(t, load(map[string]string{}))
	require.NoError(t, load(production))
	require.NoError(t, load(map[string]string{"PAYMENT_PROVIDERS": "sandbox", "PAYMENTS_SANDBOX_SECRET": "new,old"}))
	stripe := with(production, "PAYMENT_PROVIDERS", "stripe", "PAYMENTS_STRIPE_KEY", "rk_live_0123456789",
		"PAYMENTS_STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef0123456789abcdef", "PAYMENT_RATE", "25",
		"PUBLIC_URL", "https://shop.example.com/")
	require.NoError(t, load(stripe))
	require.NoError(t, load(with(stripe, "PAYMENTS_STRIPE_METHODS", "card,alipay,wechat_pay")))
	for variable, environ := range map[string]map[string]string{
		"PAYMENT_PROVIDERS must not":             with(production, "PAYMENT_PROVIDERS", "sandbox"),
		"PAYMENT_PROVIDERS holds":                {"PAYMENT_PROVIDERS": "sandbox,paypal"},
		"twice":                                  {"PAYMENT_PROVIDERS": "sandbox,sandbox"},
		"PAYMENTS_SHOP_CHECKOUT_URL is required": {"PAYMENT_PROVIDERS": "shop"},
		"PAYMENTS_SHOP_API_URL must have neither": {
			"PAYMENT_PROVIDERS": "shop", "PAYMENTS_SHOP_CHECKOUT_URL": "https://shop.example.com/pay", "PAYMENTS_SHOP_API_URL": "https://shop.example.com/?a=b",
		},
		"PAYMENTS_SHOP_SECRET": {
			"PAYMENT_PROVIDERS": "shop", "PAYMENTS_SHOP_CHECKOUT_URL": "https://shop.example.com/pay", "PAYMENTS_SHOP_API_URL": "https://shop.example.com/api",
		},
		"PAYMENTS_STRIPE_KEY is required":              with(stripe, "PAYMENTS_STRIPE_KEY", ""),
		"PAYMENTS_STRIPE_KEY is no secret key":         with(stripe, "PAYMENTS_STRIPE_KEY", "pk_live_0123456789"),
		"PAYMENTS_STRIPE_KEY must not be a test key":   with(stripe, "PAYMENTS_STRIPE_KEY", "sk_test_0123456789"),
		"PAYMENTS_STRIPE_KEY must not be a live key":   with(stripe, "APP_ENV", ""),
		"PAYMENTS_STRIPE_METHODS holds \"card\" twice": with(stripe, "PAYMENTS_STRIPE_METHODS", "card,card"),
		"PAYMENTS_STRIPE_WEBHOOK_SECRET is required":   with(stripe, "PAYMENTS_STRIPE_WEBHOOK_SECRET", ""),
		"PAYMENTS_STRIPE_METHODS holds":                with(stripe, "PAYMENTS_STRIPE_METHODS", "card,sepa_debit"),
		"PAYMENTS_STRIPE_METHODS must hold card":       with(stripe, "PAYMENTS_STRIPE_METHODS", "alipay"),
		"PAYMENTS_STRIPE_API_URL is not":               with(stripe, "PAYMENTS_STRIPE_API_URL", "api.stripe.com"),
		"PAYMENTS_STRIPE_API_URL must be":              with(stripe, "PAYMENTS_STRIPE_API_URL", "http://127.0.0.1:12111"),
		"PAYMENT_RATE is 0":                            with(stripe, "PAYMENT_RATE", "0"),
		"PUBLIC_URL is required":                       with(stripe, "PUBLIC_URL", ""),
		"PUBLIC_URL must be an https":                  with(stripe, "PUBLIC_URL", "http://shop.example.com"),

		"PAYMENT_RATE":                  {"PAYMENT_RATE": "-1"},
		"PAYMENTS_SANDBOX is no longer": {"PAYMENTS_SANDBOX": "true"},
		"PAYMENTS_SANDBOX_SECRET":       {"PAYMENT_PROVIDERS": "sandbox", "PAYMENTS_SANDBOX_SECRET": "new,,old"},
		"PAYMENTS_SANDBOX_SECRET has":   {"PAYMENT_PROVIDERS": "sandbox", "PAYMENTS_SANDBOX_SECRET": "new, old"},
		"PAYMENTS_SANDBOX_CALLBACK_URL": {"PAYMENT_PROVIDERS": "sandbox", "PAYMENTS_SANDBOX_CALLBACK_URL": "callbacks"},
		"INTERNAL_SECRET":               with(production, "INTERNAL_SECRET", settings.DevelopmentInternalSecret),
		"AUTH_HS256_SECRET":             with(production, "AUTH_HS256_SECRET", "short"),
		"ORDER_PAYMENT_GRACE":           {"ORDER_PAYMENT_GRACE": "1ms"},
		"TEST_TIMERS":                   {"TEST_TIMERS": "order.keep_every=1s"},
		"CONSUMERS":                     {"CONSUMERS": "1000"},

		"CONTACT_KEYS is required":                               with(production, "CONTACT_KEYS", ""),
		"CONTACT_KEYS holds a key (number 1) for development":    with(production, "CONTACT_KEYS", seal.DevelopmentKey),
		"CONTACT_KEYS holds a key (number 1) of one byte":        with(production, "CONTACT_KEYS", key(strings.Repeat("k", 32))),
		"CONTACT_KEYS holds a key (number 2) that is not base64": {"CONTACT_KEYS": contactKey + ",x"},
		"CONTACT_KEYS holds the same key twice":                  {"CONTACT_KEYS": contactKey + "," + contactKey},

		"CONTACT_KEEP":           {"CONTACT_KEEP": "1h"},
		"CONTACT_KEEP is 50000h": {"CONTACT_KEEP": "50000h"},
	} {
		err := load(environ)
		require.ErrorContains(t, err, variable)
		require.NotContains(t, err.Error(), contactKey[:12])
	}
	require.NoError(t, load(with(production, "CONTACT_KEYS", contactKey+","+key("another-key-for-contacts-in-prod"))))
	for addr, want := range map[string]string{":8082": "127.0.0.1:8082", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "127.0.0.1:1", "10.0.0.1:5": "10.0.0.1:5"} {
		url, err := order.CallbackURL(addr)
		require.NoError(t, err)
		require.Equal(t, "http://"+want+"/v1/payments/callbacks/sandbox", url)
	}
}

// Providers take a limited number of calls. A buyer beyond it gets the time of a turn, and has it then.
func TestBuyersBeyondTheRateOfAProviderWait(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t), func(c *order.Config, _ *order.Deps) { c.Payments.Rate = 1 })
	first, second := r.created("u1"), r.created("u2")
	r.pay(first, "k")
	pay := func() response {
		return r.call("POST", "/v1/orders/"+second.OrderSN+"/payments", "u2", paySandbox, "Idempotency-Key", "k")
	}
	busy := pay()
	require.Equal(t, 503, busy.status, busy.raw)
	require.Equal(t, "provider_busy", busy.code())
	require.Contains(t, []string{"1", "2"}, busy.header.Get("Retry-After"))
	eventually(t, func() bool { return pay().status == 201 }, "the turn")
	require.Len(t, r.order(second)["payments"], 1)
}
