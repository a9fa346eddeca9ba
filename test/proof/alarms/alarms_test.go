package alarms

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/services/order"
	"flashsale.internal/test/chart/dashboards"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

var quiet = flag.Duration("quiet", 10*time.Minute, "how long nothing fails, and nothing may fire")

const (
	firesWithin = time.Minute            // of the fault
	endsWithin  = time.Minute            // of its end, after the window of its expression
	events      = 5 * time.Minute        // window of expressions that count events
	buyEvery    = 400 * time.Millisecond // interval of the load's purchases
)

// An expected alert is one that a fault has.
type expected struct {
	name   string
	labels map[string]string // some of the alert's
	window time.Duration     // of its expression
}

func (e expected) String() string {
	return strings.Join(append([]string{e.name}, slices.Collect(maps.Values(e.labels))...), " ")
}

// A fault is what alerts are for. The first names it.
type fault struct {
	alerts     []expected
	begin, end func(t *testing.T)
}

// TestAlarms waits for a quiet time without alarms, requires series for every panel, and makes one thing
// after another fail while buyers buy. Each alarm must come within a minute, and end when its cause has.
func TestAlarms(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Minute)
	defer cancel()
	within := func(timeout time.Duration) *client.Client {
		c := client.New(client.Origins{Seckill: s.edge, Order: s.edge, Inventory: s.edge}, client.Options{Secret: rig.TokenSecret, Timeout: timeout})
		t.Cleanup(c.Close)
		return c
	}
	r := &rig.Rig{Client: within(time.Minute)} // a comparison takes some 20 s
	sale := shop.Open(t, r, shop.Sale{Stock: 1_000_000, PayWithinS: 10})
	later := shop.Open(t, r, shop.Sale{Stock: 1, PayWithinS: 60, StartsIn: 50 * time.Minute})
	stop := buy(ctx, within(10*time.Second), sale)
	defer stop()

	require.NoError(t, shop.Poll(ctx, func() (bool, error) { // Prometheus has read every process
		firing, err := s.firing(ctx)
		up, upErr := s.series(ctx, `up{job="flashsale"} == 1`)
		return len(firing) == 0 && up == 4, errors.Join(err, upErr)
	}))
	t.Run("quiet", func(t *testing.T) {
		until := time.Now().Add(*quiet)
		for time.Now().Before(until) {
			firing, err := s.firing(ctx)
			require.NoError(t, err)
			require.Empty(t, firing)
			require.NoError(t, shop.Until(ctx, time.Now().Add(5*time.Second)))
		}
	})
	t.Run("panels", func(t *testing.T) { s.panels(ctx, t) })

	signal := func(sig syscall.Signal) func(t *testing.T) {
		return func(t *testing.T) { require.NoError(t, syscall.Kill(s.pid(t, "inventory"), sig)) }
	}
	dependency := func(verb, name string) func(t *testing.T) {
		return func(t *testing.T) { s.dependencies(t, verb, name) }
	}
	service := func(verb, name string) func(t *testing.T) { return func(t *testing.T) { s.services(t, verb, name) } }
	nothing := func(*testing.T) {}
	restart := func(t *testing.T) {
		s.dependencies(t, "kill", "redis")
		s.dependencies(t, "up", "redis")
	}
	of := func(alert, label, value string, window time.Duration) expected {
		return expected{name: alert, labels: map[string]string{label: value}, window: window}
	}
	var right func()   // the clock of Redis
	var webhook string // path of the endpoint
	for _, f := range []fault{
		{
			alerts: []expected{of("FlashsaleBrokerDown", "service", "seckill", 0)},
			begin:  dependency("kill", "broker"), end: dependency("up", "broker"),
		},
		{
			alerts: []expected{
				of("FlashsaleRedisDown", "service", "seckill", 0), of("FlashsaleServerErrors", "service", "seckill", time.Minute),
			},
			begin: dependency("kill", "redis"), end: dependency("up", "redis"),
		},
		{
			alerts: []expected{of("FlashsaleMySQLDown", "service", "order", 0)},
			begin:  dependency("kill", "mariadb"), end: dependency("up", "mariadb"),
		},
		{
			alerts: []expected{of("FlashsaleServiceDown", "service", "order", 0)},
			begin:  service("kill", "order"), end: service("up", "order"),
		},
		{
			alerts: []expected{
				of("FlashsaleServiceDown", "service", "seckill", 0), {name: "FlashsaleEdgeErrors", window: time.Minute},
			},
			begin: service("kill", "seckill"), end: service("up", "seckill"),
		},
		{ // inventory hangs, so nothing lands
			alerts: []expected{{name: "FlashsaleLandingStalled", window: 3 * time.Minute}},
			begin:  signal(syscall.SIGSTOP), end: signal(syscall.SIGCONT),
		},
		{
			alerts: []expected{of("FlashsaleClockOff", "flashsale_dependency", "redis", 0)},
			begin: func(t *testing.T) {
				right = s.lateClock(t)
				restart(t)
			},
			end: func(t *testing.T) {
				right()
				restart(t)
			},
		},
		{ // the endpoint of a merchant refuses connections
			alerts: []expected{{name: "FlashsaleWebhooksLate"}},
			begin:  func(t *testing.T) { webhook = s.subscribe(ctx, t, sale.Merchant, porttest.Refusing(t)) },
			end: func(t *testing.T) {
				s.call(ctx, t, http.MethodPatch, webhook, bearer(sale.Merchant), `{"state":"off"}`, http.StatusOK)
			},
		},
		{ // a message that nothing can read
			alerts: []expected{{name: "FlashsaleDeadLetters"}},
			begin: func(t *testing.T) {
				s.dependencies(t, "mqadmin", "sendMessage", "-t", "seckill-reservations", "-p", "no reservation")
			},
			end: func(t *testing.T) {
				operator := shop.Operator(t, r)
				letters, err := operator.DeadLetters(ctx, "")
				require.NoError(t, err)
				require.Len(t, letters, 1)
				require.NoError(t, operator.ResolveDeadLetter(ctx, fmt.Sprint(letters[0]["dead_letter_id"]), "reject"))
			},
		},
		{ // the gate of the sale that has not begun loses a unit
			alerts: []expected{{name: "FlashsaleRepairs", window: events}},
			begin:  func(t *testing.T) { s.damage(ctx, t, later) }, end: nothing,
		},
		{ // the provider has charged what no order has
			alerts: []expected{of("FlashsaleIncident", "flashsale_kind", "unknown_payment", events)},
			begin:  func(t *testing.T) { s.charge(ctx, t) }, end: nothing,
		},
	} {
		t.Run(f.alerts[0].String(), func(t *testing.T) {
			before := make(map[string]int) // messages of Alertmanager
			notified := func(e expected, status string) {
				what := e.name + " " + status
				require.NoError(t, shop.Poll(ctx, func() (bool, error) { return s.received.count(what) > before[what], nil }))
			}
			for _, a := range f.alerts {
				s.becomes(ctx, t, expected{name: a.name}, false, events+endsWithin) // after the fault before
				for _, what := range []string{a.name + " firing", a.name + " resolved"} {
					before[what] = s.received.count(what)
				}
			}
			began := time.Now()
			f.begin(t)
			for _, a := range f.alerts {
				s.becomes(ctx, t, a, true, time.Until(began.Add(firesWithin)))
				t.Logf("%s fired after %s", a, time.Since(began).Round(time.Second))
			}
			for _, a := range f.alerts {
				notified(a, "firing")
			}
			ended := time.Now()
			f.end(t)
			for _, a := range f.alerts {
				s.becomes(ctx, t, expected{name: a.name}, false, time.Until(ended.Add(a.window+endsWithin))) // with any labels
				t.Logf("%s ended %s after the fault", a, time.Since(ended).Round(time.Second))
			}
			for _, a := range f.alerts {
				notified(a, "resolved")
			}
		})
	}
}

