package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

// selling returns a shop with a published activity of so many units, and its path.
func selling(t *testing.T, stock int, change ...func(*Config)) (s *shop, at, id, sku string) {
	s = newShop(t, change...)
	sku = s.product("EUR")[0]
	id = s.draft(sku, stock)
	at = "/v1/merchant/activities/" + id
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	return s, at, id, sku
}

// Orders are filtered by user, order_sn and state; the counts are those of the whole activity.
func TestOrdersAreFilteredAndCounted(t *testing.T) {
	t.Parallel()
	s, at, id, sku := selling(t, 4)
	var bought []contract.Reservation
	for i := range 6 {
		bought = append(bought, contract.Reservation{
			OrderSN: fmt.Sprint(1000 + i), UserID: fmt.Sprint("u", i), ActivityID: id, Lines: []contract.Line{{SKUID: sku, Qty: 1}}, ReservedAt: time.Now(),
		})
	}
	ctx := t.Context()
	require.NoError(t, s.svc.core.Land(ctx, bought[:5], nil)) // the fifth is rejected
	events := func(events ...contract.OrderEvent) {
		require.NoError(t, consumerOf(s.svc).OrderEvents(ctx, message(t, contract.TopicOrderEvents, events...)))
	}
	events(event(bought[0], contract.OrderCreated), event(bought[1], contract.OrderCreated), event(bought[2], contract.OrderCreated))
	events(event(bought[1], contract.OrderPaid), event(bought[2], contract.OrderClosed))
	for filter, want := range map[string]string{
		"":                          "1004 1003 1002 1001 1000",
		"?state=reserved":           "1003 1000",
		"?state=pending":            "1000",
		"?state=sold":               "1001",
		"?state=paid":               "1001",
		"?state=released":           "1002",
		"?state=closed":             "1002",
		"?state=refunded":           "",
		"?state=rejected":           "1004",
		"?user_id=u1":               "1001",
		"?user_id=u1&state=sold":    "1001",
		"?user_id=u1&state=paid":    "1001",
		"?user_id=u1&state=closed":  "",
		"?order_sn=1003":            "1003",
		"?order_sn=4242":            "",
		"?order_sn=1003&user_id=u1": "",
	} {
		var list struct {
			Items []struct {
				SN string `json:"order_sn"`
			}
			Counts struct{ Reserved, Sold, Released, Rejected int64 }
		}
		got := s.do("GET", at+"/orders"+filter, "")
		require.Equal(t, 200, got.status, "%s: %s", filter, got.body)
		got.into(t, &list)
		var sns []string
		for _, it := range list.Items {
			sns = append(sns, it.SN)
		}
		require.Equal(t, want, strings.Join(sns, " "), filter)
		require.Equal(t, []int64{2, 1, 1, 1}, []int64{list.Counts.Reserved, list.Counts.Sold, list.Counts.Released, list.Counts.Rejected})

		// The CSV has the same rows.
		format := "?format=csv"
		if filter != "" {
			format = filter + "&format=csv"
		}
		csv := s.do("GET", at+"/orders"+format, "")
		require.Equal(t, 200, csv.status)
		require.Contains(t, csv.header.Get("Content-Type"), "text/csv")
		var lines []string
		for _, line := range strings.Split(strings.TrimSpace(string(csv.body)), "\n")[1:] {
			sn, _, _ := strings.Cut(line, ",")
			lines = append(lines, sn)
		}
		require.Equal(t, want, strings.Join(lines, " "), filter)
	}
	json := s.do("GET", at+"/orders?format=json", "", "Accept", "text/csv")
	require.Contains(t, json.header.Get("Content-Type"), "application/json")
	for query, field := range map[string]string{
		"state=open": "state", "state=": "state", "order_sn=x": "order_sn", "order_sn=": "order_sn", "format=xml": "format", "format=": "format",
	} {
		require.Equal(t, field, s.do("GET", at+"/orders?"+query, "").field(), query)
	}
}

