package inventory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/webhooks"
)

const hooksPath = "/v1/merchant/webhooks"

var (
	webhookKey   = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	otherHookKey = base64.StdEncoding.EncodeToString([]byte("abcdef0123456789abcdef0123456789"))
	loopback     = netip.MustParsePrefix("127.0.0.0/8")
)

func withWebhooks(c *Config) {
	c.Webhooks = Webhooks{Keys: []string{webhookKey}, Networks: []string{loopback.String()}}
}

// hookShop is a shop whose merchant has an endpoint.
type hookShop struct {
	*shop
	id, secret string
	endpoint   *endpoint
	activity   string
	sku        string
	ahead      time.Duration // of the clock of the process
}

// endpoint is the server of a merchant.
type endpoint struct {
	*httptest.Server
	mu      sync.Mutex
	got     []received
	respond func(w http.ResponseWriter, r *http.Request) // nil: 204
}

type received struct {
	id, at, signatures string
	body               []byte
	event              struct {
		SpecVersion, ID, Source, Type, Subject, Time string
		Data                                         json.RawMessage
	}
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := received{id: r.Header.Get("Webhook-Id"), at: r.Header.Get("Webhook-Timestamp"), signatures: r.Header.Get("Webhook-Signature")}
		got.body, _ = io.ReadAll(r.Body)
		_ = json.Unmarshal(got.body, &got.event)
		e.mu.Lock()
		e.got = append(e.got, got)
		respond := e.respond
		e.mu.Unlock()
		if respond != nil {
			respond(w, r)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) responds(with func(w http.ResponseWriter, r *http.Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.respond = with
}

func status(code int, header ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// taken returns what has been received since the last call.
func (e *endpoint) taken() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	got := e.got
	e.got = nil
	return got
}

// client returns the client of the senders, which trusts these servers.
func hookClient(t *testing.T, of ...*endpoint) *http.Client {
	roots := x509.NewCertPool()
	for _, e := range of {
		roots.AddCert(e.Certificate())
	}
	c := webhooks.NewClient([]netip.Prefix{loopback}, roots)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func newHookShop(t *testing.T) *hookShop {
	h := &hookShop{shop: newShop(t, withWebhooks), endpoint: newEndpoint(t)}
	h.svc.webhooks.Client = hookClient(t, h.endpoint)
	h.svc.webhooks.Now = func() time.Time { return time.Now().Add(h.ahead) }
	h.id, h.secret = h.hook(h.token, h.endpoint.URL)
	h.sku = h.product("EUR")[0]
	h.activity = h.draft(h.sku, 1000)
	require.Equal(t, 200, h.do("POST", "/v1/merchant/activities/"+h.activity+"/publish", "").status)
	return h
}

// hook adds an endpoint for all types.
func (s *shop) hook(token, url string) (id, secret string) {
	s.t.Helper()
	types, _ := json.Marshal(webhooks.Types)
	got := s.as(token, "POST", hooksPath, fmt.Sprintf(`{"url":%q,"types":%s}`, url, types))
	require.Equal(s.t, 201, got.status, "%s", got.body)
	var v struct {
		ID     string `json:"webhook_id"`
		Secret string
	}
	got.into(s.t, &v)
	return v.ID, v.Secret
}

// order lands purchases with orders.
func (h *hookShop) order(n int) (bought []contract.Reservation) {
	h.t.Helper()
	c := consumerOf(h.svc)
	var created []contract.OrderEvent
	for range n {
		r := contract.Reservation{
			OrderSN: newSN(), UserID: "u" + newSN(), ActivityID: h.activity, Lines: []contract.Line{{SKUID: h.sku, Qty: 1}},
			ReservedAt: time.Now().UTC(),
		}
		bought, created = append(bought, r), append(created, event(r, contract.OrderCreated))
	}
	require.NoError(h.t, h.svc.core.Land(h.t.Context(), bought, nil))
	require.NoError(h.t, c.OrderEvents(h.t.Context(), message(h.t, contract.TopicOrderEvents, created...)))
	return bought
}

func (h *hookShop) follows(r contract.Reservation, kind contract.OrderEventType) {
	h.t.Helper()
	require.NoError(h.t, consumerOf(h.svc).OrderEvents(h.t.Context(), message(h.t, contract.TopicOrderEvents, event(r, kind))))
}

// round scans and sends once, and returns what arrived.
func (h *hookShop) round() []received {
	h.t.Helper()
	require.NoError(h.t, h.svc.webhooks.Scan(h.t.Context()))
	h.send(h.t.Context())
	return h.endpoint.taken()
}

// send sends what is due, and waits for its end.
func (h *hookShop) send(begin context.Context) {
	h.t.Helper()
	require.NoError(h.t, h.svc.webhooks.Dispatch(h.t.Context(), begin, h.t.Context()))
	h.svc.webhooks.Wait()
}

// due makes all that waits due, and ends pauses of the endpoints.
func (h *hookShop) due() {
	h.t.Helper()
	h.resume()
	require.NoError(h.t, h.db.Exec("UPDATE deliveries SET next_at = created_at WHERE state = 'waiting'").Error)
}

// resume ends pauses of the endpoints.
func (h *hookShop) resume() {
	h.t.Helper()
	require.NoError(h.t, h.db.Exec("UPDATE webhooks SET leased_to = created_at").Error)
}

type deliveryView struct {
	EventID  string `json:"event_id"`
	OrderSN  string `json:"order_sn"`
	Type     string
	State    string
	Attempts int
	Status   int
	Error    string
	Next     *time.Time `json:"next_attempt_at"`
}

func (h *hookShop) deliveries(state string) []deliveryView {
	h.t.Helper()
	var list struct{ Items []deliveryView }
	got := h.do("GET", hooksPath+"/"+h.id+"/deliveries?limit=100&state="+state, "")
	require.Equal(h.t, 200, got.status, "%s", got.body)
	got.into(h.t, &list)
	return list.Items
}

func (h *hookShop) state() string {
	h.t.Helper()
	var v struct{ State string }
	h.do("GET", hooksPath+"/"+h.id, "").into(h.t, &v)
	return v.State
}

// verifies reports whether one of the signatures is by the secret.
func (r received) verifies(secret string) bool {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", r.id, r.at, r.body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(r.signatures) {
		if hmac.Equal([]byte(got), []byte(want)) {
			return true
		}
	}
	return false
}

func TestEachChangeIsSentOnce(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	bought := h.order(3)
	h.follows(bought[1], contract.OrderPaid)
	h.follows(bought[2], contract.OrderClosed)

	var feed struct {
		Items []json.RawMessage `json:"items"`
	}
	h.do("GET", "/v1/merchant/orders?changed_since=2026-01-01T00:00:00Z", "").into(t, &feed)
	rows := map[string]string{}
	for _, item := range feed.Items {
		var of struct {
			OrderSN string `json:"order_sn"`
		}
		require.NoError(t, json.Unmarshal(item, &of))
		rows[of.OrderSN] = string(item)
	}
	types := map[string]string{}
	for _, r := range h.round() {
		types[r.event.Subject] = r.event.Type
		require.True(t, r.verifies(h.secret))
		require.Equal(t, r.id, r.event.ID)
		require.Equal(t, "1.0", r.event.SpecVersion)
		require.Equal(t, "/merchants/default", r.event.Source)
		require.JSONEq(t, rows[r.event.Subject], string(r.event.Data))
		at, err := strconv.ParseInt(r.at, 10, 64)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), time.Unix(at, 0), time.Minute)
		require.NotContains(t, string(r.body), "contact")
	}
	require.Equal(t, map[string]string{
		bought[0].OrderSN: "order.created", bought[1].OrderSN: "order.paid", bought[2].OrderSN: "order.closed",
	}, types)

	require.Empty(t, h.round(), "the scan overlaps, and all is known")
	h.ahead += time.Minute // a full pass
	require.Empty(t, h.round())
	h.follows(bought[0], contract.OrderPaid)
	got := h.round()
	require.Len(t, got, 1)
	require.Equal(t, []string{bought[0].OrderSN, "order.paid"}, []string{got[0].event.Subject, got[0].event.Type})
	require.Len(t, h.deliveries("delivered"), 4)
	require.Empty(t, h.deliveries("waiting"))

	var events int64
	require.NoError(t, h.db.Table("deliveries").Where("body <> ''").Count(&events).Error)
	require.Zero(t, events, "bodies of delivered events are dropped")
}

