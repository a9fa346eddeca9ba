package order_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/order/internal/ordertest"
)

// An order shows all its payments, oldest first, and whether it has a contact. A payment is shown to its buyer only.
func TestOrdersShowTheirPaymentsAndContact(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	r := run(t, db)
	d, other := r.created("u1"), r.created("u1")
	require.Equal(t, []any{}, r.order(d)["payments"])
	require.Equal(t, false, r.order(d)["contact_given"])

	failed := r.pay(d, "a")
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+failed+"/sandbox", "u1", `{"outcome":"failed"}`).status)
	paid := r.pay(d, "b")
	started := r.call("GET", "/v1/payments/"+paid, "u1", "")
	require.Equal(t, []any{"started", "sandbox", d.OrderSN, 700.0, "EUR"}, []any{
		started.body["state"], started.body["provider"], started.body["order_sn"], started.body["amount"], started.body["currency"],
	}, started.raw)
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+paid+"/sandbox", "u1", `{"outcome":"succeeded"}`).status)
	require.Equal(t, 200, r.call("PUT", "/v1/orders/"+d.OrderSN+"/contact", "u1", `{"name":"Li Lei","phone":"13812345678"}`).status)

	states := func(o map[string]any) (states map[string]string) {
		states = map[string]string{}
		for _, p := range o["payments"].([]any) {
			p := p.(map[string]any)
			states[p["payment_id"].(string)] = p["state"].(string)
		}
		return states
	}
	want := map[string]string{failed: "failed", paid: "succeeded"}
	require.Equal(t, want, states(r.order(d)))
	require.Equal(t, true, r.order(d)["contact_given"])
	require.Equal(t, failed, r.order(d)["payments"].([]any)[0].(map[string]any)["payment_id"])
	list := r.call("GET", "/v1/orders", "u1", "").body["items"].([]any)
	require.Len(t, list, 2)
	for _, o := range list {
		o := o.(map[string]any)
		if o["order_sn"] == other.OrderSN {
			require.Empty(t, states(o))
			require.Equal(t, false, o["contact_given"])
			continue
		}
		require.Equal(t, want, states(o))
		require.Equal(t, true, o["contact_given"])
	}
	paidOnly := r.call("GET", "/v1/orders?state=paid", "u1", "").body["items"].([]any)
	require.Len(t, paidOnly, 1)
	require.Equal(t, d.OrderSN, paidOnly[0].(map[string]any)["order_sn"])

	require.Equal(t, "succeeded", r.call("GET", "/v1/payments/"+paid, "u1", "").body["state"])
	for _, path := range []string{paid, "424242", "x", "0", "99999999999999999999"} {
		user := "u1"
		if path == paid {
			user = "u2"
		}
		got := r.call("GET", "/v1/payments/"+path, user, "")
		require.Equal(t, []any{404, "not_found"}, []any{got.status, got.code()}, path)
	}
	require.Equal(t, 401, r.call("GET", "/v1/payments/"+paid, "", "").status)
}