func TestHistoryOfAnActivity(t *testing.T) {
	t.Parallel()
	s, at, id, sku := selling(t, 4, func(c *Config) {
		c.TestTimers = map[string]time.Duration{"inventory.reconcile_pause": time.Millisecond}
	})
	operator := s.mint("op", auth.Operator)
	require.Equal(t, 200, s.do("PATCH", at, `{"title":"Better"}`).status)
	require.Equal(t, 200, s.as(operator, "POST", at+"/pause", "").status)
	for n, delta := range []int{3, -2, -50} {
		s.do("POST", at+"/stock-adjustments", fmt.Sprintf(`{"sku_id":%q,"delta":%d,"reason":"r%d"}`, sku, delta, n), "Idempotency-Key", fmt.Sprint(n))
	}
	require.NoError(t, s.db.Exec("INSERT INTO adjustments (activity_id, sku_id, delta, reason, state, decision, created_by, created_at, updated_at) "+
		"VALUES (?, ?, 1, 'crashed', 'intent', '', 'm', ?, ?)", id, sku, time.Now().UTC(), time.Now().UTC()).Error)
	// A repair by the timer: the gate was lost.
	s.mini.FlushAll()
	require.NoError(t, s.svc.reconciler.ReconcileAll(t.Context()))
	require.Equal(t, 200, s.as(operator, "POST", at+"/reconciliations", "").status)

	type change struct {
		ID      string `json:"change_id"`
		Actor   string
		Role    string
		What    string
		Details map[string]any
	}
	read := func(what string, items any) (next string) {
		var list struct {
			Items json.RawMessage
			Next  string `json:"next_cursor"`
		}
		got := s.do("GET", at+"/"+what, "")
		require.Equal(t, 200, got.status, "%s", got.body)
		got.into(t, &list)
		require.NoError(t, json.Unmarshal(list.Items, items))
		return list.Next
	}
	var changes, page []change
	read("changes?limit=100", &changes)
	var whats []string
	for _, c := range changes {
		whats = append(whats, c.What+" "+c.Actor+" "+c.Role)
	}
	require.Equal(t, []string{
		"activity.reconcile op operator", "stock.adjust merchant-1 merchant", "stock.adjust merchant-1 merchant",
		"stock.adjust merchant-1 merchant", "activity.pause op operator", "activity.patch merchant-1 merchant",
		"activity.publish merchant-1 merchant", "activity.create merchant-1 merchant",
	}, whats)
	require.Equal(t, map[string]any{"title": "Better"}, changes[5].Details)
	require.Equal(t, map[string]any{"title": "Sale"}, changes[7].Details)
	require.Equal(t, map[string]any{"sku_id": sku, "delta": 3.0, "reason": "r0"}, changes[3].Details)
	for cursor := ""; ; {
		var some []change
		next := read("changes?limit=4"+cursor, &some)
		page = append(page, some...)
		if next == "" {
			break
		}
		cursor = "&cursor=" + next
	}
	require.Equal(t, changes, page)

	var adjustments []struct {
		Delta         int64
		State, Reason string
	}
	read("adjustments", &adjustments)
	require.Len(t, adjustments, 4)
	require.Equal(t, []string{"pending", "refused", "applied", "applied"},
		[]string{adjustments[0].State, adjustments[1].State, adjustments[2].State, adjustments[3].State})
	require.Equal(t, []int64{1, -50, -2, 3}, []int64{adjustments[0].Delta, adjustments[1].Delta, adjustments[2].Delta, adjustments[3].Delta})

	var reconciliations []struct {
		ComparedAt time.Time `json:"compared_at"`
		Actor      string
		Repairs    []struct{ Why string }
	}
	read("reconciliations", &reconciliations)
	require.Len(t, reconciliations, 2)
	require.Equal(t, []string{"op", "reconciler"}, []string{reconciliations[0].Actor, reconciliations[1].Actor})
	require.NotEmpty(t, reconciliations[1].Repairs)
	require.Equal(t, "the gate was absent", reconciliations[1].Repairs[0].Why)
	require.False(t, reconciliations[1].ComparedAt.IsZero())
	for _, what := range []string{"changes", "adjustments", "reconciliations"} {
		require.Equal(t, "cursor", s.do("GET", at+"/"+what+"?cursor=!", "").field())
		require.Equal(t, 404, s.do("GET", "/v1/merchant/activities/4242/"+what, "").status)
		require.Equal(t, 404, s.do("GET", "/v1/merchant/activities/x/"+what, "").status)
	}
}

// Health shows the processes in Redis; without Redis the process that responds.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	operator := s.mint("op", auth.Operator)
	type health struct {
		Source string
		Items  []struct {
			Component, Instance, Version string
			Ready                        bool
			Breakers                     []struct{ Name, State string }
			Pools                        []struct{ Name string }
			Offsets                      map[string]int64 `json:"clock_offset_ms"`
		}
	}
	read := func() (h health) {
		got := s.as(operator, "GET", "/v1/merchant/health", "")
		require.Equal(t, 200, got.status, "%s", got.body)
		got.into(t, &h)
		return h
	}
	h := read()
	require.Equal(t, "self", h.Source)
	require.Len(t, h.Items, 1)
	require.Equal(t, "inventory", h.Items[0].Component)
	require.True(t, h.Items[0].Ready)
	require.Len(t, h.Items[0].Breakers, 5, "broker, gate, orders, lookups of orders and database")
	require.Contains(t, h.Items[0].Offsets, "redis")

	s.withLimits(admission.Settings{})
	require.Equal(t, "redis", read().Source)
	require.Empty(t, read().Items, "nothing announced itself")
	started(t, s.svc, s.svc.deps.Telemetry)
	require.Eventually(t, func() bool { return len(read().Items) == 1 }, 30*time.Second, 10*time.Millisecond)
	require.Len(t, read().Items[0].Breakers, 6, "also that of the limits")
	require.Equal(t, "forbidden", s.do("GET", "/v1/merchant/health", "").code())
	s.mini.SetError("LOADING Redis is loading the dataset in memory")
	require.Equal(t, "self", read().Source)
	s.mini.SetError("")
}
