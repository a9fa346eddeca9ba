package inventory

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// reviewed is an activity with an order in each state, and another merchant's order.
type reviewed struct {
	a, other *core.Activity
	// pending is not paid, paid is, paying was paid and its event is in flight, missing has no order yet.
	pending, paid, paying, missing, expired, foreign string
}

func (w *world) reviewed() (v reviewed) {
	w.t.Helper()
	v.a, v.other = w.sale(1, 9), w.sale(1, 9)
	var r []contract.Reservation
	for i := range 5 {
		r = append(r, w.buy(v.a, fmt.Sprint("u", i)))
	}
	stranger := w.buy(v.other, "u0")
	w.land(append(r, stranger)...)
	w.follow(event(r[0], contract.OrderCreated), event(r[1], contract.OrderPaid), event(r[2], contract.OrderCreated),
		event(r[4], contract.OrderClosed), event(stranger, contract.OrderPaid))
	v.pending, v.paid, v.paying, v.missing, v.expired = r[0].OrderSN, r[1].OrderSN, r[2].OrderSN, r[3].OrderSN, r[4].OrderSN
	v.foreign = stranger.OrderSN
	w.orders.set("pending", v.pending)
	w.orders.set("paid", v.paid, v.paying, v.foreign)
	w.orders.set("closed", v.expired)
	return v
}

func (v reviewed) all() []string {
	return []string{v.pending, v.paid, v.paying, v.missing, v.expired, v.foreign, "424242"}
}

var reviewOutcomes = []merchants.CancelOutcome{
	merchants.CancelCancelled, merchants.CancelRefunding, merchants.CancelRefunding, merchants.CancelCancelled, merchants.CancelClosed,
	merchants.CancelNotFound, merchants.CancelNotFound,
}

// check checks that all orders of the activity have ended, and that the other activity has not changed.
func (v reviewed) check(w *world) {
	w.t.Helper()
	w.agree(v.a)
	w.agree(v.other)
	it := w.stock(v.a)[0]
	require.Equal(w.t, []int64{9, 0, 0}, []int64{it.Available, it.Reserved, it.Sold})
	require.Equal(w.t, int64(9), w.left(v.a, 0))
	require.Equal(w.t, []string{"closed", "refunded", "refunded", "tombstone", "closed", "paid", ""}, []string{
		w.orders.of(v.pending), w.orders.of(v.paid), w.orders.of(v.paying), w.orders.of(v.missing), w.orders.of(v.expired),
		w.orders.of(v.foreign), w.orders.of("424242"),
	})
	require.Equal(w.t, ledger.StateSold, w.row(v.foreign).State)
	require.Equal(w.t, stockgate.StatusPaid, w.entry(v.other, v.foreign).Status)
}

// A review closes orders that are not paid, refunds paid ones and releases the units of both. Repeated, it has the same
// outcomes and changes nothing.
func TestReviewCancelsOrders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.reviewed()
	for n := range 3 {
		results, err := w.merchants.CancelOrders(w.ctx, seller("m"), v.a.ID, v.all(), "robots")
		require.NoError(t, err)
		for i, sn := range v.all() {
			require.Equal(t, merchants.CancelResult{OrderSN: sn, Outcome: reviewOutcomes[i]}, results[i])
		}
		v.check(w)
		require.Len(t, w.orders.refunded, 2, "round %d", n)
	}
	changes, err := w.merchants.History.ChangesOfActivity(w.ctx, core.AllMerchants(), v.a.ID, core.Page{Limit: 9})
	require.NoError(t, err)
	require.Equal(t, []string{merchants.ActionCancelOrders, "m", core.RoleMerchant}, []string{changes[0].Action, changes[0].Who, changes[0].Role})
	require.JSONEq(t, fmt.Sprintf(`{"order_sns":[%q,%q,%q,%q],"reason":"robots"}`, v.pending, v.paid, v.paying, v.missing), changes[0].Detail)
	require.NotEqual(t, merchants.ActionCancelOrders, changes[1].Action, "a call that changes nothing is not recorded")
	// A late event of the payment changes nothing.
	paid := w.row(v.paying)
	w.follow(contract.OrderEvent{OrderSN: paid.OrderSN, UserID: paid.UserID, ActivityID: paid.ActivityID, Lines: paid.Lines, Type: contract.OrderPaid, At: time.Now()})
	v.check(w)
}

