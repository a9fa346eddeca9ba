package seckill_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
)

func TestTimeIsThatOfRedisAndNeverCached(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	to := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	r.setTime(to)
	got := r.call("GET", "/v1/time", "", nil).is(t, http.StatusOK, "")
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	require.InDelta(t, to.UnixMilli(), got.body["server_time"], 60_000)
}

func TestConfigOfThePages(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{cfg: func(c *config) { c.Providers, c.Accent = []string{"sandbox"}, "#003366" }})
	got := r.call("GET", "/v1/config", "", nil).is(t, http.StatusOK, "")
	require.Equal(t, "public, max-age=10", got.Header.Get("Cache-Control"))
	require.Equal(t, "dev", got.body["sign_in"])
	require.Equal(t, []any{"sandbox"}, got.body["payment_providers"])
	require.Equal(t, []any{"en", "zh"}, got.body["languages"])
	require.Equal(t, map[string]any{
		"name": "Flashsale", "logo_url": "", "accent": "#003366", "accent_ink": "", "accent_dark": "", "accent_ink_dark": "",
	}, got.body["brand"])
	require.NotEmpty(t, got.body["version"])
	r.call("GET", "/v1/config", "", nil, "If-None-Match", got.Header.Get("ETag")).is(t, http.StatusNotModified, "")

	plain := newRig(t, setup{cfg: func(c *config) { c.DevTokens = false }})
	got = plain.call("GET", "/v1/config", "", nil)
	require.Equal(t, "none", got.body["sign_in"])
	require.Equal(t, []any{}, got.body["payment_providers"])
}

