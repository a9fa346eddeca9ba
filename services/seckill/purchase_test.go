package seckill_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill"
)

// each runs a test on miniredis and on a real Redis.
func each(t *testing.T, test func(t *testing.T, real bool)) {
	t.Run("miniredis", func(t *testing.T) { test(t, false) })
	t.Run("redis", func(t *testing.T) { test(t, true) })
}

func TestOnePurchase(t *testing.T) {
	each(t, func(t *testing.T, real bool) {
		r := newRig(t, setup{real: real})
		activity := r.sale(10)

		list := r.call("GET", "/v1/activities?limit=100", "", nil).is(t, 200, "")
		require.Equal(t, "public, max-age=1", list.Header.Get("Cache-Control"))
		require.Contains(t, list.raw, `"activity_id":"`+activity+`"`)
		one := r.call("GET", "/v1/activities/"+activity, "", nil).is(t, 200, "")
		require.Equal(t, "public, max-age=1", one.Header.Get("Cache-Control"))
		require.Equal(t, "open", one.body["state"])
		require.Equal(t, false, one.body["captcha"])
		require.NotEmpty(t, one.body["server_time"])
		require.Equal(t, map[string]any{"sku_id": "1", "name": "one", "image_url": "", "price": 100.0, "list_price": 0.0, "currency": "EUR", "currency_digits": 2.0, "total": 10.0, "left": 10.0, "paused": false},
			one.body["items"].([]any)[0])

		p := r.path("alice", activity)
		got := r.buy(p, oneOf("1")).is(t, http.StatusAccepted, "")
		result := "/v1/activities/" + activity + "/reservations/" + p.orderSN
		require.Equal(t, p.orderSN, got.body["order_sn"])
		require.Equal(t, "queued", got.body["status"])
		require.Equal(t, result, got.body["result_url"])
		require.Equal(t, result, got.Header.Get("Location"))
		require.True(t, strings.HasPrefix(got.str("events_url"), result+"/events?ticket="))
		require.Len(t, got.body, 4)

		require.Eventually(t, func() bool { return len(r.publishedFor(activity)) == 1 },
			30*time.Second, 5*time.Millisecond)
		item := r.publishedFor(activity)[0]
		require.Equal(t, p.orderSN, item.OrderSN)
		require.Equal(t, "alice", item.UserID)
		require.Equal(t, []contract.Line{{SKUID: "1", Qty: 1}}, item.Lines)
		require.Eventually(t, func() bool {
			a, err := r.gate.Audit(t.Context(), activity)
			return err == nil && a.JournalLen == 0
		}, 30*time.Second, 5*time.Millisecond)

		expires := r.now().Add(time.Minute)
		require.NoError(t, r.gate.Settle(t.Context(), activity, []stockgate.Settlement{{
			OrderSN: p.orderSN, UserID: "alice", Lines: item.Lines, Step: stockgate.StepCreated, ExpiresAt: expires,
		}}))
		want := map[string]any{
			"order_sn": p.orderSN, "activity_id": activity, "status": "created",
			"expires_at": expires.Format(time.RFC3339Nano), "order_url": "/v1/orders/" + p.orderSN,
			"lines": []any{map[string]any{"sku_id": "1", "qty": 1.0}},
		}
		// Each response has a ticket of its own.
		for _, have := range []map[string]any{
			r.call("GET", result, p.token, nil).is(t, 200, "").body,
			r.call("GET", "/v1/activities/"+activity+"/reservations", p.token, nil).is(t, 200, "").body["items"].([]any)[0].(map[string]any),
		} {
			require.Contains(t, have["events_url"], result+"/events?ticket=")
			require.NotEmpty(t, have["created_at"])
			delete(have, "events_url")
			delete(have, "created_at")
			require.Equal(t, want, have)
		}
		require.Equal(t, "created", r.buy(p, oneOf("1")).is(t, 202, "").body["status"],
			"the same path returns the present status")

		require.NoError(t, r.gate.Release(t.Context(), activity, []stockgate.Ending{{OrderSN: p.orderSN, UserID: "alice", Lines: item.Lines, Reason: "expired"}}))
		closed := r.call("GET", result, p.token, nil).is(t, 200, "")
		require.Equal(t, "closed", closed.body["status"])
		require.Equal(t, "expired", closed.body["reason"])
		require.Equal(t, "closed", r.buy(p, oneOf("1")).is(t, 202, "").body["status"])
	})
}

func TestPathsThatBuyNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity, other := r.sale(10), r.sale(10)
	p := r.path("alice", activity)

	t.Run("wrong", func(t *testing.T) {
		for _, bad := range []string{"x", p.path[:43] + "!", strings.Repeat("A", 44), p.path + "A", "%2e%2e", strings.Repeat("A", 3000)} {
			r.buy(path{p.token, bad, "", activity}, oneOf("1")).is(t, http.StatusForbidden, contract.CodePathInvalid)
		}
	})
	t.Run("another user's", func(t *testing.T) {
		r.buy(path{r.token("bob"), p.path, "", activity}, oneOf("1")).
			is(t, http.StatusForbidden, contract.CodePathInvalid)
	})
	t.Run("another activity's", func(t *testing.T) {
		r.buy(path{p.token, p.path, "", other}, oneOf("1")).is(t, http.StatusForbidden, contract.CodePathInvalid)
	})
	t.Run("of no activity", func(t *testing.T) {
		r.buy(path{p.token, p.path, "", "x"}, oneOf("1")).is(t, http.StatusNotFound, contract.CodeNotFound)
		r.call("POST", "/v1/activities/12345/paths", p.token, nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	})
	t.Run("repeated, then with other lines", func(t *testing.T) {
		second := r.path("alice", activity)
		first := r.buy(p, oneOf("1")).is(t, 202, "")
		again := r.buy(p, oneOf("1")).is(t, 202, "")
		require.Equal(t, first.body["order_sn"], again.body["order_sn"])
		r.buy(p, oneOf("2")).is(t, http.StatusConflict, contract.CodeIdempotencyConflict)
		for _, limit := range []response{
			r.buy(second, oneOf("1")), r.call("POST", "/v1/activities/"+activity+"/paths", p.token, nil),
		} {
			limit.is(t, http.StatusConflict, contract.CodeLimitReached)
			require.Equal(t, p.orderSN, limit.body["order_sn"])
			require.Equal(t, []any{p.orderSN}, limit.body["order_sns"])
		}
	})
	t.Run("expired", func(t *testing.T) {
		unused := r.path("carol", activity)
		r.setTime(time.Now().Add(6 * time.Minute))
		r.buy(unused, oneOf("1")).is(t, http.StatusForbidden, contract.CodePathExpired)
		require.Equal(t, p.orderSN, r.buy(p, oneOf("1")).is(t, 202, "").body["order_sn"],
			"a known path returns its purchase")
		r.buy(p, oneOf("2")).is(t, http.StatusConflict, contract.CodeIdempotencyConflict)
	})
}

// Paths cannot be kept for later purchases, and cancelled orders do not hold units for ever.
func TestHoardedPathsAndReorders(t *testing.T) {
	each(t, func(t *testing.T, real bool) {
		r := newRig(t, setup{real: real})
		activity := r.sale(10, func(c *stockgate.Config) { c.PerUserLimit, c.ReorderLimit = 2, 1 })
		cancel := func(p path) {
			require.NoError(t, r.gate.Settle(t.Context(), activity, []stockgate.Settlement{{
				OrderSN: p.orderSN, UserID: "alice", Lines: []contract.Line{{SKUID: "1", Qty: 1}}, Step: stockgate.StepCreated,
				ExpiresAt: r.now().Add(time.Minute),
			}}))
			require.NoError(t, r.gate.Release(t.Context(), activity, []stockgate.Ending{{
				OrderSN: p.orderSN, UserID: "alice", Lines: []contract.Line{{SKUID: "1", Qty: 1}}, Reason: "cancelled",
			}}))
		}
		first, hoarded := r.path("alice", activity), r.path("alice", activity)
		time.Sleep(2 * time.Millisecond) // paths of the same millisecond as the reservation stay valid
		r.buy(first, oneOf("1")).is(t, 202, "")
		r.buy(hoarded, oneOf("1")).is(t, http.StatusForbidden, contract.CodePathExpired)
		r.buy(first, oneOf("1")).is(t, 202, "")

		var second path
		require.Eventually(t, func() bool { // the clock of the order_sns may be behind that of the gate
			second = r.path("alice", activity)
			return r.buy(second, oneOf("1")).StatusCode == http.StatusAccepted
		}, 30*time.Second, 20*time.Millisecond)
		cancel(first)
		third := r.path("alice", activity)
		cancel(second)
		var refusedUntil string
		for _, refused := range []response{
			r.buy(third, oneOf("1")), r.call("POST", "/v1/activities/"+activity+"/paths", third.token, nil),
		} {
			refused.is(t, http.StatusConflict, contract.CodeLimitReached)
			require.NotContains(t, refused.body, "order_sn")
			refusedUntil = refused.str("barred_until")
			until, err := time.Parse(time.RFC3339Nano, refusedUntil)
			require.NoError(t, err)
			left := until.Sub(r.now())
			require.True(t, left > 5*time.Minute && left <= 10*time.Minute, left)
		}
		r.path("bob", activity)

		// The buyer's list states it too, and beforehand how many orders may still end so.
		own := func(user string) map[string]any {
			return r.call("GET", "/v1/activities/"+activity+"/reservations", r.token(user), nil).is(t, 200, "").body
		}
		barred := own("alice")
		require.Equal(t, []any{0.0, refusedUntil}, []any{barred["cancellations_left"], barred["barred_until"]})
		require.Len(t, barred["items"], 2)
		require.EqualValues(t, 1, own("bob")["cancellations_left"])
		require.NotContains(t, own("bob"), "barred_until")
		free := r.sale(10, func(c *stockgate.Config) { c.ReorderLimit = 0 })
		require.NotContains(t, r.call("GET", "/v1/activities/"+free+"/reservations", third.token, nil).is(t, 200, "").body, "cancellations_left")
	})
}

func TestWindowFollowsRedisTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	start := time.Now().Add(24 * time.Hour).Truncate(time.Second).UTC()
	r.setTime(start)
	activity := r.sale(10, func(c *stockgate.Config) { c.StartsAt, c.EndsAt = start, start.Add(3*time.Minute) })
	paths := "/v1/activities/" + activity + "/paths"
	unused, used := r.path("alice", activity), r.path("bob", activity)
	r.buy(used, oneOf("1")).is(t, 202, "")

	r.mini.SetTime(start.Add(-time.Second))
	refused := r.buy(unused, oneOf("1")).is(t, http.StatusConflict, contract.CodeActivityNotStarted)
	require.Equal(t, start.Format(time.RFC3339), refused.body["starts_at"])
	r.mini.SetTime(start.Add(-time.Minute)) // the service keeps its offset until the next measurement
	require.Eventually(t, func() bool {
		a := r.call("POST", paths, unused.token, nil)
		return a.body["code"] == string(contract.CodeActivityNotStarted) && a.body["starts_at"] == start.Format(time.RFC3339)
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, "scheduled", r.call("GET", "/v1/activities/"+activity, "", nil).body["state"])

	r.mini.SetTime(start.Add(3 * time.Minute))
	r.buy(unused, oneOf("1")).is(t, http.StatusConflict, contract.CodeActivityEnded)
	require.Equal(t, used.orderSN, r.buy(used, oneOf("1")).is(t, 202, "").body["order_sn"],
		"a known path returns its purchase after the end")
	require.Eventually(t, func() bool {
		return r.call("POST", paths, unused.token, nil).body["code"] == string(contract.CodeActivityEnded)
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, "ended", r.call("GET", "/v1/activities/"+activity, "", nil).body["state"])
}

func TestPathRouteRefusesSoonAfterAPause(t *testing.T) {
	each(t, func(t *testing.T, real bool) {
		r := newRig(t, setup{real: real})
		activity := r.sale(10)
		p := r.path("alice", activity)
		cfg := stockgate.Config{State: stockgate.GatePaused, StartsAt: r.now().Add(-time.Hour), EndsAt: r.now().Add(time.Hour), PerUserLimit: 1, Version: 2}
		require.NoError(t, r.gate.Configure(t.Context(), activity, cfg))
		paused := time.Now()
		r.buy(p, oneOf("1")).is(t, http.StatusConflict, contract.CodeActivityPaused)
		for {
			began := time.Now()
			a := r.call("POST", "/v1/activities/"+activity+"/paths", p.token, nil)
			if a.StatusCode != http.StatusCreated {
				a.is(t, http.StatusConflict, contract.CodeActivityPaused)
				break
			}
			time.Sleep(20 * time.Millisecond) // below the limit of one user
			// 200 ms on an idle machine; TestCacheFollowsTheGate tests the age
			require.Less(t, began.Sub(paused), 10*time.Second)
		}
	})
}

func TestSoldOut(t *testing.T) {
	each(t, func(t *testing.T, real bool) {
		r := newRig(t, setup{real: real})
		activity := r.sale(1)
		alice, bob, carol := r.path("alice", activity), r.path("bob", activity), r.path("carol", activity)
		r.buy(alice, oneOf("1")).is(t, 202, "")
		refused := r.buy(bob, oneOf("1")).is(t, http.StatusConflict, contract.CodeSoldOut)
		require.NotEmpty(t, refused.body["may_return_until"], "alice may not pay")
		r.path("dave", activity) // SKU 2 is left
		r.buy(carol, oneOf("2")).is(t, 202, "")

		paths := "/v1/activities/" + activity + "/paths"
		require.Eventually(t, func() bool {
			return r.call("POST", paths, bob.token, nil).body["code"] == string(contract.CodeSoldOut)
		}, 30*time.Second, 10*time.Millisecond)
		require.Equal(t, alice.orderSN, r.buy(alice, oneOf("1")).is(t, 202, "").body["order_sn"],
			"a known path returns its purchase while sold out")
		r.buy(bob, oneOf("1")).is(t, http.StatusConflict, contract.CodeSoldOut)

		require.NoError(t, r.gate.Release(t.Context(), activity, []stockgate.Ending{{OrderSN: alice.orderSN, UserID: "alice", Lines: []contract.Line{{SKUID: "1", Qty: 1}}, Reason: "expired"}}))
		require.Eventually(t, func() bool { return r.buy(bob, oneOf("1")).StatusCode == http.StatusAccepted },
			30*time.Second, 10*time.Millisecond)
	})
}

func TestInvalidPurchaseBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	p := r.path("alice", r.sale(1000))
	line := func(s string) string { return `{"lines":[` + s + `]}` }
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf(`{"sku_id":"%d","qty":1}`, i+1))
	}
	for name, body := range map[string]string{
		"qty 0":           line(`{"sku_id":"1","qty":0}`),
		"qty negative":    line(`{"sku_id":"1","qty":-1}`),
		"qty 1.5":         line(`{"sku_id":"1","qty":1.5}`),
		"qty over":        line(`{"sku_id":"1","qty":101}`),
		"qty 10^30":       line(`{"sku_id":"1","qty":1e30}`),
		"qty 10^30, long": line(`{"sku_id":"1","qty":1000000000000000000000000000000}`),
		"qty a string":    line(`{"sku_id":"1","qty":"1"}`),
		"qty missing":     line(`{"sku_id":"1"}`),
		"qty null":        line(`{"sku_id":"1","qty":null}`),
		"SKU missing":     line(`{"qty":1}`),
		"SKU a number":    line(`{"sku_id":1,"qty":1}`),
		"SKU malformed":   line(`{"sku_id":"01","qty":1}`),
		"SKU unknown":     line(`{"sku_id":"99","qty":1}`),
		"SKU twice":       line(`{"sku_id":"1","qty":1},{"sku_id":"1","qty":1}`),
		"no lines":        line(``),
		"lines missing":   `{}`,
		"lines null":      `{"lines":null}`,
		"too many lines":  line(strings.Join(many, ",")),
		"unknown field":   `{"lines":[{"sku_id":"1","qty":1}],"coupon":"x"}`,
		"unknown in line": line(`{"sku_id":"1","qty":1,"price":1}`),
		"other case":      `{"Lines":[{"sku_id":"1","qty":1}]}`,
		"two values":      `{"lines":[{"sku_id":"1","qty":1}]}{"lines":[]}`,
		"trailing text":   `{"lines":[{"sku_id":"1","qty":1}]} x`,
		"an array":        `[]`,
		"not JSON":        `lines=1`,
		"cut":             `{"lines":[`,
		"empty":           ` `,
	} {
		t.Run(name, func(t *testing.T) {
			refused := r.buy(p, body).is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
			require.NotEmpty(t, refused.body["errors"])
		})
	}
	t.Run("over the limit of the sale", func(t *testing.T) {
		r.buy(p, line(`{"sku_id":"1","qty":2}`)).is(t, http.StatusConflict, contract.CodeLimitReached)
	})
	t.Run("too large", func(t *testing.T) {
		r.buy(p, `{"lines":[`+strings.Repeat(" ", 70_000)+`]}`).
			is(t, http.StatusRequestEntityTooLarge, contract.CodeBodyTooLarge)
	})
	t.Run("another content type", func(t *testing.T) {
		r.call("POST", "/v1/activities/"+p.activity+"/paths/"+p.path+"/reservations",
			p.token, oneOf("1"), "Content-Type", "text/plain").
			is(t, http.StatusUnsupportedMediaType, contract.CodeUnsupportedMediaType)
	})
	r.buy(p, oneOf("1")).is(t, 202, "")
}

