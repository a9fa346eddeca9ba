package order_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

const sincePath = "/internal/v1/orders:since"

// since lists the orders that changed since a time, with pages of two, by order_sn. between is called after each page.
func (r *running) since(at time.Time, activityID string, between func(page int)) (map[string]map[string]any, []string) {
	r.t.Helper()
	found, sequence := map[string]map[string]any{}, []string{}
	body := map[string]any{"since": at.Format(time.RFC3339Nano), "limit": 2}
	if activityID != "" {
		body["activity_id"] = activityID
	}
	for page := 0; ; page++ {
		raw, err := json.Marshal(body)
		require.NoError(r.t, err)
		a := r.callInternal(sincePath, settings.DevelopmentInternalSecret, string(raw))
		require.Equal(r.t, 200, a.status, a.raw)
		items := a.body["items"].([]any)
		require.LessOrEqual(r.t, len(items), 2)
		for _, it := range items {
			o := it.(map[string]any)
			found[o["order_sn"].(string)] = o
			sequence = append(sequence, o["order_sn"].(string))
		}
		next, more := a.body["next_cursor"].(string)
		if !more {
			return found, sequence
		}
		require.Len(r.t, items, 2)
		body["cursor"] = next
		if between != nil {
			between(page)
		}
	}
}

func TestOrdersSinceATimeAreListed(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		var clock atomicTime
		clock.set(time.Now().UTC().Truncate(time.Millisecond))
		r := run(t, db, func(_ *order.Config, d *order.Deps) { d.DatabaseNow = clock.now })
		other := func(d *contract.Deduction) { d.ActivityID = "8" }
		unchanged := r.created("u0")
		paidLater, cancelledLater := r.created("u1"), r.created("u2")
		clock.add(time.Minute)
		since := clock.now()
		clock.add(time.Second)
		fresh, fresh8 := r.created("u3"), r.created("u4", other)
		r.paid(paidLater)
		clock.add(time.Second)
		require.Equal(t, 200, r.call("POST", "/v1/orders/"+cancelledLater.OrderSN+"/cancel", "u2", "").status)
		r.close("rejected", "4711") // a tombstone

		all, sequence := r.since(since, "", nil)
		require.Len(t, sequence, 4, "each once, as nothing changes: %v", sequence)
		states := map[string]any{}
		for sn, o := range all {
			states[sn] = o["state"]
		}
		require.Equal(t, map[string]any{
			fresh.OrderSN: "pending", fresh8.OrderSN: "pending", paidLater.OrderSN: "paid", cancelledLater.OrderSN: "closed",
		}, states)
		require.NotContains(t, all, unchanged.OrderSN)

		at := func(d time.Duration) string { return since.Add(d).Format(time.RFC3339Nano) }
		got := all[cancelledLater.OrderSN]
		require.Equal(t, map[string]any{
			"order_sn": cancelledLater.OrderSN, "user_id": "u2", "activity_id": "7", "state": "closed",
			"reason": "cancelled", "lines": []any{map[string]any{"sku_id": "11", "qty": 2.0, "price": 350.0}},
			"amount": 700.0, "currency": "EUR", "created_at": at(-time.Minute), "expires_at": at(9 * time.Minute),
			"closed_at": at(2 * time.Second), "changed_at": at(2 * time.Second),
		}, got)
		require.Equal(t, at(time.Second), all[paidLater.OrderSN]["paid_at"])

		of8, _ := r.since(since, "8", nil)
		require.Len(t, of8, 1)
		require.Contains(t, of8, fresh8.OrderSN)
		none, _ := r.since(clock.now().Add(time.Millisecond), "", nil)
		require.Empty(t, none)

		// A refund is a change of state.
		clock.add(time.Minute)
		since = clock.now()
		a := r.callInternal("/internal/v1/orders:refund", settings.DevelopmentInternalSecret,
			`{"order_sns":["`+paidLater.OrderSN+`"],"reason":"no_stock"}`)
		require.Equal(t, 200, a.status, a.raw)
		all, _ = r.since(since, "", nil)
		require.Len(t, all, 1)
		require.Equal(t, "refunded", all[paidLater.OrderSN]["state"])
		require.Equal(t, all[paidLater.OrderSN]["changed_at"], all[paidLater.OrderSN]["refunded_at"])
	})
}

