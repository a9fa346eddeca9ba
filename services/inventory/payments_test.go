package inventory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

// With Stripe, a sale is published only if Stripe can take its prices. A draft may have any.
func TestPricesThatTheProviderCannotTake(t *testing.T) {
	t.Parallel()
	with := func(c *Config) { c.Payments.Providers = []string{settings.Stripe} }
	s := newShop(t, with)
	publish := func(id string) response { return s.do("POST", "/v1/merchant/activities/"+id+"/publish", "") }
	for currency, price := range map[string]string{"EUR": "", "JPY": "", "KWD": "", "UGX": "", "MGA": "items[0].price", "IQD": "items[0].price"} {
		got := publish(s.draft(s.product(currency)[0], 10))
		require.Equal(t, price, got.field(), "%s %s", currency, got.body)
	}
	body := strings.Replace(activityBody(s.product("KWD")[0], 10), `"price":50`, `"price":51`, 1)
	made := s.do("POST", "/v1/merchant/activities", body)
	require.Equal(t, 201, made.status, "%s", made.body)
	var a struct {
		ID string `json:"activity_id"`
	}
	made.into(t, &a)
	got := publish(a.ID)
	require.Equal(t, []any{400, "items[0].price"}, []any{got.status, got.field()})
	require.Contains(t, string(got.body), "must end in 0")
}

// A sale shows how long the provider takes to begin its payments, which a merchant compares with the time to pay.
func TestTheTimeThatPaymentsTake(t *testing.T) {
	t.Parallel()
	limited := newShop(t, func(c *Config) { c.PaymentRate.Rate = 25 })
	id := limited.draft(limited.product("EUR")[0], 9_999)
	require.Contains(t, string(limited.do("POST", "/v1/merchant/activities/"+id+"/publish", "").body), `"payments_take_s":400,`)
	unlimited := newShop(t)
	id = unlimited.draft(unlimited.product("EUR")[0], 9_999)
	require.NotContains(t, string(unlimited.do("POST", "/v1/merchant/activities/"+id+"/publish", "").body), "payments_take_s")
}