// A page that requests a sale again gets 304 until something but the time changes.
func TestASaleIsCacheable(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(1)
	require.NoError(t, r.gate.PutSale(t.Context(), stockgate.Sale{
		ActivityID: activity, Title: "A", Description: `<script>"server_time":"0001-01-01T00:00:00Z"</script>`,
		ImageURL: "/assets/a.jpg", State: stockgate.GateOpen, StartsAt: r.now().Add(-time.Minute), EndsAt: r.now().Add(time.Hour),
		PerUserLimit: 1, PayWithinS: 900, Version: 2,
		Items: []stockgate.SaleItem{{SKUID: "1", Name: "one", ImageURL: "/b.jpg", Price: 100, ListPrice: 200, Currency: "EUR", Total: 1}},
	}))
	var first response
	require.Eventually(t, func() bool {
		first = r.call("GET", "/v1/activities/"+activity, "", nil).is(t, http.StatusOK, "")
		return first.str("title") == "A"
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "public, max-age=1", first.Header.Get("Cache-Control"))
	require.Equal(t, `<script>"server_time":"0001-01-01T00:00:00Z"</script>`, first.str("description"))
	require.Equal(t, "/assets/a.jpg", first.str("image_url"))
	require.EqualValues(t, 900, first.body["pay_within_s"])
	require.NotContains(t, first.body, "may_return_until")
	require.Equal(t, map[string]any{
		"sku_id": "1", "name": "one", "image_url": "/b.jpg", "price": 100.0, "list_price": 200.0, "currency": "EUR", "currency_digits": 2.0, "total": 1.0,
		"left": 1.0, "paused": false,
	}, first.body["items"].([]any)[0])
	at, err := time.Parse(time.RFC3339Nano, first.str("server_time"))
	require.NoError(t, err)
	require.WithinDuration(t, r.now(), at, time.Minute)

	for _, path := range []string{"/v1/activities/" + activity, "/v1/activities"} {
		one := r.call("GET", path, "", nil)
		two := r.call("GET", path, "", nil)
		require.Equal(t, one.Header.Get("ETag"), two.Header.Get("ETag"), "the tag is that of the body without server_time")
		require.Equal(t, "public, max-age=1", two.Header.Get("Cache-Control"))
		same := r.call("GET", path, "", nil, "If-None-Match", "W/"+one.Header.Get("ETag")).is(t, http.StatusNotModified, "")
		require.Empty(t, same.raw)
		require.Equal(t, "public, max-age=1", same.Header.Get("Cache-Control"))
		require.NotContains(t, one.raw, `"server_time":"0001`)
	}

	r.buy(r.path("ann", activity), oneOf("1")).is(t, http.StatusAccepted, "")
	r.buy(r.path("bob", activity), oneOf("2")).is(t, http.StatusAccepted, "")
	require.Eventually(t, func() bool {
		again := r.call("GET", "/v1/activities/"+activity, "", nil, "If-None-Match", first.Header.Get("ETag"))
		return again.StatusCode == http.StatusOK && again.str("may_return_until") != ""
	}, 30*time.Second, 10*time.Millisecond, "no unit is left, and unpaid ones exist")
}

// A sale states who sells and has the merchant's notice, each only if there is one. A changed notice changes the tag. No
// response to a path or a purchase has them.
func TestTheSellerAndTheNoticeOfASale(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(5)
	at := "/v1/activities/" + activity
	first := r.call("GET", at, "", nil).is(t, http.StatusOK, "")
	require.NotContains(t, first.body, "seller")
	require.NotContains(t, first.body, "notice")

	sale, err := r.gate.Sale(t.Context(), activity)
	require.NoError(t, err)
	written := time.Date(2026, 11, 11, 9, 0, 0, 0, time.UTC)
	put := func(notice string) response {
		t.Helper()
		sale.Seller = &stockgate.SaleSeller{Name: "Acme", Delivery: "Ships\nsoon"}
		sale.Notice = &stockgate.SaleNotice{Text: notice, At: written}
		require.NoError(t, r.gate.PutSale(t.Context(), sale)) // a profile does not change the version
		var got response
		require.Eventually(t, func() bool {
			got = r.call("GET", at, "", nil).is(t, http.StatusOK, "")
			shown, ok := got.body["notice"].(map[string]any)
			return ok && shown["text"] == notice
		}, 30*time.Second, 10*time.Millisecond)
		return got
	}
	shown := put("It starts on time.")
	require.Equal(t, map[string]any{"name": "Acme", "terms_url": "", "delivery": "Ships\nsoon"}, shown.body["seller"])
	require.Equal(t, map[string]any{"text": "It starts on time.", "at": "2026-11-11T09:00:00Z"}, shown.body["notice"])
	require.Eventually(t, func() bool {
		for _, one := range r.call("GET", "/v1/activities?limit=100", "", nil).is(t, http.StatusOK, "").body["items"].([]any) {
			if listed := one.(map[string]any); listed["activity_id"] == activity && listed["seller"] != nil && listed["notice"] != nil {
				return true
			}
		}
		return false
	}, 30*time.Second, 10*time.Millisecond, "the list has them too")
	later := put("It starts later.")
	require.NotEqual(t, shown.Header.Get("ETag"), later.Header.Get("ETag"))
	r.call("GET", at, "", nil, "If-None-Match", later.Header.Get("ETag")).is(t, http.StatusNotModified, "")

	p := r.path("ann", activity)
	bought := r.buy(p, oneOf("1")).is(t, http.StatusAccepted, "")
	own := r.call("GET", at+"/reservations/"+p.orderSN, p.token, nil).is(t, http.StatusOK, "")
	for _, got := range []response{bought, own} {
		require.NotContains(t, got.raw, "Acme")
		require.NotContains(t, got.raw, "It starts later.")
	}
}

func TestAReservationHasItsLinesTimeAndEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(2)
	p := r.path("ann", activity)
	r.buy(p, oneOf("1")).is(t, http.StatusAccepted, "")
	url := "/v1/activities/" + activity + "/reservations"
	one := r.call("GET", url+"/"+p.orderSN, p.token, nil).is(t, http.StatusOK, "")
	list := r.call("GET", url, p.token, nil).is(t, http.StatusOK, "")
	for _, got := range []map[string]any{one.body, list.body["items"].([]any)[0].(map[string]any)} {
		require.Equal(t, []any{map[string]any{"sku_id": "1", "qty": 1.0}}, got["lines"])
		at, err := time.Parse(time.RFC3339Nano, got["created_at"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, r.now(), at, time.Minute)
		events := r.open(got["events_url"].(string))
		require.Equal(t, "queued", events.status())
	}
}

// The merchant's board shows what happened to the requests of buyers, whichever check refused them.
func TestRequestsAreCountedForTheBoard(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(1)
	ann := r.path("ann", activity)
	bob := r.path("bob", activity)
	for range 2 {
		r.buy(ann, oneOf("1")).is(t, http.StatusAccepted, "") // the second is a repetition
	}
	r.buy(bob, oneOf("1")).is(t, http.StatusConflict, contract.CodeSoldOut)
	r.call("POST", "/v1/activities/"+activity+"/paths", "", nil).is(t, http.StatusUnauthorized, "")
	r.call("POST", "/v1/activities/999/paths", "", nil).is(t, http.StatusUnauthorized, "") // does not exist
	r.call("POST", "/v1/activities/"+activity+"/paths/"+strings.Repeat("x", 9)+"/reservations", bob.token, oneOf("1")).
		is(t, http.StatusForbidden, contract.CodePathInvalid)
	want := stockgate.RequestCounts{
		Accepted: 1, Paths: 2, Refused: map[string]int64{"sold_out": 1, "unauthenticated": 1, "path_invalid": 1},
	}
	var got stockgate.RequestCounts
	require.Eventually(t, func() bool {
		var err error
		got, err = r.gate.Totals(t.Context(), activity)
		return err == nil && got.Accepted == want.Accepted && len(got.Refused) == len(want.Refused)
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, want, got)

	cat := r.path("cat", r.sale(1))
	r.stop()
	last, err := r.gate.Totals(t.Context(), cat.activity)
	require.NoError(t, err)
	require.EqualValues(t, 1, last.Paths, "the end of the process adds the counts of the last second")
}

// The pages and the sign-in are served beside the API, and the cookie of the sign-in opens the API.
func TestPagesAndSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	const html = "text/html,*/*;q=0.8"
	page := r.call("GET", "/", "", nil, "Accept", html).is(t, http.StatusOK, "")
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Equal(t, "public, max-age=10, stale-if-error=86400", page.Header.Get("Cache-Control"))
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "require-trusted-types-for 'script'")
	r.call("GET", "/console/operator", "", nil, "Accept", html).is(t, http.StatusOK, "")
	missing := r.call("GET", "/nothing", "", nil, "Accept", html).is(t, http.StatusNotFound, "")
	require.Equal(t, "text/html; charset=utf-8", missing.Header.Get("Content-Type"))
	r.call("GET", "/nothing", "", nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	r.call("GET", "/auth/login", "", nil).is(t, http.StatusNotFound, contract.CodeNotFound)

	activity := r.sale(1)
	signedIn := r.call("POST", "/auth/dev", "", map[string]any{"user_id": "ann"}).is(t, http.StatusNoContent, "")
	cookie, _, _ := strings.Cut(signedIn.Header.Get("Set-Cookie"), ";")
	require.True(t, strings.HasPrefix(cookie, "flashsale="), cookie)
	require.Equal(t, "ann", r.call("GET", "/auth/session", "", nil, "Cookie", cookie).str("user_id"))
	paths := "/v1/activities/" + activity + "/paths"
	r.call("POST", paths, "", nil, "Cookie", cookie, "Sec-Fetch-Site", "cross-site").is(t, http.StatusForbidden, contract.CodeForbidden)
	r.call("POST", paths, "", nil).is(t, http.StatusUnauthorized, contract.CodeUnauthenticated)
	path := r.call("POST", paths, "", nil, "Cookie", cookie, "Sec-Fetch-Site", "same-origin").is(t, http.StatusCreated, "").str("path")
	r.call("POST", paths+"/"+path+"/reservations", "", oneOf("1"), "Cookie", cookie, "Sec-Fetch-Site", "same-origin").
		is(t, http.StatusAccepted, "")
}

// Refused requests are counted by address and by user, with the cause, whichever check refused them.
func TestRefusedRequestsAreCountedByAddressAndUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{cfg: func(c *config) {
		c.Rules = filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(c.Rules, []byte("version: 1\nrules: ["+
			"{name: path-per-user, key: user, limit: 1, per: 1h, where: local}, "+
			"{name: path-total, limit: 1, per: 1h, where: local}]"), 0o600))
	}})
	activity := r.sale(10)
	ann := r.path("ann", activity)
	paths := "/v1/activities/" + activity + "/paths"
	for range 2 {
		r.call("POST", paths, ann.token, map[string]any{}).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)
	}
	r.call("POST", paths+"/"+strings.Repeat("x", 9)+"/reservations", ann.token, oneOf("1")).
		is(t, http.StatusForbidden, contract.CodePathInvalid)
	// Neither makes a suspect: no token, and a limit that all buyers share.
	r.call("POST", paths, "", nil).is(t, http.StatusUnauthorized, "")
	r.call("POST", paths, r.token("dan"), map[string]any{}).is(t, http.StatusTooManyRequests, contract.CodeRateLimited)

	challenge := withCaptcha(r, contract.ChallengePow, time.Hour)
	r.call("GET", challenge.at(""), "", nil).is(t, http.StatusOK, "") // so that the process has read the activity
	challenge.withPass("bob", "").is(t, http.StatusConflict, contract.CodeActivityNotStarted)
	challenge.challenge("bob", map[string]any{}).is(t, http.StatusConflict, contract.CodeActivityNotStarted)
	open := withCaptcha(r, contract.ChallengePow, -time.Minute)
	c := open.challenge("cat", map[string]any{"kind": "pow"}).is(t, http.StatusCreated, "")
	open.answer("cat", c.str("captcha_id"), map[string]any{"payload": "wrong"}).
		is(t, http.StatusForbidden, contract.CodeChallengeWrong)

	r.stop() // adds the counts
	for id, want := range map[string]stockgate.Suspects{
		activity: {
			Addresses: []stockgate.Suspect{{Key: "127.0.0.1", RateLimited: 2, VoidedPaths: 1}},
			Users:     []stockgate.Suspect{{Key: "ann", RateLimited: 2, VoidedPaths: 1}},
		},
		challenge.id: {
			Addresses: []stockgate.Suspect{{Key: "127.0.0.1", Early: 2}}, Users: []stockgate.Suspect{{Key: "bob", Early: 2}},
		},
		open.id: {
			Addresses: []stockgate.Suspect{{Key: "127.0.0.1", FailedChallenges: 1}},
			Users:     []stockgate.Suspect{{Key: "cat", FailedChallenges: 1}},
		},
	} {
		got, err := r.gate.Suspects(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