// No order is missed that changes between two pages: the listing has it in its earlier state, and the listing of what
// changed meanwhile has the new one.
func TestOrdersThatChangeDuringTheListingAreNotMissed(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		var clock atomicTime
		clock.set(time.Now().UTC().Truncate(time.Millisecond))
		r := run(t, db, func(_ *order.Config, d *order.Deps) { d.DatabaseNow = clock.now })
		since := clock.now()
		var orders []contract.Deduction
		var sns []string
		for range 9 {
			clock.add(time.Millisecond)
			d := r.created("u1")
			orders, sns = append(orders, d), append(sns, d.OrderSN)
		}
		all, _ := r.since(since, "", func(page int) {
			clock.add(time.Second)
			switch page {
			case 0: // seen already, and not yet seen
				r.cancel(orders[0])
				r.cancel(orders[3])
			case 1:
				r.cancel(orders[8])
			}
		})
		for _, sn := range sns {
			require.Contains(t, all, sn)
		}
		later, _ := r.since(since.Add(time.Second), "", nil)
		for _, i := range []int{0, 3, 8} {
			require.Equal(t, "closed", later[sns[i]]["state"], "order %d", i)
			if i > 1 {
				require.Equal(t, "closed", all[sns[i]]["state"], "order %d", i)
			}
		}
	})
}

func TestNextSinceListsWhatChangedDuringAListing(t *testing.T) {
	t.Parallel()
	var clock atomicTime
	clock.set(time.Now().UTC().Truncate(time.Millisecond))
	r := run(t, ordertest.MariaDB(t), func(_ *order.Config, d *order.Deps) { d.DatabaseNow = clock.now })
	for i := range 3 {
		r.created(fmt.Sprint("u", i))
	}
	began := clock.now()
	body := fmt.Sprintf(`{"since":%q,"limit":1}`, began.Add(-time.Hour).Format(time.RFC3339Nano))
	first := r.callInternal(sincePath, settings.DevelopmentInternalSecret, body)
	clock.add(time.Hour)
	second := r.callInternal(sincePath, settings.DevelopmentInternalSecret,
		fmt.Sprintf(`{"since":%q,"limit":1,"cursor":%q}`, began.Add(-time.Hour).Format(time.RFC3339Nano), first.body["next_cursor"]))
	require.Equal(t, 200, second.status, second.raw)
	for _, a := range []response{first, second} {
		require.Equal(t, began.Add(-time.Minute).Format(time.RFC3339Nano), a.body["next_since"])
	}
}

func TestAWrongRequestForChangedOrdersIsRefused(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	require.Equal(t, 401, r.callInternal(sincePath, "x", `{"since":"2026-11-21T10:00:00Z"}`).status)
	for body, field := range map[string]string{
		`{}`:                    "since",
		`{"since":"yesterday"}`: "since",
		`{"since":"2026-11-21T10:00:00Z","limit":0}`:         "limit",
		`{"since":"2026-11-21T10:00:00Z","limit":1001}`:      "limit",
		`{"since":"2026-11-21T10:00:00Z","activity_id":"x"}`: "activity_id",
		`{"since":"2026-11-21T10:00:00Z","cursor":"x"}`:      "cursor",
		`{"since":"2026-11-21T10:00:00Z","cursor":"MQ"}`:     "cursor",
	} {
		a := r.callInternal(sincePath, settings.DevelopmentInternalSecret, body)
		require.Equal(t, 400, a.status, body)
		require.Contains(t, a.raw, field, body)
	}
}

