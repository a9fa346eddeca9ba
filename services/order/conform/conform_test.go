package conform_test

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/order/conform"
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
	require.Equal(t, 11, strings.Count(out.String(), "ok      "), out.String())
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