// Two processes scan and send at the same time.
func TestConcurrentProcessesSendOnce(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	other := *h.svc
	other.webhooks = webhooks.New(h.svc.webhooks.Deps)
	bought := h.order(100)
	var wg sync.WaitGroup
	for _, svc := range []*Service{h.svc, &other} {
		wg.Go(func() {
			for range 20 {
				if err := svc.webhooks.Scan(t.Context()); err != nil {
					t.Error(err)
				}
				if err := svc.webhooks.Dispatch(t.Context(), t.Context(), t.Context()); err != nil {
					t.Error(err)
				}
				svc.webhooks.Wait()
			}
		})
	}
	wg.Wait()
	times := map[string]int{}
	for _, r := range h.endpoint.taken() {
		times[r.id]++
	}
	require.Len(t, times, len(bought))
	for id, n := range times {
		require.Equal(t, 1, n, id)
	}
}

func TestAFailedDeliveryHasTenAttempts(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	h.endpoint.responds(status(http.StatusInternalServerError))
	h.order(1)
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	total := time.Duration(0)
	ids := map[string]bool{}
	for attempt := 1; attempt <= 10; attempt++ {
		h.send(t.Context())
		got := h.endpoint.taken()
		require.Len(t, got, 1, "attempt %d", attempt)
		ids[got[0].id] = true
		if waiting := h.deliveries("waiting"); attempt < 10 {
			require.Len(t, waiting, 1)
			require.Equal(t, []any{attempt, 500, "status 500"}, []any{waiting[0].Attempts, waiting[0].Status, waiting[0].Error})
			total += time.Until(*waiting[0].Next)
			h.send(t.Context())
			require.Empty(t, h.endpoint.taken(), "it is not due")
		}
		h.due()
	}
	require.InDelta(t, 75.6, total.Hours(), 7.6)
	require.Len(t, ids, 1, "each attempt has the same id")
	require.Empty(t, h.deliveries("waiting"))
	require.Len(t, h.deliveries("failed"), 1)
	h.endpoint.responds(nil)
	require.Empty(t, h.round())
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	for name, c := range map[string]struct {
		header      string
		least, most time.Duration
	}{
		"seconds": {"1800", 29 * time.Minute, 31 * time.Minute},
		"a date":  {"", 28 * time.Minute, 31 * time.Minute},
		"bounded": {"99999999999", 59 * time.Minute, 61 * time.Minute},
		"none":    {"soon", 0, time.Minute},
	} {
		require.NoError(t, h.db.Exec("UPDATE deliveries SET state = 'delivered'").Error)
		h.resume()
		if c.header == "" {
			c.header = h.svc.webhooks.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat)
		}
		h.endpoint.responds(status(http.StatusServiceUnavailable, "Retry-After", c.header))
		sn := h.order(1)[0].OrderSN
		h.round()
		waiting := h.deliveries("waiting")
		require.Len(t, waiting, 1)
		require.Equal(t, sn, waiting[0].OrderSN)
		require.Greater(t, time.Until(*waiting[0].Next), c.least, name)
		require.Less(t, time.Until(*waiting[0].Next), c.most, name)
	}
}

