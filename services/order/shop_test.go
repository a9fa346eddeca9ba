package order_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/payment/shop"
	"flashsale.internal/services/order/internal/payment/shop/reference"
)

const (
	shopSecret = "a-secret-that-shop-and-order-share"
	payShop    = `{"provider":"shop"}`
)

// withShop is a service whose payments the reference shop takes, and a client of that shop.
func withShop(t *testing.T, changes ...change) (*running, *shop.Provider) {
	t.Helper()
	var of *shop.Provider
	r := run(t, ordertest.MariaDB(t), append(changes, func(c *order.Config, _ *order.Deps) {
		callback := strings.TrimSuffix(c.Payments.SandboxCallbackURL, "sandbox") + "shop"
		srv := httptest.NewServer(reference.New([]string{shopSecret}, callback, time.Now).Handler())
		t.Cleanup(srv.Close)
		c.Payments.Providers = []string{"shop"}
		c.Payments.ShopCheckoutURL, c.Payments.ShopAPIURL = srv.URL+"/checkout", srv.URL
		c.Payments.ShopSecrets = []string{shopSecret}
		of = shop.New(shop.Config{APIURL: srv.URL, Secrets: []string{shopSecret}, Now: time.Now})
	})...)
	return r, of
}

// checkout begins a payment at the shop and returns its page.
func (r *running) checkout(d contract.Deduction, key string) (paymentID, payURL string) {
	r.t.Helper()
	a := r.call("POST", "/v1/orders/"+d.OrderSN+"/payments", d.UserID, payShop, "Idempotency-Key", key)
	require.Equal(r.t, 201, a.status, a.raw)
	return a.body["payment_id"].(string), a.body["pay_url"].(string)
}

// take pays on the page of the shop, and returns the status of the response.
func (r *running) take(payURL string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, payURL, http.NoBody)
	require.NoError(r.t, err)
	res, err := r.client.Do(req)
	require.NoError(r.t, err)
	require.NoError(r.t, res.Body.Close())
	return res.StatusCode
}

func TestTheShopTakesAPayment(t *testing.T) {
	t.Parallel()
	r, _ := withShop(t)
	d := r.created("u1")
	_, page := r.checkout(d, "k")
	require.Equal(t, 401, r.take(strings.Replace(page, "amount=700", "amount=1", 1)), "the amount is signed")
	require.Equal(t, "pending", r.order(d)["state"])
	for range 2 { // the callback of a payment that was taken before is repeated
		require.Equal(t, 204, r.take(page))
	}
	require.Equal(t, "paid", r.order(d)["state"])
	require.Equal(t, 409, r.call("POST", "/v1/orders/"+d.OrderSN+"/payments", "u1", payShop, "Idempotency-Key", "k").status)
}

// Each charge of the shop pays one order or is refunded there, once.
func TestTheShopReturnsASecondPayment(t *testing.T) {
	t.Parallel()
	r, of := withShop(t)
	d := r.created("u1")
	first, page := r.checkout(d, "k1")
	second, secondPage := r.checkout(d, "k2")
	require.Equal(t, 204, r.take(page))
	require.Equal(t, 204, r.take(secondPage))
	var made core.ProviderRefund
	eventually(t, func() (found bool) {
		var err error
		made, found, err = of.FindRefund(t.Context(), core.Payment{PaymentID: second})
		require.NoError(t, err)
		return found
	}, "the shop returns the second payment")
	require.EqualValues(t, 700, made.Amount)
	_, found, err := of.FindRefund(t.Context(), core.Payment{PaymentID: first})
	require.NoError(t, err)
	require.False(t, found)
}

func TestTheShopTakesNoPaymentOfAClosedOrder(t *testing.T) {
	t.Parallel()
	r, of := withShop(t, func(c *order.Config, _ *order.Deps) { c.Payments.Rate = 100 })
	d := r.created("u1")
	id, page := r.checkout(d, "k")
	require.Equal(t, 200, r.call("POST", "/v1/orders/"+d.OrderSN+"/cancel", "u1", "").status)
	// Until the shop has the cancellation, it may still take the payment, and returns it.
	eventually(t, func() bool {
		if r.take(page) == http.StatusConflict {
			return true
		}
		_, returned, err := of.FindRefund(t.Context(), core.Payment{PaymentID: id})
		require.NoError(t, err)
		return returned
	}, "the payment is refused or returned")
	require.Equal(t, "closed", r.order(d)["state"])
}
