package seckill_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill"
)

// noBroker is a message bus whose Publish always fails.
type noBroker struct{}

func (noBroker) Publish(context.Context, bus.Message) error { return errors.New("no route") }

func TestInvalidTokensAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	signed := func(method jwt.SigningMethod, key any, c jwt.MapClaims) string {
		token, err := jwt.NewWithClaims(method, c).SignedString(key)
		require.NoError(t, err)
		return token
	}
	secret, later := []byte(settings.DevelopmentAuthSecret), time.Now().Add(time.Hour).Unix()
	for name, token := range map[string]string{
		"missing": "",
		"no JWT":  "x",
		"expired": signed(jwt.SigningMethodHS256,
			secret, jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(-time.Hour).Unix()}),
		"without expiry": signed(jwt.SigningMethodHS256, secret, jwt.MapClaims{"sub": "alice"}),
		"another key": signed(jwt.SigningMethodHS256,
			[]byte(strings.Repeat("k", 40)), jwt.MapClaims{"sub": "alice", "exp": later}),
		"none": signed(jwt.SigningMethodNone,
			jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"sub": "alice", "exp": later}),
		"HS512":           signed(jwt.SigningMethodHS512, secret, jwt.MapClaims{"sub": "alice", "exp": later}),
		"without subject": signed(jwt.SigningMethodHS256, secret, jwt.MapClaims{"exp": later}),
		"empty subject":   signed(jwt.SigningMethodHS256, secret, jwt.MapClaims{"sub": "", "exp": later}),
		"ID token":        signed(jwt.SigningMethodHS256, secret, jwt.MapClaims{"sub": "alice", "exp": later, "nonce": "n"}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, call := range [][2]string{
				{"POST", "/v1/activities/" + activity + "/paths"},
				{"POST", "/v1/activities/" + activity + "/paths/x/reservations"},
				{"GET", "/v1/activities/" + activity + "/reservations"},
				{"GET", "/v1/activities/" + activity + "/reservations/1"},
			} {
				r.call(call[0], call[1], token, nil).is(t, http.StatusUnauthorized, contract.CodeUnauthenticated)
			}
		})
	}
}

// The user claim of some providers is no user id. Its mapped id is one, and no other buyer can use that id as a claim.
func TestABuyerWithAMappedIDBuys(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	signed := func(sub string) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": sub, "exp": time.Now().Add(time.Hour).Unix()}).
			SignedString([]byte(settings.DevelopmentAuthSecret))
		require.NoError(t, err)
		return token
	}
	ann := signed("ann@example.com")
	a := r.call("POST", "/v1/activities/"+activity+"/paths", ann, nil).is(t, http.StatusCreated, "")
	p := path{ann, a.str("path"), a.str("order_sn"), activity}
	r.buy(path{signed(auth.UserID("ann@example.com")), p.path, p.orderSN, activity}, oneOf("1")).
		is(t, http.StatusForbidden, contract.CodePathInvalid)
	r.buy(p, oneOf("1")).is(t, http.StatusAccepted, "")
	own := "/v1/activities/" + activity + "/reservations/" + p.orderSN
	r.call("GET", own, ann, nil).is(t, http.StatusOK, "")
	r.call("GET", own, signed(auth.UserID("ann@example.com")), nil).is(t, http.StatusNotFound, contract.CodeNotFound)
}

func TestReservationsOfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	p := r.path("alice", activity)
	r.buy(p, oneOf("1")).is(t, 202, "")
	own := "/v1/activities/" + activity + "/reservations"
	r.call("GET", own+"/"+p.orderSN, p.token, nil).is(t, 200, "")
	r.call("GET", own+"/"+p.orderSN, r.token("bob"), nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	require.Empty(t, r.call("GET", own, r.token("bob"), nil).is(t, 200, "").body["items"])
	for _, sn := range []string{"1", "0", "x", "01", "99999999999999999999"} {
		r.call("GET", own+"/"+sn, p.token, nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	}
	for _, id := range []string{"1", "x", "-1"} {
		r.call("GET", "/v1/activities/"+id+"/reservations/"+p.orderSN, p.token, nil).
			is(t, http.StatusNotFound, contract.CodeNotFound)
		r.call("GET", "/v1/activities/"+id, "", nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	}
}

func TestRoutesAndParameters(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	token := r.token("alice")
	paths := "/v1/activities/" + activity + "/paths"
	r.call("POST", paths, token, "{}").is(t, http.StatusCreated, "")
	r.call("POST", paths, token, `{"captcha_id":"x","captcha_answer":"y"}`).
		is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	r.call("POST", paths, token, `[]`).is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	r.call("POST", "/v1/activities/"+activity+"/captchas", token, nil).
		is(t, http.StatusNotFound, contract.CodeNotFound)
	r.call("DELETE", paths, token, nil).is(t, http.StatusMethodNotAllowed, contract.CodeMethodNotAllowed)
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "limit=1.5", "cursor=%25"} {
		r.call("GET", "/v1/activities?"+query, "", nil).is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
		r.call("GET", "/v1/activities/"+activity+"/reservations?"+query, token, nil).
			is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	}
}

func TestDevTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	got := r.call("POST", "/v1/dev/tokens", "", `{"user_id":"42","roles":["merchant"]}`).is(t, 200, "")
	r.call("POST", "/v1/activities/"+activity+"/paths", got.str("token"), nil).is(t, http.StatusCreated, "")

	verifier, err := auth.NewVerifier(settings.Auth{Lenient: true, HS256Secrets: []string{settings.DevelopmentAuthSecret}}, nil)
	require.NoError(t, err)
	got = r.call("POST", "/v1/dev/tokens", "", `{"user_id":"42","roles":["merchant"],"merchant_id":"m-1"}`).is(t, 200, "")
	id, err := verifier.Verify(t.Context(), got.str("token"))
	require.NoError(t, err)
	require.Equal(t, auth.Identity{UserID: "42", Roles: []auth.Role{auth.Merchant}, MerchantID: "m-1"}, id)

	for _, bad := range []string{
		`{}`, `{"user_id":"a b"}`, `{"user_id":"1","roles":["root"]}`, `{"user_id":"1","ttl":1}`,
		`{"user_id":"1","merchant_id":""}`, `{"user_id":"1","merchant_id":"a b"}`, `{"user_id":"1","merchant_id":7}`,
		`{"user_id":"1","roles":["merchant"],"merchant_id":"` + strings.Repeat("m", 65) + `"}`,
	} {
		r.call("POST", "/v1/dev/tokens", "", bad).is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	}
	off := newRig(t, setup{cfg: func(c *config) { c.DevTokens = false }})
	off.call("POST", "/v1/dev/tokens", "", `{"user_id":"42"}`).is(t, http.StatusNotFound, contract.CodeNotFound)
}

// Redis has lost a part of its data, such as a node of a Cluster. A sale whose gate is still listed exists.
func TestSaleWithLostDataIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	p := r.path("alice", activity)
	for _, key := range r.mini.Keys() {
		if strings.HasPrefix(key, "fs:{"+activity+"}:") {
			r.mini.Del(key)
		}
	}
	r.buy(p, oneOf("1")).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
	require.Eventually(t, func() bool { // once the cached sale is too old
		a := r.call("POST", "/v1/activities/"+activity+"/paths", p.token, nil)
		return a.StatusCode == http.StatusServiceUnavailable
	}, 30*time.Second, 20*time.Millisecond)
	r.call("GET", "/v1/activities/"+activity+"/reservations/"+p.orderSN, p.token, nil).
		is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
	r.call("POST", "/v1/activities/12345/paths", p.token, nil).is(t, http.StatusNotFound, contract.CodeNotFound)
}

// While inventory builds a lost gate, buyers get 503 and nothing is taken. The same path sells once the gate exists.
func TestAGateThatIsBeingBuiltIsUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	p := r.path("alice", activity)
	r.mini.Del("fs:{" + activity + "}:gate")
	b, err := r.gate.BeginBuild(r.Context(), activity)
	require.NoError(t, err)
	unavailable := func() {
		t.Helper()
		r.buy(p, oneOf("1")).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
		a := r.call("GET", "/v1/activities/"+activity+"/reservations/"+p.orderSN, p.token, nil).
			is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}
	unavailable()
	require.NoError(t, b.Put(r.Context(), []stockgate.Entry{{
		OrderSN: "1", UserID: "bob", Lines: []stockgate.Line{{SKUID: "1", Qty: 1}}, Status: stockgate.StatusPaid,
	}}))
	unavailable()
	now := r.now()
	require.NoError(t, b.Commit(r.Context(), stockgate.Figures{
		Config: stockgate.Config{State: stockgate.GateOpen, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), PerUserLimit: 1, Version: 1},
		SKUs:   map[string]stockgate.Shelf{"1": {Left: 9, Sold: 1, Total: 10}, "2": {Left: 10, Total: 10}},
	}))
	require.Equal(t, http.StatusAccepted, r.buy(p, oneOf("1")).StatusCode)
	left, _, err := r.gate.UnitsLeft(r.Context(), activity)
	require.NoError(t, err)
	require.Equal(t, int64(8), left["1"])
}

