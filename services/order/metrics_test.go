package order_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

// A counter that begins with its first event would hide it from increase(). The file has every series.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry.Recording()
	limits, err := admission.New(admission.Settings{Rules: "testdata/rule.yaml"}, settings.Redis{Addrs: []string{"127.0.0.1:1"}}, tel)
	require.NoError(t, err)
	t.Cleanup(func() { _ = limits.Redis().Close() })
	run(t, ordertest.SQLite(t), func(_ *order.Config, d *order.Deps) { d.Telemetry, d.Limits = tel, limits })
	want, err := os.ReadFile("testdata/counters.txt")
	require.NoError(t, err)
	counters := regexp.MustCompile(`(?m)^flashsale_\w+_total.*\n`).FindAllString(metricsPage(t, tel.Metrics), -1)
	require.Equal(t, string(want), strings.Join(counters, ""))
}

func TestLagsOfOrdersAndTheOutboxAreShown(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry.Recording()
	db := ordertest.MariaDB(t)
	r := run(t, db, func(_ *order.Config, d *order.Deps) { d.Telemetry = tel })
	shows := func(pattern string) {
		t.Helper()
		eventually(t, func() bool { return regexp.MustCompile(pattern).MatchString(metricsPage(t, tel.Metrics)) }, pattern)
	}
	d := r.deduction("u1")
	d.ReservedAt = time.Now().Add(-20 * time.Second)
	r.publish(d, r.deduction("u2")) // by a version that does not write it
	shows(`(?m)^flashsale_order_creation_lag_seconds_bucket\{le="10"\} 0$`)
	shows(`(?m)^flashsale_order_creation_lag_seconds_count 1$`)
	shows(`(?m)^flashsale_order_outbox_age_seconds 0$`)
	require.NoError(t, db.Exec("INSERT INTO outbox (topic, msg_key, item, created_at, claimed_until) VALUES "+
		"('order-events', '', '{}', UTC_TIMESTAMP() - INTERVAL 1 HOUR, UTC_TIMESTAMP() + INTERVAL 1 HOUR)").Error)
	shows(`(?m)^flashsale_order_outbox_age_seconds 3[67]\d\d$`)
	shows(`(?m)^flashsale_pool_connections\{flashsale_dependency="mysql",flashsale_state="max"\} [1-9]`)
}

// The running service compares with its provider, and shows and lists what it finds.
func TestComparisonsAreShown(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry.Recording()
	db := ordertest.MariaDB(t)
	r := run(t, db, func(c *order.Config, d *order.Deps) {
		d.Telemetry = tel
		c.TestTimers["order.compare_every"], c.TestTimers["order.compare_after"] = 50*time.Millisecond, time.Millisecond
	})
	shows := func(pattern string) {
		t.Helper()
		eventually(t, func() bool { return regexp.MustCompile(pattern).MatchString(metricsPage(t, tel.Metrics)) }, pattern)
	}
	paid := r.paid(r.created("u1"))
	shows(`(?m)^flashsale_differences\{flashsale_provider="sandbox"\} 0$`)
	shows(`(?m)^flashsale_compared_seconds\{flashsale_provider="sandbox"\} 1`)
	shows(`(?m)^flashsale_order_provider_calls_total\{flashsale_call="charges",flashsale_outcome="ok",flashsale_provider="sandbox"\} [1-9]`)
	require.NoError(t, db.Exec("INSERT INTO sandbox_refunds (refund_id, amount, currency, created_at) VALUES "+
		"(42, 700, 'EUR', UTC_TIMESTAMP())").Error)
	require.NoError(t, db.Exec("DELETE FROM sandbox_charges WHERE payment_id = ?", paid).Error)
	shows(`(?m)^flashsale_differences\{flashsale_provider="sandbox"\} 2$`)

	list := func(query string) response {
		return r.internalCall("GET", "/internal/v1/payment-differences"+query, settings.DevelopmentInternalSecret, "")
	}
	a := list("?limit=1")
	first := a.body["items"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"refund_without_charge", "42", 1}, []any{first["kind"], first["payment_id"], len(a.body["items"].([]any))})
	require.Equal(t, map[string]any{"amount": 700.0, "currency": "EUR"}, first["provider_amount"])
	require.NotContains(t, first, "recorded_amount")
	a = list("?cursor=" + a.body["next_cursor"].(string))
	second := a.body["items"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"charge_missing", paid}, []any{second["kind"], second["payment_id"]})
	require.NotContains(t, a.body, "next_cursor")
	for _, wrong := range []string{"?limit=0", "?cursor=x"} {
		require.Equal(t, 400, list(wrong).status, wrong)
	}
}