func TestAGoneEndpointGetsNothing(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	h.endpoint.responds(status(http.StatusGone))
	h.order(1)
	require.Len(t, h.round(), 1)
	require.Equal(t, "gone", h.state())
	h.endpoint.responds(nil)
	missed := h.order(2)
	require.NoError(t, h.db.Exec("UPDATE reservations SET changed_at = changed_at - INTERVAL 2 MINUTE WHERE order_sn = ?", missed[1].OrderSN).Error)
	h.due()
	require.Empty(t, h.round())

	require.Equal(t, 200, h.do("PATCH", hooksPath+"/"+h.id, `{"state":"active"}`).status)
	require.Len(t, h.round(), 1, "of the last minute, whose changes may have been committed since; earlier ones are for a replay")
	h.follows(missed[0], contract.OrderPaid)
	require.Len(t, h.round(), 1)
	for _, state := range []string{"gone", "deleted"} {
		require.Equal(t, "state", h.do("PATCH", hooksPath+"/"+h.id, `{"state":"`+state+`"}`).field())
	}
}

// ages records the ages of the oldest deliveries.
type ages struct{ waiting, failing time.Duration }

func (a *ages) OldestDelivery(waiting, failing time.Duration, _ error) { *a = ages{waiting, failing} }

// An endpoint that is down shows also between the attempts, when nothing is due.
func TestTheAgeOfAWaitingDeliveryIsRecorded(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	recorded := &ages{}
	h.svc.webhooks.Recorder = recorded
	other := newEndpoint(t) // another merchant's, not sent to in this process
	otherID, _ := h.hook(h.mintFor("other", "clerk", auth.Merchant), other.URL)
	h.round()
	require.Equal(t, ages{}, *recorded)
	h.endpoint.responds(status(http.StatusInternalServerError))
	h.order(1)
	require.Len(t, h.round(), 1)
	age := func(d, of string) {
		t.Helper()
		require.NoError(t, h.db.Exec("UPDATE deliveries SET created_at = created_at - INTERVAL "+d+" WHERE endpoint_id = ?", of).Error)
	}
	age("1 HOUR", h.id)
	require.Empty(t, h.round(), "the next attempt is later")
	require.Zero(t, recorded.waiting)
	require.GreaterOrEqual(t, recorded.failing, time.Hour)

	require.NoError(t, h.db.Exec("INSERT INTO deliveries SELECT NULL, ?, order_sn, changed_at, type, 'waiting', 1, "+
		"UTC_TIMESTAMP(3) + INTERVAL 1 MINUTE, 0, '', body, UTC_TIMESTAMP(3) FROM deliveries", otherID).Error)
	age("1 MINUTE", otherID)
	h.round()
	require.Less(t, recorded.waiting, time.Hour, "one that fails does not hide one that is late")
	require.GreaterOrEqual(t, recorded.waiting, time.Minute)

	age("84 HOUR", h.id) // what waits behind others uses up no attempt, and does not wait forever
	h.round()
	require.GreaterOrEqual(t, recorded.failing, 84*time.Hour)
	require.NoError(t, h.svc.webhooks.Tidy(t.Context()))
	h.round()
	require.Zero(t, recorded.failing)
	require.Equal(t, "status 500", h.deliveries("failed")[0].Error)

	require.NoError(t, h.db.Exec("UPDATE webhooks SET scanned_to = scanned_to - INTERVAL 1 DAY WHERE id = ?", otherID).Error)
	h.send(t.Context())
	require.GreaterOrEqual(t, recorded.waiting, 23*time.Hour, "no scan for a day")
}

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		h.endpoint.responds(status(code, "Location", h.endpoint.URL+"/elsewhere"))
		h.order(1)
		require.Len(t, h.round(), 1, "%d", code)
		require.Equal(t, code, h.deliveries("waiting")[0].Status)
		h.resume()
	}
}

