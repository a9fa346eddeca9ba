package sim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"flashsale.internal/pkg/auth"
)

// webhooks is the endpoint of the shop in a sale. The zero value is none.
type webhooks struct {
	rate        float64       // of the requests that get each kind of error
	from, lasts time.Duration // a time without the endpoint, from the start of the sale
	replays     time.Duration // after the start of the sale, the shop requests a replay; 0: it does not
	waits       bool          // after the faults, the shop waits for the next attempts; else it requests a replay
}

func (h webhooks) happens() bool { return h.rate > 0 }

// addWebhooks adds an endpoint, whose errors depend on no other feature.
func (s *sale) addWebhooks(r *rand.Rand) {
	s.webhooks = webhooks{rate: []float64{0.05, 0.2, 0.4}[r.IntN(3)], waits: r.IntN(4) > 0}
	if r.IntN(3) == 0 {
		s.webhooks.from = time.Duration(r.Int64N(int64(s.window)))
		s.webhooks.lasts = time.Duration(20+r.IntN(200)) * 100 * time.Millisecond
	}
	if r.IntN(4) == 0 {
		s.webhooks.replays = time.Second + time.Duration(r.Int64N(int64(s.window)))
	}
}

// webhookKeys returns WEBHOOK_KEYS. Without an endpoint nothing is scanned.
func (w *world) webhookKeys() string {
	if w.sale.webhooks.happens() {
		return base64.StdEncoding.EncodeToString([]byte("a key of thirty-two bytes, here."))
	}
	return ""
}

// shop is the merchant's own system, which follows the orders by webhooks.
type shop struct {
	w        *world
	endpoint string
	key      []byte
	since    time.Time // it has the events since then
	merchant *caller

	mu     sync.Mutex
	events map[change]written
	latest map[string]written // by order_sn
}

// change identifies an event for the shop, besides its id.
type change struct {
	orderSN string
	at      int64 // ms
}

// written is what the shop has written of an event.
type written struct {
	id, kind, data string
	at             int64 // of the change, in ms
}

// eventData is the part of an event's data that the checks read.
type eventData struct {
	OrderSN   string    `json:"order_sn"`
	State     string    `json:"state"`
	Reason    string    `json:"reason"`
	ChangedAt time.Time `json:"changed_at"`
}

func (d eventData) String() string {
	return strings.TrimSpace(fmt.Sprint(d.State, " ", d.Reason)) + " at " + d.ChangedAt.UTC().Format(time.StampMilli)
}

var eventTypes = []string{"order.created", "order.paid", "order.closed", "order.refunded", "order.failed"}

// openShop registers the endpoint, as its merchant does. After a lost response it registers another one: only that of
// the response has a known secret.
func (w *world) openShop() error {
	if !w.sale.webhooks.happens() {
		return nil
	}
	m, err := w.newCaller("webmaster", "merchant", auth.Merchant)
	if err != nil {
		return err
	}
	s := &shop{w: w, merchant: m, since: time.Now(), events: map[change]written{}, latest: map[string]written{}}
	a := m.insist(http.MethodPost, "http://inventory/v1/merchant/webhooks", "",
		map[string]any{"url": "https://shop.example.com/events", "types": eventTypes}, 50)
	var made struct {
		ID     string `json:"webhook_id"`
		Secret string `json:"secret"`
	}
	if a.code == "quota_exceeded" { // five responses were lost
		return nil
	}
	if err := a.into(&made); a.status != http.StatusCreated || err != nil {
		return fmt.Errorf("endpoint: %d %s", a.status, a.raw)
	}
	s.endpoint = made.ID
	if s.key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(made.Secret, "whsec_")); err != nil {
		return err
	}
	w.mu.Lock()
	w.shop = s
	w.mu.Unlock()
	return nil
}

// theShop returns the shop, nil without one.
func (w *world) theShop() *shop {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shop
}

// shopWire sends webhooks to the shop.
type shopWire struct {
	w    *world
	from *process
}

// RoundTrip implements http.RoundTripper.
func (t *shopWire) RoundTrip(req *http.Request) (res *http.Response, err error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	h := http.Header{} // as a server reads them
	for name, values := range req.Header {
		h.Set(name, strings.Join(values, ","))
	}
	kinds := []kind{failBefore, failAfter, late, twice, ghost, dieBefore, dieAfter}
	err = t.w.pass(req.Context(), t.from, "inventory", "http", "POST to the shop", kinds, []any{body}, func() (err error) {
		res, err = t.w.theShop().receive(req.Context(), h, body)
		return err
	}, func() {
		out, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = t.w.theShop().receive(out, h, body)
	})
	if err != nil {
		return nil, err
	}
	res.Request = req
	return res, nil
}

// The faults of the shop.
const (
	shopRefuses = "shop: responds 500"
	shopForgets = "shop: writes an event and responds 500"
	shopBusy    = "shop: responds 503 with Retry-After"
	shopSlow    = "shop: writes an event and responds too late"
	shopAway    = "shop: unavailable"
)