func TestKilledWhileCancelling(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		v := w.reviewed()
		return func() error {
			results, err := w.merchants.CancelOrders(w.ctx, seller("m"), v.a.ID, v.all(), "robots")
			for i, r := range results {
				require.Equal(t, reviewOutcomes[i], r.Outcome, r.OrderSN)
			}
			return err
		}, func() { v.check(w) }
	})
}

// A review that was killed is not repeated. What it has refunded releases its units nevertheless.
func TestAKilledReviewReleasesWhatItRefunded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, after := range []bool{false, true} {
		refunded := 0
		for step, died := 1, true; died; step++ {
			v := w.reviewed()
			w.broker.take(contract.TopicOrderClose)
			w.faults.kill(step, after)
			_, err := w.merchants.CancelOrders(w.ctx, seller("m"), v.a.ID, v.all(), "robots")
			if died = w.faults.heal(); died {
				w.restart()
			}
			require.True(t, died || err == nil, "%v", err)
			require.Empty(t, w.broker.take(contract.TopicOrderClose), "there may be no broker")
			for _, sn := range []string{v.paid, v.paying} {
				if w.orders.of(sn) == "refunded" {
					r := w.row(sn)
					w.follow(event(contract.Reservation{OrderSN: sn, UserID: r.UserID, ActivityID: r.ActivityID, Lines: r.Lines},
						contract.OrderRefunded)) // which the order service sends with or without a broker
					require.Equal(t, ledger.StateReleased, w.row(sn).State, "killed at step %d, after=%v", step, after)
					refunded++
				}
			}
		}
		require.Greater(t, refunded, 2)
	}
}

func TestReviewWithoutDependencies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.reviewed()
	w.orders.setDown(true)
	_, err := w.merchants.CancelOrders(w.ctx, seller("m"), v.a.ID, v.all(), "robots")
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	require.Equal(t, ledger.StateSold, w.row(v.paid).State)
	w.orders.setDown(false)
	_, err = w.merchants.CancelOrders(w.ctx, seller("m"), v.a.ID, v.all(), "robots")
	require.NoError(t, err)
	v.check(w)

	_, err = w.merchants.CancelOrders(w.ctx, core.Caller{UserID: "m", MerchantID: "another"}, v.other.ID, []string{v.foreign}, "robots")
	require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
	require.Equal(t, ledger.StateSold, w.row(v.foreign).State)
}

type suspectsView struct {
	AsOf       time.Time `json:"as_of"`
	Available  bool      `json:"requests_available"`
	Refused    map[string]int64
	Challenges struct{ Solved, Failed int64 }
	Addresses  []suspectRow
	Users      []suspectRow
}

type suspectRow struct {
	Address   string
	UserID    string `json:"user_id"`
	Early     int64
	Limited   int64 `json:"rate_limited"`
	Failed    int64 `json:"failed_challenges"`
	Voided    int64 `json:"voided_paths"`
	Expired   int64 `json:"expired_holds"`
	Cancelled int64 `json:"cancelled_holds"`
	Purchases int64
	Causes    []string
}