func TestBothSecretsSignFor24Hours(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	var v struct{ Secret string }
	got := h.do("POST", hooksPath+"/"+h.id+"/secret", "")
	require.Equal(t, 200, got.status, "%s", got.body)
	got.into(t, &v)
	h.order(1)
	r := h.round()[0]
	require.True(t, r.verifies(v.Secret))
	require.True(t, r.verifies(h.secret))
	h.ahead += 24*time.Hour + time.Minute
	h.order(1)
	r = h.round()[0]
	require.True(t, r.verifies(v.Secret))
	require.False(t, r.verifies(h.secret))

	var stored []string
	require.NoError(t, h.db.Table("webhooks").Pluck("CONCAT(secret, old_secret)", &stored).Error)
	require.NotContains(t, stored[0], strings.TrimPrefix(v.Secret, "whsec_"))
	require.NotContains(t, string(h.do("GET", hooksPath, "").body), "whsec_")

	// A rotation of the keys: with both of them, the tidying seals by the new one.
	h.svc.cfg.Webhooks.Keys = []string{otherHookKey, webhookKey}
	both, err := h.svc.newWebhooks()
	require.NoError(t, err)
	for id := range 150 { // secrets that no key opens do not hinder it
		require.NoError(t, h.db.Exec("INSERT INTO webhooks SELECT ?, merchant_id, url, types, 'off', 'lost.key', '', NULL, scanned_to, "+
			"replay, created_at, leased_to, failures FROM webhooks WHERE id = ?", id+1, h.id).Error)
	}
	require.NoError(t, h.db.Exec("UPDATE webhooks SET old_until = old_until - INTERVAL 2 DAY").Error)
	require.NoError(t, both.Tidy(t.Context()))
	require.NoError(t, h.db.Table("webhooks").Where("old_secret <> ''").Pluck("old_secret", &stored).Error)
	require.Empty(t, stored, "it has ended")
	h.svc.cfg.Webhooks.Keys = []string{otherHookKey}
	with, err := h.svc.newWebhooks()
	require.NoError(t, err)
	with.Client, with.Now, h.svc.webhooks = h.svc.webhooks.Client, h.svc.webhooks.Now, with
	h.order(1)
	require.True(t, h.round()[0].verifies(v.Secret))
}

