package order_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

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