// withRules returns a setup with these limit rules only.
func withRules(t *testing.T, rules string) setup {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\nrules:\n"+rules), 0o600))
	return setup{cfg: func(c *config) { c.Rules = file }}
}

func TestPathsArePaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, withRules(t, "  - {name: path-total, limit: 1, per: 1h}"))
	activity := r.sale(10)
	r.path("alice", activity)
	paths := "/v1/activities/" + activity + "/paths"
	refused := r.call("POST", paths, r.token("bob"), nil).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	require.Equal(t, []any{"path-total"}, refused.body["violated_policies"])
	require.Equal(t, `"path-total";q=1;w=3600`, refused.Header.Get("RateLimit-Policy"))
	shown := regexp.MustCompile(`^"path-total";r=0;t=(\d+)$`).FindStringSubmatch(refused.Header.Get("RateLimit"))
	require.NotNil(t, shown, refused.Header.Get("RateLimit"))
	reset, err := strconv.Atoi(shown[1])
	require.NoError(t, err)
	retry, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, retry, reset, "not earlier than t")

	waiting := newRig(t, withRules(t, "  - {name: path-total, limit: 20, burst: 4, max_wait: 10s}"))
	activity = waiting.sale(10)
	for range 8 {
		waiting.path("alice", activity) // more than the burst of 4: the rest wait for their turn
	}
}

func TestClickLimitIsPerUserAndActivity(t *testing.T) {
	t.Parallel()
	r := newRig(t, withRules(t, `  - {name: path-click, algorithm: gcra, key: "user+param:activity_id", limit: 1, per: 1h, burst: 1}`))
	one, other := r.sale(10), r.sale(10)
	r.path("alice", one)
	refused := r.call("POST", "/v1/activities/"+one+"/paths", r.token("alice"), nil).
		is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	require.Equal(t, []any{"path-click"}, refused.body["violated_policies"])
	r.path("alice", other)
	r.path("bob", one)
}

// productionRules are the built-in rules of production, which the chart installs too.
const productionRules = "../../pkg/admission/rules.yaml"

// A request before the start is refused by the window and charges no limit by user and no token bucket. The same
// buyer's request at the start is served.
func TestEarlyRequestChargesNoUserLimit(t *testing.T) {
	t.Parallel()
	for _, state := range []stockgate.GateState{stockgate.GateOpen, stockgate.GatePaused} {
		r := newRig(t, setup{cfg: func(c *config) { c.Rules = productionRules }})
		now := r.now()
		cfg := stockgate.Config{State: state, StartsAt: now.Add(time.Hour), EndsAt: now.Add(2 * time.Hour), PerUserLimit: 1, Version: 1}
		activity := r.sale(10, func(c *stockgate.Config) { *c = cfg })
		code := contract.CodeActivityNotStarted
		if state == stockgate.GatePaused {
			code = contract.CodeActivityPaused
		}
		press := func() response { return r.call("POST", "/v1/activities/"+activity+"/paths", r.token("alice"), nil) }
		for range 6 { // more than the burst of path-per-user
			early := press().is(t, http.StatusConflict, code)
			require.Len(t, early.Header.Values("RateLimit"), 1)
			require.Contains(t, early.Header.Get("RateLimit"), `"path-per-ip";r=`, "the limit by address is charged")
		}
		cfg.State, cfg.StartsAt, cfg.Version = stockgate.GateOpen, now.Add(-time.Second), 2
		require.NoError(t, r.gate.Configure(t.Context(), activity, cfg))
		require.Eventually(t, func() bool { // the cached window is at most 200 ms old
			return r.call("GET", "/v1/activities/"+activity, "", nil).str("state") == "open"
		}, 30*time.Second, 100*time.Millisecond)
		press().is(t, http.StatusCreated, "")
	}
}

