package inventory

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// feedClient follows the feed of all sales, as a shop does.
type feedClient struct {
	w     *world
	limit int
	since time.Time
	known map[string]ledger.Row
}

func newFeedClient(w *world) *feedClient {
	return &feedClient{w: w, limit: 7, known: map[string]ledger.Row{}}
}

// poll reads the feed once, to its last page. It returns the time up to which it read.
func (c *feedClient) poll() time.Time {
	c.w.t.Helper()
	for from := (merchants.FeedPlace{}); ; {
		page, err := c.w.merchants.Feed(c.w.ctx, merchants.FeedRequest{In: core.AllMerchants(), Since: c.since, Limit: c.limit, From: from})
		require.NoError(c.w.t, err)
		for _, r := range page.Rows {
			if known, ok := c.known[r.OrderSN]; !ok || r.ChangedAt.After(known.ChangedAt) {
				c.known[r.OrderSN] = r.Row
			}
		}
		if page.Next == nil {
			c.since = page.NextSince
			return page.NextSince.Add(time.Minute)
		}
		from = *page.Next
	}
}

// feeds checks that the feed shows these rows of an activity.
func (w *world) feeds(rows []ledger.Row) {
	w.t.Helper()
	c := newFeedClient(w)
	c.limit = 1000
	until := c.poll()
	for _, r := range rows {
		if !r.ChangedAt.After(until) {
			require.Equal(w.t, r, c.known[r.OrderSN])
		}
	}
}

type feedList struct {
	Items []struct {
		OrderSN   string    `json:"order_sn"`
		Activity  string    `json:"activity_id"`
		Ref       string    `json:"activity_ref"`
		Merchant  string    `json:"merchant_id"`
		State     string    `json:"state"`
		Reason    string    `json:"reason"`
		Amount    *int64    `json:"amount"`
		Currency  string    `json:"currency"`
		ChangedAt time.Time `json:"changed_at"`
		Created   *string   `json:"order_created_at"`
		Lines     []struct {
			SKU   string `json:"sku_id"`
			Ref   string `json:"sku_ref"`
			Qty   int64  `json:"qty"`
			Price int64  `json:"unit_price"`
		} `json:"lines"`
	} `json:"items"`
	Cursor string     `json:"next_cursor"`
	Since  *time.Time `json:"next_since"`
}

// feed reads all pages of a feed; every page but the last has a cursor, and the last has next_since.
func (s *shop) feed(token, path string, limit int) (all feedList) {
	s.t.Helper()
	for cursor := ""; ; {
		got := s.as(token, "GET", path+"&limit="+strconv.Itoa(limit)+cursor, "")
		require.Equal(s.t, 200, got.status, "%s", got.body)
		var page feedList
		got.into(s.t, &page)
		require.Contains(s.t, string(got.body), `"items":[`)
		require.LessOrEqual(s.t, len(page.Items), limit)
		all.Items = append(all.Items, page.Items...)
		if page.Cursor == "" {
			all.Since = page.Since
			require.NotNil(s.t, all.Since)
			return all
		}
		require.Nil(s.t, page.Since)
		cursor = "&cursor=" + page.Cursor
	}
}