// receive is the endpoint. It is nil before the response to the registration: then it has no secret.
func (s *shop) receive(ctx context.Context, h http.Header, body []byte) (*http.Response, error) {
	id := h.Get("Webhook-Id")
	if s == nil || !strings.HasPrefix(id, "msg_"+s.endpoint+"_") { // of a registration whose response was lost
		coverage.end("webhook of an unknown registration")
		return respond(http.StatusGone), nil
	}
	w, faults := s.w, s.w.sale.webhooks
	away := false
	if w.begun.Load() {
		since := time.Since(w.selling.Add(faults.from))
		away = since >= 0 && since < faults.lasts
	}
	switch {
	case away && w.plan.chance(shopAway, 1):
		return nil, errors.New("sim: connection refused")
	case w.plan.chance(shopRefuses, faults.rate):
		return respond(http.StatusInternalServerError), nil
	case w.plan.chance(shopBusy, faults.rate):
		res := respond(http.StatusServiceUnavailable)
		res.Header.Set("Retry-After", strconv.Itoa(1+len(body)%20))
		return res, nil
	case w.plan.chance(shopForgets, faults.rate):
		s.write(h, id, body)
		return respond(http.StatusInternalServerError), nil
	case w.plan.chance(shopSlow, faults.rate/2):
		s.write(h, id, body)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.write(h, id, body)
	return respond(http.StatusOK), nil
}

func respond(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil))}
}

// write verifies and writes an event. Each change of an order has one id and one content.
func (s *shop) write(h http.Header, id string, body []byte) {
	var event struct {
		ID, Type, Subject string
		Data              json.RawMessage
	}
	var of eventData
	err := json.Unmarshal(body, &event)
	if err == nil {
		err = json.Unmarshal(event.Data, &of)
	}
	if err == nil {
		err = s.verify(h, id, body)
	}
	if err == nil && (event.ID != id || event.Subject != of.OrderSN || !slices.Contains(eventTypes, event.Type)) {
		err = errors.New("its parts contradict each other")
	}
	if err != nil {
		s.w.concern(of.OrderSN)
		s.w.fail("event %s: %v: %s", id, err, body)
		return
	}
	at := change{of.OrderSN, of.ChangedAt.UnixMilli()}
	now := written{id, event.Type, of.String(), at.at}
	s.mu.Lock()
	before, known := s.events[at]
	s.events[at] = now
	if now.at >= s.latest[of.OrderSN].at {
		s.latest[of.OrderSN] = now
	}
	s.mu.Unlock()
	s.w.history.note("shop", "writes", of.OrderSN, event.Type, of.String())
	if known {
		coverage.end("event received again")
	}
	coverage.end("event " + event.Type)
	if known && before != now {
		s.w.concern(of.OrderSN)
		s.w.fail("the change of %s was the event %+v and is %+v", of.OrderSN, before, now)
	}
}

// verify checks the signature as Standard Webhooks 1.0.0 describes it, and that it is not old.
func (s *shop) verify(h http.Header, id string, body []byte) error {
	at := h.Get("Webhook-Timestamp")
	mac := hmac.New(sha256.New, s.key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !slices.Contains(strings.Fields(h.Get("Webhook-Signature")), want) {
		return errors.New("the signature is wrong")
	}
	unix, err := strconv.ParseInt(at, 10, 64)
	if age := time.Since(time.Unix(unix, 0)); err != nil || age.Abs() > time.Minute {
		return fmt.Errorf("the signature is %v old", age)
	}
	return nil
}

// runShop requests a replay during the sale.
func (w *world) runShop() {
	time.Sleep(w.sale.webhooks.replays)
	if s := w.theShop(); s != nil {
		s.replay(1 + s.merchant.r.IntN(10))
	}
}

func (s *shop) replay(most int) bool {
	a := s.merchant.insist(http.MethodPost, "http://inventory/v1/merchant/webhooks/"+s.endpoint+"/replay", "",
		map[string]any{"since": s.since.UTC()}, most)
	return a.status == http.StatusOK
}

// finishWebhooks lets the shop get what it has missed during the faults: by a replay, or by the next attempts.
func (w *world) finishWebhooks() {
	s := w.theShop()
	if s == nil {
		return
	}
	if !w.sale.webhooks.waits {
		if !s.replay(200) {
			w.fail("no replay after the faults")
		}
		return
	}
	for range 4 { // few deliveries have had more than two attempts by now, and none more than three
		var last time.Time
		a := s.merchant.insist(http.MethodGet,
			"http://inventory/v1/merchant/webhooks/"+s.endpoint+"/deliveries?state=waiting&limit=100", "", nil, 200)
		var list struct {
			Items []struct {
				Next time.Time `json:"next_attempt_at"`
			}
		}
		if err := a.into(&list); a.status != http.StatusOK || err != nil {
			w.fail("deliveries: %d %s", a.status, a.raw)
			return
		}
		for _, d := range list.Items {
			if d.Next.After(last) {
				last = d.Next
			}
		}
		if len(list.Items) == 0 {
			return
		}
		if time.Until(last) > 40*time.Minute {
			w.fail("a delivery waits until %v: %s", last, a.raw)
			return
		}
		time.Sleep(max(time.Until(last), 0) + time.Second)
	}
}

// checkShop requires that the latest event of each order is its row in the ledger.
func (w *world) checkShop(f *findings, ledger map[string]ledgerRow) {
	s := w.theShop()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for sn, r := range ledger {
		want := eventData{State: r.State, Reason: r.Reason, ChangedAt: r.ChangedAt}.String()
		if got := s.latest[sn]; got.data != want {
			f.add(sn, "order_sn %s is %s in the ledger, and the shop has the event %+v", sn, want, got)
		}
	}
	for sn, got := range s.latest {
		if _, is := ledger[sn]; !is && !w.isSetBack(sn) {
			f.add(sn, "the shop has the event %+v of %s, which the ledger does not have", got, sn)
		}
	}
}