func TestClickLimitIgnoresTheEncodingOfTheURL(t *testing.T) {
	t.Parallel()
	r := newRig(t, withRules(t, `  - {name: path-click, algorithm: gcra, key: "user+param:activity_id", limit: 1, per: 1h, burst: 1}`))
	activity := r.sale(10)
	escaped := fmt.Sprintf("%%%x", activity[0]) + activity[1:]
	press := func(id string) response { return r.call("POST", "/v1/activities/"+id+"/paths", r.token("alice"), nil) }
	press(activity).is(t, http.StatusCreated, "")
	press(escaped).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
}

// The first failing check refuses the request. The limits after it are not charged.
func TestOrderOfTheChecksBeforeAPath(t *testing.T) {
	t.Parallel()
	r := newRig(t, withRules(t, `  - {name: path-per-ip, key: ip, limit: 1000000, per: 1h}
  - {name: path-per-user, key: user, limit: 2, per: 1h}
  - {name: path-activity, key: "param:activity_id", limit: 3, per: 1h}
  - {name: path-total, limit: 5, per: 1h}`))
	post := func(activity, user string, body any) response {
		token := ""
		if user != "" {
			token = r.token(user)
		}
		return r.call("POST", "/v1/activities/"+activity+"/paths", token, body)
	}
	soldOut, sale := r.sale(1, func(c *stockgate.Config) { c.PerUserLimit = 2 }), r.sale(10)
	r.buy(r.path("alice", soldOut), `{"lines":[{"sku_id":"1","qty":1},{"sku_id":"2","qty":1}]}`).is(t, 202, "")
	var flagged response
	require.Eventually(t, func() bool {
		flagged = post(soldOut, "", nil)
		return flagged.StatusCode == http.StatusConflict
	}, 30*time.Second, 5*time.Millisecond, "the check needs no token")
	flagged.is(t, http.StatusConflict, contract.CodeSoldOut)
	require.Empty(t, flagged.Header.Get("RateLimit"), "the check precedes every limit")

	require.Contains(t, post(sale, "", nil).is(t, http.StatusUnauthorized, contract.CodeUnauthenticated).Header.Get("RateLimit"), `"path-per-ip";r=`)
	bad := post(sale, "alice", `{"captcha_id":"1"}`).is(t, http.StatusBadRequest, contract.CodeInvalidRequest)
	require.Regexp(t, `^"path-per-user";r=0;t=\d+$`, bad.Header.Values("RateLimit")[1])
	refused := post(sale, "alice", nil).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	require.Equal(t, []any{"path-per-user"}, refused.body["violated_policies"])
	post("77", "bob", nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	// all permits of path-activity: earlier refusals were not charged
	for _, user := range []string{"bob", "carol", "dave"} {
		r.path(user, sale)
	}
	refused = post(sale, "erin", nil).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	require.Equal(t, []any{"path-activity"}, refused.body["violated_policies"])
	other := r.sale(10)
	r.path("erin", other) // the fifth permit of path-total, which refusals by path-activity did not charge
	refused = post(other, "frank", nil).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	require.Equal(t, []any{"path-total"}, refused.body["violated_policies"])
}

// Robots that take all paths of one sale leave those of another sale.
func TestRobotsAtOneSaleStarveNoOther(t *testing.T) {
	t.Parallel()
	const rate, robots = 10, 64
	r := newRig(t, setup{cfg: func(c *config) { c.PathRate = rate }})
	robbed, other := r.sale(1000), r.sale(1000)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var issued atomic.Int64
	var running sync.WaitGroup
	refused := make(chan response, robots) // the first refusal of each robot
	began := time.Now()
	for i := range robots {
		token := r.token("robot" + strconv.Itoa(i))
		running.Go(func() {
			for refusedOnce := false; ctx.Err() == nil; {
				a, err := r.try("POST", "/v1/activities/"+robbed+"/paths", token, nil)
				switch {
				case err != nil:
					t.Error(err)
					return
				case a.StatusCode == http.StatusCreated:
					issued.Add(1)
				case !refusedOnce:
					refusedOnce = true
					refused <- a
				}
			}
		})
	}
	for range robots / 2 {
		a := (<-refused).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
		require.Equal(t, []any{"path-activity"}, a.body["violated_policies"])
	}
	for i := range rate {
		r.path("buyer"+strconv.Itoa(i), other)
	}
	stop()
	running.Wait()
	require.LessOrEqual(t, float64(issued.Load()),
		rate+rate*time.Since(began).Seconds(), "one second's burst, and the rate")
}

func TestNoPathWithoutWorkerID(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	r.path("alice", activity)
	held := r.path("bob", activity)
	r.lease.lost = true
	r.call("POST", "/v1/activities/"+activity+"/paths", held.token, nil).
		is(t, http.StatusServiceUnavailable, contract.CodeUnavailable)
	r.buy(held, oneOf("1")).is(t, 202, "")
}

func TestRedisNotFilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	token := r.token("alice")
	result := "/v1/activities/5/reservations/" + ordersn.SN{Time: time.Now(), Gene: ordersn.Gene("alice")}.String()
	for _, call := range [][2]string{{"GET", "/v1/activities"}, {"GET", "/v1/activities/5"}, {"POST", "/v1/activities/5/paths"}, {"GET", result}} {
		r.call(call[0], call[1], token, nil).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
	}
	require.NoError(t, r.gate.MarkReady(t.Context()))
	require.Empty(t, r.call("GET", "/v1/activities", token, nil).is(t, 200, "").body["items"])
	for _, call := range [][2]string{{"GET", "/v1/activities/5"}, {"POST", "/v1/activities/5/paths"}, {"GET", result}} {
		r.call(call[0], call[1], token, nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	}

	// A sale whose gate was lost is unavailable, not "not found": its buyers retry.
	activity := r.sale(10)
	p := r.path("alice", activity)
	r.buy(p, oneOf("1")).is(t, 202, "")
	for _, key := range r.mini.Keys() {
		if strings.HasSuffix(key, ":gate") {
			r.mini.Del(key)
		}
	}
	r.buy(p, oneOf("1")).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
	r.call("GET", "/v1/activities/"+activity+"/reservations/"+p.orderSN, p.token, nil).
		is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
}

func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{down: true, deps: func(d *seckill.Deps) { d.Lease = nil }})
	require.Error(t, r.service.Ready(), "no worker id yet")
	token := r.token("alice")
	r.call("GET", "/v1/activities", "", nil).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
	r.call("POST", "/v1/activities/5/paths", token, nil).
		is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)

	require.NoError(t, r.mini.Restart())
	var activity string
	require.Eventually(t, func() bool { _, err := r.gate.Now(t.Context()); return err == nil },
		30*time.Second, 50*time.Millisecond)
	activity = r.sale(10)
	var p path
	require.Eventually(t, func() bool {
		a := r.call("POST", "/v1/activities/"+activity+"/paths", token, nil)
		p = path{token, a.str("path"), a.str("order_sn"), activity}
		return a.StatusCode == http.StatusCreated
	}, time.Minute, 100*time.Millisecond, "an empty Redis gives no worker id for one lease of 5 s")
	require.NoError(t, r.service.Ready())
	r.buy(p, oneOf("1")).is(t, 202, "")
	require.Eventually(t, func() bool { return len(r.publishedFor(activity)) == 1 },
		30*time.Second, 10*time.Millisecond)
}