// A process that is killed while it sends keeps its lease until that ends. Then another one sends.
func TestALeaseOfAKilledSenderEnds(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	h.order(1)
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	until, ok, err := h.svc.store.LeaseEndpoint(t.Context(), h.id, 30*time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	killed, err := h.svc.store.DueDeliveries(t.Context(), h.id, 10)
	require.NoError(t, err)
	require.Len(t, killed, 1)
	require.Empty(t, h.round())
	require.NoError(t, h.db.Exec("UPDATE webhooks SET leased_to = leased_to - INTERVAL 2 MINUTE").Error)
	require.Len(t, h.round(), 1)
	killed[0].State, killed[0].Attempts = webhooks.Failed, 1
	require.NoError(t, h.svc.store.EndAttempts(t.Context(), killed))
	require.Len(t, h.deliveries("delivered"), 1, "its result comes too late")
	require.NoError(t, h.db.Exec("UPDATE deliveries SET state = 'failed'").Error)
	killed[0].State, killed[0].Status = webhooks.Delivered, 204
	require.NoError(t, h.svc.store.EndAttempts(t.Context(), killed))
	require.Len(t, h.deliveries("delivered"), 1, "a success counts after it was given up, too")

	_, ok, err = h.svc.store.LeaseEndpoint(t.Context(), h.id, 30*time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, h.svc.store.ReturnEndpoint(t.Context(), h.id, until, 0, 0))
	_, ok, err = h.svc.store.LeaseEndpoint(t.Context(), h.id, 30*time.Second)
	require.NoError(t, err)
	require.False(t, ok, "the end of another lease ends none")

	h.order(1)
	require.Empty(t, h.round())
	require.NoError(t, h.db.Exec("UPDATE webhooks SET leased_to = leased_to + INTERVAL 1 HOUR").Error)
	require.Len(t, h.round(), 1, "no lease lasts an hour: the clock of the database was wrong")
}

// fullQueue cannot write.
type fullQueue struct{ webhooks.Queue }

func (fullQueue) EndAttempts(context.Context, []webhooks.Delivery) error {
	return errors.New("disk full")
}

// What was sent and cannot be written is sent again, but not at once.
func TestAnEndpointPausesWhenNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	h.order(1)
	queue := h.svc.webhooks.Queue
	h.svc.webhooks.Queue = fullQueue{queue}
	first := h.round()
	require.Len(t, first, 1)
	require.ErrorContains(t, h.svc.webhooks.Dispatch(t.Context(), t.Context(), t.Context()), "disk full")
	h.svc.webhooks.Wait()
	require.Empty(t, h.endpoint.taken())
	h.svc.webhooks.Queue = queue
	h.resume()
	again := h.round()
	require.Len(t, again, 1)
	require.Equal(t, first[0].id, again[0].id)
}

// A 410 of an address that its merchant has replaced meanwhile does not end the new one.
func TestAGoneAddressDoesNotEndTheNextOne(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	begun, release := make(chan struct{}), make(chan struct{})
	h.endpoint.responds(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-release
		w.WriteHeader(http.StatusGone)
	})
	h.order(1)
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	require.NoError(t, h.svc.webhooks.Dispatch(t.Context(), t.Context(), t.Context()))
	<-begun
	require.Equal(t, 200, h.do("PATCH", hooksPath+"/"+h.id, `{"url":"`+h.endpoint.URL+`/next"}`).status)
	close(release)
	h.svc.webhooks.Wait()
	require.Equal(t, "active", h.state())
}

// A change whose transaction commits after the creation of an endpoint may have an earlier time.
func TestAnEndpointGetsChangesThatCommitLater(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	sn := h.order(1)[0].OrderSN
	late := func() {
		t.Helper()
		require.NoError(t, h.db.Exec("UPDATE reservations SET changed_at = UTC_TIMESTAMP(3) - INTERVAL 5 SECOND WHERE order_sn = ?", sn).Error)
	}
	late()
	require.Len(t, h.round(), 1, "after the creation")
	for _, state := range []string{"off", "active"} {
		require.Equal(t, 200, h.do("PATCH", hooksPath+"/"+h.id, `{"state":"`+state+`"}`).status)
	}
	late()
	h.ahead += time.Minute // a full pass
	require.Len(t, h.round(), 1, "after the activation")
}

// feeds counts the pages that a scan reads.
type feeds struct {
	of    webhooks.Feed
	first func() // happens before the first page, unless it is nil
	pages int
}

func (f *feeds) Feed(ctx context.Context, r merchants.FeedRequest) (merchants.FeedPage, error) {
	if f.pages++; f.pages == 1 && f.first != nil {
		f.first()
	}
	return f.of.Feed(ctx, r)
}

