package order_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

// show returns an order as inventory reads it for a page of a merchant.
func (r *running) show(sn string) map[string]any {
	r.t.Helper()
	a := r.internalCall("GET", "/internal/v1/orders/"+sn, settings.DevelopmentInternalSecret, "")
	require.Equal(r.t, 200, a.status, a.raw)
	require.Equal(r.t, "no-store", a.header.Get("Cache-Control"))
	return a.body
}

func one(list any) map[string]any { return list.([]any)[0].(map[string]any) }

func TestShowAnOrder(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	d := r.deduction("u1")
	bodies, err := contract.EncodeDeductions([]contract.Deduction{d}, []contract.ActivityInfo{{
		ActivityID: "7", Title: "Kettles", EndsAt: time.Now().Add(time.Hour), AsOf: time.Now(),
		SKUs: []contract.SKUName{{SKUID: "11", Name: "Red kettle"}},
	}})
	require.NoError(t, err)
	require.NoError(t, r.bus.Publish(t.Context(), bus.Message{Topic: contract.TopicDeductions, Body: bodies[0]}))
	eventually(t, func() bool { return r.call("GET", "/v1/orders/"+d.OrderSN, "u1", "").status == 200 }, "landed")

	o := r.show(d.OrderSN)
	buyers := r.order(d)
	require.Equal(t, map[string]any{
		"order_sn": d.OrderSN, "user_id": "u1", "activity_id": "7", "activity_title": "Kettles", "state": "pending",
		"lines":  []any{map[string]any{"sku_id": "11", "qty": 2.0, "price": 350.0, "name": "Red kettle"}},
		"amount": 700.0, "currency": "EUR", "created_at": buyers["created_at"], "expires_at": buyers["expires_at"],
		"payments": []any{}, "refunds": []any{}, "decisions": []any{},
	}, o)

	require.Equal(t, 200, r.putContact(d, goodContact).status)
	failed := r.pay(d, "a")
	require.Equal(t, "started", one(r.show(d.OrderSN)["payments"])["state"])
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+failed+"/sandbox", "u1", `{"outcome":"failed"}`).status)
	paid := r.paid(d)
	o = r.show(d.OrderSN)
	require.Equal(t, "Li Lei", o["contact"].(map[string]any)["name"])
	require.Equal(t, []any{"paid", paid, r.order(d)["paid_at"]}, []any{o["state"], o["paid_by"], o["paid_at"]})
	payments := o["payments"].([]any)
	require.Len(t, payments, 2)
	first, second := payments[0].(map[string]any), payments[1].(map[string]any)
	require.Equal(t, []any{failed, "failed"}, []any{first["payment_id"], first["state"]})
	require.NotContains(t, first, "paid_amount")
	require.Equal(t, []any{paid, "sandbox", "succeeded", 700.0, "EUR", 700.0, "EUR"}, []any{
		second["payment_id"], second["provider"], second["state"], second["amount"], second["currency"],
		second["paid_amount"], second["paid_currency"],
	})
	require.NotEmpty(t, second["finished_at"])

	body := fmt.Sprintf(`{"order_sns":[%q],"reason":"review"}`, d.OrderSN)
	require.Equal(t, 200, r.callInternal("/internal/v1/orders:refund", settings.DevelopmentInternalSecret, body).status)
	eventually(t, func() bool { return one(r.show(d.OrderSN)["refunds"])["state"] == "refunded" }, "refunded")
	o = r.show(d.OrderSN)
	require.Equal(t, "refunded", o["state"])
	require.NotEmpty(t, o["refunded_at"])
	require.Equal(t, []any{paid, "review", 700.0}, []any{
		one(o["refunds"])["refund_id"], one(o["refunds"])["reason"], one(o["refunds"])["amount"],
	})
	require.Empty(t, o["decisions"])
}

// An order shows what operators decided about a refund that its provider refused.
func TestShowAFailedRefund(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	const secret = settings.DevelopmentInternalSecret
	d := r.created("u1")
	id := r.paid(d)
	// The sandbox refuses a refund whose id it has with another amount.
	_, err := store.NewSandboxBook(r.db, nil).RecordRefund(t.Context(), id, 1, "EUR")
	require.NoError(t, err)
	body := fmt.Sprintf(`{"order_sns":[%q],"reason":"no_stock"}`, d.OrderSN)
	require.Equal(t, 200, r.callInternal("/internal/v1/orders:refund", secret, body).status)
	refused := func() bool { return one(r.show(d.OrderSN)["refunds"])["state"] == "refund_failed" }
	eventually(t, refused, "refused")
	require.Contains(t, one(r.show(d.OrderSN)["refunds"])["last_error"], "another amount")
	require.Equal(t, 200, r.callInternal("/internal/v1/refunds/"+id+":retry", secret, `{"by":"op1"}`).status)
	eventually(t, refused, "refused again")
	settle := `{"by":"op2","reference":"t1","reason":"closed account"}`
	require.Equal(t, 200, r.callInternal("/internal/v1/refunds/"+id+":settle", secret, settle).status)

	o := r.show(d.OrderSN)
	require.Equal(t, map[string]any{"by": "op2", "reference": "t1", "reason": "closed account"}, one(o["refunds"])["settled"])
	var decided []any
	for _, it := range o["decisions"].([]any) {
		it := it.(map[string]any)
		require.Equal(t, id, it["refund_id"])
		require.NotEmpty(t, it["at"])
		decided = append(decided, fmt.Sprint(it["action"], " ", it["by"], " ", it["reference"]))
	}
	// The provider's refund of another amount is recorded beside the settlement.
	require.Equal(t, []any{"retry op1 <nil>", "settle op2 t1", "found op2 <nil>"}, decided)
}

func TestShowOrdersThatEnd(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	require.Equal(t, map[string]any{
		"order_sn": "4711", "state": "unknown", "lines": []any{}, "payments": []any{}, "refunds": []any{}, "decisions": []any{},
	}, r.show("4711"))
	r.close("rejected", "4711")
	require.Equal(t, true, r.show("4711")["tombstone"])

	cancelled, rejected := r.created("u1"), r.created("u2")
	r.cancel(cancelled)
	r.close("rejected", rejected.OrderSN)
	for d, reason := range map[string]string{cancelled.OrderSN: "cancelled", rejected.OrderSN: "rejected"} {
		o := r.show(d)
		require.Equal(t, []any{"closed", reason}, []any{o["state"], o["close_reason"]})
		require.NotEmpty(t, o["closed_at"])
	}

	for _, wrong := range []string{"x", "0", "-1", "99999999999999999999"} {
		a := r.internalCall("GET", "/internal/v1/orders/"+wrong, settings.DevelopmentInternalSecret, "")
		require.Equal(t, []any{400, "invalid_request"}, []any{a.status, a.code()}, wrong)
	}
	require.Equal(t, 401, r.internalCall("GET", "/internal/v1/orders/4711", "x", "").status)
}

// A payment in flight at the deadline keeps the order open, which is shown while it is pending.
func TestShowAPaymentInFlight(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	r := run(t, db)
	d := r.created("u1")
	require.NotContains(t, r.show(d.OrderSN), "paying_until")
	until := time.Now().UTC().Add(time.Minute).Truncate(time.Second)
	require.NoError(t, db.Exec("UPDATE orders SET paying_until = ? WHERE order_sn = ?", until, d.OrderSN).Error)
	require.Equal(t, until.Format(time.RFC3339), r.show(d.OrderSN)["paying_until"])
	r.cancel(d)
	require.NotContains(t, r.show(d.OrderSN), "paying_until")
}