// A tombstone is reported as such, so that its caller need not publish the deduction again.
func TestALookupReportsTombstones(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	r.close("rejected", "4711")
	require.Equal(t, []any{
		map[string]any{"order_sn": "4711", "state": "unknown", "tombstone": true},
		map[string]any{"order_sn": "4712", "state": "unknown"},
	}, r.lookup("4711", "4712"))
}

// An order that must not live ends by two calls that can be repeated: closed if it is pending, refunded if it is paid.
func TestAnOrderThatMustNotLiveEnds(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	pending, paid, cancelled := r.created("u1"), r.created("u2"), r.created("u3")
	started := r.pay(pending, "k")
	r.paid(paid)
	r.cancel(cancelled)
	for range 2 {
		require.Equal(t, map[string]string{
			pending.OrderSN: "closed rejected", paid.OrderSN: "paid ", cancelled.OrderSN: "closed cancelled",
		}, r.close("rejected", pending.OrderSN, paid.OrderSN, cancelled.OrderSN))
	}
	for range 2 {
		a := r.callInternal("/internal/v1/orders:refund", settings.DevelopmentInternalSecret,
			`{"order_sns":["`+paid.OrderSN+`"],"reason":"no_stock"}`)
		require.Contains(t, a.raw, `"outcome":"refunded"`)
	}
	eventually(t, func() bool {
		refunds, _ := r.order(paid)["refunds"].([]any)
		return len(refunds) == 1 && refunds[0].(map[string]any)["state"] == "refunded"
	}, "refunded in full")
	require.Equal(t, "refunded", r.order(paid)["state"])

	// The payment in flight succeeds after the closing: it is refunded.
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+started+"/sandbox", "u1", succeeded).status)
	eventually(t, func() bool {
		refunds, _ := r.order(pending)["refunds"].([]any)
		return len(refunds) == 1 && refunds[0].(map[string]any)["reason"] == "rejected"
	}, "the late payment is refunded")
	require.Equal(t, "closed", r.order(pending)["state"])

	eventually(t, func() bool {
		got := map[contract.OrderEventType]int{}
		for _, e := range r.events.all() {
			if e.OrderSN == pending.OrderSN || e.OrderSN == paid.OrderSN {
				got[e.Type]++
			}
		}
		return got[contract.OrderClosed] == 0 && got[contract.OrderRefunded] == 1
	}, "inventory gets the event of the refund; the response has the closing")
}

// paid pays an order.
func (r *running) paid(d contract.Deduction) (paymentID string) {
	r.t.Helper()
	paymentID = r.pay(d, "pay-"+d.OrderSN)
	require.Equal(r.t, 202, r.call("POST", "/v1/payments/"+paymentID+"/sandbox", d.UserID, succeeded).status)
	require.Equal(r.t, "paid", r.order(d)["state"])
	return paymentID
}

func (r *running) cancel(d contract.Deduction) {
	r.t.Helper()
	require.Equal(r.t, 200, r.call("POST", "/v1/orders/"+d.OrderSN+"/cancel", d.UserID, "").status)
}

// close calls orders:close and returns outcome and reason by order_sn.
func (r *running) close(reason string, sns ...string) map[string]string {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"order_sns": sns, "reason": reason})
	require.NoError(r.t, err)
	a := r.callInternal("/internal/v1/orders:close", settings.DevelopmentInternalSecret, string(body))
	require.Equal(r.t, 200, a.status, a.raw)
	outcomes := map[string]string{}
	for _, x := range a.body["results"].([]any) {
		result := x.(map[string]any)
		why, _ := result["reason"].(string)
		outcomes[result["order_sn"].(string)] = result["outcome"].(string) + " " + why
	}
	return outcomes
}

// atomicTime is a clock that the test moves.
type atomicTime struct{ ns atomic.Int64 }

func (c *atomicTime) now() time.Time      { return time.Unix(0, c.ns.Load()).UTC() }
func (c *atomicTime) set(t time.Time)     { c.ns.Store(t.UnixNano()) }
func (c *atomicTime) add(d time.Duration) { c.ns.Add(int64(d)) }