func TestTheFeedOfASaleAndOfAMerchant(t *testing.T) {
	t.Parallel()
	s := newBorderShop(t)
	one, two := s.mintFor("one", "clerk", auth.Merchant), s.mintFor("two", "clerk", auth.Merchant)
	operator := s.mintFor("", "op", auth.Operator)
	_, p := s.put(one, "LAMP", "Lamp", "L-1:red:100", "L-2:blue:100")
	s.token = one
	sale := func(ref string) string {
		body := strings.Replace(activityBody(p.SKUs[0].ID, 50), `"items":[`, fmt.Sprintf(`"ref":%q,"per_user_limit":9,"items":[{"sku_id":%q,"price":7,"stock":50},`, ref, p.SKUs[1].ID), 1)
		got := s.do("POST", "/v1/merchant/activities", body)
		require.Equal(t, 201, got.status, "%s", got.body)
		require.Equal(t, 200, s.do("POST", got.header.Get("Location")+"/publish", "").status)
		return strings.TrimPrefix(got.header.Get("Location"), "/v1/merchant/activities/")
	}
	first, second := sale("AUTUMN"), sale("")
	theirs := s.objectsOf(two, true)
	land := func(activity string, lines ...contract.Line) contract.Reservation {
		r := contract.Reservation{OrderSN: newSN(), UserID: "buyer", ActivityID: activity, Lines: lines, ReservedAt: s.svc.deps.Now()}
		require.NoError(t, s.svc.core.Land(t.Context(), []contract.Reservation{r}, nil))
		return r
	}
	follow := func(r contract.Reservation, kinds ...contract.OrderEventType) {
		for _, kind := range kinds {
			require.NoError(t, s.svc.store.Ledger(t.Context(), []string{r.ActivityID}, func(tx core.LedgerTx) error {
				rows, err := tx.Reservations([]string{r.OrderSN})
				if err != nil {
					return err
				}
				now, err := tx.Now()
				if err != nil {
					return err
				}
				moves, row := ledger.NewMoves(), rows[r.OrderSN]
				moves.Rewrite(row, moves.Apply(row, ledger.Step{Order: kind, At: now}, now), now)
				return tx.Apply(moves)
			}))
		}
	}
	red, blue := contract.Line{SKUID: p.SKUs[0].ID, Qty: 2}, contract.Line{SKUID: p.SKUs[1].ID, Qty: 3}
	a := land(first, red, blue)
	b := land(second, red)
	c := land(first, blue)
	follow(a, contract.OrderCreated, contract.OrderPaid)
	follow(b, contract.OrderCreated, contract.OrderPaid, contract.OrderRefunded)

	const all = "/v1/merchant/orders?changed_since=2026-01-01T00:00:00Z"
	for limit := 1; limit <= 4; limit++ {
		list := s.feed(one, all, limit)
		require.Len(t, list.Items, 3)
		var sns []string
		for i, it := range list.Items {
			sns = append(sns, it.OrderSN)
			require.Equal(t, []string{"one", "EUR"}, []string{it.Merchant, it.Currency})
			require.True(t, i == 0 || !it.ChangedAt.Before(list.Items[i-1].ChangedAt))
		}
		require.Equal(t, []string{c.OrderSN, a.OrderSN, b.OrderSN}, sns, "oldest change first")
		paid := list.Items[1]
		require.Equal(t, []string{first, "AUTUMN", "sold", ""}, []string{paid.Activity, paid.Ref, paid.State, paid.Reason})
		require.EqualValues(t, 2*50+3*7, *paid.Amount)
		require.Equal(t, "L-1", paid.Lines[0].Ref)
		require.EqualValues(t, 50, paid.Lines[0].Price)
		require.NotNil(t, paid.Created)
		require.Nil(t, list.Items[0].Created)
		require.Equal(t, []string{"reserved", "released", "refunded", ""}, []string{
			list.Items[0].State, list.Items[2].State, list.Items[2].Reason, list.Items[2].Ref,
		})
		require.WithinDuration(t, time.Now().Add(-time.Minute), *list.Since, 10*time.Second)
	}
	ofFirst := "/v1/merchant/activities/" + first + "/orders?changed_since=2026-01-01T00:00:00Z"
	require.Len(t, s.feed(one, ofFirst, 1).Items, 2)
	require.Len(t, s.feed(operator, ofFirst, 5).Items, 2)
	require.Len(t, s.feed(two, all, 5).Items, 1)
	require.Equal(t, theirs.order, s.feed(two, all, 5).Items[0].OrderSN)
	require.Equal(t, 404, s.as(two, "GET", ofFirst, "").status)
	require.Len(t, s.feed(operator, all+"&merchant_id=one", 2).Items, 3)
	require.Equal(t, "forbidden", s.as(two, "GET", all+"&merchant_id=one", "").code())
	since := s.feed(one, all, 5).Items[1].ChangedAt
	require.Len(t, s.feed(one, "/v1/merchant/orders?changed_since="+since.Format("2006-01-02T15:04:05.000Z"), 5).Items, 2)
	require.Empty(t, s.feed(one, "/v1/merchant/orders?changed_since=2199-01-01T00:00:00Z", 5).Items)

	// A sale that ended long ago shows the refund of its order.
	require.NoError(t, s.db.Exec("UPDATE activities SET state = 'ended', starts_at = starts_at - INTERVAL 90 DAY, ends_at = ends_at - INTERVAL 90 DAY WHERE id = ?", first).Error)
	before := time.Now()
	follow(a, contract.OrderRefunded)
	list := s.feed(one, "/v1/merchant/orders?changed_since="+before.UTC().Add(-time.Second).Format(time.RFC3339), 1000)
	last := list.Items[len(list.Items)-1]
	require.Equal(t, []string{a.OrderSN, "released", "refunded"}, []string{last.OrderSN, last.State, last.Reason})
}

func TestTheFeedRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	s := newBorderShop(t)
	s.token = s.mintFor("one", "clerk", auth.Merchant)
	mine := s.objectsOf(s.token, true)
	for _, path := range []string{"/v1/merchant/orders?", "/v1/merchant/activities/" + mine.activity + "/orders?"} {
		const since = "changed_since=2026-01-01T00:00:00Z"
		for query, field := range map[string]string{
			"changed_since=":                          "changed_since",
			"changed_since=2026-01-01":                "changed_since",
			"changed_since=2026-01-01T00:00:00":       "changed_since",
			"changed_since=1969-01-01T00:00:00Z":      "changed_since",
			"changed_since=2201-01-01T00:00:00Z":      "changed_since",
			"changed_since=2026-01-01T00:00:00+01:00": "changed_since", // a blank
			since + "&" + since:                       "changed_since",
			since + "&state=paid":                     "state",
			since + "&user_id=u":                      "user_id",
			since + "&order_sn=1":                     "order_sn",
			since + "&format=csv":                     "format",
			since + "&limit=0":                        "limit",
			since + "&limit=1001":                     "limit",
			since + "&cursor=":                        "cursor",
			since + "&cursor=!":                       "cursor",
		} {
			got := s.do("GET", path+query, "")
			require.Equal(t, []any{400, field}, []any{got.status, got.field()}, "%s: %s", path+query, got.body)
		}
		for _, malformed := range []string{
			"", "feed", "start 1 2", "feed 1 - -", "feed x - - -", "feed -1 - - -", "feed 1 0 - -", "feed 1 - 1 0", "feed 1 - x 1", "feed 99999999999999 - - -",
		} {
			cursor := base64.RawURLEncoding.EncodeToString([]byte(malformed))
			require.Equal(t, "cursor", s.do("GET", path+since+"&cursor="+cursor, "").field(), malformed)
		}
		got := s.do("GET", path+"changed_since="+url.QueryEscape("2026-01-01T01:00:00+01:00"), "")
		require.Equal(t, 200, got.status, "%s", got.body)
		require.Equal(t, 400, s.do("GET", path+since, "", "Accept", "text/csv").status)
	}
	require.Equal(t, "changed_since", s.do("GET", "/v1/merchant/orders", "").field())
	require.Equal(t, "limit", s.do("GET", "/v1/merchant/activities/"+mine.activity+"/orders?limit=101", "").field(), "without changed_since")

	// A row whose lines cannot be read is shown without them, and does not stop the others.
	require.NoError(t, s.db.Exec("UPDATE reservations SET line_items = 'x' WHERE order_sn = ?", mine.order).Error)
	list := s.feed(s.token, "/v1/merchant/orders?changed_since=2026-01-01T00:00:00Z", 10)
	require.Len(t, list.Items, 1)
	require.Empty(t, list.Items[0].Lines)
	require.Nil(t, list.Items[0].Amount)
}

// A client that followed the feed before a restore has the present state of each order after it.
func TestAClientFollowsTheFeedThroughARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(9, 20)
	c := newFeedClient(w)
	items := []contract.Reservation{w.buy(a, "a"), w.buy(a, "b"), w.buy(a, "c"), w.buy(a, "d")}
	w.land(items[:3]...)
	for _, it := range items[:2] {
		w.order(it, "pending")
		w.follow(event(it, contract.OrderCreated))
	}
	c.poll()
	b := w.backup()
	w.order(items[0], "paid")
	w.follow(event(items[0], contract.OrderPaid))
	w.order(items[1], "closed")
	w.follow(event(items[1], contract.OrderClosed))
	w.land(items[3])
	c.poll()
	require.Equal(t, ledger.StateSold, c.known[items[0].OrderSN].State)
	w.restore(b)
	w.newEpoch()
	c.poll()
	for n := 0; w.importing(); n++ {
		require.Less(t, n, 60, "the import does not end: %+v", w.progress())
		if err := w.importRound(); !errors.Is(err, core.ErrImporting) { // an event before its row: it is redelivered
			require.NoError(t, err)
		}
	}
	c.poll()
	for sn, known := range c.known {
		rows, err := w.parts.Store.Reservations(w.ctx, []string{sn})
		require.NoError(t, err)
		if row, ok := rows[sn]; ok {
			require.Equal(t, row, known)
		}
	}
	require.Equal(t, ledger.StateSold, c.known[items[0].OrderSN].State)
	require.Equal(t, ledger.StateReleased, c.known[items[1].OrderSN].State)
}

// Purchases without Redis are in the feed as all others are.
func TestTheFeedHasRedislessPurchases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	c := newFeedClient(w)
	c.poll()
	p := s.purchase("a", 2)
	require.Equal(t, []string{"fresh reserved"}, s.reserve(p))
	c.poll()
	require.Equal(t, ledger.StateReserved, c.known[p.OrderSN].State)
}
