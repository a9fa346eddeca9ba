package shop_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
	"flashsale.internal/services/order/internal/payment/shop"
)

const secret = "a-secret-that-shop-and-order-share"

// serve returns a provider whose shop responds with handler.
func serve(t *testing.T, handler http.HandlerFunc) *shop.Provider {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return shop.New(shop.Config{
		CheckoutURL: "https://shop.example.com/pay", APIURL: srv.URL + "/flashsale/", Secrets: []string{secret}, Now: time.Now,
	})
}

func paid() core.Payment {
	return core.Payment{
		PaymentID: "42", OrderSN: "7", Amount: 1999, Currency: "EUR", PaidAmount: 1999, PaidCurrency: "EUR",
		CreatedAt: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
	}
}

// The URL is the same whenever a payment begins again, and its signature covers all of it.
func TestTheCheckoutPageIsSigned(t *testing.T) {
	t.Parallel()
	p := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("Begin calls the shop") })
	deadline := paid().CreatedAt.Add(15 * time.Minute)
	first, err := p.Begin(t.Context(), paid(), deadline)
	require.NoError(t, err)
	second, err := p.Begin(t.Context(), paid(), deadline)
	require.NoError(t, err)
	require.Equal(t, first, second)
	u, err := url.Parse(first.PayURL)
	require.NoError(t, err)
	require.Equal(t, "https://shop.example.com/pay", u.Scheme+"://"+u.Host+u.Path)
	q := u.Query()
	require.Equal(t, []string{"1999", "EUR", "1795256100", "7", "42"},
		[]string{q.Get("amount"), q.Get("currency"), q.Get("expires"), q.Get("order_sn"), q.Get("payment_id")})
	text, _, found := strings.Cut(u.RawQuery, "&signature=")
	require.True(t, found)
	require.NoError(t, payment.Verify([]string{secret}, q.Get("signature"), []byte(text), paid().CreatedAt))
	require.Error(t, payment.Verify([]string{secret}, q.Get("signature"), []byte(strings.Replace(text, "1999", "1", 1)), paid().CreatedAt))
}

// What a shop or a proxy before it responds, and what that means: nothing is taken for granted without the code.
func TestResponsesOfAShop(t *testing.T) {
	t.Parallel()
	const refund = `{"payment_id":"42","amount":1999,"currency":"EUR","created_at":"2026-11-21T10:00:00Z"}`
	var busy *core.ProviderBusy
	for name, c := range map[string]struct {
		status int
		body   string
		check  func(t *testing.T, refundErr, findErr error, found bool)
	}{
		"made": {200, refund, func(t *testing.T, refundErr, findErr error, found bool) {
			require.NoError(t, refundErr)
			require.NoError(t, findErr)
			require.True(t, found)
		}},
		"another amount": {200, strings.Replace(refund, "1999", "1", 1), func(t *testing.T, refundErr, _ error, _ bool) {
			require.ErrorContains(t, refundErr, "1 EUR")
			require.NotErrorIs(t, refundErr, core.ErrRefundDeclined)
		}},
		"declined": {409, `{"code":"refund_declined"}`, func(t *testing.T, refundErr, _ error, _ bool) {
			require.ErrorIs(t, refundErr, core.ErrRefundDeclined)
		}},
		"409 of a proxy": {409, `conflict`, func(t *testing.T, refundErr, _ error, _ bool) {
			require.Error(t, refundErr)
			require.NotErrorIs(t, refundErr, core.ErrRefundDeclined)
		}},
		"none": {404, `{"code":"not_found"}`, func(t *testing.T, refundErr, findErr error, found bool) {
			require.Error(t, refundErr)
			require.NotErrorIs(t, refundErr, core.ErrRefundDeclined)
			require.NoError(t, findErr)
			require.False(t, found)
		}},
		"404 of a proxy": {404, `<html>`, func(t *testing.T, _, findErr error, _ bool) { require.Error(t, findErr) }},
		"busy": {429, ``, func(t *testing.T, refundErr, findErr error, _ bool) {
			require.ErrorAs(t, refundErr, &busy)
			require.Equal(t, 7*time.Second, busy.After)
			require.ErrorAs(t, findErr, &busy)
		}},
		"a redirect": {302, ``, func(t *testing.T, refundErr, findErr error, _ bool) {
			require.Error(t, refundErr)
			require.Error(t, findErr)
		}},
		"broken": {500, `oops`, func(t *testing.T, refundErr, findErr error, _ bool) {
			require.Error(t, refundErr)
			require.Error(t, findErr)
		}},
		"not JSON": {200, `<html>`, func(t *testing.T, refundErr, findErr error, _ bool) {
			require.Error(t, refundErr)
			require.Error(t, findErr)
		}},
		"too large": {200, strings.Repeat(" ", 2<<20), func(t *testing.T, refundErr, _ error, _ bool) { require.ErrorContains(t, refundErr, "bytes") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/flashsale/payments/42/refund" {
					t.Errorf("path %s", r.URL.Path)
				}
				w.Header().Set("Retry-After", "7")
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			refundErr := p.Refund(t.Context(), paid())
			_, found, findErr := p.FindRefund(t.Context(), paid())
			c.check(t, refundErr, findErr, found)
		})
	}
}