// The changes of a merchant are read once for all of its endpoints. Each gets those since shortly before its creation,
// and a replay of one sends nothing to another.
func TestEndpointsOfAMerchantShareAScan(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	counted := &feeds{of: h.svc.webhooks.Feed}
	h.svc.webhooks.Feed = counted
	early := h.order(1)[0]
	require.NoError(t, h.db.Exec("UPDATE reservations SET changed_at = changed_at - INTERVAL 2 MINUTE").Error)
	require.NoError(t, h.db.Exec("UPDATE webhooks SET scanned_to = scanned_to - INTERVAL 5 MINUTE").Error)
	second, _ := h.hook(h.token, h.endpoint.URL)
	both := h.order(1)[0]
	got := h.round()
	require.Len(t, got, 3)
	require.Equal(t, 1, counted.pages)
	for _, r := range got {
		require.False(t, strings.Contains(r.id, second) && r.event.Subject == early.OrderSN, "%s", r.id)
		require.Contains(t, []string{early.OrderSN, both.OrderSN}, r.event.Subject)
	}
	require.Empty(t, h.round())
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	require.Equal(t, 200, h.do("POST", hooksPath+"/"+second+"/replay", `{"since":"`+since+`"}`).status)
	got = h.round()
	require.Len(t, got, 2)
	for _, r := range got {
		require.Contains(t, r.id, second)
	}
}

// A burst of changes is scanned in several rounds, and no change is left out.
func TestABurstIsScannedInRounds(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	now := time.Now() // each round is a second to it
	h.svc.webhooks.Now = func() time.Time { return now }
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	for range 15 {
		h.order(100)
	}
	var added int64
	for round, want := range []int64{600, 1200, 1500, 1500} {
		require.NoError(t, h.svc.webhooks.Scan(t.Context()))
		require.NoError(t, h.db.Table("deliveries").Count(&added).Error)
		require.Equal(t, want, added, "round %d", round)
	}
}

// An endpoint that is added while a pass begins gets the changes from a minute before on, of which the pass has read some.
func TestAnEndpointIsAddedWhileAPassBegins(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	now := time.Now()
	h.svc.webhooks.Now = func() time.Time { return now }
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	now = now.Add(59 * time.Second)
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	early := h.order(1)[0].OrderSN
	require.NoError(t, h.db.Exec("UPDATE reservations SET changed_at = changed_at - INTERVAL 65 SECOND").Error)
	require.NoError(t, h.db.Exec("UPDATE webhooks SET scanned_to = scanned_to - INTERVAL 5 MINUTE").Error)
	for range 7 {
		h.order(100)
	}
	var second string
	h.svc.webhooks.Feed = &feeds{of: h.svc.webhooks.Feed, first: func() {
		second, _ = h.hook(h.token, h.endpoint.URL)
		require.NoError(t, h.db.Exec("UPDATE webhooks SET scanned_to = scanned_to - INTERVAL 10 SECOND WHERE id = ?", second).Error)
	}}
	for range 4 {
		now = now.Add(time.Second)
		require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	}
	now = now.Add(time.Minute)
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	var added []string
	require.NoError(t, h.db.Table("deliveries").Where("endpoint_id = ?", second).Pluck("order_sn", &added).Error)
	require.Len(t, added, 701)
	require.Contains(t, added, early)
}

// Short passes leave out sales that ended days ago; the next full one has their changes, such as a refund.
func TestAChangeOfAnOldSaleIsSentByTheNextFullPass(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	bought := h.order(1)[0]
	require.Len(t, h.round(), 1)
	require.NoError(t, h.db.Exec("UPDATE activities SET ends_at = ends_at - INTERVAL 90 DAY").Error)
	h.follows(bought, contract.OrderPaid)
	require.Empty(t, h.round())
	h.ahead += time.Minute
	require.Equal(t, "order.paid", h.round()[0].event.Type)
}

// One process scans while it holds the lock, and no other does.
func TestOneProcessScans(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	other := newShopOn(t, h.db, withWebhooks)
	other.svc.locker = h.svc.locker
	counted := &feeds{of: other.svc.webhooks.Feed}
	other.svc.webhooks.Feed = counted
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.svc.scanForWebhooks(ctx) }()
	for n := 1; n <= 2; n++ { // two rounds under one lock
		h.order(1)
		require.Eventually(t, func() bool { return len(h.deliveries("waiting")) == n }, time.Minute, 10*time.Millisecond)
	}
	require.NoError(t, other.svc.scanForWebhooks(t.Context()))
	require.Zero(t, counted.pages)
	end()
	<-done
}

// At its end a process finishes the attempts that have begun, and returns the other deliveries.
func TestAnEndingSenderDrains(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	begun, release := make(chan struct{}, 100), make(chan struct{})
	h.endpoint.responds(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-release
		w.WriteHeader(http.StatusNoContent)
	})
	h.order(20)
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	ctx, end := context.WithCancel(t.Context())
	require.NoError(t, h.svc.webhooks.Dispatch(t.Context(), ctx, t.Context()))
	for range 8 {
		<-begun
	}
	end()
	close(release)
	h.svc.webhooks.Wait()
	require.Len(t, h.deliveries("delivered"), 8)
	waiting := h.deliveries("waiting")
	require.Len(t, waiting, 12)
	require.Zero(t, waiting[0].Attempts)
	h.endpoint.responds(nil)
	h.round()
	require.Len(t, h.deliveries("delivered"), 20)
}