// withSuspects returns a shop with an activity in which a robot and others were refused, and one user let orders
// expire.
func withSuspects(t *testing.T) (s *shop, at string, bought []contract.Reservation) {
	s, at, id, sku := selling(t, 20, func(c *Config) { c.OrderURL = newLookups(t).url })
	require.Equal(t, 200, s.do("PATCH", at, `{"title":"Suspects"}`).status)
	buy := func(user string, ends ...contract.OrderEventType) {
		r := contract.Reservation{OrderSN: newSN(), UserID: user, ActivityID: id, Lines: []contract.Line{{SKUID: sku, Qty: 1}}, ReservedAt: time.Now().UTC()}
		require.NoError(t, s.svc.core.Land(t.Context(), []contract.Reservation{r}, nil))
		for _, kind := range append([]contract.OrderEventType{contract.OrderCreated}, ends...) {
			require.NoError(t, consumerOf(s.svc).OrderEvents(t.Context(), message(t, contract.TopicOrderEvents, event(r, kind))))
		}
		bought = append(bought, r)
	}
	for range 3 {
		buy("holder", contract.OrderClosed)
	}
	buy("holder")
	buy("robot", contract.OrderPaid)
	buy("human", contract.OrderPaid)
	buy("once", contract.OrderClosed)
	now := time.Now().UTC().Truncate(time.Second)
	require.NoError(t, s.gate.AddCounts(t.Context(), id, "pod", stockgate.RequestCounts{
		At: now, Solved: 4, Failed: 11, Refused: map[string]int64{"rate_limited": 7, "sold_out": 90},
	}))
	require.NoError(t, s.gate.AddSuspects(t.Context(), id, "pod", now, stockgate.Suspects{
		Addresses: []stockgate.Suspect{{Key: "192.0.2.1", Early: 1}, {Key: "2001:db8::/64", RateLimited: 200, Error: 9}},
		Users:     []stockgate.Suspect{{Key: "robot", Early: 30, VoidedPaths: 1}, {Key: "human", RateLimited: 7}, {Key: "-cmd", FailedChallenges: 11}},
	}))
	return s, at, bought
}

func TestSuspectsOfAnActivity(t *testing.T) {
	t.Parallel()
	s, at, bought := withSuspects(t)
	var v suspectsView
	got := s.do("GET", at+"/abuse", "")
	require.Equal(t, 200, got.status, "%s", got.body)
	got.into(t, &v)
	require.True(t, v.Available)
	require.Equal(t, map[string]int64{"rate_limited": 7, "sold_out": 90}, v.Refused)
	require.Equal(t, struct{ Solved, Failed int64 }{4, 11}, v.Challenges)
	require.Equal(t, []suspectRow{{Address: "2001:db8::/64", Limited: 200}, {Address: "192.0.2.1", Early: 1}}, v.Addresses)
	users := []suspectRow{
		{UserID: "robot", Early: 30, Voided: 1, Purchases: 1, Causes: []string{"early"}},
		{UserID: "-cmd", Failed: 11, Causes: []string{"failed_challenges"}},
		{UserID: "holder", Expired: 3, Purchases: 1, Causes: []string{"ended_holds"}},
		{UserID: "human", Limited: 7, Purchases: 1, Causes: []string{}},
	}
	require.Equal(t, users, v.Users)

	for _, request := range [][]string{{"?format=csv"}, {"", "Accept", "text/csv"}} {
		got := s.do("GET", at+"/abuse"+request[0], "", request[1:]...)
		require.Equal(t, 200, got.status)
		require.Contains(t, got.header.Get("Content-Type"), "text/csv")
		require.Contains(t, got.header.Get("Content-Disposition"), "abuse-")
		require.Equal(t, []string{"Accept"}, got.header.Values("Vary"))
		rows := s.sheet(got)
		require.Len(t, rows, 7)
		require.Equal(t, []string{"address", "2001:db8::/64", "0", "200", "0", "0", "", "", "", ""}, rows[1])
		require.Equal(t, []string{"user", "robot", "30", "0", "0", "1", "0", "0", "1", "early"}, rows[3])
		require.Equal(t, []string{"user", "'-cmd", "0", "0", "11", "0", "0", "0", "0", "failed_challenges"}, rows[4], "no formula")
	}
	require.Equal(t, "format", s.do("GET", at+"/abuse?format=xml", "").field())
	require.Equal(t, "not_found", s.do("GET", "/v1/merchant/activities/x/abuse", "").code())

	// The review has the orders of suspicious users that hold units.
	type page struct {
		Available bool `json:"requests_available"`
		Items     []struct {
			SN     string `json:"order_sn"`
			State  string
			Causes []string
		}
		Next string `json:"next_cursor"`
	}
	var first, second page
	s.do("GET", at+"/review?limit=1", "").into(t, &first)
	s.do("GET", at+"/review?limit=1&cursor="+first.Next, "").into(t, &second)
	require.True(t, first.Available)
	require.Equal(t, []string{bought[4].OrderSN, "sold", "early"}, []string{first.Items[0].SN, first.Items[0].State, first.Items[0].Causes[0]})
	require.Equal(t, []string{bought[3].OrderSN, "reserved", "ended_holds"}, []string{second.Items[0].SN, second.Items[0].State, second.Items[0].Causes[0]})
	require.Empty(t, second.Next)
	require.Equal(t, "limit", s.do("GET", at+"/review?limit=0", "").field())
	require.Equal(t, "cursor", s.do("GET", at+"/review?cursor=x", "").field())
}

