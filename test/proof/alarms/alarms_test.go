package alarms

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/http"
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

// A fault is one that an alert is for.
type fault struct {
	alert  string
	labels map[string]string // some of the alert's
	window time.Duration     // of its expression
	begin  func(t *testing.T)
	end    func(t *testing.T)
	more   []string // alerts that the same fault has
}

// TestAlarms waits for a quiet time without alarms, requires series for every panel, and makes one thing
// after another fail while buyers buy. Each alarm must come within a minute, and end when its cause has.
func TestAlarms(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Minute)
	defer cancel()
	c := client.New(client.Origins{Seckill: s.edge, Order: s.edge, Inventory: s.edge}, client.Options{Secret: rig.TokenSecret, Timeout: 10 * time.Second})
	t.Cleanup(c.Close)
	r := &rig.Rig{Client: c}
	sale := shop.Open(t, r, shop.Sale{Stock: 1_000_000, PayWithinS: 10})
	later := shop.Open(t, r, shop.Sale{Stock: 1, PayWithinS: 60, StartsIn: 50 * time.Minute})
	stop := buy(ctx, c, sale)
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
	var right func() // the clock of Redis
	for _, f := range []fault{
		{
			alert: "FlashsaleBrokerDown", begin: dependency("kill", "broker"), end: dependency("up", "broker"),
		},
		{
			alert: "FlashsaleRedisDown", labels: map[string]string{"service": "seckill"}, more: []string{"FlashsaleServerErrors"},
			window: time.Minute, begin: dependency("kill", "redis"), end: dependency("up", "redis"),
		},
		{
			alert: "FlashsaleMySQLDown", labels: map[string]string{"service": "order"},
			begin: dependency("kill", "mariadb"), end: dependency("up", "mariadb"),
		},
		{
			alert: "FlashsaleServiceDown", labels: map[string]string{"service": "order"},
			begin: service("kill", "order"), end: service("up", "order"),
		},
		{
			alert: "FlashsaleServiceDown", labels: map[string]string{"service": "seckill"}, more: []string{"FlashsaleEdgeErrors"},
			begin: service("kill", "seckill"), end: service("up", "seckill"),
		},
		{ // inventory hangs, so nothing lands
			alert: "FlashsaleLandingStalled", window: 3 * time.Minute, begin: signal(syscall.SIGSTOP), end: signal(syscall.SIGCONT),
		},
		{
			alert: "FlashsaleClockOff", labels: map[string]string{"flashsale_dependency": "redis"},
			begin: func(t *testing.T) {
				right = s.lateClock(t)
				restart(t)
			},
			end: func(t *testing.T) {
				right()
				restart(t)
			},
		},
		{ // a message that nothing can read
			alert: "FlashsaleDeadLetters", window: events,
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
			alert: "FlashsaleRepairs", window: events, end: nothing,
			begin: func(t *testing.T) { s.damage(ctx, t, later) },
		},
		{ // the provider has charged what no order has
			alert: "FlashsaleIncident", labels: map[string]string{"flashsale_kind": "unknown_payment"}, window: events, end: nothing,
			begin: func(t *testing.T) { s.charge(ctx, t) },
		},
	} {
		t.Run(f.alert+" "+f.labels["service"], func(t *testing.T) {
			began := time.Now()
			f.begin(t)
			for _, name := range append([]string{f.alert}, f.more...) {
				labels := f.labels
				if name != f.alert {
					labels = nil
				}
				s.becomes(ctx, t, name, labels, true, time.Until(began.Add(firesWithin)))
				t.Logf("%s fired after %s", name, time.Since(began).Round(time.Second))
			}
			f.end(t)
			ended := time.Now()
			s.becomes(ctx, t, f.alert, f.labels, false, f.window+endsWithin)
			t.Logf("%s ended %s after the fault", f.alert, time.Since(ended).Round(time.Second))
			require.NoError(t, shop.Poll(ctx, func() (bool, error) {
				return s.received.has(f.alert+" firing") && s.received.has(f.alert+" resolved"), nil
			}))
		})
	}
}

// panels requires that Prometheus has a series for each query of each panel.
func (s *set) panels(ctx context.Context, t *testing.T) {
	n := 0
	for _, d := range dashboards.All() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					found, err := s.series(ctx, strings.ReplaceAll(q.Expr, "$__rate_interval", "1m"))
					require.NoError(t, err, p.Title)
					require.Positive(t, found, "%s: %s", p.Title, q.Expr)
					n++
				}
			}
		}
	}
	t.Logf("%d queries have series", n)
}

// becomes waits until an alert with these labels fires, or does not.
func (s *set) becomes(ctx context.Context, t *testing.T, name string, labels map[string]string, fires bool, within time.Duration) {
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
			if a.is(name, labels) {
				return fires, nil
			}
		}
		return !fires, nil
	})
	require.NoError(t, err, "%s %v: fires = %t within %s; firing: %v", name, labels, fires, within.Round(time.Second), last)
}

func (a alert) is(name string, labels map[string]string) bool {
	for k, v := range labels {
		if a.Labels[k] != v {
			return false
		}
	}
	return a.Labels["alertname"] == name
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
	require.NoError(t, rdb.HIncrBy(ctx, "fs:{"+sale.ActivityID+"}:gate", "s:"+sale.SKUID, -1).Err())
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		compared, err := sale.Merchant.Reconcile(ctx, sale.ActivityID)
		return len(compared.Repairs) > 0, err
	}))
}

// charge reports a payment that order does not have, as its provider does.
func (s *set) charge(ctx context.Context, t *testing.T) {
	t.Helper()
	body := `{"event_id":"evt_nobody","payment_id":"4984557191785365628","outcome":"succeeded","amount":9900,"currency":"EUR"}`
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(order.DevelopmentSandboxSecret))
	mac.Write([]byte(at + "." + body))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.edge+"/v1/payments/callbacks/sandbox", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Payment-Signature", "t="+at+",v1="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusAccepted, resp.StatusCode)
}