// A failing endpoint uses up the attempts of few deliveries, and another merchant gets theirs meanwhile.
func TestAFailingEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	slow := newEndpoint(t)
	release := make(chan struct{})
	slow.responds(func(w http.ResponseWriter, _ *http.Request) { <-release; w.WriteHeader(http.StatusBadGateway) })
	h.svc.webhooks.Client = hookClient(t, h.endpoint, slow)
	slowID, _ := h.hook(h.token, slow.URL)
	h.order(60)
	require.NoError(t, h.svc.webhooks.Scan(t.Context()))
	require.NoError(t, h.svc.webhooks.Dispatch(t.Context(), t.Context(), t.Context()))
	require.Eventually(t, func() bool {
		h.endpoint.mu.Lock()
		defer h.endpoint.mu.Unlock()
		return len(h.endpoint.got) == 60
	}, time.Minute, 10*time.Millisecond)
	close(release)
	h.svc.webhooks.Wait()
	attempted := func() (n int64) {
		require.NoError(t, h.db.Table("deliveries").Where("endpoint_id = ? AND attempts > 0", slowID).Count(&n).Error)
		return n
	}
	failed := attempted()
	require.LessOrEqual(t, failed, int64(15), "eight failures, and what had begun")
	h.send(t.Context())
	require.Equal(t, failed, attempted(), "the endpoint pauses")
	h.resume()
	h.send(t.Context())
	require.Equal(t, failed+1, attempted(), "one at a time")
	slow.responds(nil)
	h.resume()
	h.send(t.Context())
	h.send(t.Context())
	require.EqualValues(t, 60, attempted(), "all, after one has succeeded")
}

// An endpoint that cannot be scanned, or whose secret no key opens, delays no other.
func TestABrokenWebhookDelaysNoOther(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	broken, _ := h.hook(h.token, h.endpoint.URL)
	require.NoError(t, h.db.Exec("UPDATE webhooks SET replay = 'broken', secret = 'unknown.key' WHERE id = ?", broken).Error)
	h.order(3)
	require.Error(t, h.svc.webhooks.Scan(t.Context()))
	h.send(t.Context())
	require.Len(t, h.endpoint.taken(), 3)
	var failures []string
	require.NoError(t, h.db.Table("deliveries").Where("endpoint_id = ?", broken).Distinct().Pluck("error", &failures).Error)
	require.Equal(t, []string{"the secret cannot be read: replace it"}, failures)
	require.Equal(t, 200, h.do("POST", hooksPath+"/"+broken+"/secret", "").status)
	h.due()
	h.send(t.Context())
	require.Len(t, h.endpoint.taken(), 3)
}

func TestAWebhookIsTestedAndReplayed(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	type outcome struct {
		Status int
		Error  string
	}
	try := func() (v outcome) {
		got := h.do("POST", hooksPath+"/"+h.id+"/test", "")
		require.Equal(t, 200, got.status, "%s", got.body)
		got.into(t, &v)
		return v
	}
	require.Equal(t, 204, try().Status)
	got := h.endpoint.taken()
	require.Equal(t, "webhook.test", got[0].event.Type)
	require.True(t, got[0].verifies(h.secret))
	h.endpoint.responds(status(500))
	require.Equal(t, "status 500", try().Error)
	h.endpoint.responds(nil)
	h.endpoint.taken()

	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	bought := h.order(2)
	first := map[string]bool{}
	for _, r := range h.round() {
		first[r.id] = true
	}
	require.Len(t, first, 2)
	replay := func(since string) response {
		return h.do("POST", hooksPath+"/"+h.id+"/replay", `{"since":"`+since+`"}`)
	}
	require.Equal(t, 200, replay(since).status)
	again := map[string]bool{}
	for _, r := range h.round() {
		again[r.id] = true
	}
	require.Equal(t, first, again, "with the same ids")
	require.Empty(t, h.round())
	h.follows(bought[0], contract.OrderPaid)
	require.Len(t, h.round(), 1)
	for _, wrong := range []string{"2020-01-01T00:00:00Z", "2199-01-01T00:00:00Z"} {
		require.Equal(t, "since", replay(wrong).field(), wrong)
	}
	require.Equal(t, 200, h.do("PATCH", hooksPath+"/"+h.id, `{"state":"off"}`).status)
	require.Equal(t, "state_conflict", replay(since).code())

	require.NoError(t, h.db.Exec("UPDATE deliveries SET created_at = '2020-01-01' WHERE order_sn = ?", bought[1].OrderSN).Error)
	require.NoError(t, h.svc.webhooks.Tidy(t.Context()))
	require.Len(t, h.deliveries("delivered"), 2, "those of the last 30 days")
}