// Many concurrent buyers on a real gate: exactly the stock is sold, and only accepted purchases are published.
func TestConcurrentBuyersGetExactlyTheStock(t *testing.T) {
	r := newRig(t, setup{real: true, cfg: func(c *config) { c.PathRate = 100_000 }})
	const buyers, units = 1000, 100
	activity := r.sale(units)
	var accepted, soldOut atomic.Int32
	var winners sync.Map
	var wg sync.WaitGroup
	for n := range buyers {
		token := r.token(fmt.Sprintf("buyer-%d", n))
		wg.Go(func() {
			a, err := r.retry("/v1/activities/"+activity+"/paths", token, nil)
			if err == nil && a.StatusCode == http.StatusCreated {
				a, err = r.retry("/v1/activities/"+activity+"/paths/"+a.str("path")+"/reservations", token, oneOf("1"))
			}
			switch {
			case err != nil:
				t.Error(err)
			case a.StatusCode == http.StatusAccepted:
				accepted.Add(1)
				winners.Store(a.body["order_sn"], fmt.Sprintf("buyer-%d", n))
			case a.body["code"] == string(contract.CodeSoldOut):
				soldOut.Add(1)
			default:
				t.Errorf("%d %s", a.StatusCode, a.raw)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, units, accepted.Load())
	require.EqualValues(t, buyers-units, soldOut.Load())
	require.Eventually(t, func() bool { return len(r.publishedFor(activity)) >= units },
		time.Minute, 5*time.Millisecond)
	r.stop()
	published := map[string]bool{}
	for _, item := range r.publishedFor(activity) {
		user, ok := winners.Load(item.OrderSN)
		require.True(t, ok, "published but never accepted")
		require.Equal(t, user, item.UserID)
		published[item.OrderSN] = true // a relay publishes again after a time-out
	}
	require.Len(t, published, units)
	a, err := r.gate.Audit(t.Context(), activity)
	require.NoError(t, err)
	require.Zero(t, a.JournalLen)
	require.Zero(t, a.SKUs["1"].Left)
}

func TestEntriesOfADeadRelayArePublished(t *testing.T) {
	r := newRig(t, setup{real: true, cfg: func(c *config) {
		c.TestTimers = map[string]time.Duration{"seckill.claim_after": 300 * time.Millisecond}
	}})
	activity := r.sale(10)
	r.stop()
	// A relay read this entry and died before it published it.
	_, err := r.gate.Reserve(t.Context(), activity,
		[]stockgate.Request{{OrderSN: "4711", UserID: "alice", Lines: []contract.Line{{SKUID: "1", Qty: 1}}}})
	require.NoError(t, err)
	read, _, err := r.gate.ReadJournal(t.Context(), activity, "dead", 10)
	require.NoError(t, err)
	require.Len(t, read, 1)

	next := newRig(t, setup{real: true, cfg: func(c *config) {
		c.TestTimers = map[string]time.Duration{"seckill.claim_after": 300 * time.Millisecond}
	}})
	require.Eventually(t, func() bool { return len(next.publishedFor(activity)) == 1 },
		30*time.Second, 10*time.Millisecond)
	require.Equal(t, "4711", next.publishedFor(activity)[0].OrderSN)
}

func TestJournalFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{
		cfg:  func(c *config) { c.JournalMax = 1 },
		deps: func(d *seckill.Deps) { d.Bus = noBroker{} },
	})
	activity := r.sale(10)
	r.buy(r.path("alice", activity), oneOf("1")).is(t, 202, "")
	bob := r.path("bob", activity)
	r.buy(bob, oneOf("1")).is(t, http.StatusServiceUnavailable, contract.CodeJournalFull)
}