// panels requires that Prometheus has a series for each query of each panel. The first comparison with a payment
// provider ends a minute after order's start.
func (s *set) panels(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	n := 0
	var without []string
	err := shop.Poll(ctx, func() (bool, error) {
		n, without = 0, nil
		for _, d := range dashboards.All() {
			for _, row := range d.Rows {
				for _, p := range row.Panels {
					for _, q := range p.Queries {
						found, err := s.series(ctx, strings.ReplaceAll(q.Expr, "$__rate_interval", "1m"))
						if err != nil {
							return false, fmt.Errorf("%s: %w", p.Title, err)
						}
						if n++; found == 0 {
							without = append(without, p.Title+": "+q.Expr)
						}
					}
				}
			}
		}
		return len(without) == 0, nil
	})
	require.NoError(t, err, "%d queries, without series:\n%s", n, strings.Join(without, "\n"))
	t.Logf("%d queries have series", n)
}

// becomes waits until an alert with these labels fires, or does not.
func (s *set) becomes(ctx context.Context, t *testing.T, e expected, fires bool, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last []alert
	err := shop.Poll(ctx, func() (bool, error) {
		firing, err := s.firing(ctx)
		if err != nil {
			return false, err
		}
		last = firing
		for _, a := range firing {
			if a.is(e) {
				return fires, nil
			}
		}
		return !fires, nil
	})
	require.NoError(t, err, "%s: fires = %t within %s; firing: %v", e, fires, within.Round(time.Second), last)
}