// Without Redis only what the ledger has is shown.
func TestSuspectsWithoutRedis(t *testing.T) {
	t.Parallel()
	s, at, _ := withSuspects(t)
	s.mini.Close()
	var v suspectsView
	got := s.do("GET", at+"/abuse", "")
	require.Equal(t, 200, got.status, "%s", got.body)
	got.into(t, &v)
	require.False(t, v.Available)
	require.Empty(t, v.Refused)
	require.Equal(t, []suspectRow{}, v.Addresses)
	require.Equal(t, []suspectRow{{UserID: "holder", Expired: 3, Purchases: 1, Causes: []string{"ended_holds"}}}, v.Users)
	var review struct {
		Available bool `json:"requests_available"`
		Items     []struct{}
	}
	s.do("GET", at+"/review", "").into(t, &review)
	require.False(t, review.Available)
	require.Len(t, review.Items, 1)
}

func TestReviewRequestsAreValidated(t *testing.T) {
	t.Parallel()
	s, at, _, _ := selling(t, 4)
	cancel := func(body string) response { return s.do("POST", at+"/review/cancel", body) }
	many := strings.Repeat(`"1",`, 256) + `"2"`
	for body, field := range map[string]string{
		`{"order_sns":[],"reason":"r"}`:             "order_sns",
		`{"reason":"r"}`:                            "order_sns",
		`{"order_sns":["x"],"reason":"r"}`:          "order_sns",
		`{"order_sns":["1","1"],"reason":"r"}`:      "order_sns",
		`{"order_sns":[` + many + `],"reason":"r"}`: "order_sns",
		`{"order_sns":["1"],"reason":" "}`:          "reason",
		`{"order_sns":["1"]}`:                       "reason",
	} {
		got := cancel(body)
		require.Equal(t, []any{http.StatusBadRequest, "invalid_request", field}, []any{got.status, got.code(), got.field()}, body)
		require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
	}
	require.Equal(t, "invalid_request", cancel(`{"order_sns":["1"],"reason":"r","force":true}`).code())
	require.Equal(t, "not_found", s.do("POST", "/v1/merchant/activities/x/review/cancel", `{"order_sns":["1"],"reason":"r"}`).code())
	require.Equal(t, "forbidden", s.as(s.mint("42"), "POST", at+"/review/cancel", `{"order_sns":["1"],"reason":"r"}`).code())
	other := s.mintFor("another", "clerk", auth.Merchant)
	for _, path := range []string{"/abuse", "/review"} {
		require.Equal(t, "not_found", s.as(other, "GET", at+path, "").code())
		require.Equal(t, "forbidden", s.as(s.mint("42"), "GET", at+path, "").code())
		require.Equal(t, 200, s.as(s.mint("op", auth.Operator), "GET", at+path, "").status)
	}
	require.Equal(t, "not_found", s.as(other, "POST", at+"/review/cancel", `{"order_sns":["1"],"reason":"r"}`).code())
}