func TestRedisFailsAndRecovers(t *testing.T) {
	t.Parallel()
	tel, log := logging(t)
	r := newRig(t, setup{tel: tel})
	activity := r.sale(10)
	p, bob := r.path("alice", activity), r.path("bob", activity)
	r.buy(p, oneOf("1")).is(t, 202, "")
	require.Eventually(t, func() bool { return len(r.publishedFor(activity)) == 1 },
		30*time.Second, 10*time.Millisecond)

	r.mini.Close()
	result := "/v1/activities/" + activity + "/reservations/" + p.orderSN
	r.buy(bob, oneOf("1")).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
	r.call("GET", result, p.token, nil).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
	require.NoError(t, r.service.Ready(), "readiness stays")
	require.Eventually(t, func() bool {
		r.buy(bob, oneOf("1")).is(t, http.StatusServiceUnavailable, contract.CodeGateUnavailable)
		return strings.Contains(log.String(), "redis breaker changed state")
	}, 30*time.Second, time.Millisecond, "the breaker refuses calls")
	require.Eventually(t, func() bool {
		a := r.call("POST", "/v1/activities/"+activity+"/paths", bob.token, nil)
		return a.body["code"] == string(contract.CodeGateUnavailable)
	}, 30*time.Second, 20*time.Millisecond, "the cached sale is too old")

	require.NoError(t, r.mini.Restart())
	require.Eventually(t, func() bool { return r.buy(bob, oneOf("1")).StatusCode == http.StatusAccepted },
		30*time.Second, 50*time.Millisecond)
	r.call("GET", result, p.token, nil).is(t, 200, "")
	require.Eventually(t, func() bool { return len(r.publishedFor(activity)) == 2 },
		30*time.Second, 10*time.Millisecond)
}

