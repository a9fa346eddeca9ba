package conform_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/order/conform"
	"flashsale.internal/services/order/internal/payment"
	"flashsale.internal/services/order/internal/payment/shop/reference"
)

const secret = "a-secret-that-shop-and-order-share"

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestTheReferenceShopConforms(t *testing.T) {
	t.Parallel()
	callbacks := free(t)
	srv := httptest.NewServer(reference.New([]string{secret}, "http://"+callbacks, time.Now).Handler())
	t.Cleanup(srv.Close)
	var out strings.Builder
	err := conform.Shop(t.Context(), conform.Options{
		CheckoutURL: srv.URL + "/checkout", APIURL: srv.URL, Secrets: []string{secret}, CallbackAddr: callbacks,
	}, &out)
	require.NoError(t, err, out.String())
	require.Equal(t, 14, strings.Count(out.String(), "ok      "), out.String())
}

// A shop with another secret takes and returns nothing, and each failed case has its reason.
func TestAShopThatDoesNotConform(t *testing.T) {
	t.Parallel()
	callbacks := free(t)
	srv := httptest.NewServer(reference.New([]string{"another-secret-of-the-shop"}, "http://"+callbacks, time.Now).Handler())
	t.Cleanup(srv.Close)
	var out strings.Builder
	err := conform.Shop(t.Context(), conform.Options{
		CheckoutURL: srv.URL + "/checkout", APIURL: srv.URL, Secrets: []string{secret}, CallbackAddr: callbacks,
	}, &out)
	require.ErrorContains(t, err, "cases failed")
	require.Contains(t, out.String(), "401 unauthenticated: signature is wrong")
}

// Each fault of a shop fails the case that is about it.
func TestFaultsOfAShopAreFound(t *testing.T) {
	t.Parallel()
	signed := func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set(payment.Header, payment.Sign(secret, payment.RequestText(r, body), time.Now()))
	}
	query := func(r *http.Request, name, value string) {
		q := r.URL.Query()
		if q.Has(name) && !q.Has("payment_id") {
			q.Set(name, value)
			r.URL.RawQuery = q.Encode()
			signed(r)
		}
	}
	for failed, fault := range map[string]func(w http.ResponseWriter, r *http.Request) (done bool){
		"the checkout page of a cancelled payment is refused": func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusNoContent)
			return strings.HasSuffix(r.URL.Path, "/cancel")
		},
		"another amount than that of the charge is not refunded": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/refund") {
				r.Body = io.NopCloser(strings.NewReader(`{"amount":1999,"currency":"EUR"}`))
				signed(r)
			}
			return false
		},
		"a request without a valid signature is refused": func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost && r.URL.Path != "/checkout" {
				signed(r)
			}
			return false
		},
		"charges and refunds are listed page by page, each once": func(_ http.ResponseWriter, r *http.Request) bool {
			query(r, "limit", "100")
			return false
		},
		"a refund is made once": func(_ http.ResponseWriter, r *http.Request) bool {
			query(r, "since", "2026-01-01T00:00:00Z")
			return false
		},
	} {
		t.Run(failed, func(t *testing.T) {
			t.Parallel()
			callbacks := free(t)
			right := reference.New([]string{secret}, "http://"+callbacks, time.Now).Handler()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				faulty := httptest.NewRecorder()
				if fault(faulty, r) {
					w.WriteHeader(faulty.Code)
					return
				}
				right.ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
			var out strings.Builder
			err := conform.Shop(t.Context(), conform.Options{
				CheckoutURL: srv.URL + "/checkout", APIURL: srv.URL, Secrets: []string{secret}, CallbackAddr: callbacks,
			}, &out)
			require.Error(t, err)
			require.Contains(t, out.String(), "FAILED  "+failed)
		})
	}
}