func (a alert) is(e expected) bool {
	for k, v := range e.labels {
		if a.Labels[k] != v {
			return false
		}
	}
	return a.Labels["alertname"] == e.name
}

// buy makes purchases all the time; every other buyer pays. What fails meanwhile does not count here.
func buy(ctx context.Context, c *client.Client, sale shop.Sale) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(buyEvery)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			select {
			case <-ctx.Done():
			case <-tick.C:
				work.Go(func() {
					one, end := context.WithTimeout(ctx, 30*time.Second)
					defer end()
					user := fmt.Sprintf("buyer-%d", n)
					token, err := c.Token(one, user)
					if err != nil {
						return
					}
					a := purchase.Buy(one, c.As(token), user, sale.ActivityID, sale.Lines())
					if a.Outcome == purchase.Accepted && n%2 == 0 {
						_ = purchase.Pay(one, c.As(token), a.OrderSN)
					}
				})
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// damage takes a unit out of a gate, and returns when inventory has put it back.
func (s *set) damage(ctx context.Context, t *testing.T, sale shop.Sale) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(16379+portOffset)})
	defer func() { _ = rdb.Close() }()
	gate, left := "fs:{"+sale.ActivityID+"}:gate", "s:"+sale.SKUID
	require.NoError(t, rdb.HIncrBy(ctx, gate, left, -1).Err())
	require.NoError(t, shop.Poll(ctx, func() (bool, error) { // the call or the pass of the timer repairs
		_, err := sale.Merchant.Reconcile(ctx, sale.ActivityID)
		units, readErr := rdb.HGet(ctx, gate, left).Int64()
		return units == sale.Stock, errors.Join(err, readErr)
	}))
}

// charge reports a payment that order does not have, as its provider does.
func (s *set) charge(ctx context.Context, t *testing.T) {
	t.Helper()
	body := `{"event_id":"evt_nobody","payment_id":"4984557191785365628","outcome":"succeeded","amount":9900,"currency":"EUR"}`
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(order.DevelopmentSandboxSecret))
	mac.Write([]byte(at + "." + body))
	s.call(ctx, t, http.MethodPost, "/v1/payments/callbacks/sandbox",
		http.Header{"Payment-Signature": {"t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil))}}, body, http.StatusAccepted)
}

// subscribe adds a webhook to an address and returns its path.
func (s *set) subscribe(ctx context.Context, t *testing.T, merchant *client.Caller, address string) (path string) {
	t.Helper()
	return s.call(ctx, t, http.MethodPost, "/v1/merchant/webhooks", bearer(merchant),
		`{"url":"https://`+address+`/","types":["order.created"]}`, http.StatusCreated).Get("Location")
}

func bearer(c *client.Caller) http.Header {
	return http.Header{"Authorization": {"Bearer " + c.Token()}}
}

// call calls a path of the edge and returns the header of the response, which must have the status.
func (s *set) call(
	ctx context.Context, t *testing.T, method, path string, header http.Header, body string, status int,
) http.Header {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.edge+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, "%s", text)
	return resp.Header
}