func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	load := func(env map[string]string) error {
		var cfg config
		return settings.Load(&cfg, env)
	}
	require.NoError(t, load(nil))
	for name, env := range map[string]map[string]string{
		"PATH_RATE":         {"PATH_RATE": "-1"},
		"PATH_TOTAL_RATE":   {"PATH_TOTAL_RATE": "-1"},
		"LIMIT_RULES":       {"LIMIT_RULES": "/nowhere/rules.yaml"},
		"LIMIT_REDIS_ADDRS": {"LIMIT_REDIS_ADDRS": "here"},
		"LIMIT_REDIS_DB":    {"LIMIT_REDIS_DB": "1"},
		"TRUSTED_PROXIES":   {"TRUSTED_PROXIES": "10.0.0.0/8,edge"},
		"GATE_TIMEOUT":      {"GATE_TIMEOUT": "10s"},
		"GATE_WAIT":         {"GATE_WAIT": "1ms"},
		"GATE_QUEUE":        {"GATE_QUEUE": "0"},
		"JOURNAL_MAX":       {"JOURNAL_MAX": "-1"},
		"TEST_TIMERS":       {"TEST_TIMERS": "seckill.sweep_every=1s"},
		"STREAMS_MAX":       {"STREAMS_MAX": "0"},
		"REDIS_ADDRS":       {"REDIS_ADDRS": "here"},
		"BROKERLESS_AFTER":  {"BROKERLESS_AFTER": "-1s"},

		"INVENTORY_INTERNAL_URL": {"INVENTORY_INTERNAL_URL": "inventory:7083"},
	} {
		require.ErrorContains(t, load(env), name)
	}
	// A call must last longer than its wait for the replicas, or each purchase without one would count as a time-out.
	require.NoError(t, load(map[string]string{"GATE_TIMEOUT": "250ms"}))
	require.ErrorContains(t, load(map[string]string{"GATE_TIMEOUT": "250ms", "GATE_WAIT_REPLICAS": "1"}), "GATE_TIMEOUT")
	require.NoError(t, load(map[string]string{"GATE_TIMEOUT": "251ms", "GATE_WAIT_REPLICAS": "1"}))
	production := map[string]string{"APP_ENV": "production", "AUTH_HS256_SECRET": strings.Repeat("ab", 20)}
	require.ErrorContains(t, load(production), "INTERNAL_SECRET")
	production["INTERNAL_SECRET"] = strings.Repeat("gh", 20)
	require.ErrorContains(t, load(production), "PATH_SECRETS")
	for _, bad := range []string{
		"short", "development-only-secret-of-the-paths",
		strings.Repeat("cd", 20) + ",short", strings.Repeat("cd", 20) + ",",
		strings.Repeat("cd", 20) + ", development-only-secret-of-the-paths",
	} {
		production["PATH_SECRETS"] = bad
		require.ErrorContains(t, load(production), "PATH_SECRETS", bad)
	}
	production["PATH_SECRETS"] = strings.Repeat("cd", 20) + "," + strings.Repeat("ef", 20)
	require.NoError(t, load(production))
	require.ErrorContains(t, load(map[string]string{"PATH_RATE": "fast"}), "PATH_RATE")
	require.ErrorContains(t, load(map[string]string{"PATH_SECRETS": "new, old"}), "PATH_SECRETS")
}

func TestSecretsAreRotated(t *testing.T) {
	secrets := func(s ...string) func(*config) { return func(c *config) { c.PathSecrets = s } }
	before := newRig(t, setup{real: true, cfg: secrets("old")})
	activity := before.sale(10)
	p := before.path("alice", activity)
	after := newRig(t, setup{real: true, cfg: secrets("new", "old")})
	after.buy(p, oneOf("1")).is(t, 202, "")
	gone := newRig(t, setup{real: true, cfg: secrets("new")})
	gone.buy(p, oneOf("1")).is(t, http.StatusForbidden, contract.CodePathInvalid)
}

func TestTokenWithARoleMayBuy(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	token, err := auth.Mint(settings.DevelopmentAuthSecret,
		auth.Identity{UserID: "m", Roles: []auth.Role{auth.Merchant}}, time.Minute)
	require.NoError(t, err)
	r.call("POST", "/v1/activities/"+r.sale(1)+"/paths", token, nil).is(t, http.StatusCreated, "")
}