func TestWebhooksOfAMerchantAreBounded(t *testing.T) {
	t.Parallel()
	s := newShop(t, withWebhooks)
	add := func(token, body string) response { return s.as(token, "POST", hooksPath, body) }
	for range 5 {
		require.Equal(t, 201, add(s.token, webhookBody("a")).status)
	}
	sixth := add(s.token, webhookBody("a"))
	require.Equal(t, "quota_exceeded", sixth.code())
	require.Contains(t, string(sixth.body), `"limit":5,`)
	other := s.mintFor("other", "clerk", auth.Merchant)
	require.Equal(t, 201, add(other, webhookBody("a")).status)
	for body, field := range map[string]string{
		`{"url":"http://shop.example/","types":["order.paid"]}`:               "url",
		`{"url":"https://user@shop.example/","types":["order.paid"]}`:         "url",
		`{"url":"https://shop.example/#a","types":["order.paid"]}`:            "url",
		`{"url":"https:///a","types":["order.paid"]}`:                         "url",
		`{"url":"https://shop.example/","types":[]}`:                          "types",
		`{"url":"https://shop.example/","types":["order.lost"]}`:              "types[0]",
		`{"url":"https://shop.example/","types":["order.paid","order.paid"]}`: "types[1]",
	} {
		require.Equal(t, field, add(other, body).field(), body)
	}

	without := newShopOn(t, s.db)
	refused := without.do("GET", hooksPath, "")
	require.Equal(t, "state_conflict", refused.code())
	require.Contains(t, string(refused.body), "WEBHOOK_KEYS")
	require.NoError(t, without.svc.webhooks.Scan(t.Context()))
	require.NoError(t, without.svc.webhooks.Dispatch(t.Context(), t.Context(), t.Context()))
}

// Without Redis there is no lock for the scan, and webhooks go on. A paused sale changes nothing.
func TestWebhooksGoOnWithoutRedis(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	require.Equal(t, 200, h.do("POST", "/v1/merchant/activities/"+h.activity+"/pause", "").status)
	bought := h.order(1)
	h.mini.Close()
	require.NoError(t, h.svc.scanForWebhooks(t.Context()))
	h.send(t.Context())
	got := h.endpoint.taken()
	require.Len(t, got, 1)
	require.Equal(t, bought[0].OrderSN, got[0].event.Subject)
}

// The loops of the process deliver, and end without leaving an attempt.
func TestComponentsDeliver(t *testing.T) {
	t.Parallel()
	h := newHookShop(t)
	ctx, end := context.WithCancel(t.Context())
	var parts []lifecycle.Component
	for _, c := range h.svc.Components() {
		if strings.HasPrefix(c.Name, "inventory webhook") {
			parts = append(parts, c)
		}
	}
	require.Len(t, parts, 2)
	done := make(chan error, 1)
	go func() { done <- lifecycle.Run(ctx, h.svc.deps.Telemetry.Log, 10*time.Second, parts...) }()
	h.order(10)
	require.Eventually(t, func() bool { return len(h.deliveries("delivered")) == 10 }, time.Minute, 50*time.Millisecond)
	end()
	require.NoError(t, <-done)
}

func TestWrongSettingsOfWebhooks(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Webhooks{
		"": {},
		"WEBHOOK_KEYS holds a key (number 2) that is not base64 of 32 bytes":            {Keys: []string{webhookKey, "short"}},
		"WEBHOOK_NETWORKS holds \"10.0.0.1/8\", which is no network such as 10.0.0.0/8": {Networks: []string{"10.0.0.1/8"}},
		"WEBHOOK_NETWORKS holds \"shop\", which is no network such as 10.0.0.0/8":       {Networks: []string{"shop"}},
		"WEBHOOK_NETWORKS holds 0.0.0.0/0, which is wider than any private network":     {Networks: []string{"0.0.0.0/0"}},
		"WEBHOOK_NETWORKS holds 169.254.0.0/16, which is link-local and never admitted": {Networks: []string{"10.0.0.0/8", "169.254.0.0/16"}},
	} {
		err := c.Validate(true)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}
